"""What hooks of a conversation ask the program for, and how it is done: texts, the model, the note, a line, a turn."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar

from msgspec import Struct

from clawbot.agent.complete import complete
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import Event, NoteKept, Notice
from clawbot.agent.notes import BeforeWrite, Kept, NoteError, NoteRequest, keep_note, rename_note
from clawbot.clock import Clock, epoch_ms
from clawbot.errors import ClawbotError
from clawbot.hooks.dispatch import Dispatcher
from clawbot.hooks.events import HookEvent, Said
from clawbot.hooks.handle import HookServiceError
from clawbot.llm.protocol import ChatModel
from clawbot.logs import redact
from clawbot.sessions.audit import MemoryWrite
from clawbot.sessions.said import last_said
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript

P = ParamSpec("P")
R = TypeVar("R")
LEVELS: dict[str, Literal["info", "warning", "error"]] = {"info": "info", "warning": "warning", "error": "error"}
_THREAD_SECONDS = 5.0  # for a note that is being written when the user stops the hooks
_LONGEST_LINE = 2_000  # characters of what a hook tells the user
RunPrompt = Callable[[str, str], Awaitable[str]]
"""Lets the agent take a turn: the prompt, the session's name; returns the reply."""


class HookingParts(Struct, frozen=True):
    """What hooks of a conversation work with. `announce` shows the user an event, `model` is the one that answers now,
    `open_model` opens the one of a reference; `run_prompt` is None where no other session can be opened."""

    agent_id: str
    dispatcher: Dispatcher | None
    conversation: Conversation
    store: SessionStore
    workspace: Path
    home: Path
    clock: Clock
    model: Callable[[], ChatModel]
    open_model: Callable[[str], Awaitable[ChatModel]]
    announce: Callable[[Event], None]
    run_prompt: RunPrompt | None = None


class SessionServices:
    """What the program does for the hooks of one event. `kept` is the note that was written for its session.

    `before_write` is told what is about to be written to a note; `ours` are the SHA-256 of what was written before,
    with the times.
    """

    def __init__(
        self,
        parts: HookingParts,
        event: HookEvent,
        before_write: BeforeWrite | None = None,
        ours: Mapping[str, float] | None = None,
    ) -> None:
        self._parts = parts
        self._event = event
        self._before_write = before_write or _nothing
        self._ours = ours or {}
        record = parts.conversation.session.record
        began = (record.session_started_at or 0) / 1000 if record.session_id == event.session_id else 0.0
        # The clock may have been set back since the session began.
        self._since = min([began, *self._ours.values()])
        self._is_over = False
        self.kept: Kept | None = None

    async def said(self, limit: int) -> list[Said]:
        """The last `limit` texts of the event's session, oldest first. Raises HookServiceError, as all of these do."""
        return await self._thread(self._said, limit)

    def _said(self, limit: int) -> list[Said]:
        parts, store = self._parts, self._parts.store
        path = store.path_of(store.find(self._event.session_id))
        with Transcript.open_history(path, clock=parts.clock) as transcript:
            found = last_said(transcript, limit)
        return [Said(text.role, text.text, text.timestamp) for text in found]

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        """What `model` ("": the one that answers the user) says to `prompt` within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(prompt, system, model)
        except TimeoutError as error:
            raise HookServiceError(f"the model did not answer within {seconds:g} seconds") from error
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error

    async def _ask(self, prompt: str, system: str, ref: str) -> str:
        """Raises ModelError."""
        now = epoch_ms(self._parts.clock.now())
        ask = functools.partial(complete, system=system, prompt=prompt, purpose="slug", timestamp=now)
        if not ref:
            return await ask(self._parts.model())
        model = await self._parts.open_model(ref)
        try:
            return await ask(model)
        finally:
            await model.aclose()

    async def keep_note(self, text: str, slug: str) -> str:
        """Write the one note of the event's session, and return its path below the workspace."""
        event = self._event
        request = NoteRequest(
            session_id=event.session_id,
            since=self._since,
            text=text,
            slug=slug,
            at=event.timestamp.astimezone(self._parts.clock.now().tzinfo),
            ours=self._ours,
        )
        writing = asyncio.create_task(self._thread(keep_note, self._parts.workspace, request, self._allow))
        try:
            kept = await asyncio.shield(writing)
        finally:
            # A thread can't be stopped: what it has begun belongs to this session, and is waited for.
            done, _ = await asyncio.wait({writing}, timeout=_THREAD_SECONDS)
            self._is_over = not done
            if done and writing.exception() is None:
                self.kept = writing.result()
                self._parts.announce(NoteKept(session_id=event.session_id, path=self.kept.path))
        return kept.path

    def stop_recording(self) -> None:
        """The hooks have handled the event, and its session ends: what later work of theirs writes is recorded nowhere
        any more, least of all in the session that follows."""
        self._before_write = _nothing

    def _allow(self, write: MemoryWrite) -> None:
        """Record that `write` is about to happen. Blocks."""
        if self._is_over:
            raise NoteError("The note comes too late: its session goes on without it.")
        self._before_write(write)

    async def rename_note(self, path: str, slug: str) -> str:
        """Give a note another slug, and return where it is now."""
        renamed = await self._thread(rename_note, self._parts.workspace, path, slug)
        if renamed != path:
            self._parts.announce(NoteKept(session_id=self._event.session_id, path=renamed, was=path))
        return renamed

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn in another session, and return what it said; "" for a silent reply."""
        if self._parts.run_prompt is None:
            raise HookServiceError("no other session can be opened here")
        try:
            return await self._parts.run_prompt(prompt, session)
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error

    async def tell(self, text: str, *, level: str, path: str) -> None:
        """Show the user a line."""
        shown = redact(" ".join(text.split())[:_LONGEST_LINE])
        self._parts.announce(Notice(level=LEVELS.get(level, "info"), text=shown, path=path or None))

    async def _thread(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return await asyncio.to_thread(function, *arguments, **named)
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error


def _nothing(_write: object) -> None:
    """Nobody records it."""
