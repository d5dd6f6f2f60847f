"""The tool `task`: runs the tasks of a conversation, each as a turn of a sub-agent in a session of its own, within
limits; its progress are events, and details of the result.

A sub-agent has the tools of the conversation but `task` (unless it may delegate on) and without the user's notes, since
its session is of the kind `sub` (`context/privacy.py`). Its session is in a folder that belongs to the session it works
for (`SessionStore.subagents`), so that memory indexes only the report, which is in the conversation.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from clawbot.agent.conversation import Conversation
from clawbot.agent.deps import AgentDeps, FrontEnd
from clawbot.agent.events import (
    Emit,
    Event,
    MessageFinished,
    ModelChanged,
    ModelLoading,
    ModelRetry,
    Notice,
    Scope,
    SubagentStep,
    ToolFinished,
    ToolStarted,
)
from clawbot.agent.hooks import SessionHooks
from clawbot.agent.tool_calls import Approvals
from clawbot.agent.turn_runner import TurnRunner
from clawbot.config.schema_agent import AgentSettings, SubagentSettings
from clawbot.context.prompt import TASK
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.messages import AssistantMessage, Message, ToolCallBlock, ToolSpec, Usage, UserMessage
from clawbot.sessions.silence import spoken
from clawbot.text.visible import title_of
from clawbot.tools.arguments import Arguments, parse, schema_of
from clawbot.tools.permissions import Permissions
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver, Need, ToolError, ToolOutcome

SETTLE_SECONDS = 5.0  # between the request to stop and the cancellation of a sub-agent
_BY_USER = "it was interrupted by the user"
_NO_TURN = "Nothing can be delegated before the conversation has begun."


class Limits:
    """Cancels a sub-agent that takes longer or uses more than `settings` allow; `exceeded` is the reason. The time in
    which the user is asked does not count. `together` are the tokens of all sub-agents of one message."""

    def __init__(self, settings: SubagentSettings, cancel: Cancellation, together: list[int]) -> None:
        self._settings = settings
        self._together = together
        self._number = len(together)
        together.append(0)
        self._cancel = cancel
        self._left = settings.timeout
        self._loop = asyncio.get_running_loop()
        self._since = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._asked = 0
        self.exceeded = ""

    def start(self) -> None:
        """Start the clock."""
        self._since = self._loop.time()
        self._alarm = self._loop.call_later(self._left, self._expire)

    def stop(self) -> None:
        """Stop the clock."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self._left = max(0.0, self._left - (self._loop.time() - self._since))

    def spent(self, tokens: int, *, goes_on: bool) -> None:
        """Record the tokens used so far; one that ends anyway is not cancelled."""
        self._together[self._number] = tokens
        if goes_on and tokens > self._settings.max_tokens:
            self._exceed(f"it used {tokens:,} tokens (agents.defaults.subagents.max_tokens in the config)")
        elif goes_on and (problem := _exceeded_by_all(self._settings, self._together)):
            self._exceed(problem)

    def _expire(self) -> None:
        self._alarm = None
        seconds = f"{self._settings.timeout:g} seconds"
        self._exceed(f"it was not done after {seconds} (agents.defaults.subagents.timeout in the config)")

    def _exceed(self, reason: str) -> None:
        self.exceeded = self.exceeded or reason
        self._cancel.request()

    def pausing(self, approve: Approver) -> Approver:
        """Wrap `approve` so that the clock is stopped during a question."""

        async def ask(question: ApprovalQuestion) -> ApprovalAnswer:
            self.stop()
            self._asked += 1
            try:
                return await approve(question)
            finally:
                self._asked -= 1
                if not self._asked:
                    self.start()

        return ask


def _exceeded_by_all(settings: SubagentSettings, together: list[int]) -> str:
    """Return by how much the sub-agents of one message exceed their common limit; "" if they don't."""
    if (tokens := sum(together)) <= settings.max_total_tokens:
        return ""
    return f"all of this message used {tokens:,} tokens (agents.defaults.subagents.max_total_tokens in the config)"


