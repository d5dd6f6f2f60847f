"""Which cut a compaction makes: how much it keeps, for whom, and whether it is worth a summary. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from clawbot.context.budget import Budget
from clawbot.context.compaction.cutting import Cut, find_cut
from clawbot.context.window import Measure
from clawbot.sessions.conversation import ContextItem

INFLATED = 1.5
"""Times what was counted here, beyond which a provider's figure is of more than what we send."""
LEAST_GAIN = 10
"""A compaction by threshold frees at least this part of the room for a conversation."""
BY_HAND = 4
"""`/compact` keeps a quarter of a conversation that is short."""


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
    budget: Budget

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
