"""How full the model's window is, in tokens: what the provider reported, and an estimate for the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from clawbot.llm.tokens import estimate_tokens
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)

IMAGE_TOKENS = 1200
MESSAGE_TOKENS = 4  # role and separators of one message
DEFAULT_WINDOW = 128_000  # when nothing is known of the model


class ContextSize(NamedTuple):
    """The tokens in use; `exact` when they are what the provider reported, with nothing estimated on top."""

    tokens: int
    exact: bool


def estimate_message(message: Message) -> int:
    """An estimate of what `message` takes in the window."""
    match message:
        case UserMessage(content=str(text)):
            tokens = estimate_tokens(text)
        case UserMessage(content=blocks) | ToolResultMessage(content=blocks) | AssistantMessage(content=blocks):
            tokens = sum(_estimate_block(block) for block in blocks)
        case BashExecutionMessage():
            tokens = estimate_tokens(message.text)
    return tokens + MESSAGE_TOKENS


def _estimate_block(block: TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | str) -> int:
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text):
            return estimate_tokens(text)
        case ToolCallBlock(name=name, arguments=arguments, malformed=malformed):
            return estimate_tokens(name + (malformed or json.dumps(arguments, ensure_ascii=False, default=str)))
        case ImageBlock():
            return IMAGE_TOKENS
        case str(text):
            return estimate_tokens(text)


def estimate_tools(tools: Iterable[ToolSpec]) -> int:
    """An estimate of what the descriptions of `tools` take in the window."""
    return sum(estimate_tokens(msgspec.json.encode(tool).decode()) for tool in tools)


def context_used(messages: Sequence[Message], system: str, tools: Sequence[ToolSpec] = ()) -> ContextSize:
    """What a call with these messages would take: the usage that the last good answer reported (its whole prompt and
    its output; an answer that failed or was cut off reports nothing to rely on), and an estimate of what came after.

    Without any report everything is estimated, the system prompt and the tools as well (reference sheet 6.4).
    """
    for index in range(len(messages) - 1, -1, -1):
        reported = _reported(messages[index])
        if reported:
            rest = messages[index + 1 :]
            return ContextSize(reported + sum(map(estimate_message, rest)), exact=not rest)
    estimate = estimate_tokens(system) + estimate_tools(tools) + sum(map(estimate_message, messages))
    return ContextSize(estimate, exact=False)


def _reported(message: Message) -> int:
    """The tokens in the window after `message`, as its provider reported them; 0 when it did not."""
    match message:
        case AssistantMessage(stop_reason="error" | "aborted"):
            return 0
        case AssistantMessage(usage=Usage() as usage) if usage.prompt_tokens > 0:
            return usage.prompt_tokens + usage.output
        case _:
            return 0
