"""Which tool results the model does not see in full. Pure: the transcript keeps what the tools returned.

`Pruner` shortens old ones once the provider's cache has expired (cache-ttl, reference sheet 10). Differences:

- What was pruned remains pruned the same way until the cache expires again, also after a restart. The reference shows
  the full results again at the next call, which throws the cache away that the pruning was to save.
- Every provider is eligible, since the mode is off unless the user asks for it.
- Shares of the window are of weighted tokens, and characters are counted as four for each of these, so that Chinese
  takes the room that it takes (`counting.py`).
- Nothing is replaced by something longer.

`Guard` is the last resort before each call: it keeps results within what the window has room for (reference sheet 7.2,
in tokens). Differences:

- What the system prompt and the tools take is no room, so that a window of 8k works too.
- A result may take 30 % of what is left of the window (the share of sheets 6.4 and 7.1), where the reference allows a
  quarter of it in ASCII and all of it in Chinese. The limit in characters that sheet 6.4 adds is
  `tools.output_max_chars` here.
- Results that the model has not seen yet are cut rather than removed: else it would ask for them again, for ever.
- Results are removed in steps of an eighth of the budget, so that what providers cache of the prompt changes seldom.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import compress
from typing import TypeGuard

import msgspec
from msgspec import Struct, structs

from clawbot.config.schema_agent import ContextPruningSettings, SoftTrimSettings
from clawbot.context.counting import Kept, Reuse, weigh_message
from clawbot.context.detached import has_pictures
from clawbot.context.truncate import cut_after, cut_before
from clawbot.llm.tokens import weigh_tokens
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from clawbot.sessions.entries import CustomEntry, Entry

MARKER = "openclaw.cache-ttl"
CHARS_PER_TOKEN = 4


class PruneState(Struct, frozen=True):
    """When the provider's cache was last used, in milliseconds since the epoch (None: never), and the ids of the
    entries whose results are shortened and replaced since it last expired."""

    touched_at: int | None = None
    trimmed: frozenset[str] = frozenset()
    cleared: frozenset[str] = frozenset()


UNTOUCHED = PruneState()


class _Marker(Struct, frozen=True, rename="camel"):
    """The state as a transcript has it. The first three are the reference's."""

    timestamp: int | None = None
    provider: str = ""
    model_id: str = ""
    trimmed: list[str] = []
    cleared: list[str] = []


class Pruner:
    """`prune` from call to call, with the same objects for what is the same."""

    def __init__(self, settings: ContextPruningSettings, state: PruneState = UNTOUCHED) -> None:
        self.settings = settings
        self.state = state
        self._reuse = Reuse()

    @property
    def pruned(self) -> int:
        """How many results the last view has shortened or replaced."""
        return len(self._reuse)

    def view(self, items: Sequence[ContextItem], *, now_ms: int, window: int) -> list[ContextItem]:
        """What the model sees of `items`; the state goes along."""
        view, self.state = prune(items, self.settings, self.state, now_ms=now_ms, window=window)
        return self._reuse.settle(items, view)

    def touch(self, now_ms: int) -> None:
        """Record that a request succeeded: the provider's cache is good for another while."""
        self.state = structs.replace(self.state, touched_at=now_ms)


def prune(
    items: Sequence[ContextItem], settings: ContextPruningSettings, state: PruneState, *, now_ms: int, window: int
) -> tuple[list[ContextItem], PruneState]:
    """What the model sees of `items`, which are complete, and the state from then on. `window` is in tokens.

    Until the cache has expired the results of `state` are pruned and no others; then they are chosen again.
    """
    if settings.mode == "off" or settings.ttl <= 0:
        return list(items), state
    if state.touched_at is not None and now_ms - state.touched_at >= settings.ttl * 1000:
        trimmed, cleared = _choose(items, settings, window)
        touched_at = now_ms if trimmed or cleared else state.touched_at
        state = PruneState(touched_at, trimmed, cleared)
    if not (state.trimmed or state.cleared):
        return list(items), state
    return [_view(item, settings, state) for item in items], state


def marker_of(state: PruneState, provider: str, model: str) -> CustomEntry:
    """Return the entry by which `state` outlives the program."""
    marker = _Marker(state.touched_at, provider, model, sorted(state.trimmed), sorted(state.cleared))
    return CustomEntry(custom_type=MARKER, data=msgspec.to_builtins(marker))


def state_from(entries: Sequence[Entry]) -> PruneState:
    """Return the state of the last entry that `marker_of` (or the reference) wrote; damaged ones are passed over."""
    for entry in reversed(entries):
        if isinstance(entry, CustomEntry) and entry.custom_type == MARKER:
            try:
                marker = msgspec.convert(entry.data, _Marker)
            except msgspec.ValidationError:
                continue
            return PruneState(marker.timestamp, frozenset(marker.trimmed), frozenset(marker.cleared))
    return UNTOUCHED


