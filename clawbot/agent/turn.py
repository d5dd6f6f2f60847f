"""The turn: model and tools in a loop, as a function of messages, model, tools and a cancellation.

A turn keeps no state and does no I/O but through the model and the tools. Its steps are the events of a conversation,
and `Committed` for each message that belongs on disk: the reader stores it before it asks for the next step, so a tool
never runs before its call is written down.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Protocol

from msgspec import UNSET, Struct

from clawbot.agent.events import (
    ModelChanged,
    ModelLoading,
    ModelRetry,
    Notice,
    PromptRead,
    ReasoningDelta,
    TextDelta,
    TextWithdrawn,
    ToolFinished,
    ToolStarted,
    warning,
)
from clawbot.agent.tool_calls import Repeats
from clawbot.clock import Clock, epoch_ms
from clawbot.deadline import Cancellation, InterruptedTurnError
from clawbot.llm.errors import BadResponseError, ContextOverflowError, ModelError, PoorAnswerError
from clawbot.llm.protocol import (
    ChatModel,
    ChatRequest,
    FallbackPart,
    FinalPart,
    LoadingPart,
    ReadingPart,
    ReasoningPart,
    RetryPart,
    StreamPart,
    TextPart,
    WithdrawnPart,
)
from clawbot.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
)
from clawbot.sessions.silence import CONTEXT, completed, end_of, spoken, start_of
from clawbot.text.interface import _
from clawbot.text.secrets import redact
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, Approver, OnOutput, ToolOutcome

log = logging.getLogger(__name__)
INTERRUPTED = ToolOutcome("Interrupted by the user.", is_error=True, summary="interrupted")


class Hold:
    """What of one reply may be shown as it streams. However the reply is split, `feed` and `end` return together what
    `spoken` makes of all of it, up to blanks around it, and nothing of a silent reply."""

    def __init__(self) -> None:
        self._held = ""
        self._before = ""
        self._begun = False

    def feed(self, text: str) -> str:
        """Take the next part of the reply; returns what may be shown now."""
        self._held += text
        if not self._begun:
            start = start_of(self._held, ended=False)
            if start is None:
                return ""
            self._begun = True
            self._held = self._held[start:]
        return self._release(end_of(self._held, ended=False, before=self._before))

    def end(self, *, cut: bool = False) -> str:
        """The reply is over; returns what is left to show. `cut`: it was cut off, maybe in the middle of a token."""
        if not self._begun:
            rest, self._held = spoken(self._held, cut=cut), ""
            return rest
        text = completed(self._held) if cut else self._held
        end = end_of(text, ended=True, before=self._before)
        return self._release(min(end, len(self._held))).rstrip()

    def _release(self, size: int) -> str:
        shown, self._held = self._held[:size], self._held[size:]
        self._before = (self._before + shown)[-CONTEXT:]
        return shown


class Committed(Struct, frozen=True):
    """A message that is complete and is to be stored before the turn goes on."""

    message: AssistantMessage | ToolResultMessage


TurnStep = (
    TextDelta
    | TextWithdrawn
    | ReasoningDelta
    | ToolStarted
    | ToolFinished
    | ModelRetry
    | ModelLoading
    | PromptRead
    | ModelChanged
    | Notice
    | Committed
)


async def no(*_anything: object) -> bool:
    """The default for `recover` and `steer`: the context can't be smaller, and nobody sends anything in between."""
    return False


class TurnTools(Protocol):
    """The tools that a turn runs."""

    def title(self, call: ToolCallBlock) -> str:
        """One line that names the call; never raises."""

    async def run(self, call: ToolCallBlock, approve: Approver, on_output: OnOutput) -> ToolOutcome:
        """Run one call, and pass its output on. Raises nothing but CancelledError."""


