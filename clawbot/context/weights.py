"""Weighs messages in tokens without a tokenizer: for decisions that need a proportion and no count."""

from __future__ import annotations

import json
from collections.abc import Sequence

from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

IMAGE_WEIGHT = 2000
"""Tokens of a picture (reference sheet 6.4: 8,000 characters), the user's own too, which the reference forgets."""
UNSPELT_WEIGHT = 32
"""Tokens of arguments that JSON can't spell (reference sheet 6.4: 128 characters)."""


def weigh_message(message: Message) -> int:
    """About how many tokens `message` has.

    Four ASCII characters are a token and any other character is one, where the reference counts four of all: it sees a
    quarter of a Chinese text (reference sheet 6.4).
    """
    match message:
        case UserMessage(content=str(text)):
            return weigh_tokens(text)
        case UserMessage(content=blocks) | ToolResultMessage(content=blocks) | AssistantMessage(content=blocks):
            return sum(_weigh_block(block) for block in blocks)
        case BashExecutionMessage():
            return weigh_tokens(message.text)


def _weigh_block(block: TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | str) -> int:
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text) | str(text):
            return weigh_tokens(text)
        case ToolCallBlock():
            return weigh_tokens(block.name) + _weigh_arguments(block)
        case ImageBlock():
            return IMAGE_WEIGHT


def _weigh_arguments(call: ToolCallBlock) -> int:
    if call.malformed is not None:
        return weigh_tokens(call.malformed)
    try:
        return weigh_tokens(json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError):
        return UNSPELT_WEIGHT


def quick_size(messages: Sequence[Message], fresh_from: int, fixed: int) -> tuple[int, bool]:
    """The tokens in use before anything was counted: what the last good answer since the last compaction reported,
    with a weight of what came after it; and whether that is all of it. Without a report all is weighed, with the
    `fixed` tokens of prompt and tools."""
    for index in range(len(messages) - 1, fresh_from - 1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.usage and not message.broken:
            rest = sum(map(weigh_message, messages[index + 1 :]))
            return message.usage.prompt_tokens + message.usage.output + rest, index == len(messages) - 1
    return fixed + sum(map(weigh_message, messages)), False
