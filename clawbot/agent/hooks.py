"""The hooks of one conversation: they receive what happens in it, may change some of it, and ask the program for
texts of the session, the model, the note, a line for the user, a turn."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, ParamSpec, TypeVar

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import Emit, NoteKept, Notice, Scope, secrets_left_out
from clawbot.agent.notes import KeptNote, NoteError, NoteRequest, keep_note, rename_note
from clawbot.agent.status import HookStatus
from clawbot.authors import Author, recording
from clawbot.clock import epoch_ms, moment_of
from clawbot.context.bootstrap import BootstrapFile, NamedText
from clawbot.deadline import Cancellation, deadline
from clawbot.errors import ClawbotError
from clawbot.hooks.api import HookServiceError, Said
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.dispatch import RUNNING, LastRun
from clawbot.hooks.events import (
    AgentBootstrap,
    AwaitedEvent,
    CommandNew,
    CommandReset,
    HookEvent,
    InjectedFile,
    PassingEvent,
    RuntimeStop,
    SessionAutoReset,
    common_fields,
)
from clawbot.llm.protocol import ChatRequest, ask, complete
from clawbot.sessions.entries import MemoryWrite
from clawbot.sessions.text import SpokenText, UserWords, last_texts, last_words_at
from clawbot.sessions.transcript import Transcript
from clawbot.text.interface import _
from clawbot.text.secrets import redact
from clawbot.tools.append_only import BeforeWrite

log = logging.getLogger(__name__)

E = TypeVar("E", bound=HookEvent)
Awaited = TypeVar("Awaited", bound=AwaitedEvent)
P = ParamSpec("P")
R = TypeVar("R")
LEVELS: dict[str, Literal["info", "warning", "error"]] = {"info": "info", "warning": "warning", "error": "error"}
_THREAD_SECONDS = 5.0  # for a note that is being written when the user stops the hooks
_MAX_LINE = 2_000  # characters of a line that a hook shows the user


class SessionHooks:
    """The hooks of one conversation; `notify` shows the user an event. For topics that no hook wants, nothing
    happens."""

    def __init__(self, deps: AgentDeps, conversation: Conversation, notify: Emit) -> None:
        self.deps = deps
        self.conversation = conversation
        self.notify = notify
        self.words = UserWords()
        self.question: Callable[[str], ChatRequest | None] = lambda _text: None
        self._dispatcher = deps.hooks
        self._reading: asyncio.Task[None] | None = None

    def wants(self, topic: str) -> bool:
        """Whether a hook listens to `topic`."""
        return self._dispatcher is not None and self._dispatcher.wants(topic)

    def is_ready(self, name: str, topic: str) -> bool:
        """Whether the hook `name` is there, can run, and listens to `topic`."""
        hooks = self._dispatcher.hooks if self._dispatcher else ()
        found = next((hook for hook in hooks if hook.name == name), None)
        return found is not None and found.ready and found.manifest.wants(topic)

    def last_run(self, name: str) -> LastRun | None:
        """How the hook `name` did when it ran last; None when it never did."""
        return self._dispatcher.results.get(name) if self._dispatcher else None

    def event(self, kind: type[E], **fields: Any) -> E:
        """An event of the session that is open now, unless `fields` name another."""
        deps, conversation = self.deps, self.conversation
        session = {"session_key": conversation.session.record.key, "session_id": conversation.session_id}
        common = common_fields(deps.profile.agent_id, deps.workspace, deps.profile.home, deps.clock.now())
        return kind(**{**common, **session, **fields})

    def emit(self, kind: type[PassingEvent], **fields: Any) -> None:
        """Let the hooks know of an event (see `event`); nobody waits for them."""
        if self._dispatcher is not None and self._dispatcher.wants(str(kind.__struct_config__.tag)):
            event = self.event(kind, **fields)
            self._dispatcher.notify(event, SessionServices(self, event))

    async def ask(self, event: Awaited, scope: Scope | None = None, services: SessionServices | None = None) -> Awaited:
        """Run the hooks of `event` one after the other and return it as they leave it. Raises InterruptedTurnError when
        `scope` is stopped during that."""
        if self._dispatcher is None or not self.wants(event.topic):
            return event
        run = functools.partial(self._dispatcher.run, event, services or SessionServices(self, event))
        return await (run() if scope is None else scope.cancel.run(run))

    def read_along(self) -> None:
        """Read the user's messages so far in the background, so that the end of a long session does not wait for it."""
        if self.wants("command:new") and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read(), name="messages of the user")

    async def _read(self) -> None:
        try:
            await SessionServices(self, self.event(CommandNew)).overview()
        except HookServiceError as error:
            log.warning("the messages of the user can't be read: %s", error)

    async def change_files(self, files: Sequence[BootstrapFile]) -> Sequence[NamedText]:
        """The workspace files of a prompt as the hooks leave them."""
        if not self.wants("agent:bootstrap"):
            return files
        shown = [InjectedFile(file.name, file.text) for file in files]
        return (await self.ask(self.event(AgentBootstrap, files=shown))).files

    async def stop(self, patience: float, *, last: bool) -> None:
        """Notify the hooks of the session's end and wait `patience` seconds for all that they do, which the `last`
        session then ends."""
        dispatcher, clock = self._dispatcher, self.deps.clock
        if dispatcher is None:
            return
        began = clock.monotonic()
        try:
            async with deadline(patience):
                await self.ask(self.event(RuntimeStop))
        except TimeoutError:
            log.warning("the hooks at the end of the program were not done after %g seconds", patience)
        rest = max(0.0, patience - (clock.monotonic() - began))
        if last:
            await dispatcher.close(rest)
        else:
            # Not `wait_for`: Python 3.11's loses a cancellation that comes together with the end.
            with contextlib.suppress(TimeoutError):
                async with deadline(rest):
                    await dispatcher.settled()

    async def status(self) -> list[HookStatus]:
        """Return the hooks as they are on disk now, with the last result of each."""
        if self._dispatcher is None:
            return []
        await self._dispatcher.load()
        return [_status(hook, self.last_run(hook.name)) for hook in self._dispatcher.hooks]