def _choose(
    items: Sequence[ContextItem], settings: ContextPruningSettings, window: int
) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of the results to be shortened, and of those to be replaced: the oldest first, until there is room."""
    used = sum(weigh_message(item.message) for item in items)
    if used < settings.soft_trim_ratio * window:
        return frozenset(), frozenset()
    prunable = _prunable(items, settings)
    left = {entry_id: _trimmed(result, settings.soft_trim) or result for entry_id, result in prunable.items()}
    trimmed = frozenset(entry_id for entry_id, result in left.items() if result is not prunable[entry_id])
    used -= sum(weigh_message(prunable[entry_id]) - weigh_message(left[entry_id]) for entry_id in trimmed)
    cleared = _to_clear(left, settings, used - settings.hard_clear_ratio * window)
    return trimmed - cleared, cleared


def _to_clear(left: Mapping[str, ToolResultMessage], settings: ContextPruningSettings, over: float) -> frozenset[str]:
    """The oldest of the results `left`, until `over` tokens and one are saved; none while they are few in all."""
    weights = {entry_id: weigh_message(result) for entry_id, result in left.items()}
    few = sum(weights.values()) * CHARS_PER_TOKEN < settings.min_prunable_tool_chars
    if few or not settings.hard_clear.enabled:
        return frozenset()
    cleared = set[str]()
    for entry_id, result in left.items():
        if over < 0:
            break
        line = _shorter(result, settings.hard_clear.placeholder)
        if line is not None:
            cleared.add(entry_id)
            over -= weights[entry_id] - weigh_message(line)
    return frozenset(cleared)


def _prunable(items: Sequence[ContextItem], settings: ContextPruningSettings) -> dict[str, ToolResultMessage]:
    """The results that may be pruned, by the ids of their entries, oldest first: those between the first message of the
    user (what was read before is the agent's start) and the last answers, which are protected."""
    messages = [item.message for item in items]
    first = next((index for index, message in enumerate(messages) if isinstance(message, UserMessage)), len(items))
    answers = [index for index, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    keep = settings.keep_last_assistants
    if keep > len(answers):
        return {}
    end = answers[-keep] if keep else len(items)
    return {
        item.entry_id: item.message
        for item in items[first:end]
        if item.entry_id and _is_plain_result(item.message) and _is_named(item.message.tool_name, settings)
    }


def _is_named(tool: str, settings: ContextPruningSettings) -> bool:
    allow, deny = settings.tools.allow, settings.tools.deny
    return (not allow or _matches(tool, allow)) and not _matches(tool, deny)


def _matches(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool.lower(), pattern.strip().lower()) for pattern in patterns)


def _view(item: ContextItem, settings: ContextPruningSettings, state: PruneState) -> ContextItem:
    message = item.message
    if not _is_plain_result(message):
        return item
    if item.entry_id in state.cleared:
        pruned = _shorter(message, settings.hard_clear.placeholder)
    elif item.entry_id in state.trimmed:
        pruned = _trimmed(message, settings.soft_trim)
    else:
        return item
    return item if pruned is None else ContextItem(item.entry_id, pruned)


def _is_plain_result(message: Message) -> TypeGuard[ToolResultMessage]:
    """Return whether `message` is a result without pictures, which are never pruned."""
    return isinstance(message, ToolResultMessage) and not has_pictures(message)


def _trimmed(result: ToolResultMessage, settings: SoftTrimSettings) -> ToolResultMessage | None:
    """Return the beginning and the end of `result`; None when it is short enough, or this would be no shorter."""
    text = result.text
    if len(text) <= settings.max_chars:
        return None
    head = text[: cut_before(text, settings.head_chars)]
    tail = text[cut_after(text, len(text) - settings.tail_chars) :]
    note = f"[Tool result trimmed: kept the first {len(head)} and the last {len(tail)} of {len(text)} characters.]"
    return _shorter(result, f"{head}\n...\n{tail}\n\n{note}")


def _shorter(result: ToolResultMessage, text: str) -> ToolResultMessage | None:
    """Return `result` with `text`; None when that is no shorter."""
    return structs.replace(result, content=[TextBlock(text)]) if len(text) < len(result.text) else None


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
        self._may_be_cut = Kept[ContextItem, bool](lambda item: _is_plain_result(item.message))

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
            if self._sizes[index] > limit and not has_pictures(result):
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
                is_removed = limit < SMALLEST_CUT or has_pictures(result)
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


def _removed(result: ToolResultMessage) -> ToolResultMessage:
    """Return `result` with a line in place of its text, unless that would be no shorter."""
    if len(result.text) <= len(REMOVED) and not has_pictures(result):
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
