"""Token counts of messages and prompt texts: exact ones, as sent on the wire and cached, or estimates without a
tokenizer for rough decisions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import msgspec

from clawbot.llm.deltas import sent_again
from clawbot.llm.tokens import Count, count_now, weigh_tokens
from clawbot.llm.wire import EMPTY_RESULT, TOOL_IMAGE, rules_for
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
    UserMessage,
    is_timed,
)
from clawbot.sessions.conversation import ContextItem

IMAGE_TOKENS = 1200
"""A picture, whoever sent it."""
MESSAGE_TOKENS = 4
"""The role of a message and its framing. A tool call needs as many, since it is sent like a message."""
TIME_TOKENS = 13
"""The time before a message of the user."""
PRIMING_TOKENS = 3
"""The start of the answer in a request."""
_TEXTS = 256  # a prompt has a dozen sections, and a text for each tool


class TokenCounter:
    """Counts with `count`, which blocks, as do all methods. Thread-safe.

    `ref` (`provider/model`) determines whether earlier reasoning is sent again; another model needs another counter.
    Cached are the count of each message object (messages are immutable and never recreated while in the context), and
    of the texts used last. `text` returns the tokens of a text alone.
    """

    def __init__(self, count: Count = count_now, ref: str = "") -> None:
        self._count = count
        self.text = lru_cache(_TEXTS)(count)
        self._thinking = rules_for(ref).thinking
        self._messages: dict[int, tuple[Message, int]] = {}

    def of(self, message: Message) -> int:
        """Return the tokens of `message` with its framing; 0 if it is not sent."""
        # Holding the message prevents its id from being reused.
        known = self._messages.get(id(message))
        if known is None or known[0] is not message:
            known = (message, self._of_message(message))
            self._messages[id(message)] = known
        return known[1]

    def tool(self, spec: ToolSpec) -> int:
        """Return the tokens of a tool's description with its schema, as compact JSON."""
        return self.text(msgspec.json.encode({"type": "function", "function": spec}).decode())

    def forget_except(self, messages: Iterable[Message], most: int = 0) -> None:
        """If more than `most` messages are known, drop all but `messages`."""
        if len(self._messages) > most:
            kept = set(map(id, messages))
            self._messages = {key: known for key, known in self._messages.items() if key in kept}

    def _of_message(self, message: Message) -> int:
        match message:
            case AssistantMessage():
                return self._of_answer(message)
            case ToolResultMessage():
                text = message.text if message.text.strip() else EMPTY_RESULT
                return MESSAGE_TOKENS + self._count(text) + self._of_pictures(message)
            case BashExecutionMessage():
                return MESSAGE_TOKENS + self._count(message.text)
            case UserMessage(content=str(text)):
                return MESSAGE_TOKENS + TIME_TOKENS * is_timed(message) + self._count(text) if text.strip() else 0
            case UserMessage(content=blocks):
                pictures = sum(isinstance(block, ImageBlock) for block in blocks) * IMAGE_TOKENS
                sent = self._count(message.sent) + pictures
                return MESSAGE_TOKENS + TIME_TOKENS * is_timed(message) + sent if blocks else 0

    def _of_answer(self, message: AssistantMessage) -> int:
        """Return a failed or truncated answer is sent without its calls and reasoning."""
        calls = [] if message.broken else message.tool_calls
        text = message.text if message.text.strip() else ""
        if not text and not calls:
            return 0
        thinking = 0 if message.broken else self._of_thinking(message)
        return MESSAGE_TOKENS + self._count(text) + sum(map(self._of_call, calls)) + thinking

    def _of_call(self, call: ToolCallBlock) -> int:
        return MESSAGE_TOKENS + self._count(call.name) + self._count(msgspec.json.encode(call.arguments).decode())

    def _of_thinking(self, message: AssistantMessage) -> int:
        blocks = [block for block in message.content if isinstance(block, ThinkingBlock)]
        if self._thinking == "signed":
            return sum(self._count(block.thinking) for block in blocks if block.signature)
        sent = blocks if message.tool_calls and self._thinking != "none" else []
        fields = sent_again([block for block in sent if not block.signature])  # others are items of the Responses API
        return sum(self._count(v if isinstance(v, str) else msgspec.json.encode(v).decode()) for v in fields.values())

    def _of_pictures(self, message: ToolResultMessage) -> int:
        """They come in a message of the user's after the results."""
        pictures = sum(isinstance(block, ImageBlock) for block in message.content) * IMAGE_TOKENS
        if not pictures:
            return 0
        return MESSAGE_TOKENS + self._count(TOOL_IMAGE.format(name=message.tool_name)) + pictures


T = TypeVar("T")
V = TypeVar("V")


class Kept(Generic[T, V]):
    """The `value` of each member of a list that mostly grows at its end: only what was added since the last call is
    scanned. Members are immutable."""

    def __init__(self, value: Callable[[T], V]) -> None:
        self._value = value
        self._known: tuple[list[T], list[V]] = ([], [])

    def of(self, members: Sequence[T]) -> list[V]:
        """Return the values in their order, as a list of the caller's own."""
        before, values = self._known
        # Lists are compared by identity first, which takes microseconds for thousands.
        known = len(before) if list(members[: len(before)]) == before else 0
        values = [*values[:known], *map(self._value, members[known:])]
        self._known = (list(members), values)
        return values.copy()


class Reuse:
    """Reuses the objects of the last view for equal items."""

    def __init__(self) -> None:
        self._replacements: dict[tuple[str, str], ContextItem] = {}

    def __len__(self) -> int:
        """Return the number of replaced items in the last view."""
        return len(self._replacements)

    def settle(self, items: Sequence[ContextItem], view: Sequence[ContextItem]) -> list[ContextItem]:
        """Return `view`, parallel to `items`, with the objects of the last view where they are equal."""
        before, self._replacements = self._replacements, {}
        if items is view or list(items) == list(view):
            return list(items)
        return [shown if shown is item else self._known(before, shown) for item, shown in zip(items, view, strict=True)]

    def _known(self, before: dict[tuple[str, str], ContextItem], item: ContextItem) -> ContextItem:
        call = item.message.tool_call_id if isinstance(item.message, ToolResultMessage) else ""
        key = (item.entry_id, call)
        known = before.get(key)
        self._replacements[key] = known if known == item else item
        return self._replacements[key]


IMAGE_WEIGHT = 2000
"""Tokens of a picture (8,000 characters), the user's own too, which the reference forgets."""
UNSPELT_WEIGHT = 32
"""Tokens of arguments that can't be encoded as JSON (128 characters)."""


def weigh_message(message: Message) -> int:
    """Return the estimated tokens of `message`.

    Four ASCII characters or one other character count as a token. The reference counts four of any kind, a quarter of
    the true size of Chinese.
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


class QuickSize(NamedTuple):
    """The tokens in use before anything was counted. `reported`: a report of the provider is the base, which holds
    prompt and tools; `exact`: it covers everything."""

    tokens: int
    reported: bool
    exact: bool


def quick_size(messages: Sequence[Message], fresh_from: int) -> QuickSize:
    """The last reported count since the last compaction plus an estimate of what followed; without a report an estimate
    of all messages."""
    for index in range(len(messages) - 1, fresh_from - 1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage) and message.usage and not message.broken:
            rest = sum(map(weigh_message, messages[index + 1 :]))
            used = message.usage.prompt_tokens + message.usage.output + rest
            return QuickSize(used, reported=True, exact=index == len(messages) - 1)
    return QuickSize(sum(map(weigh_message, messages)), reported=False, exact=False)
