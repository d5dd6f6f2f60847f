"""Counting without a tokenizer: weighted characters, for the usage that the model reports."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clawbot.llm.protocol import ChatRequest
from clawbot.messages import AssistantMessage, Cost, Message, Usage

ASCII_CHARS_PER_TOKEN = 4
"""One token is about four ASCII characters, or one of any other script."""

MESSAGE_TOKENS = 4
"""What the frame of a message costs."""


def weigh(text: str) -> int:
    """The tokens of `text`, estimated."""
    plain = len(text.encode("ascii", "ignore"))
    return (plain + ASCII_CHARS_PER_TOKEN - 1) // ASCII_CHARS_PER_TOKEN + len(text) - plain


def cut_to(text: str, max_tokens: int | None) -> str:
    """`text`, or its beginning when it is longer than `max_tokens`."""
    if max_tokens is None or weigh(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if weigh(text[:middle]) < max_tokens else (low, middle - 1)
    return text[:low] + "…"


def usage(request: ChatRequest, answer: AssistantMessage) -> Usage:
    """What the call would have cost in tokens; in money nothing."""
    tools = sum(weigh(msgspec.json.encode(spec).decode()) for spec in request.tools)
    prompt = weigh(request.system) + tools + _weigh_all(request.messages)
    output = _weigh_all((answer,))
    return Usage(input=prompt, output=output, total_tokens=prompt + output, cost=Cost())


def _weigh_all(messages: Sequence[Message]) -> int:
    return sum(MESSAGE_TOKENS + weigh(message.text) + _weigh_calls(message) for message in messages)


def _weigh_calls(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return 0
    return sum(weigh(call.name) + weigh(repr(call.arguments)) for call in message.tool_calls)
