"""Where a conversation hands out its errands: each is done by a turn of a sub-agent, in a session of its own.

A sub-agent has the tools of the conversation but `task` (unless it may delegate on) and without the user's notes, since
its session is of the kind `sub` (`context/privacy.py`). Its session lies in a folder that belongs to the session it
works for (`SessionStore.subagents`), so that memory never sees what was said in it a second time: what matters of it is
the report, which stands in the conversation.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from msgspec import structs

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps, CurrentModel
from clawbot.agent.events import ContextUsed, Event, MessageFinished, Scope
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.turn_runner import Approvals, TurnRunner
from clawbot.config.schema_agent import AgentSettings, SubagentSettings
from clawbot.context.prompt import TASK
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, Message, UserMessage
from clawbot.sessions.silence import spoken
from clawbot.subagents.limits import Limits, exceeded_by_all
from clawbot.subagents.progress import Progress
from clawbot.subagents.tool import Errand, TaskTool
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver, ToolError, ToolOutcome

log = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0  # for a sub-agent that is told to stop, before it is cut off
_BY_USER = "it was interrupted by the user"
_NO_TURN = "Nothing can be delegated before the conversation has begun."


class Desk:
    """The errands of one conversation, `depth` levels below the user's. `tools` are what the model gets for them."""

    def __init__(self, settings: SubagentSettings, depth: int = 0, together: list[int] | None = None) -> None:
        """`together` are the tokens of each sub-agent of the user's message, None for the desk that answers it."""
        self._settings = settings
        self._depth = depth
        self._together: list[int] = [] if together is None else together
        self._message: UserMessage | None = None
        self._slots = asyncio.Semaphore(settings.max_concurrent)
        self._deps: AgentDeps | None = None
        self._conversation: Conversation | None = None
        self._announce: Callable[[Event], None] = _unheard
        offered = settings.enabled != "off" and depth < settings.max_depth
        self.tools: tuple[TaskTool, ...] = (TaskTool(self.do),) if offered else ()

    def serve(self, deps: AgentDeps, conversation: Conversation, announce: Callable[[Event], None]) -> None:
        """Work for `conversation`, whose agent has `deps`; `announce` shows the user an event."""
        self._deps = deps
        self._conversation = conversation
        self._announce = announce

    async def do(self, errand: Errand) -> ToolOutcome:
        """Have `errand` done, once there is a place for it. Raises ToolError, and whatever goes wrong besides."""
        if self._deps is None or self._conversation is None:
            raise ToolError(_NO_TURN)
        async with self._slots:
            self._demand_budget(self._conversation.messages)
            return await self._done(errand, self._deps, self._conversation)

    def _demand_budget(self, messages: Sequence[Message]) -> None:
        """Count anew for a new message of the user. Raises ToolError if all that may have worked on it."""
        last = next((each for each in reversed(messages) if isinstance(each, UserMessage)), None)
        if not self._depth and last is not self._message:
            self._message, self._together = last, []
        problem = exceeded_by_all(self._settings, self._together)
        if len(self._together) >= self._settings.max_total:
            problem = f"{self._settings.max_total} worked on this message (agents.defaults.subagents.max_total)"
        if problem:
            raise ToolError(f"No more sub-agents: {problem}. Do it yourself.")

    async def _done(self, errand: Errand, parent: AgentDeps, conversation: Conversation) -> ToolOutcome:
        """A cancellation stops the sub-agent as Esc stops a turn: what it said until then is kept."""
        cancel = Cancellation()
        limits = Limits(self._settings, cancel, self._together)
        doing = self._work(errand, parent, conversation, limits, cancel)
        work = asyncio.create_task(doing, name=f"sub-agent {errand.call_id}")
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancel.request()
            await asyncio.wait({work}, timeout=SETTLE_SECONDS)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _work(
        self, errand: Errand, parent: AgentDeps, conversation: Conversation, limits: Limits, cancel: Cancellation
    ) -> ToolOutcome:
        limits.start()
        try:
            async with self._opened(parent, conversation, cancel) as (deps, own):
                return await self._turn(errand, deps, own, limits, cancel)
        except InterruptedTurnError as error:
            raise ToolError(f"The sub-agent was stopped: {limits.exceeded or _BY_USER}.") from error
        except ClawbotError as error:
            hint = f"{error.hint} " if error.hint else ""
            raise ToolError(f"The sub-agent could not work: {error} {hint}Do it yourself.") from error
        finally:
            limits.stop()

    @asynccontextmanager
    async def _opened(
        self, parent: AgentDeps, conversation: Conversation, cancel: Cancellation
    ) -> AsyncIterator[tuple[AgentDeps, Conversation]]:
        """The sub-agent's dependencies and its session. Raises ModelError, SessionStoreError."""
        store = parent.store.subagents(conversation.session_id)
        async with parent.model.borrow(self._settings.model, cancel) as chat:
            key = f"agent:{parent.agent_id}:subagent:{uuid.uuid4().hex[:8]}"
            own = Conversation(store, await asyncio.to_thread(store.open, key), parent.clock)
            deps = structs.replace(
                parent,
                settings=_without_memory(parent.settings),
                store=store,
                model=CurrentModel(parent.model.open, chat, self._settings.model or parent.model.ref),
                flush_at_end=False,
                asked=None,
                attachments=None,
                client=str,
                run_prompt=None,
            )
            try:
                yield deps, own
            finally:
                spent = own.session.record
                conversation.add_spent(spent.input_tokens or 0, spent.output_tokens or 0, spent.cost)
                await own.close()

    async def _turn(
        self, errand: Errand, deps: AgentDeps, own: Conversation, limits: Limits, cancel: Cancellation
    ) -> ToolOutcome:
        progress = Progress(errand.call_id, errand.description, own.session_id)

        def heard(event: Event) -> None:
            step = progress.take(event)
            if step is not None:
                self._announce(step)
            if isinstance(event, MessageFinished):
                limits.spent(progress.tokens, goes_on=event.stop_reason == "toolUse")

        below = Desk(self._settings, self._depth + 1, self._together)
        without = {TASK, *self._settings.deny}
        tools = deps.tools.handed_over(without, [tool for tool in below.tools if TASK not in self._settings.deny])
        deps = structs.replace(deps, tools=tools)
        below.serve(deps, own, heard)
        hooks = SessionHooks(deps, own, heard)
        runner = TurnRunner(deps, own, hooks, _no_figures, lambda _saving: None)
        runner.approvals = _Forwarded(limits.pausing(errand.approve), errand.description)
        problem = ""
        try:
            problem = await runner.message(
                errand.prompt, lambda _entry, _attached: None, _nothing, Scope(heard, cancel)
            )
        except InterruptedTurnError:
            problem = limits.exceeded or _BY_USER
        except ClawbotError as error:
            problem = f"{error} {error.hint}".strip()
        return _outcome(own, progress, problem)


