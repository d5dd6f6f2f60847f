"""Which cut is made: by threshold, after an overflow, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from clawbot.context.budget import Budget
from clawbot.context.compaction import Cut, Situation, choose_cut
from clawbot.context.window import Measure
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.sessions.conversation import ContextItem

BUDGET = Budget(window=8_000, reserve=2_000, limit=6_000, flush=4_500, keep_recent=600, summary=500)
FIXED = 3_000


def talk(turns: int) -> list[ContextItem]:
    """Questions and answers."""
    items = []
    for turn in range(turns):
        items.append(ContextItem(f"u{turn}", UserMessage(f"question {turn}")))
        items.append(ContextItem(f"a{turn}", AssistantMessage([TextBlock(f"answer {turn}")])))
    return items


def situation(turns: int = 6, each: int = 250, **given: Any) -> Situation:
    """A talk whose messages have `each` tokens, at its limit."""
    tokens = [each] * (2 * turns)
    measure = Measure(FIXED, 0, 0, 0, 0, sum(tokens), 0, FIXED + sum(tokens), False, False, 0)
    found = Situation(
        trigger="threshold",
        items=talk(turns),
        tokens=tokens,
        first=0,
        offered=0,
        nothing_new=False,
        harder=0,
        measure=measure,
        budget=BUDGET,
    )
    return structs.replace(found, **given)


def test_the_threshold_keeps_what_is_recent() -> None:
    assert choose_cut(situation()) == Cut(9, split_turn=8)


def test_what_memory_was_offered_goes_and_no_more_if_that_is_enough() -> None:
    """No second silent turn is needed then (sheet 8.5)."""
    assert choose_cut(situation(offered=8)) == Cut(8)
    assert choose_cut(situation(offered=2)) == Cut(9, split_turn=8)


@pytest.mark.parametrize(("harder", "index"), [(1, 9), (2, 10), (3, 11)])
def test_each_round_after_an_overflow_keeps_less(harder: int, index: int) -> None:
    cut = choose_cut(situation(trigger="overflow", harder=harder))
    assert cut is not None
    assert cut.index == index


def test_a_message_larger_than_all_room_goes_with_the_rest() -> None:
    found = situation(3)
    tokens = [100, 100, 100, 9_000, 100, 100]
    cut = choose_cut(structs.replace(found, tokens=tokens))
    assert cut is not None
    assert cut.index == 4


def test_a_threshold_makes_no_summary_that_is_as_long_as_what_it_stands_for() -> None:
    """A window that prompt and tools fill would be compacted with every message."""
    assert choose_cut(situation(4, each=150)) is None
    assert choose_cut(situation(4, each=150, trigger="overflow", harder=1)) is not None


def test_a_provider_that_counts_more_is_believed() -> None:
    found = situation(4, each=160)
    assert choose_cut(found) is None
    assert choose_cut(structs.replace(found, measure=found.measure._replace(used=30_000))) is not None


def test_by_hand_a_short_conversation_is_compacted_at_a_turn() -> None:
    assert choose_cut(situation(4, each=10, trigger="manual")) == Cut(6)
    assert choose_cut(situation(1, each=10, trigger="manual")) is None


def test_by_hand_a_long_turn_is_cut_in_two() -> None:
    assert choose_cut(situation(1, each=900, trigger="manual")) == Cut(1, split_turn=0)


@pytest.mark.parametrize("trigger", ["threshold", "manual"])
def test_nothing_new_is_nothing_to_compact(trigger: str) -> None:
    assert choose_cut(situation(trigger=trigger, nothing_new=True)) is None
    assert choose_cut(situation(trigger="overflow", nothing_new=True, harder=1)) is not None
