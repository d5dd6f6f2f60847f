"""Where a compaction cuts the context: what is before the cut is summarised, what comes from it on stays; how much that
is, for whom, and whether it is worth a summary. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

from msgspec import Struct

from clawbot.context.window import Measure, WindowBudget
from clawbot.messages import AssistantMessage, BashExecutionMessage, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem

INFLATED = 1.5
"""Times what was counted here, beyond which a provider's figure is of more than what we send."""
LEAST_GAIN = 10
"""A compaction by threshold frees at least this part of the room for a conversation."""
BY_HAND = 4
"""`/compact` keeps a quarter of a conversation that is short."""


class Cut(Struct, frozen=True):
    """A place to cut: `index` is the first item that stays. When a turn is cut in two, `split_turn` is the index of the
    user message that began it: the items from there to the cut are explained to the rest of the turn."""

    index: int
    split_turn: int | None = None


class Situation(Struct, frozen=True):
    """What a compaction finds. `tokens` are those of each item, `first` is the index of the first item that is no
    summary, `offered` that of the first one that memory was not offered; `nothing_new`: nothing was said since the last
    compaction. `harder` grows from 1 with each round after an overflow, and is 0 otherwise."""

    trigger: Literal["threshold", "overflow", "manual"]
    items: Sequence[ContextItem]
    tokens: Sequence[int]
    first: int
    offered: int
    nothing_new: bool
    harder: int
    measure: Measure
    budget: WindowBudget

    @property
    def room(self) -> int:
        """The tokens that a conversation behind a summary has."""
        return max(0, self.budget.limit - self.measure.fixed - self.budget.summary)


def choose_cut(found: Situation) -> Cut | None:
    """Where to cut; None when there is nothing to compact, or nothing worth it. Not behind what memory was offered, if
    that makes room enough: no second silent turn is needed then."""
    if found.nothing_new and not found.harder:
        return None
    cut = _past_giants(found, _kept(found))
    if cut is None or (found.trigger == "threshold" and not _is_worth_it(found, cut)):
        return None
    return _at_a_turn(found, cut) if found.trigger == "manual" else cut


def is_inflated(measure: Measure) -> bool:
    """Whether the provider counts far more than is counted here: its own prompt, or another model's figures."""
    return measure.used > measure.counted * INFLATED


def _kept(found: Situation) -> int:
    """How many tokens stay word for word."""
    spoken = sum(found.tokens[found.first :])
    if found.trigger == "manual":
        return min(found.budget.keep_recent, spoken // BY_HAND)
    if found.harder:
        return min(found.budget.keep_recent, spoken // 2) >> (found.harder - 1)
    return found.budget.keep_recent


def _past_giants(found: Situation, keep: int) -> Cut | None:
    """The cut that keeps `keep` tokens. The message with which that is reached goes as well when it is larger than all
    the room there is."""
    find = functools.partial(
        find_cut,
        found.items,
        found.tokens,
        last=len(found.items) - 1,
        first=found.first,
        prefer=None if found.harder > 1 else found.offered,
        keep_at_most=found.room // 2,
    )
    cut = find(keep=keep)
    while cut is not None and sum(found.tokens[cut.index :]) > found.room:
        later = find(keep=sum(found.tokens[cut.index + 1 :]))
        if later is None or later.index <= cut.index:
            break
        cut = later
    return cut


def _is_worth_it(found: Situation, cut: Cut) -> bool:
    """Whether the summary would be clearly smaller than what it stands for: else, in a window that prompt and tools
    fill, each message would call for another one. A provider that counts more is believed without that."""
    leaving = sum(found.tokens[: cut.index])
    return is_inflated(found.measure) or leaving >= found.budget.summary + found.room // LEAST_GAIN


def _at_a_turn(found: Situation, cut: Cut) -> Cut | None:
    """`cut`, or one where the turn begins that it is in the middle of: a summary of half a short turn is longer than
    it."""
    turn = cut.split_turn
    if turn is None or sum(found.tokens[turn : cut.index]) > found.budget.summary:
        return cut
    return Cut(turn) if turn > found.first else None


def find_cut(
    items: Sequence[ContextItem],
    tokens: Sequence[int],
    *,
    keep: int,
    last: int,
    first: int = 0,
    prefer: int | None = None,
    keep_at_most: int = 0,
) -> Cut | None:
    """The cut after which about `keep` tokens stay; None when there is nothing to compact: all of it is within `keep`,
    or no item before `last` can go without the rest.

    `tokens` are those of each item. The items before `first` (the summary of an earlier compaction) go in any case, and
    are nothing to compact. The cut is never behind `last`, the index of the pending user message, and one item always
    stays. Walking back from the end, the first item with which `keep` is reached is kept if a cut can be there, else
    what stays begins at the next cut; if there is none behind it (giant results at the end, where the reference system
    compacts nothing), at the nearest one before. With `prefer` the cut is not behind that index, as long as at most
    `keep_at_most` tokens stay.
    """
    kept = list(accumulate(reversed(tokens), initial=0))[::-1]
    if kept[first] <= keep:
        return None
    valid = [at for at in valid_cuts(items, first) if at <= last]
    if not valid:
        return None
    reached = max(index for index in range(len(items)) if kept[index] >= keep)
    index = next((at for at in valid if at >= reached), valid[-1])
    if prefer is not None and index > prefer:
        earlier = [at for at in valid if at <= prefer]
        if earlier and kept[earlier[-1]] <= keep_at_most:
            index = earlier[-1]
    return Cut(index, _split_turn(items, first, index))


def valid_cuts(items: Sequence[ContextItem], first: int) -> list[int]:
    """The indexes of `items` behind `first` that have no call before them whose result is behind them."""
    inside = _inside_pairs(items)
    return [
        index
        for index in range(first + 1, len(items))
        if not inside[index] and not isinstance(items[index].message, ToolResultMessage)
    ]


def _inside_pairs(items: Sequence[ContextItem]) -> list[bool]:
    """For each index, whether a cut there would part a result from the nearest open call of its id before it."""
    edges = [0] * (len(items) + 1)
    calls: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        match item.message:
            case AssistantMessage(tool_calls=made):
                for call in made:
                    calls.setdefault(call.id, []).append(index)
            case ToolResultMessage(tool_call_id=ident) if calls.get(ident):
                edges[calls[ident].pop() + 1] += 1
                edges[index + 1] -= 1
            case _:
                pass
    return [depth > 0 for depth in accumulate(edges)]


def _split_turn(items: Sequence[ContextItem], first: int, index: int) -> int | None:
    """The user message that began the turn which `index` is in the middle of."""
    if isinstance(items[index].message, UserMessage | BashExecutionMessage):
        return None
    return next((at for at in range(index - 1, first - 1, -1) if isinstance(items[at].message, UserMessage)), None)
