"""One running conversation: accepts texts in order, interrupts, asks for approval, and emits events."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from pathlib import Path

from clawbot.agent.commands import CommandResult, run_command
from clawbot.agent.conversation import Conversation, notices_of
from clawbot.agent.deps import AgentDeps
from clawbot.agent.ending import EndedSessions, Resets
from clawbot.agent.events import (
    CompactionFinished,
    Emit,
    Event,
    MessageQueued,
    Notice,
    ResetReason,
    Scope,
    SessionChanged,
    TurnEnded,
    TurnStarted,
    Waiting,
    silent_scope,
    warning,
)
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.idle_requests import IdleWork, ReadAhead, Titles
from clawbot.agent.slash import LITERAL, RESETS, ParsedCommand, ShellCommand, parse_command, parse_shell, without_escape
from clawbot.agent.status import RuntimeStatus
from clawbot.agent.submissions import Outbox, Submissions, failure
from clawbot.agent.tool_calls import run_user_command
from clawbot.agent.turn_runner import TurnRunner
from clawbot.attachments.mentions import mentions
from clawbot.config.schema_agent import Mode
from clawbot.context.report import ContextReport
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.hooks.events import SessionStart
from clawbot.llm.protocol import ChatModel, ModelInfo
from clawbot.memory.documents.indexed_text import count_notes
from clawbot.messages import ToolSpec, UserBlock
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.names import short_name
from clawbot.sessions.store import OpenSession
from clawbot.text.interface import _
from clawbot.text.secrets import left_out

log = logging.getLogger(__name__)
# Bytes of a transcript, some 5,000 turns, of which the user's texts are read in half a second of CPU.
READ_AT_ONCE = 8 * 1024**2


class Agent:
    """One conversation (see AgentApi). `on_event` receives events of no submission. `steers`: a message that waits is
    sent in the running turn, once the tools that the model has called are done. `runs_shell`: `!command` runs
    in the shell, which only a front end may allow at whose prompt the user sits: what is piped into a single turn, or
    comes by HTTP, may be somebody else's words. `fixed`: the front end knows the session by its key, so a fork of it is
    made and not switched to."""

    def __init__(self, deps: AgentDeps, conversation: Conversation) -> None:
        self.deps = deps
        self.conversation = conversation
        self.hooks = SessionHooks(deps, conversation, self.notify)
        waiting = self._next_steered
        self._turns = TurnRunner(deps, conversation, self.hooks, steering=waiting)
        self._turns.gate.on_saving = self._set_saving
        self.outbox = Outbox(conversation.session, deps.clock, self.notify)
        self._submissions = Submissions(self._accept, deps.clock, self.outbox)
        self.ended = EndedSessions(deps, self.notify)
        requests, alone, notify = self._turns.requests, self._submissions.exclusive, self.notify
        self.titles = Titles(deps, conversation, requests, self.hooks.words, exclusive=alone, notify=notify)
        self._ahead = ReadAhead(deps, requests, alone)
        # AgentApi documents these.
        self.submit, self.interrupt, self.exclusive = self._submissions.submit, self._submissions.interrupt, alone
        self.answer, self.read_ahead = self._turns.approvals.answer, self._ahead.run
        self._resets = Resets(deps, conversation, self._turns, self.hooks, self.ended)
        self._closing = False
        self.saving = self.steers = self.runs_shell = self.fixed = False
        self.on_saving: Callable[[], None] | None = None
        self.on_event: Emit | None = None
        self._notes = 0
        self._pending: list[Notice] = []
        self.idle = IdleWork(self)
        self.touch = self.idle.touch

    # -- what front ends call -------------------------------------------------------------------------------------

    def listen(self, on_event: Emit | None) -> None:
        """Set `on_event`, and deliver notices that are still pending."""
        self.on_event = on_event
        for notice in self._take_pending() if on_event is not None else ():
            self._emit_alone(notice)

    def notify(self, event: Event) -> None:
        """Show the user `event`: within the running submission, else by itself. Without a listener a notice is
        delivered with the next message, or when somebody listens."""
        if self._submissions.running is not None:
            self._submissions.running.emit(event)
        else:
            self._emit_alone(event)

    def _emit_alone(self, event: Event) -> None:
        """Emit an event that belongs to no submission."""
        if self.on_event is not None:
            self.on_event(event)
        elif isinstance(event, Notice):
            self._pending.append(event)

    def set_mode(self, mode: Mode) -> None:
        """See AgentApi. Only what the user does may call it."""
        self.deps.tools.permissions.mode = mode

    @property
    def status(self) -> RuntimeStatus:
        """The state of the conversation."""
        busy = self._submissions.running is not None
        return self._turns.status(busy=busy, notes=self._notes, unsent=len(self.outbox.left))

    async def measure(self) -> None:
        """See AgentApi."""
        async with self.exclusive():
            if self._turns.requests.current is None:
                await self._turns.requests.weigh()

    async def context_report(self) -> ContextReport:
        """The token usage of the context window, taken after the running turn."""
        async with self.exclusive():
            return await self._turns.report()

    @property
    def will_flush(self) -> bool:
        """Whether `close` takes a moment to save the conversation to memory."""
        return self.ended.is_busy or self._will_offer

    @property
    def _will_offer(self) -> bool:
        return self.deps.front.flush_at_end and self._turns.policy.will_offer_at_quit

    @property
    def tool_specs(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return self._turns.requests.toolbox.specs

    # -- never during a turn ---------------------------------------------------------------------------------------

    async def compact(self, focus: str) -> CompactionFinished:
        """Summarise the earlier turns now; `focus` is what the summary should cover above all."""
        self._free_model()
        return await self._turns.compact(focus, self._scope())

    async def reset(self, reason: ResetReason, text: str = "") -> SessionChanged:
        """Start a fresh session under the same key after the hooks stored the old one; `text` is its first message."""
        self._free_model()
        changed = await self._resets.reset(reason, text, self._scope())
        self._pending += notices_of(self.conversation.session)
        return changed

    async def check_clock(self) -> datetime | None:
        """End the session if it has expired; return when to check next (None: never). Raises SessionStoreError."""
        if self._resets.due is None:
            return self._resets.next_check
        scope = Scope(self._emit_alone, Cancellation())
        async with self._submissions.alone(scope):
            if not (self._closing or self._resets.backs_off):
                self._pending += await self._resets.expire_if_due(scope)
        return self._resets.next_check

    async def switch(self, session: OpenSession) -> SessionChanged:
        """Switch to another session, with the model chosen there, else the usual one; if that can't be opened, this is
        reported with the next message and nothing changes. Raises SessionStoreError; then `session` is closed and
        the conversation unchanged."""
        self._free_model()
        wanted = session.record.model_override or self.deps.model.usual
        async with AsyncExitStack() as undo:
            undo.push_async_callback(asyncio.to_thread, session.close)
            model = await self._open_for_session(wanted)
            if model is not None:
                undo.push_async_callback(model.aclose)
            changed = await self.conversation.switch(session)
            undo.pop_all()
        await self.find_unsent()
        await self.count_notes()
        self._pending += notices_of(session)
        if model is not None:
            await self._take_model(model, wanted)
        return changed

    async def rewind(self, entry_id: str) -> str:
        """See AgentApi. On SessionStoreError nothing has changed."""
        async with self.exclusive():
            # What a crash left open must not be offered again on the branch.
            await self._turns.gate.settle_crash(silent_scope())
            text = await self.conversation.rewind(entry_id)
            self._turns.gate.rewound()
            self._turns.requests.forget_session()
        return text

    async def fork(self, title: str = "", at: str = "") -> tuple[SessionChanged, str]:
        """See AgentApi. The other session answers for what memory was not offered of it. On SessionStoreError nothing
        has changed."""
        async with self.exclusive():
            left, leaves = self.conversation.session.record, self._will_offer
            forked = await self.conversation.fork(title, at)
            if not self.fixed:
                await self.switch(await asyncio.to_thread(self.deps.store.open, forked.record.key))
                if leaves:
                    await asyncio.to_thread(self.deps.store.left_pending, left)
                    self.ended.wake()
                self.hooks.emit(SessionStart, reason="fork", previous_id=left.session_id)
        key, made = short_name(forked.record.key), forked.record.session_id
        return SessionChanged(session_key=key, session_id=made, reason="fork"), forked.text

    async def _open_for_session(self, ref: str) -> ChatModel | None:
        """The model `ref`; None if it is already in use, or can't be opened, which is reported."""
        if ref == self.deps.model.ref:
            return None
        try:
            return await self.deps.model.open(ref)
        except ClawbotError as error:
            log.warning("the model of the session can't be opened: %s", error)
            text = _("{model} can't be used ({error}), so {other} answers.")
            self._pending.append(warning(text.format(model=ref, error=error, other=self.deps.model.chat.info.ref)))
            return None

    async def set_model(self, ref: str) -> ModelInfo:
        """See AgentApi."""
        async with self.exclusive():
            model = await self.deps.model.open(ref)
            try:
                await self.conversation.choose_model(ref, model.info)
            except BaseException:
                await model.aclose()
                raise
            await self._take_model(model, ref)
            return model.info

    async def _take_model(self, model: ChatModel, ref: str) -> None:
        """Use `model` from now on and close the previous one."""
        self._free_model()
        async with self.ended.without():
            self._turns.requests.forget_figures()
            await self.deps.model.replace(model, ref)

    async def warm(self) -> None:
        """The user starts typing: load what the next model call and the next reset need. For the latter a very long
        transcript is read once it has a message, since it takes seconds."""
        if self.conversation.transcript_bytes <= READ_AT_ONCE:
            self.hooks.read_along()
        await self.deps.model.chat.warm()

    async def export(
        self, form: str, path: Path | None, *, session: str | None = None, with_secrets: bool = False
    ) -> Path:
        """Write this conversation, or the one named `session`, as "md" or "json" to `path` (default: the workspace's
        `exports` folder); returns the path. Redactions are reported. Raises ClawbotError."""
        record = await asyncio.to_thread(self.deps.store.find, session) if session else None
        export = self.conversation.export
        target, count = await export(form, path, self.deps.workspace, record, with_secrets=with_secrets)
        if count:
            kept = _("`/export --with-secrets` keeps what is in this conversation.")
            left = _("{secrets} from {file}.").format(secrets=left_out(count), file=target.name)
            self.notify(Notice(level="info", text=f"{left} {kept}"))
        return target

    async def find_unsent(self) -> None:
        """Find texts of the open session that were typed but not sent. Unreadable ones don't stop the chat."""
        try:
            await self.outbox.enter(self.conversation.session)
        except SessionStoreError as error:
            self._pending.append(warning(str(error)))

    async def count_notes(self) -> None:
        """Count the notes for the status, and the tokens of a session that no request was made in, in a thread."""
        self._notes = await asyncio.to_thread(count_notes, self.deps.workspace)
        if self._turns.requests.current is None:
            await asyncio.to_thread(self._turns.requests.estimate)

    async def close(self, *, hasty: bool = False, last: bool = True) -> None:
        """Interrupt the running turn, save the conversation to memory and wait for the hooks (`hasty` skips both),
        write what is pending, and release the session and the model. The `last` session also stops the hooks."""
        self._closing = True
        self.interrupt()
        self.idle.stop()
        self._ahead.stop()
        await self.titles.close()
        async with self.exclusive():
            try:
                if not hasty:
                    await self._save()
                await self.hooks.stop(0.0 if hasty else self.deps.rules.hooks_patience, last=last)
                await self.outbox.settle()
            finally:
                # Also if the caller loses patience and cancels.
                try:
                    await self.ended.close(0.0)
                    if self._will_offer:
                        await self.conversation.leave_pending()
                    await self.conversation.close()
                finally:
                    await self.deps.model.chat.aclose()

    async def _save(self) -> None:
        """Offer the conversation to memory; also wait, within the same limit, for ended sessions."""
        patience = self.deps.settings.compaction.memory_flush.quit_timeout
        offering = [self._turns.save_at_quit()] if self._will_offer else []
        await asyncio.gather(self.ended.close(patience), *offering)

    def _set_saving(self, saving: bool) -> None:
        self.saving = saving
        if self.on_saving is not None:
            self.on_saving()

    def _next_steered(self) -> Waiting | None:
        """Return the next waiting text if it may be sent in the running turn: no command, which comes between turns,
        and nothing that may have to ask before it attaches something."""
        waiting = self._submissions.next_to_send() if self.steers and not self._closing else None
        if waiting is None or parse_command(waiting.text) is not None or mentions(waiting.text):
            return None
        return None if self._shell_command(waiting.text, waiting.scope) else waiting

    def _shell_command(self, text: str, scope: Scope) -> ShellCommand | None:
        return parse_shell(text) if self.runs_shell and scope.origin == "user" else None

    def _free_model(self) -> None:
        """Stop what must not make the user wait."""
        self.titles.stop()
        self._ahead.stop()

    def _scope(self) -> Scope:
        """The running submission; a command always belongs to one."""
        return self._submissions.running or silent_scope()

    # -- one submission -------------------------------------------------------------------------------------------

    async def _accept(self, text: str, scope: Scope) -> TurnEnded:
        """Run a command or a turn; any failure becomes the last event. What was not sent because the program ends, or
        because its reader went, remains in the outbox; every other end was reported to the user."""
        ended = TurnEnded(status="done")
        self.idle.stop(scope.origin)
        try:
            if self._closing:
                raise ClawbotError(_("The conversation was closed before this was taken up."), hint=_("Send it again."))
            asked = self._shell_command(text, scope)
            # A job's prompt is a message, even `/new`: the schedule must not end a session.
            command = parse_command(text) if asked is None and scope.origin == "user" else None
            sent = CommandResult(message="" if asked else text)
            if asked is not None:
                await self._run_shell(asked, text, scope)
            elif command is not None:
                sent = await self._command(command, text, scope)
            if sent.message.strip():
                message = without_escape(sent.message) if self.runs_shell else sent.message
                self._free_model()
                stopped = await self._message(message, scope, sent.attached)
                self.titles.after_turn()
                if self.deps.front.flush_at_end:
                    self.hooks.read_along()
                if stopped:
                    ended = TurnEnded(status="stopped", error=stopped)
        except (InterruptedTurnError, ClawbotError) as error:
            ended = failure(error)
        except Exception as error:
            log.exception("a turn failed unexpectedly")
            ended = failure(error)
        if scope.unsent_id and not (self._closing or scope.left):
            await self.outbox.drop(scope.unsent_id)
        return ended

    async def _command(self, command: ParsedCommand, text: str, scope: Scope) -> CommandResult:
        """Run a slash command; what is submitted afterwards is stored on disk before the command does anything."""
        if command.argument and command.name in RESETS:
            await self.outbox.keep(text, scope)
        else:
            await self._drop_unsent(scope)
        if command.name not in LITERAL or not command.argument:
            scope.emit(self._started(text))
        result = await run_command(command, self)
        for event in (*result.events, *self._take_pending()):
            scope.emit(event)
        return result

    async def _drop_unsent(self, scope: Scope) -> None:
        """A command must not be repeated after a crash."""
        scope.sent = True
        if scope.unsent_id:
            await self.outbox.drop(scope.unsent_id)
            scope.unsent_id = ""

    async def _run_shell(self, asked: ShellCommand, text: str, scope: Scope) -> None:
        await self._end_expired(text, scope)
        await self._drop_unsent(scope)
        scope.emit(self._started(text))
        try:
            tools = self._turns.requests.toolbox
            await run_user_command(asked, tools, self.conversation, self.deps.clock, scope)
        finally:
            await self._turns.settle(scope.emit)

    async def _end_expired(self, text: str, scope: Scope) -> None:
        """End a session that has expired, before `text` is sent."""
        if scope.origin == "user" and self._resets.due is not None:
            await self.outbox.keep(text, scope)
            scope.emit(MessageQueued(text=text, position=0, unsent_id=scope.unsent_id))
            try:
                self._pending += await self._resets.expire_if_due(scope)
            except SessionStoreError as error:
                # The clock requested it, not the user, who is answered in the old session.
                log.warning("an expired session could not be ended: %s", error)
                text = _("The conversation should have ended, but could not be closed: {error}").format(error=error)
                scope.emit(warning(text))

    async def _message(self, text: str, scope: Scope, blocks: Sequence[UserBlock]) -> str:
        """Returns why the turn ended without an answer, "" if it did not."""
        await self._end_expired(text, scope)

        def started(entry_id: str, attached: Sequence[str]) -> None:
            self.outbox.drop_soon(scope)
            scope.emit(self._started(text, entry_id, attached))
            for notice in self._take_pending():
                scope.emit(notice)

        try:
            keep = functools.partial(self.outbox.keep, text, scope)
            return await self._turns.message(text, started, keep, scope, blocks)
        finally:
            await self.count_notes()
            scope.emit(self._turns.requests.used())

    def _take_pending(self) -> list[Notice]:
        """The notices found while nobody was listening."""
        pending, self._pending = self._pending, []
        return pending

    def _started(self, text: str, entry_id: str = "", attached: Sequence[str] = ()) -> TurnStarted:
        return TurnStarted(
            text=text,
            session_key=self.conversation.key,
            session_id=self.conversation.session_id,
            model=self.deps.model.chat.info.ref,
            entry_id=entry_id,
            attached=tuple(attached),
        )
