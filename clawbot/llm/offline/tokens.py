"""Counting without a tokenizer: weighted characters, for the usage that the model reports."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clawbot.llm.protocol import ChatRequest
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import AssistantMessage, Cost, Message, Usage

MESSAGE_TOKENS = 4
"""What the frame of a message costs."""


def cut_to(text: str, max_tokens: int | None) -> str:
    """`text`, or its beginning when it is longer than `max_tokens`."""
    if max_tokens is None or weigh_tokens(text) <= max_tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if weigh_tokens(text[:middle]) < max_tokens else (low, middle - 1)
    return text[:low] + "…"


def usage(request: ChatRequest, answer: AssistantMessage) -> Usage:
    """What the call would have cost in tokens; in money nothing."""
    tools = sum(weigh_tokens(msgspec.json.encode(spec).decode()) for spec in request.tools)
    prompt = weigh_tokens(request.system) + tools + _weigh_all(request.messages)
    output = _weigh_all((answer,))
    return Usage(input=prompt, output=output, total_tokens=prompt + output, cost=Cost())


def _weigh_all(messages: Sequence[Message]) -> int:
    return sum(MESSAGE_TOKENS + weigh_tokens(message.text) + _weigh_calls(message) for message in messages)


def _weigh_calls(message: Message) -> int:
    if not isinstance(message, AssistantMessage):
        return 0
    return sum(weigh_tokens(call.name) + weigh_tokens(repr(call.arguments)) for call in message.tool_calls)