class _Forwarded(Approvals):
    """The questions of the sub-agent `name`, which the user is asked by `approve`."""

    def __init__(self, approve: Approver, name: str) -> None:
        super().__init__(answered=True)
        self._approve = approve
        self._name = name

    async def ask(self, question: ApprovalQuestion, call_id: str, emit: Callable[[Event], None]) -> ApprovalAnswer:
        """Put `question` to the user, in the sub-agent's name."""
        name = f"{self._name} › {question.by}" if question.by else self._name
        return await self._approve(structs.replace(question, by=name))


def _outcome(own: Conversation, progress: Progress, problem: str) -> ToolOutcome:
    """The result of the call: the report, or what went wrong and what there is of it."""
    last = own.messages[-1] if own.messages else None
    said = spoken(last.text).strip() if isinstance(last, AssistantMessage) else ""
    whole = isinstance(last, AssistantMessage) and not last.broken and not last.tool_calls
    if not problem and whole and said:
        return ToolOutcome(said, summary=progress.summary, details=progress.details)
    problem = problem or ("it ended without a report" if whole else "it did not come to an end")
    texts = (
        spoken(message.text).strip() for message in reversed(own.messages) if isinstance(message, AssistantMessage)
    )
    said = next(filter(None, texts), "")
    parts = [
        f"The sub-agent did not finish: {problem.rstrip('.')}.",
        f"What it said last: {said}" if said else "It said nothing.",
        "What it changed until then stays. Hand over a smaller piece, or do it yourself.",
    ]
    return ToolOutcome("\n".join(parts), is_error=True, summary="failed", details=progress.details)


def _without_memory(settings: AgentSettings) -> AgentSettings:
    """`settings` under which nothing of a talk is offered to memory."""
    flush = settings.compaction.memory_flush.model_copy(update={"enabled": False})
    return settings.model_copy(update={"compaction": settings.compaction.model_copy(update={"memory_flush": flush})})


def _no_figures() -> ContextUsed:
    return ContextUsed(tokens=0, window=0, exact=False)


async def _nothing() -> None:
    """What a sub-agent is told is kept nowhere before its session has it."""


def _unheard(_event: Event) -> None:
    """Nobody listens yet."""