class TurnSetup(Struct, frozen=True):
    """What a turn works with. `prepare` makes the request of the next model call from what was sent and committed so
    far; `recover` makes that smaller when it did not, or may not, fit into the model's window, and returns whether it
    could; `approve` asks the user for a call of `call_id`; `on_output` receives what such a call prints while it runs;
    `steer` commits what the user sent by then, once the tools of a round ran, and returns whether there was any;
    `delegates` states which calls somebody else does, which run side by side then, and `changes` which may change
    something; `max_rounds` bounds the calls of the model, `max_calls` the tool calls that are run of one answer."""

    model: ChatModel
    tools: TurnTools
    prepare: Callable[[], Awaitable[ChatRequest]]
    approve: Callable[[str], Approver]
    clock: Clock
    max_rounds: int
    recover: Callable[[ModelError], Awaitable[bool]] = no
    steer: Callable[[], Awaitable[bool]] = no
    on_output: Callable[[str, str], None] = lambda _call_id, _text: None
    delegates: Callable[[ToolCallBlock], bool] = lambda _call: False
    changes: Callable[[ToolCallBlock], bool] = lambda _call: False
    max_calls: int = 100


async def run_turn(setup: TurnSetup, cancel: Cancellation) -> AsyncGenerator[TurnStep, None]:
    """Answer the last message of the user.

    Ends when the model calls no more tools, or unanswered after `max_rounds` or a call that it repeats all the same,
    which a notice reports as the last step. Raises InterruptedTurnError when it was asked to stop and ModelError when
    the model failed, or what else went wrong; the text until then has been committed, and every tool call has its
    result.
    """
    repeats = Repeats()
    for _round in range(setup.max_rounds):
        calls: list[ToolCallBlock] = []
        async with aclosing(_answer(setup, repeats, cancel)) as answer:
            async for step in answer:
                if isinstance(step, Committed) and isinstance(step.message, AssistantMessage):
                    calls = step.message.tool_calls
                yield step
        if not calls:
            return
        async with aclosing(_run_tools(calls, setup, repeats, cancel)) as results:
            async for result in results:
                yield result
        if cancel.requested:
            raise InterruptedTurnError
        if await setup.steer():
            repeats = Repeats()
        if repeats.stuck:
            text = _("Stopped: the model keeps repeating the same call of {tool}. Say how it should go on.")
            yield warning(text.format(tool=repeats.stuck))
            return
    yield warning(
        _("Stopped after {n} rounds of tool calls (tools.max_rounds in the config). Say `continue` to go on.").format(
            n=setup.max_rounds
        )
    )


async def _answer(setup: TurnSetup, repeats: Repeats, cancel: Cancellation) -> AsyncGenerator[TurnStep, None]:
    """One answer of the model. A request that did not fit is made again as long as it can be made smaller; nothing of
    the failure is committed then."""
    while True:
        request = await setup.prepare()
        repeats.begin_round(len(request.messages))
        partial = _Partial(setup)
        try:
            async with aclosing(_ask(request, partial, setup, cancel)) as answer:
                async for step in answer:
                    yield step
            return
        except (ContextOverflowError, PoorAnswerError) as error:
            if partial.has_text:
                raise
            if not await setup.recover(error):
                yield Committed(partial.message("error", _reason(error)))
                raise


async def _ask(
    request: ChatRequest, partial: _Partial, setup: TurnSetup, cancel: Cancellation
) -> AsyncGenerator[TurnStep, None]:
    """Stream one answer of the model and commit it, complete or as far as it came."""
    async with aclosing(setup.model.stream(request)) as stream:
        try:
            while (part := await cancel.run(functools.partial(anext, stream, None))) is not None:
                if isinstance(part, FinalPart):
                    for last in partial.finish(part):
                        yield last
                elif (step := partial.take(part)) is not None:
                    yield step
        except InterruptedTurnError:
            for kept in partial.aborted():
                yield kept
            raise
        except Exception as error:
            for kept in partial.failed(error):
                yield kept
            raise
    if not partial.finished:
        problem = BadResponseError(_("The answer ended without its last part."), provider=setup.model.info.ref)
        yield Committed(partial.message("error", str(problem)))
        raise problem


