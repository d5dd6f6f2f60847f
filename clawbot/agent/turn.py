"""The turn: model and tools in a loop, as a function of messages, model, tools and a wish to stop.

It keeps no state and does no I/O but through the model and the tools. Its steps are the events of a conversation, and
`Committed` for each message that belongs on disk: the reader stores it before it asks for the next step, so a tool
never runs before its call is written down.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct

from clawbot.agent.cancel import Cancellation, InterruptedTurnError
from clawbot.agent.events import (
    ModelChanged,
    ModelRetry,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from clawbot.clock import Clock, epoch_ms
from clawbot.llm.errors import BadResponseError, ModelError
from clawbot.llm.protocol import (
    ChatModel,
    ChatRequest,
    FallbackPart,
    FinalPart,
    ReasoningPart,
    RetryPart,
    StreamPart,
    TextPart,
)
from clawbot.logs import redact
from clawbot.messages import (
    AssistantBlock,
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
)
from clawbot.tools.protocol import Approver, ToolOutcome
from clawbot.tools.registry import Toolbox


class Committed(Struct, frozen=True):
    """A message that is complete and is to be stored before the turn goes on."""

    message: AssistantMessage | ToolResultMessage


TurnStep = TextDelta | ReasoningDelta | ToolStarted | ToolFinished | ModelRetry | ModelChanged | Notice | Committed


class TurnParts(Struct, frozen=True):
    """What a turn works with. `prepare` makes the request of each model call from the messages so far; `approve` asks
    the user for a call of `call_id`; `max_rounds` bounds the calls of the model."""

    model: ChatModel
    tools: Toolbox
    prepare: Callable[[Sequence[Message]], Awaitable[ChatRequest]]
    approve: Callable[[str], Approver]
    clock: Clock
    max_rounds: int


async def run_turn(
    history: Sequence[Message], parts: TurnParts, cancel: Cancellation
) -> AsyncGenerator[TurnStep, None]:
    """Answer the last message of `history`.

    Ends when the model calls no more tools, or after `max_rounds`, which a notice reports. Raises
    InterruptedTurnError when it was told to stop and ModelError when the model failed, or what else went wrong; what
    was said until then has been committed, and every tool call has its result.
    """
    messages: list[Message] = list(history)
    for _ in range(parts.max_rounds):
        request = await cancel.run(functools.partial(parts.prepare, messages))
        calls: list[ToolCallBlock] = []
        async with aclosing(_ask(request, parts, cancel)) as answer:
            async for step in answer:
                if isinstance(step, Committed):
                    messages.append(step.message)
                    calls = step.message.tool_calls if isinstance(step.message, AssistantMessage) else []
                yield step
        if not calls:
            return
        async with aclosing(_run_tools(calls, parts, cancel)) as results:
            async for result in results:
                if isinstance(result, Committed):
                    messages.append(result.message)
                yield result
        if cancel.requested:
            raise InterruptedTurnError
    yield Notice(
        level="warning",
        text=f"Stopped after {parts.max_rounds} rounds of tool calls (tools.max_rounds in the config). "
        "Say `continue` to go on.",
    )


async def _ask(request: ChatRequest, parts: TurnParts, cancel: Cancellation) -> AsyncGenerator[TurnStep, None]:
    """Stream one answer of the model and commit it, whole or as far as it came."""
    partial = _Partial(parts)
    async with aclosing(parts.model.stream(request)) as stream:
        try:
            while (part := await cancel.run(functools.partial(_next_part, stream))) is not None:
                if isinstance(part, FinalPart):
                    partial.finished = True
                    yield Committed(part.message)
                elif (step := partial.take(part)) is not None:
                    yield step
        except InterruptedTurnError:
            if not partial.finished and partial.has_text:
                yield Committed(partial.message("aborted"))
            raise
        except Exception as error:
            if not partial.finished:
                yield Committed(partial.message("error", _reason(error)))
            raise
    if not partial.finished:
        problem = BadResponseError("The answer ended without its last part.", provider=parts.model.info.ref)
        yield Committed(partial.message("error", str(problem)))
        raise problem


def _reason(error: Exception) -> str:
    """What the transcript keeps of a failure. Only the texts of ModelErrors are made without secrets."""
    return redact(str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}")


async def _next_part(stream: AsyncGenerator[StreamPart, None]) -> StreamPart | None:
    """The next part, None at the end."""
    return await anext(stream, None)


class _Partial:
    """What an answer has said so far, for the case that it never ends."""

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.finished = False

    @property
    def has_text(self) -> bool:
        return bool(self._text)

    def take(self, part: StreamPart) -> TurnStep | None:
        """Remember `part`; returns what the reader is told, None for a tool call (it runs after the answer)."""
        match part:
            case TextPart(text=text):
                self._text.append(text)
                return TextDelta(text=text)
            case ReasoningPart(text=text):
                self._reasoning.append(text)
                return ReasoningDelta(text=text)
            case RetryPart(attempt=attempt, wait=wait, reason=reason):
                return ModelRetry(attempt=attempt, wait=wait, reason=reason)
            case FallbackPart(model=model, reason=reason, discard=discard):
                if discard:
                    self._text.clear()
                    self._reasoning.clear()
                return ModelChanged(model=model, reason=reason, discard=discard)
            case _:
                return None

    def message(self, stop_reason: StopReason, error: str | None = None) -> AssistantMessage:
        """The answer as far as it came, without tool calls: an unfinished call is not to be trusted."""
        content: list[AssistantBlock] = []
        if self._reasoning:
            content.append(ThinkingBlock("".join(self._reasoning)))
        if self._text:
            content.append(TextBlock("".join(self._text)))
        provider, _, name = self._parts.model.info.ref.partition("/")
        return AssistantMessage(
            content=content,
            provider=provider,
            model=name or provider,
            stop_reason=stop_reason,
            error_message=error,
            timestamp=epoch_ms(self._parts.clock.now()),
        )


async def _run_tools(
    calls: Sequence[ToolCallBlock], parts: TurnParts, cancel: Cancellation
) -> AsyncGenerator[TurnStep, None]:
    """Run the calls one after the other; each gets a result, also those that an interrupt left out."""
    for call in calls:
        yield ToolStarted(call_id=call.id, name=call.name, title=parts.tools.title(call), arguments=call.arguments)
        began = parts.clock.monotonic()
        try:
            outcome = await cancel.run(functools.partial(parts.tools.run, call, parts.approve(call.id)))
        except InterruptedTurnError:
            outcome = ToolOutcome("Interrupted by the user.", is_error=True, summary="interrupted")
        yield ToolFinished(
            call_id=call.id,
            name=call.name,
            output=outcome.text,
            is_error=outcome.is_error,
            summary=outcome.summary,
            duration_ms=round((parts.clock.monotonic() - began) * 1000),
            details=outcome.details,
        )
        yield Committed(
            ToolResultMessage(
                tool_call_id=call.id,
                tool_name=call.name,
                content=[TextBlock(outcome.text)],
                is_error=outcome.is_error,
                details=outcome.details,
                timestamp=epoch_ms(parts.clock.now()),
            )
        )
