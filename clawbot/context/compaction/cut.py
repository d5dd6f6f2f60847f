"""Chooses where a compaction cuts the context: everything before the cut is summarised. Decides how much to keep, and
whether a summary is worthwhile. Pure."""

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
"""If the provider's count exceeds ours by this factor, it includes more than what we send."""
MIN_GAIN = 10
"""An automatic compaction must free at least this part (1/n) of the room for a conversation."""
BY_HAND = 4
"""`/compact` keeps 1/n of a short conversation."""


class Cut(Struct, frozen=True):
    """A cut: `index` is the first item kept. If it splits a turn, `split_turn` is the index of that turn's user
    message."""

    index: int
    split_turn: int | None = None


class Situation(Struct, frozen=True):
    """The input of a decision. `tokens` are those of each item, `first` is the index of the first item after the
    summary, `offered` that of the first one not yet offered to memory; `nothing_new`: no message since the last
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
        """The tokens available to a conversation after a summary."""
        return max(0, self.budget.limit - self.measure.fixed - self.budget.summary)


def choose_cut(found: Situation) -> Cut | None:
    """The cut; None if there is nothing to compact, or nothing worthwhile. Not after the part offered to memory, if
    that frees enough: then no second silent turn is needed."""
    if found.nothing_new and not found.harder:
        return None
    cut = _past_giants(found, _kept(found))
    if cut is None or (found.trigger == "threshold" and not _is_worth_it(found, cut)):
        return None
    return _at_a_turn(found, cut) if found.trigger == "manual" else cut


def is_inflated(measure: Measure) -> bool:
    """Return whether the provider counts far more than we do: its own prompt, or another model's figures."""
    return measure.used > measure.counted * INFLATED


def _kept(found: Situation) -> int:
    """Return the number of tokens to keep unchanged."""
    spoken = sum(found.tokens[found.first :])
    if found.trigger == "manual":
        return min(found.budget.keep_recent, spoken // BY_HAND)
    if found.harder:
        return min(found.budget.keep_recent, spoken // 2) >> (found.harder - 1)
    return found.budget.keep_recent


def _past_giants(found: Situation, keep: int) -> Cut | None:
    """The cut that keeps `keep` tokens. If the message that reaches this number exceeds all the room, it is summarised
    too."""
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
    """Whether the summary would be clearly smaller than the original: otherwise, in a window filled by prompt and
    tools, each message would trigger another one. An inflated provider count overrides this."""
    leaving = sum(found.tokens[: cut.index])
    return is_inflated(found.measure) or leaving >= found.budget.summary + found.room // MIN_GAIN


def _at_a_turn(found: Situation, cut: Cut) -> Cut | None:
    """`cut`, moved to the start of its turn if the part to be summarised is short: its summary would be longer."""
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
    """Return the cut that keeps about `keep` tokens; None if everything fits in `keep`, or no item before `last` can be
    removed.

    `tokens` are those of each item. The items before `first` (an earlier summary) are always removed and don't count.
    The cut is never after `last`, the index of the pending user message, and at least one item is kept. Walking back
    from the end, the item that reaches `keep` is kept if a cut is valid there; otherwise the next valid cut after it is
    used, or if there is none (giant results at the end, where the reference compacts nothing) the nearest one before.
    With `prefer` the cut is not after that index, as long as at most `keep_at_most` tokens are kept.
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
    """Return the indexes of `items` after `first` that don't separate a call from its result."""
    inside = _inside_pairs(items)
    return [
        index
        for index in range(first + 1, len(items))
        if not inside[index] and not isinstance(items[index].message, ToolResultMessage)
    ]


def _inside_pairs(items: Sequence[ContextItem]) -> list[bool]:
    """For each index, whether a cut there would separate a result from its call."""
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
    """Return the index of the user message of the turn that contains `index` in its middle."""
    if isinstance(items[index].message, UserMessage | BashExecutionMessage):
        return None
    return next((at for at in range(index - 1, first - 1, -1) if isinstance(items[at].message, UserMessage)), None)