def _reason(error: Exception) -> str:
    """What the transcript keeps of a failure. Only the texts of ModelErrors are made without secrets."""
    return redact(str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}")


class _Partial:
    """An answer so far. Text is held back until it can no longer turn out to be NO_REPLY."""

    def __init__(self, setup: TurnSetup) -> None:
        self._setup = setup
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._hold = Hold()
        self.finished = False

    @property
    def has_text(self) -> bool:
        return bool(self._text)

    def take(self, part: StreamPart) -> TurnStep | None:
        """Remember `part`; returns the step for the reader, None for a tool call (it runs after the answer)."""
        match part:
            case TextPart(text=text):
                self._text.append(text)
                return _delta(self._hold.feed(text))
            case ReasoningPart(text=text):
                self._reasoning.append(text)
                return ReasoningDelta(text=text)
            case WithdrawnPart():
                withdrawn = "".join(self._text)
                self._reasoning.append(withdrawn)
                self._text.clear()
                self._hold = Hold()
                return TextWithdrawn(text=withdrawn)
            case RetryPart(attempt=attempt, wait=wait, reason=reason):
                self._reasoning.clear()
                return ModelRetry(attempt=attempt, wait=wait, reason=reason)
            case LoadingPart() | ReadingPart():
                return progress_of(part)
            case FallbackPart(model=model, reason=reason, discard=discard):
                if discard:
                    self._text.clear()
                    self._reasoning.clear()
                    self._hold = Hold()
                return ModelChanged(model=model, reason=reason, discard=discard)
            case _:
                return None

    def finish(self, part: FinalPart) -> Iterator[TurnStep]:
        """The answer is complete: what was held back of it, and the message."""
        self.finished = True
        if (rest := _delta(self._hold.end())) is not None:
            yield rest
        yield Committed(part.message)
        if part.notice:
            yield warning(part.notice)

    def aborted(self) -> Iterator[TurnStep]:
        """The user stopped the answer: what it wrote is kept."""
        if not self.finished and self.has_text:
            if (rest := _delta(self._hold.end(cut=True))) is not None:
                yield rest
            yield Committed(self.message("aborted"))

    def failed(self, error: Exception) -> Iterator[TurnStep]:
        """The answer failed. One that never began because its request was too large, or may have been, is no part of
        the conversation: the request may fit once it is smaller."""
        if not self.finished and (self.has_text or not isinstance(error, ContextOverflowError | PoorAnswerError)):
            yield Committed(self.message("error", _reason(error)))

    def message(self, stop_reason: StopReason, error: str | None = None) -> AssistantMessage:
        """The answer as far as it came, without tool calls: an unfinished call is not to be trusted."""
        content: list[AssistantBlock] = []
        if self._reasoning:
            content.append(ThinkingBlock("".join(self._reasoning)))
        if self._text:
            content.append(TextBlock("".join(self._text)))
        provider, _, name = self._setup.model.info.ref.partition("/")
        return AssistantMessage(
            content=content,
            provider=provider,
            model=name or provider,
            stop_reason=stop_reason,
            error_message=error,
            timestamp=epoch_ms(self._setup.clock.now()),
        )


def progress_of(part: LoadingPart | ReadingPart) -> ModelLoading | PromptRead:
    """The event of a model of this machine that gets ready."""
    if isinstance(part, ReadingPart):
        return PromptRead(share=part.share)
    return ModelLoading(model=part.model, done=part.done)


def _delta(text: str) -> TextDelta | None:
    return TextDelta(text=text) if text else None


