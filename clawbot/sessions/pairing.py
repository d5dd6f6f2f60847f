"""Pairs tool calls with their results before a model sees them: providers refuse histories where they don't match.

Reference sheet 3.7. Pure: the transcript keeps what happened, only the view for the model is mended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
)

MISSING = (
    "There is no result: the run was interrupted before this call answered. It may or may not have taken effect; look "
    "before you repeat it."
)


class _Turn:
    """An assistant message, and for each of its calls the result that was found."""

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        self.results: list[ToolResultMessage | None] = [None] * len(message.tool_calls)

    def takes(self, result: ToolResultMessage) -> bool:
        """Give `result` to the first call of its id that has none yet. Whether there is one."""
        for index, call in enumerate(self.message.tool_calls):
            if call.id == result.tool_call_id and self.results[index] is None:
                self.results[index] = result
                return True
        return False

    def messages(self) -> Iterable[Message]:
        """The message and a result for each call, in the order of the calls."""
        yield self.message
        for call, result in zip(self.message.tool_calls, self.results, strict=True):
            yield result or _missing(call, self.message.timestamp)


def repair_pairs(messages: Sequence[Message]) -> list[Message]:
    """`messages` with exactly one result directly behind each call, and no result without one.

    A result goes to the nearest call before it that has its id and no result yet (ids may repeat); a second one and one
    without a call are dropped; a missing one is made up as an error. Calls of answers that failed or were interrupted
    are dropped, and so is an answer that then neither says nor calls anything.
    """
    kept: list[Message | _Turn] = []
    turns: list[_Turn] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            sound = _without_broken_calls(message)
            if sound.tool_calls:
                turns.append(_Turn(sound))
                kept.append(turns[-1])
            elif sound.text.strip():
                kept.append(sound)
        elif isinstance(message, ToolResultMessage):
            any(turn.takes(message) for turn in reversed(turns))
        else:
            kept.append(message)
    return [message for item in kept for message in (item.messages() if isinstance(item, _Turn) else [item])]


def _without_broken_calls(message: AssistantMessage) -> AssistantMessage:
    """What a broken message called was cut off by the failure and never run."""
    if not message.broken or not message.tool_calls:
        return message
    return structs.replace(
        message, content=[block for block in message.content if not isinstance(block, ToolCallBlock)]
    )


def _missing(call: ToolCallBlock, timestamp: int) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=[TextBlock(MISSING)],
        is_error=True,
        timestamp=timestamp,
    )
