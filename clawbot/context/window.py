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


class Budget(NamedTuple):
    """The marks of a window, in tokens. `limit` is where compaction comes (the window without the `reserve`), `flush`
    where the silent turn comes before it (0: never); `keep_recent` stays word for word at a compaction, whose summary
    takes `summary` at most."""

    window: int
    reserve: int
    limit: int
    flush: int
    keep_recent: int
    summary: int


class Measure(NamedTuple):
    """What a call of the model takes, in tokens. The first six are counted, and `counted` is their sum; `used` is the
    best figure for the whole prompt. `exact`: it is what the provider reported, with nothing counted on top. `stale`:
    nothing was reported since the last compaction. `reported` is the prompt of the last call as its provider counted
    it, `unaccounted` how much more that is than what was counted for the same call (0 and 0 without a report)."""

    system: int
    bootstrap: int
    tools: int
    summary: int
    messages: int
    tool_results: int
    used: int
    exact: bool
    stale: bool
    reported: int
    unaccounted: int

    @property
    def counted(self) -> int:
        """The sum of the parts."""
        return self.system + self.bootstrap + self.tools + self.summary + self.messages + self.tool_results

    @property
    def fixed(self) -> int:
        """What no compaction makes smaller."""
        return self.system + self.bootstrap + self.tools


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