async def _run_tools(
    calls: Sequence[ToolCallBlock], setup: TurnSetup, repeats: Repeats, cancel: Cancellation
) -> AsyncGenerator[TurnStep, None]:
    """Run the calls one after the other, those side by side that somebody else does; each gets a result, also those
    that an interrupt or their number left out."""
    for delegated, group in itertools.groupby(calls[: setup.max_calls], key=setup.delegates):
        for some in [list(group)] if delegated else [[call] for call in group]:
            async with aclosing(_run_together(some, setup, repeats, cancel)) as results:
                async for result in results:
                    yield result
    limit = f"an answer may have {setup.max_calls} tool calls (tools.max_calls in the config)"
    for call in calls[setup.max_calls :]:
        running = _Running(call, setup, repeats)
        yield running.started
        outcome = ToolOutcome(f"Not run: {limit}. Send it again if needed.", is_error=True, summary="not run")
        for result in running.ended(outcome):
            yield result


async def _run_together(
    calls: Sequence[ToolCallBlock], setup: TurnSetup, repeats: Repeats, cancel: Cancellation
) -> AsyncGenerator[TurnStep, None]:
    """Run `calls` at the same time; what has a result first is committed first."""
    started = [_Running(call, setup, repeats) for call in calls]
    for each in started:
        yield each.started
    left = {} if cancel.requested else {asyncio.create_task(each.run()): each for each in started}
    idle = [] if left else started
    try:
        while left:
            wait = functools.partial(asyncio.wait, list(left), return_when=asyncio.FIRST_COMPLETED)
            done, _ = await cancel.run(wait)
            for task in [task for task in left if task in done]:
                for result in left.pop(task).ended(task.result()):
                    yield result
    except InterruptedTurnError:
        log.info("the user stopped %d calls", len(left))
    finally:
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    stopped = [(each, INTERRUPTED if task.cancelled() else task.result()) for task, each in left.items()]
    for each, outcome in [*stopped, *((each, INTERRUPTED) for each in idle)]:
        for result in each.ended(outcome):
            yield result


class _Running:
    """A call that runs, or is left out. Its time does not count the waits for the user's answers."""

    def __init__(self, call: ToolCallBlock, setup: TurnSetup, repeats: Repeats) -> None:
        self._call = call
        self._setup = setup
        self._repeats = repeats
        self._approve = setup.approve(call.id)
        self._began, self._waited = setup.clock.monotonic(), 0.0
        self.started = ToolStarted(
            call_id=call.id, name=call.name, title=setup.tools.title(call), arguments=call.arguments
        )

    async def run(self) -> ToolOutcome:
        """Run it, unless it repeats itself. Raises nothing but CancelledError."""
        call, setup = self._call, self._setup
        changes = setup.changes(call)
        if (refusal := self._repeats.refusal(call, changes=changes)) is not None:
            return refusal
        outcome = await setup.tools.run(call, self._ask, functools.partial(setup.on_output, call.id))
        return self._repeats.record(call, outcome, self._milliseconds, changes=changes)

    async def _ask(self, question: ApprovalQuestion) -> ApprovalAnswer:
        asked = self._setup.clock.monotonic()
        try:
            return await self._approve(question)
        finally:
            self._waited += self._setup.clock.monotonic() - asked

    @property
    def _milliseconds(self) -> int:
        return round((self._setup.clock.monotonic() - self._began - self._waited) * 1000)

    def ended(self, outcome: ToolOutcome) -> Iterator[TurnStep]:
        """What is reported of the `outcome`, and stored."""
        call, took = self._call, self._milliseconds
        yield ToolFinished(
            call_id=call.id,
            name=call.name,
            output=outcome.text,
            is_error=outcome.is_error,
            summary=outcome.summary,
            duration_ms=took,
            details=outcome.details,
        )
        if outcome.notice:
            yield warning(outcome.notice)
        yield Committed(
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name=call.name,
                content=[TextBlock(outcome.text)],
                is_error=outcome.is_error,
                details=outcome.details,
                timestamp=epoch_ms(self._setup.clock.now()),
                summary=outcome.summary or UNSET,
                duration_ms=took,
            )
        )
