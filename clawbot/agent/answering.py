"""Answers one message of the user: stores it, makes room, runs the turn, and brings the figures up to date."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Literal

from msgspec import UNSET, Struct, structs

from clawbot.agent.approvals import Approvals
from clawbot.agent.boundary import Boundary
from clawbot.agent.compacting import CompactorParts
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import CompactionFinished, ContextUsed, MessageFinished, NotesQuoted, Notice
from clawbot.agent.hooked_tools import HookedTools
from clawbot.agent.hooking import Hooking
from clawbot.agent.prompting import Prompting
from clawbot.agent.scope import Emit, Scope, silent_scope
from clawbot.agent.silent_turn import SilentTurn, SilentTurnParts
from clawbot.agent.turn import Committed, TurnParts, run_turn
from clawbot.agent.upkeep import Upkeep
from clawbot.agent.viewing import Shown, Viewing
from clawbot.clock import Clock, epoch_ms
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.privacy import privacy_of
from clawbot.context.startup import startup_quote
from clawbot.errors import ClawbotError
from clawbot.hooks.events import ContextFlush, MessageReceived, MessageSent
from clawbot.llm.errors import ContextOverflowError
from clawbot.llm.protocol import ChatModel
from clawbot.messages import AssistantMessage, Message, TextBlock, UserMessage
from clawbot.sessions.audit import Offer
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.silence import spoken, was_cut
from clawbot.tools.protocol import Approver
from clawbot.tools.registry import Toolbox

log = logging.getLogger(__name__)

TOO_LARGE_HINT = (
    "Nothing is lost. Shorten the message or put it into a file of the workspace, choose a model with a larger window "
    "(/model), or start afresh (/new); /context shows where the tokens go."
)


class AnsweringParts(Struct, frozen=True):
    """What answers are made with. `model` is the one that answers now; `open_model` opens the one of a reference;
    `figures` says how full the context is; `saving` is told when memory begins to take something, and when it ends;
    `hooking` tells the hooks what happens."""

    conversation: Conversation
    prompting: Prompting
    settings: AgentSettings
    tools: Toolbox
    clock: Clock
    approvals: Approvals
    model: Callable[[], ChatModel]
    open_model: Callable[[str], Awaitable[ChatModel]]
    figures: Callable[[], ContextUsed]
    saving: Callable[[bool], None]
    hooking: Hooking


class Answering:
    """The answers of one conversation, one at a time. `boundary` is its gate, `viewing` what the model is shown."""

    def __init__(self, parts: AnsweringParts) -> None:
        self._parts = parts
        self._conversation = parts.conversation
        settings, clock, tools = parts.settings, parts.clock, parts.tools
        self.viewing = Viewing(parts.conversation, parts.prompting, tools, settings, clock)
        workspace = parts.prompting.workspace
        turn = SilentTurnParts(self.viewing, settings, workspace, clock, parts.model, parts.open_model)
        self.boundary = Boundary(parts.conversation, SilentTurn(turn), workspace, parts.saving, self._offered)
        upkeep = CompactorParts(
            conversation=parts.conversation,
            viewing=self.viewing,
            boundary=self.boundary,
            settings=settings.compaction,
            clock=clock,
            model=parts.model,
            open_model=parts.open_model,
            figures=parts.figures,
            hooking=parts.hooking,
        )
        self.upkeep = Upkeep(upkeep)

    async def message(self, text: str, started: Callable[[], None], scope: Scope) -> None:
        """Answer `text`; `started` is called when it is on disk. Raises InterruptedTurnError, ModelError and
        SessionStoreError; what was said by then is kept."""
        await self._quote_notes(scope)
        now, job = epoch_ms(self._parts.clock.now()), scope.origin == "schedule"
        message = UserMessage(content=text, timestamp=now, scheduled=job or UNSET)
        entry_id = await self._conversation.add_user(message)
        started()
        hooking = self._parts.hooking
        hooking.tell(hooking.make(MessageReceived, text=text, entry_id=entry_id, origin=scope.origin))
        self.viewing.forget_turn()
        try:
            await self.upkeep.before_turn(scope)
            await self._turn(scope)
            await self.upkeep.after_turn(scope)
            if scope.origin == "schedule":
                await self._leave_out_silence(entry_id)
        finally:
            await self.settle(scope.emit)

    async def _leave_out_silence(self, first: str) -> None:
        """A job's turn, from the entry `first` on, that only looked and had nothing to say is no part of the context:
        else a heartbeat every half an hour would fill it (reference sheet 21)."""
        items = self._conversation.items
        turn = items[next((at for at, item in enumerate(items) if item.entry_id == first), len(items)) :]
        # What a turn left out would be the mark up to which memory was offered the context.
        if turn and self.boundary.state.offered_to not in {item.entry_id for item in turn}:
            looking = {tool.spec.name for tool in self.viewing.toolbox.read_only}
            if _was_silent([item.message for item in turn], looking):
                await self._conversation.leave_out(first)
                await self.viewing.look(self._parts.model().info)

    async def _quote_notes(self, scope: Scope) -> None:
        """Before the first words of a session: what the newest notes say. It is no more than help, so what fails here
        is told and stops nobody."""
        conversation, parts = self._conversation, self._parts
        if conversation.items or not privacy_of(conversation.session.record.key).startup_notes:
            return
        workspace, settings = parts.prompting.workspace, parts.settings.startup_context
        quote = await asyncio.to_thread(startup_quote, workspace, parts.clock.now(), settings)
        if quote is None:
            return
        for notice in quote.notices:
            scope.emit(Notice(level="warning", text=notice))
        if quote.text:
            entry_id = await conversation.quote(quote.text, quote.files)
            scope.emit(NotesQuoted(entry_id=entry_id, files=quote.files, text=quote.text))

    async def _turn(self, scope: Scope) -> None:
        parts = TurnParts(
            model=self._parts.model(),
            tools=HookedTools(self.viewing.toolbox, self._parts.hooking),
            prepare=functools.partial(self.upkeep.next_request, scope),
            approve=functools.partial(self._approver, scope),
            clock=self._parts.clock,
            max_rounds=self._parts.settings.tools.max_rounds,
            recover=functools.partial(self.upkeep.recover, scope),
        )
        try:
            async with aclosing(run_turn(parts, scope.cancel)) as steps:
                async for step in steps:
                    if isinstance(step, Committed):
                        await self._commit(step, scope.emit)
                    else:
                        scope.emit(step)
        except ContextOverflowError as error:
            raise self._explained(error) from error

    def _explained(self, error: ContextOverflowError) -> ContextOverflowError:
        """`error` with where the tokens go, and what can be done about it (reference sheet 4.8)."""
        shown = self.viewing.shown
        if shown is None or not shown.tokens:
            return error
        fixed, last = shown.measure.fixed, shown.tokens[-1]
        rest = max(0, shown.measure.counted - fixed - last)
        text = (
            f"The context does not fit into the model's window of {shown.budget.window:,} tokens: prompt and tools "
            f"take {fixed:,}, what was said before {rest:,}, the last message {last:,}. ({error.message})"
        )
        return ContextOverflowError(text, provider=error.provider, hint=TOO_LARGE_HINT, limit=error.limit)

    async def _commit(self, step: Committed, emit: Emit) -> None:
        """Store a message, and tell of an answer unless nobody is to see it."""
        message = step.message
        if isinstance(message, AssistantMessage):
            message = _without_token(message)
            self.viewing.answered(message)
        entry_id = await self._conversation.add(message)
        if not isinstance(message, AssistantMessage):
            return
        text = spoken(message.text, cut=was_cut(message))
        if text or message.tool_calls or not message.text:
            emit(MessageFinished(entry_id=entry_id, text=text, stop_reason=message.stop_reason, usage=message.usage))
        if text and not message.tool_calls and not message.broken:
            hooking = self._parts.hooking
            hooking.tell(hooking.make(MessageSent, text=text, entry_id=entry_id, model=self._parts.model().info.ref))

    async def settle(self, emit: Emit) -> None:
        """Bring the list of sessions up to date. What fails here must not hide how the turn ended: the transcript holds
        everything, the list is made of it."""
        model = self._parts.model().info
        try:
            marker = self.viewing.pruning_to_note(model)
            if marker is not None:
                await self._conversation.note(marker)
            await self._conversation.settle(self.viewing.windows.of(model).tokens)
        except SessionStoreError as error:
            log.warning("the list of sessions is behind: %s", error)
            emit(Notice(level="warning", text=str(error)))

    async def compact(self, focus: str, scope: Scope) -> CompactionFinished:
        """Compact because the user asks for it."""
        self.viewing.forget_turn()
        try:
            return await self.upkeep.compact(scope, focus)
        finally:
            await self.settle(scope.emit)

    async def leave(self, way: Literal["reset", "quit"], scope: Scope) -> None:
        """Offer memory what it was not offered yet, because the conversation is left. That never fails: the
        transcript keeps what was said."""
        try:
            await self.upkeep.leave(way, scope)
        except ClawbotError as error:
            log.warning("memory was not offered the end of a conversation: %s", error)
            scope.emit(Notice(level="warning", text=f"Nothing was saved to memory: {error}"))

    async def save_at_quit(self) -> None:
        """The program ends: nobody reads events any more, and nobody waits for long."""
        scope = silent_scope()
        patience = self._parts.settings.compaction.memory_flush.quit_timeout
        alarm = asyncio.get_running_loop().call_later(patience, scope.cancel.request)
        try:
            await self.leave("quit", scope)
        finally:
            alarm.cancel()

    async def look(self) -> Shown:
        """The context as it stands now, counted."""
        self.viewing.forget_turn()
        return await self.viewing.look(self._parts.model().info)

    def _offered(self, offer: Offer) -> None:
        """Memory was offered something: the hooks hear of it."""
        hooking, files = self._parts.hooking, list(dict.fromkeys(write.path for write in offer.writes))
        event = hooking.make(
            ContextFlush, exit=offer.exit, by=offer.by, result=offer.result, files=files, error=offer.error
        )
        hooking.tell(event)

    def _approver(self, scope: Scope, call_id: str) -> Approver:
        """Asks the user; a job runs while he may be away, so that nobody is asked then."""
        if scope.origin == "schedule":
            return Approvals(interactive=False).asker(call_id, scope.emit)
        return self._parts.approvals.asker(call_id, scope.emit)


def _was_silent(turn: Sequence[Message], looking: Collection[str]) -> bool:
    """Whether `turn` ended in a silent reply, and called none but the tools `looking`, which change nothing."""
    answers = [message for message in turn if isinstance(message, AssistantMessage)]
    if not answers or any(call.name not in looking for answer in answers for call in answer.tool_calls):
        return False
    last = answers[-1]
    return last is turn[-1] and not last.broken and bool(last.text.strip()) and not spoken(last.text)


def _without_token(message: AssistantMessage) -> AssistantMessage:
    """`message` as it is stored: a silent reply stays as it is, beside words the token goes."""
    said = spoken(message.text)
    if not said or said == message.text.strip() or message.broken:
        return message
    others = [block for block in message.content if not isinstance(block, TextBlock)]
    place = next(index for index, block in enumerate(message.content) if isinstance(block, TextBlock))
    return structs.replace(message, content=[*others[:place], TextBlock(said), *others[place:]])
