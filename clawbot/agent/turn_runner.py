"""Answers one message of the user: stores it, makes room, runs the turn, and brings the figures up to date."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace

from msgspec import UNSET, structs

from clawbot.agent.boundary import COMPLETE, GOES_ON, MemoryGate
from clawbot.agent.compaction import Compactor
from clawbot.agent.context_policy import ContextPolicy
from clawbot.agent.conversation import Conversation, acceptance, plan_of
from clawbot.agent.deps import AgentDeps
from clawbot.agent.events import (
    CompactionFinished,
    Emit,
    MessageFinished,
    MessageSteered,
    NotesQuoted,
    Notice,
    PlanReady,
    Scope,
    ToolOutput,
    Waiting,
    silent_scope,
    warning,
)
from clawbot.agent.flush import SilentTurn
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.intents import SessionIntents
from clawbot.agent.preparation import Keep, help_with, settle_found_server, wait_ready
from clawbot.agent.prompt_builder import ATTACHED_SHARE, PromptBuilder
from clawbot.agent.request_builder import PreparedRequest, RequestBuilder
from clawbot.agent.status import RuntimeStatus, last_flush, other_model
from clawbot.agent.tool_calls import Approvals, HookedTools
from clawbot.agent.turn import Committed, TurnSetup, TurnStep, run_turn
from clawbot.attachments.reading import Attached
from clawbot.clock import epoch_ms
from clawbot.context.privacy import privacy_of
from clawbot.context.report import ContextReport
from clawbot.context.window import plan_budget
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.hooks.events import MessageReceived, MessageSent
from clawbot.llm.errors import ContextOverflowError
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import (
    OFFLINE,
    AssistantMessage,
    Message,
    TextBlock,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.silence import spoken, was_cut
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver
from clawbot.tools.seen import VIEWS

log = logging.getLogger(__name__)


ATTACH = "attach"
"""The call id of questions about what a message mentions: no tool asks them."""
SERVER = "server"
"""The call id of the question about a server that was found."""

NOTHING = Attached()


class TurnRunner:
    """The turns of one conversation, one at a time. `gate` is its gate to memory, `requests` makes what the model is
    sent, `policy` keeps that within the window. `ended`: nobody uses it any more, and memory alone is to see it.
    `steering` returns the next text that the user wants sent in the running turn."""

    def __init__(
        self,
        deps: AgentDeps,
        conversation: Conversation,
        hooks: SessionHooks,
        *,
        ended: bool = False,
        steering: Callable[[], Waiting | None] = lambda: None,
    ) -> None:
        self._steering = steering
        self._deps = deps
        self._conversation = conversation
        self._hooks = hooks
        asked = None if ended else deps.front.asked
        self.requests = RequestBuilder(deps, conversation, PromptBuilder(deps, hooks.change_files, asked))
        hooks.question = self.requests.question
        self.gate = MemoryGate(
            conversation,
            SilentTurn(deps, self.requests, ended=ended),
            hooks,
            after_failure=COMPLETE if ended else GOES_ON,
        )
        self.intents = SessionIntents(deps, conversation)
        compactor = Compactor(deps, conversation, self.requests, self.gate, hooks)
        self.policy = ContextPolicy(deps, conversation, self.requests, self.gate, compactor)
        self.approvals = Approvals(answered=deps.front.approvals, approved=deps.front.approved)

    async def message(
        self,
        text: str,
        started: Callable[[str, Sequence[str]], None],
        keep: Keep,
        scope: Scope,
        blocks: Sequence[UserBlock] = (),
    ) -> str:
        """Answer `text`, with `blocks` besides what it mentions; `started` is called with its entry's id and the names
        of what is attached when it is on disk; `keep` has the text on disk while the user is asked before. Returns why
        the turn ended without an answer, "" if it did not. Raises
        InterruptedTurnError, ModelError and SessionStoreError; what was written by then is kept."""
        allowed = await settle_found_server(self._deps, self._approver(scope, SERVER, keep), scope)
        if await wait_ready(self._deps, scope, keep) or allowed:
            self.requests.forget_figures()
        await self._quote_notes(scope)
        await self.intents.consider(text, scope)
        await self._help(text, keep, scope)
        attached = await self._attach(text, keep, scope)
        attached = structs.replace(attached, blocks=(*blocks, *attached.blocks))
        job = scope.origin == "schedule"
        message = self._user_message(text, scope, attached)
        entry_id = await self._conversation.add_user(message)
        started(entry_id, message.attached)
        await self.intents.carry_out(text, scope)
        for problem in attached.problems:
            scope.emit(warning(problem))
        self._hooks.emit(MessageReceived, text=text, entry_id=entry_id, origin=scope.origin)
        self.requests.forget_turn()
        try:
            stopped = await self._turn(await self.policy.before_turn(scope), scope)
            self._emit_plan(scope)
            await self.policy.after_turn(scope)
            if job:
                await self._leave_out_silence(entry_id)
            return stopped
        finally:
            await self.settle(scope.emit)

    async def _attach(self, text: str, keep: Keep, scope: Scope) -> Attached:
        """The content of what `text` mentions."""
        deps = self._deps
        if deps.front.attachments is None or "@" not in text:
            return NOTHING
        return await scope.cancel.run(
            functools.partial(
                deps.front.attachments.attach,
                text,
                privacy_of(self._conversation.session.record.key),
                self._approver(scope, ATTACH, keep),
                pictures=deps.model.chat.info.supports_images,
                room=self.requests.window.tokens * ATTACHED_SHARE,
            )
        )

    async def _leave_out_silence(self, first: str) -> None:
        """A job's turn, from the entry `first` on, that changed and reported nothing is no part of the context:
        else a heartbeat every half an hour would fill it."""
        items = self._conversation.items
        turn = items[next((at for at, item in enumerate(items) if item.entry_id == first), len(items)) :]
        # What a turn left out would be the mark up to which memory was offered the context.
        if turn and self.gate.state.offered_to not in {item.entry_id for item in turn}:
            reading = {tool.spec.name for tool in self.requests.toolbox.read_only}
            if _was_silent([item.message for item in turn], reading):
                await self._conversation.leave_out(first)
                await self.requests.prepare()

    async def _quote_notes(self, scope: Scope) -> None:
        """Before the first words of a session: quote the newest notes. It is no more than help, so what fails here
        is reported and stops nobody."""
        quote = await self.requests.startup_quote()
        if quote is None:
            return
        for notice in quote.notices:
            scope.emit(warning(notice))
        if quote.text:
            await self._quote(quote.text, quote.files, scope)

    async def _quote(self, text: str, files: tuple[str, ...], scope: Scope) -> None:
        entry_id = await self._conversation.quote(text, files)
        scope.emit(NotesQuoted(entry_id=entry_id, files=files, text=text))

    async def _help(self, text: str, keep: Keep, scope: Scope) -> None:
        """Before words for a model that can't call tools: remember what they ask for, or quote what was found."""
        deps = self._deps
        if deps.model.chat.info.supports_tools or scope.origin == "schedule":
            return
        await keep()
        tools = self.requests.toolbox
        messages = [*self._conversation.messages, self._user_message(text, scope)]
        hooked, approve = HookedTools(tools, self._hooks), self._approver(scope, ATTACH)
        async with deps.model.borrow(OFFLINE) as offline:
            quote, files = await help_with(messages, hooked, tools.specs, offline, clock=deps.clock, ask=approve)
        if quote:
            await self._quote(quote, files, scope)

    async def _turn(self, first: PreparedRequest, scope: Scope) -> str:
        """Returns the last notice of a turn that ended without an answer, else ""."""
        prepared: list[PreparedRequest] = [first]
        last: Message | None = None
        step: TurnStep | None = None

        async def prepare() -> ChatRequest:
            return await self.policy.next_request(scope, prepared.pop() if prepared else None)

        VIEWS.set(self.requests.views)
        tools = self.requests.toolbox
        setup = TurnSetup(
            model=self._deps.model.chat,
            tools=HookedTools(tools, self._hooks),
            prepare=prepare,
            approve=functools.partial(self._approver, scope),
            on_output=lambda call_id, text: scope.emit(ToolOutput(call_id=call_id, text=text)),
            clock=self._deps.clock,
            max_rounds=self._deps.settings.tools.max_rounds,
            max_calls=self._deps.settings.tools.max_calls,
            recover=functools.partial(self.policy.recover, scope),
            steer=functools.partial(self._send_waiting, scope),
            delegates=tools.delegates,
            changes=tools.changes,
        )
        try:
            async with aclosing(run_turn(setup, scope.cancel)) as steps:
                async for step in steps:
                    if isinstance(step, Committed):
                        last = step.message
                        await self._commit(step, scope.emit)
                    else:
                        scope.emit(step)
        except ContextOverflowError as error:
            raise self.policy.explained(error) from error
        return step.text if isinstance(step, Notice) and isinstance(last, ToolResultMessage) else ""

    async def _send_waiting(self, scope: Scope) -> bool:
        """Send in the running turn what the user typed during it; returns whether there was any. Raises
        SessionStoreError; what is not stored waits on."""
        sent_some = False
        while (waiting := self._steering()) is not None:
            text, unsent_id = waiting.text, waiting.scope.unsent_id
            seen_here = replace(waiting.scope, emit=scope.emit)
            await self.intents.consider(text, seen_here)
            entry_id = await self._conversation.add_user(self._user_message(text, waiting.scope))
            waiting.sent = True
            scope.emit(MessageSteered(text=text, entry_id=entry_id, unsent_id=unsent_id))
            await self.intents.carry_out(text, seen_here)
            self._hooks.emit(MessageReceived, text=text, entry_id=entry_id, origin=waiting.scope.origin)
            sent_some = True
        return sent_some

    def _user_message(self, text: str, scope: Scope, attached: Attached = NOTHING) -> UserMessage:
        planning = self._deps.tools.permissions.mode == "plan"
        return UserMessage(
            content=[TextBlock(text), *attached.blocks] if attached.blocks else text,
            timestamp=epoch_ms(self._deps.clock.now()),
            scheduled=scope.origin == "schedule" or UNSET,
            unsent_id=scope.unsent_id or UNSET,
            planning=planning or UNSET,
        )

    def _emit_plan(self, scope: Scope) -> None:
        """Where the turn ended with a plan, the user is to accept it; a job asks nobody."""
        items = self._conversation.items
        if self._deps.tools.permissions.mode != "plan" or scope.origin == "schedule":
            return
        if plan := plan_of(items[-1].message if items else None):
            scope.emit(PlanReady(plan=plan, acceptance=acceptance(plan)))

    async def _commit(self, step: Committed, emit: Emit) -> None:
        """Store a message, and emit an answer unless it is silent."""
        message = step.message
        if isinstance(message, AssistantMessage):
            message = _without_token(message)
            self.requests.answered(message)
        entry_id = await self._conversation.add(message)
        if not isinstance(message, AssistantMessage):
            return
        text = spoken(message.text, cut=was_cut(message))
        if text or message.tool_calls or not message.text:
            emit(
                MessageFinished(
                    entry_id=entry_id,
                    text=text,
                    stop_reason=message.stop_reason,
                    usage=message.usage,
                    reason=message.error_message or "",
                )
            )
        if text and not message.tool_calls and not message.broken:
            self._hooks.emit(MessageSent, text=text, entry_id=entry_id, model=self._deps.model.chat.info.ref)

    async def settle(self, emit: Emit) -> None:
        """Bring the list of sessions up to date. What fails here must not hide how the turn ended: the transcript holds
        everything, the list is made of it."""
        try:
            marker = self.requests.pruning_record()
            if marker is not None:
                await self._conversation.note(marker)
            await self._conversation.settle(self.requests.window.tokens)
        except SessionStoreError as error:
            log.warning("the list of sessions is behind: %s", error)
            emit(warning(str(error)))

    async def compact(self, focus: str, scope: Scope) -> CompactionFinished:
        """Compact because the user asks for it."""
        self.requests.forget_turn()
        try:
            return await self.policy.compact(scope, focus)
        finally:
            await self.settle(scope.emit)

    async def leaves_some(self, scope: Scope) -> bool:
        """The session is about to end: whether memory is to be offered something of it then. That never fails."""
        try:
            return await self.policy.leaves_some(scope)
        except ClawbotError as error:
            log.warning("what memory is not offered of a session that ends could not be recorded: %s", error)
            return self.gate.has_unoffered

    async def save_at_quit(self) -> None:
        """The program ends: nobody reads events any more, and nobody waits for long."""
        scope = silent_scope()
        patience = self._deps.settings.compaction.memory_flush.quit_timeout
        alarm = asyncio.get_running_loop().call_later(patience, scope.cancel.request)
        try:
            await self.policy.offer_rest("quit", scope)
        except InterruptedTurnError:
            log.info("the saving to memory at the end of the program was stopped")
        except ClawbotError as error:
            log.warning("memory was not offered the end of a conversation: %s", error)
        finally:
            alarm.cancel()

    async def report(self) -> ContextReport:
        """The token usage of the next request, made from the context and the workspace as they are now."""
        self.requests.forget_turn()
        await self.requests.prepare()
        return await asyncio.to_thread(self.requests.report, last_flush(self.gate.state))

    def status(self, *, busy: bool, notes: int, unsent: int) -> RuntimeStatus:
        """The state of the conversation, as far as it is known without counting."""
        deps, requests, model, index = self._deps, self.requests, self._deps.model.chat.info, self._deps.memory.index
        window, prepared = requests.windows.of(model), requests.current
        record = self._conversation.session.record
        if prepared is not None:
            tokens, exact, stale = prepared.measure.used, prepared.measure.exact, prepared.measure.stale
            budget = prepared.budget
        else:
            (tokens, exact), stale = requests.estimate(), False
            budget = plan_budget(window.tokens, deps.settings.compaction, requests.weighed)
        return RuntimeStatus(
            agent_id=deps.profile.agent_id,
            session_key=self._conversation.key,
            session_id=record.session_id,
            model=model,
            workspace=deps.workspace,
            tokens=tokens,
            window=window.tokens,
            exact=exact,
            cost=record.cost,
            busy=busy,
            notes=notes,
            budget=budget,
            stale=stale,
            compactions=record.compaction_count,
            last_flush=last_flush(self.gate.state),
            window_source=window.source,
            unsent=unsent,
            memory_problem=index.problem if index is not None else "",
            cache=requests.cache,
            mode=deps.tools.permissions.mode,
            answered_before=other_model(self._conversation.items, model.ref),
            title=record.name,
        )

    def _approver(self, scope: Scope, call_id: str, keep: Keep | None = None) -> Approver:
        """Asks the user, when `keep` has the text on disk: the answer may take its time. A job runs while he may be
        away, so that nobody is asked then."""

        async def approve(question: ApprovalQuestion) -> ApprovalAnswer:
            if keep is not None:
                await keep()
            approvals = Approvals(answered=False) if scope.origin == "schedule" else self.approvals
            return await approvals.ask(question, call_id, scope.emit)

        return approve


def _was_silent(turn: Sequence[Message], reading: Collection[str]) -> bool:
    """Whether `turn` ended in a silent reply, and called none but the tools `reading`, which change nothing."""
    answers = [message for message in turn if isinstance(message, AssistantMessage)]
    if not answers or any(call.name not in reading for answer in answers for call in answer.tool_calls):
        return False
    last = answers[-1]
    return last is turn[-1] and not last.broken and bool(last.text.strip()) and not spoken(last.text)


def _without_token(message: AssistantMessage) -> AssistantMessage:
    """`message` as it is stored: a silent reply is unchanged, with other words the token goes."""
    text = spoken(message.text)
    if not text or text == message.text.strip() or message.broken:
        return message
    others = [block for block in message.content if not isinstance(block, TextBlock)]
    position = next(index for index, block in enumerate(message.content) if isinstance(block, TextBlock))
    return structs.replace(message, content=[*others[:position], TextBlock(text), *others[position:]])