class SessionServices:
    """What the program does for the hooks of one event. `kept` is the note that was written for its session, `held` are
    the entries whose texts it is reported to hold.

    `before_write` receives what is about to be written to a note; `ours` are the SHA-256 of what was written before,
    with the times.
    """

    def __init__(
        self,
        hooks: SessionHooks,
        event: HookEvent,
        before_write: BeforeWrite | None = None,
        ours: Mapping[str, float] | None = None,
    ) -> None:
        self._hooks = hooks
        self._deps = hooks.deps
        self._event = event
        self._before_write = before_write or _nothing
        self._ours = ours or {}
        record = hooks.conversation.session.record
        began = (record.session_started_at or 0) / 1000 if record.session_id == event.session_id else 0.0
        # The clock may have been set back since the session began.
        self._since = min([began, *self._ours.values()])
        self._is_over = False
        self._secrets: frozenset[str] = frozenset()
        self.kept: KeptNote | None = None
        self.held: frozenset[str] = frozenset()

    async def said(self, limit: int, role: str) -> list[Said]:
        """The last `limit` texts of the event's session, oldest first, of `role` ("": of both). Raises
        HookServiceError, as all of these do."""

        def read() -> list[Said]:
            with self._transcript() as transcript:
                known = self._hooks.words.read(transcript).secrets
                return self._converted(*last_texts(transcript, limit, role, known=known))

        return await self._thread(read)

    async def overview(self) -> list[Said]:
        """About a hundred texts of the user from all of the event's session, shortened, oldest first, the first and
        the last among them."""

        def read() -> list[Said]:
            with self._transcript() as transcript:
                asked = self._hooks.words.read(transcript)
                return self._converted(asked.texts, asked.secrets)

        return await self._thread(read)

    def _converted(self, texts: Iterable[SpokenText], secrets: frozenset[str]) -> list[Said]:
        self._secrets |= secrets
        return [Said(text.role, text.text, text.timestamp, text.entry_id) for text in texts]

    def _transcript(self) -> Transcript:
        """That of the event's session, to be read. Blocks. Raises SessionStoreError."""
        store, record = self._deps.store, self._hooks.conversation.session.record
        if record.session_id != self._event.session_id:
            record = store.find(self._event.session_id)
        return Transcript.open_history(store.path_of(record), clock=self._deps.clock)

    def _last_words(self) -> datetime:
        """When the user spoke last in the event's session, in the user's zone; where that is not known, the event's
        own time. Blocks. Raises SessionStoreError."""
        with self._transcript() as transcript:
            spoke = last_words_at(transcript)
        zone = self._deps.clock.now().tzinfo
        return moment_of(spoke, zone) if spoke > 0 else self._event.timestamp.astimezone(zone)

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        """The answer of `model` ("": the current one) to `prompt` within `seconds`. The end of a session asks behind
        what begins the next one, too: a server that holds one prompt then keeps that. Raises HookServiceError."""
        now = epoch_ms(self._deps.clock.now())
        begun = None
        if not model and isinstance(self._event, CommandNew | CommandReset | SessionAutoReset):
            begun = self._hooks.question("\n\n".join(filter(None, (system, prompt))))
        try:
            async with deadline(seconds), self._deps.model.borrow(model) as chat:
                if begun is not None:
                    return (await ask(chat, begun, Cancellation())).text
                return await complete(chat, system, prompt, purpose="slug", timestamp=now)
        except TimeoutError as error:
            raise HookServiceError(f"the model did not answer within {seconds:g} seconds") from error
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        """Write the one note of the event's session, by the day of the user's last words in it, and return its path
        below the workspace. It has the texts of the entries `holds`."""
        self.held |= frozenset(holds)
        spoke = await self._thread(self._last_words)
        request = NoteRequest(
            session_id=self._event.session_id,
            # A transcript of another program may be younger than the messages in it.
            since=min(self._since, spoke.timestamp()),
            text=text,
            slug=slug,
            at=spoke,
            now=self._event.timestamp.timestamp(),
            ours=self._ours,
            secrets=self._secrets,
        )
        with recording(self._deps.memory.recorder, self._author()):
            writing = asyncio.create_task(self._thread(keep_note, self._deps.workspace, request, self._allow))
        try:
            kept = await asyncio.shield(writing)
        finally:
            # A thread can't be stopped: what it has begun belongs to this session, and is waited for.
            done, _pending = await asyncio.wait({writing}, timeout=_THREAD_SECONDS)
            self._is_over = not done
            if done and writing.exception() is None:
                self.kept = writing.result()
                self._hooks.notify(NoteKept(session_id=self._event.session_id, path=self.kept.path))
                if self.kept.write and self.kept.write.secrets:
                    self._hooks.notify(secrets_left_out(self.kept.write))
        return kept.path

    def _author(self) -> Author:
        return Author(f"hook:{RUNNING.get()}", self._event.session_id, self._event.session_key)

    def stop_recording(self) -> None:
        """The hooks have handled the event, and its session ends: what later work of theirs writes is recorded nowhere
        any more, least of all in the session that follows."""
        self._before_write = _nothing

    def _allow(self, write: MemoryWrite) -> None:
        """Record that `write` is about to happen. Blocks."""
        if self._is_over:
            raise NoteError(_("The note was ready too late for this conversation."))
        self._before_write(write)

    async def rename_note(self, path: str, slug: str) -> str:
        """Give a note another slug, and return where it is now."""
        with recording(self._deps.memory.recorder, self._author()):
            renamed = await self._thread(rename_note, self._deps.workspace, path, slug, self._secrets)
        if renamed != path:
            self._hooks.notify(NoteKept(session_id=self._event.session_id, path=renamed, was=path))
        return renamed

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn in another session; returns its reply, "" if silent. Raises HookServiceError."""
        if self._deps.front.run_prompt is None:
            raise HookServiceError("no other session can be opened here")
        try:
            return await self._deps.front.run_prompt(prompt, session)
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error

    async def tell(self, text: str, *, level: str, path: str) -> None:
        """Show the user a line."""
        shown = redact(" ".join(text.split())[:_MAX_LINE])
        self._hooks.notify(Notice(level=LEVELS.get(level, "info"), text=shown, path=path or None))

    async def _thread(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        try:
            return await asyncio.to_thread(function, *arguments, **named)
        except ClawbotError as error:
            raise HookServiceError(str(error)) from error


def _nothing(_write: object) -> None:
    """Nobody records it."""


def _status(hook: FoundHook, last: LastRun | None) -> HookStatus:
    ran: dict[str, Any] = {}
    if last is not None:
        ran = {"topic": last.topic, "status": last.status, "error": last.error, "at": last.at}
        ran["duration_ms"] = last.duration_ms
    return HookStatus(
        name=hook.name,
        description=hook.manifest.description,
        source=hook.source,
        folder=str(hook.folder),
        events=hook.manifest.events,
        enabled=hook.enabled,
        ready=hook.ready,
        missing=hook.missing,
        problem=hook.problem,
        off_because=hook.off_because,
        **ran,
    )
