"""Keeps tool results within what the window has room for, before each call of the model: the last resort.

Reference sheet 7.2 in tokens. Pure: the transcript keeps what the tools returned. Differences from the reference:

- What the system prompt and the tools take is no room, so that a window of 8k works too.
- A result may take 30 % of what is left of the window (the share of sheets 6.4 and 7.1), where the reference allows a
  quarter of it in ASCII and all of it in Chinese. The limit in characters that sheet 6.4 adds is
  `tools.output_max_chars` here.
- Results that the model has not seen yet are cut rather than removed: else it would ask for them again, for ever.
- Results are removed in steps of an eighth of the budget, so that what providers cache of the prompt changes seldom.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import compress

from msgspec import structs

from clawbot.context.counting import Kept, Reuse, weigh_message
from clawbot.context.truncate import cut_before
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResultMessage
from clawbot.sessions.conversation import ContextItem

TRUNCATED = "[truncated: output exceeded context limit]"
REMOVED = "[compacted: tool output removed to free context]"
RESULT_SHARE = 0.3
TOTAL_SHARE = 0.75
MIN_TOKENS = 256
"""What a result and all messages together may take on the smallest window."""
SMALLEST_CUT = 32
"""Tokens below which the beginning of a result is useless, and it is removed."""
_NEWLINE_SHARE = 0.7
_STEPS = 8
_TRIES = 5
_NOTICE_TOKENS = weigh_tokens(f"\n{TRUNCATED}")

Weigher = Callable[[Message], int]


class Guard:
    """Keeps the same objects for what is the same from call to call, and checks only what was added while there
    is nothing to cut. `tokens` counts those of a message; an exact counter may block."""

    def __init__(self, tokens: Weigher = weigh_message) -> None:
        self._tokens = tokens
        self._reuse = Reuse()
        self._sizes = Kept[ContextItem, int](lambda item: tokens(item.message))
        self._may_be_cut = Kept[ContextItem, bool](
            lambda item: isinstance(item.message, ToolResultMessage) and not _has_pictures(item.message)
        )

    def view(
        self, items: Sequence[ContextItem], *, window: int, fixed: int, share: float = TOTAL_SHARE
    ) -> list[ContextItem]:
        """`items` with tool results cut and removed until they fit; the same objects where nothing has to be done.

        `window` is the model's and `fixed` what system prompt and tools take of it, both in tokens; `share` of the
        window is for everything. Where compaction comes at a higher mark, `share` should be that mark: what is removed
        here was offered to nobody.
        """
        sizes = self._sizes.of(items)
        limit = max(MIN_TOKENS, int((window - fixed) * RESULT_SHARE))
        budget = max(MIN_TOKENS, int(window * share) - fixed)
        largest = max(compress(sizes, self._may_be_cut.of(items)), default=0)
        if largest <= limit and sum(sizes) <= budget:
            return self._reuse.settle(items, items)
        view = _View(items, sizes, self._tokens)
        view.cut_large(limit)
        if view.total > budget:
            view.remove_seen(budget)
        if view.total > budget:
            view.cut_unseen(budget)
        return self._reuse.settle(items, view.items)


class _View:
    """Items with their sizes in tokens, while results are made smaller."""

    def __init__(self, items: Sequence[ContextItem], sizes: list[int], tokens: Weigher) -> None:
        self.items = list(items)
        self._tokens = tokens
        self._sizes = sizes
        self.total = sum(sizes)
        answers = (index for index, item in enumerate(items) if isinstance(item.message, AssistantMessage))
        last = max(answers, default=-1)
        results = [index for index, item in enumerate(items) if isinstance(item.message, ToolResultMessage)]
        self._seen = [index for index in results if index < last]
        self._unseen = [index for index in results if index > last]

    def cut_large(self, limit: int) -> None:
        """Cut each result that has more than `limit` tokens; pictures can't be cut."""
        for index in (*self._seen, *self._unseen):
            result = self._result(index)
            if self._sizes[index] > limit and not _has_pictures(result):
                self._put(index, _cut(result, self._sizes[index], limit, self._tokens))

    def remove_seen(self, budget: int) -> None:
        """Remove results, the oldest first and only such as the model has answered to."""
        step = max(1, budget // _STEPS)
        goal = self.total - -(-(self.total - budget) // step) * step
        for index in self._seen:
            if self.total <= goal:
                return
            self._put(index, _removed(self._result(index)))

    def cut_unseen(self, budget: int) -> None:
        """Cut the largest results among those that the model has not seen, all to the same size."""
        sizes = [self._sizes[index] for index in self._unseen]
        limit = _largest_size(sizes, budget - (self.total - sum(sizes)))
        for index in self._unseen:
            result, size = self._result(index), self._sizes[index]
            if size > limit:
                is_removed = limit < SMALLEST_CUT or _has_pictures(result)
                self._put(index, _removed(result) if is_removed else _cut(result, size, limit, self._tokens))

    def _result(self, index: int) -> ToolResultMessage:
        message = self.items[index].message
        if not isinstance(message, ToolResultMessage):
            raise TypeError(f"item {index} is no tool result")
        return message

    def _put(self, index: int, result: ToolResultMessage) -> None:
        if result is self.items[index].message:
            return
        self.items[index] = ContextItem(self.items[index].entry_id, result)
        size = self._tokens(result)
        self.total += size - self._sizes[index]
        self._sizes[index] = size


def _largest_size(sizes: Sequence[int], room: int) -> int:
    """Return the size that no one of `sizes` may exceed, so that together they are at most `room`; at least 0."""
    left = len(sizes)
    for size in sorted(sizes):
        if size * left > room:
            return max(0, room // left)
        room -= size
        left -= 1
    return max(sizes, default=0)


def _has_pictures(result: ToolResultMessage) -> bool:
    return any(isinstance(block, ImageBlock) for block in result.content)


def _removed(result: ToolResultMessage) -> ToolResultMessage:
    """Return `result` with a line in place of its text, unless that would be no shorter."""
    if len(result.text) <= len(REMOVED) and not _has_pictures(result):
        return result
    return structs.replace(result, content=[TextBlock(REMOVED)])


def _cut(result: ToolResultMessage, size: int, limit: int, tokens: Weigher) -> ToolResultMessage:
    """The beginning of `result`, which has `size` tokens, in at most `limit`; full lines if they are most of it."""
    text = result.text
    room = (limit - _NOTICE_TOKENS) * weigh_tokens(text) // size
    cut = result
    for _ in range(_TRIES):
        end = min(_reach(text, room), len(text) - len(TRUNCATED) - 2)
        if end <= 0:
            break
        cut = structs.replace(result, content=[TextBlock(f"{text[: _good_end(text, end)]}\n{TRUNCATED}")])
        size = tokens(cut)
        if size <= limit:
            break
        # What is at the beginning has more tokens for its length than the rest.
        room = room * limit // size - 1
    return cut


def _reach(text: str, weight: int) -> int:
    """Return how many characters of `text` weigh at most `weight` tokens."""
    return bisect_right(range(1, len(text) + 1), weight, key=lambda length: weigh_tokens(text[:length]))


def _good_end(text: str, end: int) -> int:
    newline = text.rfind("\n", 0, end)
    return newline if newline > end * _NEWLINE_SHARE else cut_before(text, end)
