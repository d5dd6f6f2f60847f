"""Where a compaction cuts the context: what is before the cut is summarised, what comes from it on stays.

Reference sheet 7.3. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from clawbot.messages import AssistantMessage, BashExecutionMessage, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem


class Cut(Struct, frozen=True):
    """A place to cut: `index` is the first item that stays. When a turn is cut in two, `split_turn` is the index of the
    user message that began it: the items from there to the cut are explained to the rest of the turn."""

    index: int
    split_turn: int | None = None


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
    valid = _valid_cuts(items, first, min(last, len(items) - 1))
    if not valid:
        return None
    reached = max(index for index in range(len(items)) if kept[index] >= keep)
    index = next((at for at in valid if at >= reached), valid[-1])
    if prefer is not None and index > prefer:
        earlier = [at for at in valid if at <= prefer]
        if earlier and kept[earlier[-1]] <= keep_at_most:
            index = earlier[-1]
    return Cut(index, _split_turn(items, first, index))


def _valid_cuts(items: Sequence[ContextItem], first: int, last: int) -> list[int]:
    """The indexes behind `first` and up to `last` that have no call before them whose result is behind them."""
    inside = _inside_pairs(items)
    return [
        index
        for index in range(first + 1, last + 1)
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