class SubagentRunner:
    """Runs the tasks of one conversation, `depth` levels below the user's. `tools` are what the model gets for them."""

    def __init__(self, settings: SubagentSettings, depth: int = 0, together: list[int] | None = None) -> None:
        """`together` are the tokens of each sub-agent of the user's message, None at the level of the user."""
        self._settings = settings
        self._depth = depth
        self._together: list[int] = [] if together is None else together
        self._message: UserMessage | None = None
        self._slots = asyncio.Semaphore(settings.max_concurrent)
        self._parent: tuple[AgentDeps, Conversation] | None = None
        self._emit: Emit = lambda _event: None
        offered = settings.enabled != "off" and depth < settings.max_depth
        self.tools: tuple[TaskTool, ...] = (TaskTool(self.run),) if offered else ()

    def serve(self, deps: AgentDeps, conversation: Conversation, emit: Emit) -> None:
        """Work for `conversation`, whose agent has `deps`; `emit` shows the user an event."""
        self._parent = deps, conversation
        self._emit = emit

    async def run(self, task: Task) -> ToolOutcome:
        """Run `task` as soon as a slot is free. Raises ToolError, and any other failure.

        A cancellation stops the sub-agent as Esc stops a turn: its messages until then are saved.
        """
        if self._parent is None:
            raise ToolError(_NO_TURN)
        deps, conversation = self._parent
        async with self._slots:
            self._demand_budget(conversation.messages)
            cancel = Cancellation()
            limits = Limits(self._settings, cancel, self._together)
            work = asyncio.create_task(
                self._work(task, deps, conversation, limits, cancel), name=f"sub-agent {task.call_id}"
            )
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                cancel.request()
                await asyncio.wait({work}, timeout=SETTLE_SECONDS)
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise

    def _demand_budget(self, messages: Sequence[Message]) -> None:
        """Reset the counts for a new message of the user. Raises ToolError if its sub-agents have used up theirs."""
        last = next((each for each in reversed(messages) if isinstance(each, UserMessage)), None)
        if not self._depth and last is not self._message:
            self._message, self._together = last, []
        problem = _exceeded_by_all(self._settings, self._together)
        if len(self._together) >= self._settings.max_total:
            problem = f"{self._settings.max_total} worked on this message (agents.defaults.subagents.max_total)"
        if problem:
            raise ToolError(f"No more sub-agents: {problem}. Do it yourself.")

    async def _work(
        self, task: Task, parent: AgentDeps, conversation: Conversation, limits: Limits, cancel: Cancellation
    ) -> ToolOutcome:
        limits.start()
        try:
            async with self._opened(parent, conversation, cancel) as (deps, own):
                return await self._turn(task, deps, own, limits, cancel)
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
            key = f"agent:{parent.profile.agent_id}:subagent:{uuid.uuid4().hex[:8]}"
            own = Conversation(store, await asyncio.to_thread(store.open, key), parent.clock)
            front = parent.front
            deps = structs.replace(
                parent,
                settings=_without_memory(parent.settings),
                store=store,
                model=parent.model.instead(chat, self._settings.model or ""),
                front=FrontEnd(front.approvals, front.approved, flush_at_end=False, estimates=front.estimates),
            )
            try:
                yield deps, own
            finally:
                spent = own.session.record
                conversation.add_spent(spent.input_tokens or 0, spent.output_tokens or 0, spent.cost)
                await own.close()

    async def _turn(
        self, task: Task, deps: AgentDeps, own: Conversation, limits: Limits, cancel: Cancellation
    ) -> ToolOutcome:
        progress = Progress(task.call_id, task.description, own.session_id)

        def on_event(event: Event) -> None:
            step = progress.take(event)
            if step is not None:
                self._emit(step)
            if isinstance(event, MessageFinished):
                limits.spent(progress.tokens, goes_on=event.stop_reason == "toolUse")

        below = SubagentRunner(self._settings, self._depth + 1, self._together)
        denied = {TASK, *self._settings.deny}
        tools = deps.tools.for_subagent(denied, [tool for tool in below.tools if TASK not in self._settings.deny])
        deps = structs.replace(deps, tools=tools)
        below.serve(deps, own, on_event)
        hooks = SessionHooks(deps, own, on_event)
        runner = TurnRunner(deps, own, hooks)
        runner.approvals = _Forwarded(limits.pausing(task.approve), task.description)
        problem = ""
        try:
            scope = Scope(on_event, cancel)
            problem = await runner.message(task.prompt, lambda _entry, _attached: None, _nothing, scope)
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

    async def ask(self, question: ApprovalQuestion, call_id: str, emit: Emit) -> ApprovalAnswer:
        """Put `question` to the user, in the sub-agent's name."""
        name = f"{self._name} › {question.by}" if question.by else self._name
        return await self._approve(structs.replace(question, by=name))


def _outcome(own: Conversation, progress: Progress, problem: str) -> ToolOutcome:
    """Return the result of the call: the report, or the problem and the last answer."""
    answers = [message for message in own.messages if isinstance(message, AssistantMessage)]
    last = own.messages[-1] if own.messages else None
    is_complete = isinstance(last, AssistantMessage) and not last.broken and not last.tool_calls
    texts = (spoken(message.text).strip() for message in reversed(answers))
    report = next(texts, "")
    if not problem and is_complete and report:
        return ToolOutcome(report, summary=progress.summary, details=progress.details)
    problem = problem or ("it ended without a report" if is_complete else "it did not come to an end")
    report = report or next(filter(None, texts), "")
    parts = [
        f"The sub-agent did not finish: {problem.rstrip('.')}.",
        f"What it said last: {report}" if report else "It said nothing.",
        "What it changed until then stays. Hand over a smaller piece, or do it yourself.",
    ]
    return ToolOutcome("\n".join(parts), is_error=True, summary="failed", details=progress.details)


