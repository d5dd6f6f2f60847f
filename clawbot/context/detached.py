"""Copies of the conversation: for a silent turn, made to fit; and without pictures, for a model that takes none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from clawbot.context.counting import Kept
from clawbot.context.truncate import head_and_tail
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import (
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem
from clawbot.text.interface import _


class Pictures:
    """Leaves the pictures of a conversation out for models that take none; each message is checked once."""

    def __init__(self) -> None:
        self._without = Kept[ContextItem, ContextItem](without_pictures)
        self._described = ("", "")

    def shown(self, items: Sequence[ContextItem], model: ModelInfo) -> list[ContextItem]:
        """Return `items` as `model` can take them."""
        return list(items) if model.supports_images else self._without.of(items)

    def left_out(self, session: str, items: Sequence[ContextItem], model: ModelInfo) -> str:
        """Return the notice about the pictures in `items` that `model` will not see: once for a session and a model,
        else ""."""
        key = (session, model.ref)
        if key == self._described or self.shown(items, model) == list(items):
            return ""
        self._described = key
        text = _("{model} takes no pictures: those of this conversation are left out. /model chooses another.")
        return text.format(model=model.ref)


def has_pictures(message: Message) -> bool:
    """Return whether `message` holds any."""
    if not isinstance(message, UserMessage | ToolResultMessage) or isinstance(message.content, str):
        return False
    return any(isinstance(block, ImageBlock) for block in message.content)


def without_pictures(item: ContextItem) -> ContextItem:
    """Return `item` with a line for each of its pictures, as a note that it is not shown; itself if it has none."""
    message = item.message
    if not isinstance(message, UserMessage | ToolResultMessage) or not has_pictures(message):
        return item
    content = [_described(block) if isinstance(block, ImageBlock) else block for block in message.content]
    return structs.replace(item, message=structs.replace(message, content=content))


def _described(block: ImageBlock) -> TextBlock:
    name = f" {block.attached}" if block.attached else ""
    return TextBlock(f"[picture{name}: not shown, since this model takes no pictures]", attached=block.attached)


# Minimum characters per token in any language: Chinese is the densest.
_CHARS_PER_TOKEN = 1
# A history many times too long for the window (after a change of models) is truncated rather than processed for an
# hour.
MAX_COPIES = 8
_MIN_TOKENS = 50
_MIN_CHARS = 200  # of a text, however little room there is: less is useless
_IMAGE = TextBlock("[A picture was here.]")


class Detached(Struct, frozen=True):
    """The `messages` of a copy, which offers the items from `start` to before `stop` of the context."""

    messages: tuple[Message, ...]
    start: int
    stop: int


def detach(
    items: Sequence[ContextItem], tokens: Sequence[int], start: int, stop: int, *, allowed: int
) -> list[Detached]:
    """Copies that offer the items from `start` to before `stop`, each of at most about `allowed` tokens.

    `tokens` are those of each item. If everything before `stop` fits, there is a single copy of all that, as context
    for the model. Otherwise the items are divided in order, calls with their results; long texts are truncated in the
    middle.
    """
    if start >= stop:
        return []
    if sum(tokens[:stop]) <= allowed:
        return [Detached(tuple(item.message for item in items[:stop]), start, stop)]
    copies: list[Detached] = []
    shown: list[Message] = []
    begin, used = start, 0
    most = MAX_COPIES * allowed
    each = allowed if sum(tokens[start:stop]) <= most else max(_MIN_TOKENS, most // (stop - start))
    for first, last in _units(items, start, stop):
        room = max(1, min(each, allowed // (last - first)))
        messages = [_fitted(items[at].message, tokens[at], room) for at in range(first, last)]
        size = sum(min(tokens[at], room) for at in range(first, last))
        if shown and used + size > allowed:
            copies.append(Detached(tuple(shown), begin, first))
            shown, begin, used = [], first, 0
        shown += messages
        used += size
    return [*copies, Detached(tuple(shown), begin, stop)]


def _units(items: Sequence[ContextItem], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that belong together: a message, with the tool results behind it."""
    first = start
    for at in range(start + 1, stop):
        if not isinstance(items[at].message, ToolResultMessage):
            yield first, at
            first = at
    yield first, stop


def _fitted(message: Message, tokens: int, room: int) -> Message:
    """Return `message` with its texts truncated to about `room` tokens."""
    if tokens <= room:
        return message
    chars = max(_MIN_CHARS, room * _CHARS_PER_TOKEN)
    match message:
        case UserMessage(content=str(text)):
            return structs.replace(message, content=head_and_tail(text, chars))
        case BashExecutionMessage(output=output):
            return structs.replace(message, output=head_and_tail(output, chars))
        case _:
            each = max(_MIN_CHARS, chars // max(1, len(message.content)))
            return structs.replace(message, content=[_fitted_block(block, each) for block in message.content])


def _fitted_block(block: Any, chars: int) -> Any:
    match block:
        case TextBlock(text=text):
            return TextBlock(head_and_tail(text, chars))
        case ThinkingBlock():
            return TextBlock("")
        case ToolCallBlock(arguments=arguments):
            return structs.replace(block, arguments=_fitted_value(arguments, chars))
        case ImageBlock():
            return _IMAGE
        case _:
            return block


def _fitted_value(value: Any, chars: int) -> Any:
    """Return an argument of a call with its texts cut, and lists that are long by themselves."""
    match value:
        case str():
            return head_and_tail(value, chars)
        case dict():
            return {name: _fitted_value(item, max(_MIN_CHARS, chars // len(value))) for name, item in value.items()}
        case list() if len(json.dumps(value, default=str)) > chars:
            return head_and_tail(json.dumps(value, ensure_ascii=False, default=str), chars)
        case _:
            return value
