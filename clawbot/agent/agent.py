"""One conversation that is alive: takes texts up one after the other, interrupts, asks, and tells what happened."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from pathlib import Path

from msgspec import Struct

from clawbot.agent.approvals import Approvals
from clawbot.agent.cancel import Cancellation, InterruptedTurnError
from clawbot.agent.commands import run_command
from clawbot.agent.conversation import Conversation, notices_of
from clawbot.agent.events import (
    ContextUsed,
    Event,
    MessageFinished,
    MessageQueued,
    Notice,
    SessionChanged,
    TurnEnded,
    TurnStarted,
)
from clawbot.agent.exporting import default_target, write_export
from clawbot.agent.prompting import Prompting
from clawbot.agent.slash import ParsedCommand, parse_command
from clawbot.agent.turn import Committed, TurnParts, run_turn
from clawbot.agent.views import RuntimeStatus
from clawbot.clock import Clock, epoch_ms
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.window import DEFAULT_WINDOW, context_used
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ModelError
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.logs import redact
from clawbot.messages import AssistantMessage, ToolSpec, UserMessage, scrub
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.listing import SessionSummary
from clawbot.sessions.names import short_name
from clawbot.sessions.store import OpenSession, SessionStore
from clawbot.tools.memory import Recall
from clawbot.tools.memory_output import Citations
from clawbot.tools.protocol import Approver, Decision
from clawbot.tools.registry import Toolbox

log = logging.getLogger(__name__)

Emit = Callable[[Event], None]


class AgentParts(Struct, frozen=True):
    """What an agent is built of; `runtime.py` builds it. `open_model` resolves a reference as the user writes it,
    `find_models` lists what can be used here; `usual_model` answers in sessions for which no other was chosen. `recall`
    is the memory index, None when it is switched off; `citations` is `memory.citations`."""

    agent_id: str
    settings: AgentSettings
    workspace: Path
    store: SessionStore
    tools: Toolbox
    clock: Clock
    open_model: Callable[[str], Awaitable[ChatModel]]
    find_models: Callable[[], Awaitable[list[ModelInfo]]]
    usual_model: str
    interactive: bool = True
    recall: Recall | None = None
    citations: Citations = "auto"


class Agent:
    """One conversation. `submit` may be called while a turn runs: texts are taken up in their order.

    `model` was opened by the reference `model_ref`.
    """

    def __init__(self, parts: AgentParts, session: OpenSession, model: ChatModel, model_ref: str) -> None:
        self.parts = parts
        self.model = model
        self._model_ref = model_ref
        self.conversation = Conversation(parts.store, session, parts.clock)
        self._prompting = Prompting(
            parts.workspace,
            parts.settings,
            parts.tools,
            parts.clock,
            parts.agent_id,
            citations=parts.citations,
        )
        self._approvals = Approvals(interactive=parts.interactive)
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._running: Cancellation | None = None
        self._closing = False
        self._notes = 0
        self._owed: list[Notice] = []

    # -- what front ends call -------------------------------------------------------------------------------------

    async def submit(self, text: str) -> AsyncGenerator[Event, None]:
        """Take up a message or a slash command; the events end with TurnEnded.

        Closing the stream withdraws a text that still waits and interrupts one that runs.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        cancel = Cancellation()
        driver = asyncio.create_task(self._drive(scrub(text), events.put_nowait, cancel))
        driver.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await driver
        finally:
            if not driver.done():
                if self._running is cancel:
                    cancel.request()
                else:
                    driver.cancel()
                await asyncio.wait({driver})

    def interrupt(self) -> bool:
        """Stop the running turn, keeping what was said. False when nothing runs."""
        if self._running is None:
            return False
        self._running.request()
        return True

    def answer(self, request_id: str, decision: Decision, command: str | None = None) -> bool:
        """Answer an ApprovalRequested event; False when it is no longer open."""
        return self._approvals.answer(request_id, decision, command)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Wait until no turn runs, and keep it so inside the context."""
        return self._turn

    @property
    def status(self) -> RuntimeStatus:
        """How the conversation stands."""
        tokens, exact = context_used(self.conversation.messages, self._prompting.last_system, self.parts.tools.specs)
        return RuntimeStatus(
            agent_id=self.parts.agent_id,
            session_key=self.conversation.key,
            session_id=self.conversation.session_id,
            model=self.model.info,
            workspace=self.parts.workspace,
            tokens=tokens,
            window=self.window,
            exact=exact,
            cost=self.conversation.cost,
            busy=self._running is not None,
            notes=self._notes,
        )

    @property
    def window(self) -> int:
        """The context window in tokens: the model's, capped by the settings; 128k where nobody knows."""
        window = self.model.info.window or DEFAULT_WINDOW
        cap = self.parts.settings.context_tokens
        return min(window, cap) if cap else window

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return self.parts.tools.specs

    @property
    def recall(self) -> Recall | None:
        """The memory index; None when it is switched off."""
        return self.parts.recall

    # -- what commands and the runtime call, never during a turn --------------------------------------------------

    async def reset(self, reason: str) -> SessionChanged:
        """Go on in a fresh session under the same key."""
        changed = await self.conversation.rotate(reason)
        self._owed += notices_of(self.conversation.session)
        return changed

    async def switch(self, session: OpenSession) -> SessionChanged:
        """Go on in another session, with the model that was chosen there, else the usual one.

        A model that can't be opened is told with the next message, and the present one goes on. Raises
        SessionStoreError; `session` is closed then, and the conversation as it was.
        """
        wanted = session.record.model_override or self.parts.usual_model
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, session.close)
            model = await self._open_if_other(wanted)
            if model is not None:
                undo.push_async_callback(model.aclose)
            changed = await self.conversation.switch(session)
            undo.pop_all()
        self._owed += notices_of(session)
        if model is not None:
            await self._take_model(model, wanted)
        return changed

    async def _open_if_other(self, ref: str) -> ChatModel | None:
        if ref == self._model_ref:
            return None
        try:
            return await self.parts.open_model(ref)
        except ClawbotError as error:
            log.warning("the model of the session can't be opened: %s", error)
            text = f"{ref} can't be used ({error}), so {self.model.info.ref} answers."
            self._owed.append(Notice(level="warning", text=text))
            return None

    async def set_model(self, ref: str) -> ModelInfo:
        """Answer with another model from now on, also after a restart.

        Raises ModelError for an unknown one, SessionStoreError when the choice can't be stored; the old one stays then.
        """
        model = await self.parts.open_model(ref)
        try:
            await self.conversation.choose_model(ref, model.info)
        except BaseException:
            await model.aclose()
            raise
        await self._take_model(model, ref)
        return model.info

    async def _take_model(self, model: ChatModel, ref: str) -> None:
        old, self.model, self._model_ref = self.model, model, ref
        await old.aclose()

    async def models(self) -> list[ModelInfo]:
        """The models that can be used here."""
        return await self.parts.find_models()

    async def sessions(self) -> list[SessionSummary]:
        """All conversations of the agent, newest first."""
        return list(await asyncio.to_thread(self.parts.store.list))

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        """Write this conversation, or the one that `session` names, as "md" or "json" to `path` (default: the
        workspace's `exports` folder) and return where it is. Raises ClawbotError."""
        store = self.parts.store
        record = await asyncio.to_thread(store.find, session) if session else self.conversation.session.record
        now = self.parts.clock.now()
        target = path or default_target(self.parts.workspace, short_name(record.key), form, now)
        await asyncio.to_thread(write_export, store.path_of(record), target, form, self.parts.clock)
        return target

    async def count_notes(self) -> None:
        """Look how many memory files there are."""
        self._notes = await asyncio.to_thread(_memory_files, self.parts.workspace)

    async def close(self) -> None:
        """Interrupt what runs, hand back what waits, write what is left, let go of the session and the model."""
        self._closing = True
        self.interrupt()
        async with self._turn:
            try:
                await self.conversation.close()
            finally:
                await self.model.aclose()

    # -- one submission -------------------------------------------------------------------------------------------

    async def _drive(self, text: str, emit: Emit, cancel: Cancellation) -> None:
        # The lock is free for a moment between two turns: who waits already goes first.
        if self._turn.locked() or self._waiting:
            self._waiting += 1
            emit(MessageQueued(text=text, position=self._waiting))
            try:
                await self._turn.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._turn.acquire()
        began = self.parts.clock.monotonic()
        self._running = cancel
        try:
            ended = await self._take_up(text, emit, cancel)
        finally:
            self._running = None
            self._turn.release()
        emit(_timed(ended, self.parts.clock.monotonic() - began))

    async def _take_up(self, text: str, emit: Emit, cancel: Cancellation) -> TurnEnded:
        """Run a command or a turn; whatever goes wrong becomes the last event."""
        try:
            if self._closing:
                raise ClawbotError("The conversation was closed before this was taken up.", hint="Send it again.")
            command = parse_command(text)
            message = text if command is None else await self._command(command, text, emit)
            if message.strip():
                await self._message(message, emit, cancel)
        except InterruptedTurnError:
            return TurnEnded(status="interrupted")
        except ModelError as error:
            return TurnEnded(status="failed", error_kind=error.kind, error=_named(error), hint=error.hint)
        except ClawbotError as error:
            return TurnEnded(status="failed", error_kind="failed", error=error.message, hint=error.hint)
        except Exception as error:
            log.exception("a turn failed unexpectedly")
            return TurnEnded(
                status="failed",
                error_kind="internal",
                error=redact(f"Something in clawbot failed: {type(error).__name__}: {error}"),
                hint="The log has the details (clawbot doctor says where it is); the conversation is kept.",
            )
        return TurnEnded(status="done")

    async def _command(self, command: ParsedCommand, text: str, emit: Emit) -> str:
        """Run a slash command; returns the text that is to be submitted after it."""
        emit(self._started(text))
        result = await run_command(command, self)
        for event in (*result.events, *self._take_owed()):
            emit(event)
        return result.message

    async def _message(self, text: str, emit: Emit, cancel: Cancellation) -> None:
        message = UserMessage(content=text, timestamp=epoch_ms(self.parts.clock.now()))
        await self.conversation.add_user(message)
        emit(self._started(text))
        for notice in self._take_owed():
            emit(notice)
        parts = TurnParts(
            model=self.model,
            tools=self.parts.tools,
            prepare=self._prompting.for_turn(self.model.info, self.conversation.session.record.key, emit),
            approve=functools.partial(self._approver, emit),
            clock=self.parts.clock,
            max_rounds=self.parts.settings.tools.max_rounds,
        )
        try:
            async with aclosing(run_turn(self.conversation.messages, parts, cancel)) as steps:
                async for step in steps:
                    if isinstance(step, Committed):
                        await self._commit(step, emit)
                    else:
                        emit(step)
        finally:
            await self._settle(emit)

    async def _settle(self, emit: Emit) -> None:
        """Bring the list of sessions and the figures up to date. What fails here must not hide how the turn ended:
        the transcript holds everything, the list is made of it."""
        try:
            await self.conversation.settle(self.window)
        except SessionStoreError as error:
            log.warning("the list of sessions is behind: %s", error)
            emit(Notice(level="warning", text=str(error)))
        await self.count_notes()
        emit(self._context())

    async def _commit(self, step: Committed, emit: Emit) -> None:
        entry_id = await self.conversation.add(step.message)
        if isinstance(step.message, AssistantMessage):
            emit(
                MessageFinished(
                    entry_id=entry_id,
                    text=step.message.text,
                    stop_reason=step.message.stop_reason,
                    usage=step.message.usage,
                )
            )

    def _take_owed(self) -> list[Notice]:
        """What was found while nobody read events."""
        owed, self._owed = self._owed, []
        return owed

    def _approver(self, emit: Emit, call_id: str) -> Approver:
        return lambda question: self._approvals.ask(question, call_id, emit)

    def _started(self, text: str) -> TurnStarted:
        return TurnStarted(
            text=text,
            session_key=self.conversation.key,
            session_id=self.conversation.session_id,
            model=self.model.info.ref,
        )

    def _context(self) -> ContextUsed:
        now = self.status
        return ContextUsed(tokens=now.tokens, window=now.window, exact=now.exact, cost=now.cost)


def _timed(ended: TurnEnded, seconds: float) -> TurnEnded:
    return TurnEnded(
        status=ended.status,
        duration_ms=round(seconds * 1000),
        error_kind=ended.error_kind,
        error=ended.error,
        hint=ended.hint,
    )


def _named(error: ModelError) -> str:
    return redact(f"{error.provider}: {error.message}" if error.provider else error.message)


def _memory_files(workspace: Path) -> int:
    """How many there are. A folder that can't be read counts as empty: a figure must not end a turn."""
    notes = sum(name.endswith(".md") for _, _, names in os.walk(workspace / "memory") for name in names)
    return notes + os.access(workspace / "MEMORY.md", os.F_OK)
