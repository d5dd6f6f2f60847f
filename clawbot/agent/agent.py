"""One conversation that is alive: takes texts up one after the other, interrupts, asks, and tells what happened."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime, tzinfo
from pathlib import Path

from clawbot.agent.answerer import Answerer
from clawbot.agent.answering import Answering, AnsweringParts
from clawbot.agent.approvals import Approvals
from clawbot.agent.cancel import Cancellation, InterruptedTurnError
from clawbot.agent.commands import run_command
from clawbot.agent.conversation import Conversation, notices_of
from clawbot.agent.events import (
    CompactionFinished,
    ContextUsed,
    Event,
    Notice,
    SessionChanged,
    TurnEnded,
    TurnStarted,
)
from clawbot.agent.expiring import Expiring, ExpiringParts
from clawbot.agent.exporting import default_target, write_export
from clawbot.agent.hook_services import HookingParts
from clawbot.agent.hooking import Hooking, hook_status
from clawbot.agent.parts import AgentParts
from clawbot.agent.prompting import Prompting
from clawbot.agent.reporting import report_of, status_of
from clawbot.agent.resetting import Reason, Resetting, ResettingParts
from clawbot.agent.scope import Emit, Origin, Scope, silent_scope
from clawbot.agent.slash import ParsedCommand, parse_command
from clawbot.agent.submissions import Submissions
from clawbot.agent.views import AgentInfo, ContextReport, HookStatus, RuntimeStatus
from clawbot.errors import ClawbotError
from clawbot.llm.errors import ModelError
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.logs import redact
from clawbot.messages import ToolSpec
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.listing import SessionSummary
from clawbot.sessions.names import short_name
from clawbot.sessions.store import OpenSession
from clawbot.tools.memory import Recall
from clawbot.tools.protocol import Decision

log = logging.getLogger(__name__)


class Agent:
    """One conversation. `submit` may be called while a turn runs: texts are taken up in their order.

    It begins with `model`, which was opened by the reference `model_ref`. `saving` is true while memory takes what was
    said, in a silent turn that yields no events; `on_saving` is called on the event loop when that changes. `on_event`
    is told what happens while nothing that was submitted runs.
    """

    def __init__(self, parts: AgentParts, session: OpenSession, model: ChatModel, model_ref: str) -> None:
        self.parts = parts
        self._answerer = Answerer(parts, model, model_ref, self._forget_figures)
        self.conversation = Conversation(parts.store, session, parts.clock)
        self._approvals = Approvals(interactive=parts.interactive)
        self.hooking = Hooking(self._hooking_parts())
        self._answering = Answering(self._answering_parts())
        self._submissions = Submissions(self._take_up, parts.clock)
        self._resetting = Resetting(self._resetting_parts())
        self._expiring = Expiring(ExpiringParts(self.conversation, self._resetting, parts.reset, parts.clock))
        self._closing = False
        self.saving = False
        self.on_saving: Callable[[], None] | None = None
        self.on_event: Callable[[Event], None] | None = None
        self._notes = 0
        self._owed: list[Notice] = []

    # -- what front ends call -------------------------------------------------------------------------------------

    def submit(self, text: str, origin: Origin = "user") -> AsyncGenerator[Event, None]:
        """Take up a message or a slash command; the events end with TurnEnded. `origin` says who speaks: what a job of
        the schedule says keeps no session alive and ends none.

        Closing the stream withdraws a text that still waits and interrupts one that runs.
        """
        return self._submissions.submit(text, origin)

    def announce(self, event: Event) -> None:
        """Show the user `event`: among those of the submission that runs, else by itself. A notice that nobody is there
        for comes with the next message."""
        if self._submissions.running is not None:
            self._submissions.running.emit(event)
        else:
            self._beside(event)

    def _beside(self, event: Event) -> None:
        """Show an event that belongs to nothing that was submitted."""
        if self.on_event is not None:
            self.on_event(event)
        elif isinstance(event, Notice):
            self._owed.append(event)

    def interrupt(self) -> bool:
        """Stop the running turn, keeping what was said. False when nothing runs."""
        return self._submissions.interrupt()

    def answer(self, request_id: str, decision: Decision, command: str | None = None) -> bool:
        """Answer an ApprovalRequested event; False when it is no longer open."""
        return self._approvals.answer(request_id, decision, command)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Wait until no turn runs, and keep it so inside the context."""
        return self._submissions.exclusive()

    @property
    def model(self) -> ChatModel:
        """The one that answers now."""
        return self._answerer.model

    @property
    def status(self) -> RuntimeStatus:
        """How the conversation stands."""
        return status_of(
            self.conversation,
            self._answering.viewing,
            self._answering.boundary.state,
            self.parts,
            self.model.info,
            busy=self._submissions.running is not None,
            notes=self._notes,
        )

    async def measure(self) -> None:
        """Weigh what is in the context, so that `status` knows it before the first turn counts it. Never during a
        turn."""
        if self._answering.viewing.current is None:
            await self._answering.viewing.weigh(self.model.info)

    async def context_report(self) -> ContextReport:
        """Where the tokens of the window go, counted now."""
        shown = await self._answering.look()
        return await asyncio.to_thread(
            report_of,
            shown,
            self._answering.viewing,
            self.model.info,
            self._answering.boundary.state,
            automatic=self.parts.settings.compaction.enabled,
            compactions=self.conversation.session.record.compaction_count,
        )

    @property
    def will_flush(self) -> bool:
        """Whether `close` takes a moment to save to memory what was said."""
        return self.parts.interactive and self._answering.upkeep.will_offer_at_quit

    @property
    def zone(self) -> tzinfo | None:
        """Where the user's clock is."""
        return self.parts.clock.now().tzinfo

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return self._answering.viewing.toolbox.specs

    @property
    def recall(self) -> Recall | None:
        """The memory index; None when it is switched off."""
        return self.parts.recall

    # -- what commands and the runtime call, never during a turn --------------------------------------------------

    async def hooks(self) -> list[HookStatus]:
        """The hooks as they are now, and how each did last."""
        return await hook_status(self.parts.hooks) if self.parts.hooks is not None else []

    @property
    def agents(self) -> list[AgentInfo]:
        """The agents of the settings."""
        return list(self.parts.agents)

    async def compact(self, focus: str) -> CompactionFinished:
        """Summarise the earlier turns now; `focus` is what the summary is to hold above all."""
        return await self._answering.compact(focus, self._scope())

    async def reset(self, reason: Reason, text: str = "") -> SessionChanged:
        """Go on in a fresh session under the same key, after the old one was kept in memory. `text` is what the user
        says first in it."""
        changed = await self._resetting.reset(reason, text, self._scope())
        self._owed += notices_of(self.conversation.session)
        return changed

    async def look_at_clock(self) -> datetime | None:
        """Begin a fresh session if the clock has ended this one, once the running turn has ended; when to look next,
        None for never. Raises SessionStoreError."""
        scope = Scope(self._beside, Cancellation())
        async with self._submissions.alone(scope):
            if not (self._closing or self._expiring.rests):
                await self._expire(scope)
        return self._expiring.next_look

    async def _expire(self, scope: Scope) -> None:
        if await self._expiring.expire(scope) is not None:
            self._owed += notices_of(self.conversation.session)

    async def switch(self, session: OpenSession) -> SessionChanged:
        """Go on in another session, with the model that was chosen there, else the usual one.

        A model that can't be opened is told with the next message, and the present one goes on. Raises
        SessionStoreError; `session` is closed then, and the conversation as it was.
        """
        wanted = session.record.model_override or self.parts.usual_model
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, session.close)
            model = await self._answerer.open_for_session(wanted, self._owed.append)
            if model is not None:
                undo.push_async_callback(model.aclose)
            changed = await self.conversation.switch(session)
            undo.pop_all()
        self._owed += notices_of(session)
        if model is not None:
            await self._answerer.take(model, wanted)
        return changed

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
        await self._answerer.take(model, ref)
        return model.info

    def _forget_figures(self) -> None:
        self._answering.viewing.forget_figures()

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

    async def close(self, *, hasty: bool = False) -> None:
        """Interrupt what runs, hand back what waits, offer memory what was said and wait for the hooks (neither when it
        is `hasty`), write what is left, let go of the session and the model."""
        self._closing = True
        self.interrupt()
        async with self.exclusive():
            try:
                if self.will_flush and not hasty:
                    await self._answering.save_at_quit()
                await self.hooking.stop(0.0 if hasty else self.parts.hooks_patience)
            finally:
                # Also when who waits for it has no more patience, and cancels.
                try:
                    await self.conversation.close()
                finally:
                    await self.model.aclose()

    def _answering_parts(self) -> AnsweringParts:
        parts = self.parts
        prompting = Prompting(
            parts.workspace, parts.settings, parts.tools, parts.clock, parts.agent_id, citations=parts.citations
        )
        prompting.on_bootstrap = self.hooking.change_files
        return AnsweringParts(
            conversation=self.conversation,
            prompting=prompting,
            settings=parts.settings,
            tools=parts.tools,
            clock=parts.clock,
            approvals=self._approvals,
            model=lambda: self.model,
            open_model=parts.open_model,
            figures=self._context,
            saving=self._set_saving,
            hooking=self.hooking,
        )

    def _hooking_parts(self) -> HookingParts:
        parts = self.parts
        return HookingParts(
            agent_id=parts.agent_id,
            dispatcher=parts.hooks,
            conversation=self.conversation,
            store=parts.store,
            workspace=parts.workspace,
            home=parts.home,
            clock=parts.clock,
            model=lambda: self.model,
            open_model=parts.open_model,
            announce=self.announce,
            run_prompt=parts.run_prompt,
        )

    def _resetting_parts(self) -> ResettingParts:
        return ResettingParts(
            conversation=self.conversation,
            boundary=self._answering.boundary,
            hooking=self.hooking,
            leave=functools.partial(self._answering.leave, "reset"),
        )

    def _set_saving(self, saving: bool) -> None:
        self.saving = saving
        if self.on_saving is not None:
            self.on_saving()

    def _scope(self) -> Scope:
        """The submission that runs now; a command is always one."""
        return self._submissions.running or silent_scope()

    # -- one submission -------------------------------------------------------------------------------------------

    async def _take_up(self, text: str, scope: Scope) -> TurnEnded:
        """Run a command or a turn; whatever goes wrong becomes the last event."""
        try:
            if self._closing:
                raise ClawbotError("The conversation was closed before this was taken up.", hint="Send it again.")
            # A job's prompt is a message, whatever it looks like: the schedule ends no session.
            command = parse_command(text) if scope.origin == "user" else None
            message = text if command is None else await self._command(command, text, scope.emit)
            if message.strip():
                await self._message(message, scope)
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

    async def _message(self, text: str, scope: Scope) -> None:
        if scope.origin == "user":
            try:
                await self._expire(scope)
            except SessionStoreError as error:
                # The clock asked for it and not the user, who is answered in the old session.
                log.warning("a session that is over could not be ended: %s", error)
                scope.emit(Notice(level="warning", text=f"The session goes on, though it should have ended: {error}"))

        def started() -> None:
            scope.emit(self._started(text))
            for notice in self._take_owed():
                scope.emit(notice)

        try:
            await self._answering.message(text, started, scope)
        finally:
            await self.count_notes()
            scope.emit(self._context())

    def _take_owed(self) -> list[Notice]:
        """What was found while nobody read events."""
        owed, self._owed = self._owed, []
        return owed

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


def _named(error: ModelError) -> str:
    return redact(f"{error.provider}: {error.message}" if error.provider else error.message)


def _memory_files(workspace: Path) -> int:
    """How many there are. A folder that can't be read counts as empty: a figure must not end a turn."""
    notes = sum(name.endswith(".md") for _, _, names in os.walk(workspace / "memory") for name in names)
    return notes + os.access(workspace / "MEMORY.md", os.F_OK)