def _without_memory(settings: AgentSettings) -> AgentSettings:
    """Return `settings` with which nothing of a conversation is offered to memory."""
    flush = settings.compaction.memory_flush.model_copy(update={"enabled": False})
    return settings.model_copy(update={"compaction": settings.compaction.model_copy(update={"memory_flush": flush})})


async def _nothing() -> None:
    """Unsent messages are saved for the user's conversation alone."""


DESCRIPTION = (
    "Hand a piece of work to a sub-agent, which has a fresh context, works in the same workspace and returns one "
    "report. For searching or reading much of which only the result matters; several calls in one answer run at the "
    "same time. It knows nothing of this talk, nor the notes: the prompt says all it needs, and what to report."
)


class TaskArguments(Arguments, frozen=True):
    """The arguments of `task`."""

    description: Annotated[str, Meta(description="In three to six words, for the user.", min_length=1)]
    prompt: Annotated[str, Meta(min_length=1)]


class Task(Struct, frozen=True):
    """A call of `task`: `description` names it on the screen, `prompt` is for the sub-agent, `approve` asks the user on
    its behalf."""

    call_id: str
    description: str
    prompt: str
    approve: Approver


class TaskTool:
    """Passes each call to `run_task`."""

    def __init__(self, run_task: Callable[[Task], Awaitable[ToolOutcome]]) -> None:
        self.spec = ToolSpec(TASK, DESCRIPTION, schema_of(TaskArguments))
        self._run_task = run_task

    @property
    def needs(self) -> frozenset[Need]:
        """Nothing by itself: what a sub-agent may know is decided by its own session."""
        return frozenset()

    @property
    def read_only(self) -> bool:
        """No: nobody knows what a sub-agent will do."""
        return False

    def title(self, arguments: dict[str, Any]) -> str:
        """Return `task DESCRIPTION`."""
        return title_of(TASK, arguments.get("description", ""))

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        """Refused: without a conversation there is nobody who delegates. Raises ToolError."""
        raise ToolError("A sub-agent works for a conversation; there is none here.")

    async def run_delegated(self, call: ToolCallBlock, approve: Approver, permissions: Permissions) -> ToolOutcome:
        """Run it under the permissions of the conversation, which the sub-agent's tools share."""
        given = parse(TaskArguments, call.arguments)
        return await self._run_task(Task(call.id, " ".join(given.description.split()), given.prompt, approve))


MAX_OUTPUT_CHARS = 400  # of an output in a step
MAX_CALLS = 100  # saved with the result, for the unfolded card
STEPS = (ToolStarted, ToolFinished, MessageFinished, ModelRetry, ModelLoading, ModelChanged, Notice)


class Progress:
    """The calls and tokens of the sub-agent of the call `call_id`, which is about `description`."""

    def __init__(self, call_id: str, description: str, session_id: str) -> None:
        self._call_id = call_id
        self._description = description
        self._session_id = session_id
        self._calls: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self.tokens = 0

    def take(self, event: Event) -> SubagentStep | None:
        """Return the step for `event`; None for one that is none. A step of a sub-agent of its own is passed on."""
        if isinstance(event, SubagentStep):
            return event
        if not isinstance(event, STEPS):
            return None
        match event:
            case ToolStarted(call_id=call_id, title=title):
                self.calls += 1
                self._calls[call_id] = {"title": title, "state": "stopped"}
            case ToolFinished(call_id=call_id) as done:
                self._finished(call_id, done)
                event = structs.replace(done, output=done.output[:MAX_OUTPUT_CHARS], details=None)
            case MessageFinished(usage=Usage() as usage):
                self.tokens += usage.input + usage.cache_write + usage.output
            case _:
                pass
        return SubagentStep(
            parent_call_id=self._call_id,
            session_id=self._session_id,
            description=self._description,
            calls=self.calls,
            tokens=self.tokens,
            step=event,
        )

    def _finished(self, call_id: str, done: ToolFinished) -> None:
        declined = isinstance(done.details, dict) and done.details.get("declined") is True
        state = "declined" if declined else "failed" if done.is_error else "done"
        self._calls.setdefault(call_id, {"title": done.name}).update(state=state, summary=done.summary)

    @property
    def details(self) -> dict[str, Any]:
        """The details of the result, for the screen."""
        calls = list(self._calls.values())[:MAX_CALLS]
        subagent = {"sessionId": self._session_id, "calls": calls, "count": self.calls, "tokens": self.tokens}
        return {"subagent": subagent}

    @property
    def summary(self) -> str:
        """`3 calls, 12,400 tokens`."""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"{calls}, {self.tokens:,} tokens" if self.tokens else calls
