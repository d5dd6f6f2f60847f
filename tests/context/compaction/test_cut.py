"""Cut points: pairs stay whole, something always goes; which cut is made by threshold, after an overflow, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.context.compaction import Situation, choose_cut
from clawbot.context.compaction.cut import Cut, find_cut
from clawbot.context.window import Measure, WindowBudget
from clawbot.messages import AssistantMessage, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import ContextItem
from tests.context.compaction.talk import answer, call, items_of, result, spelled, user


def cut(letters: str, tokens: list[int] | int = 10, *, keep: int, last: int | None = None, **more: int) -> Cut | None:
    items = spelled(letters)
    sizes = [tokens] * len(items) if isinstance(tokens, int) else tokens
    return find_cut(items, sizes, keep=keep, last=len(items) if last is None else last, **more)


@pytest.mark.parametrize(
    ("letters", "keep", "expected"),
    [
        ("uauaua", 20, Cut(4)),  # the item that reaches the budget stays
        ("uauaua", 25, Cut(3, 2)),  # in the middle of a turn: the request is at 2
        ("ucraua", 40, Cut(3, 0)),  # a result is no place: the next answer is
        ("ucraua", 50, Cut(1, 0)),
        ("uCrrua", 40, Cut(4)),  # nor between two results of one answer
        ("uabua", 30, Cut(2)),  # a command of the user begins something of its own
        ("aaaa", 20, Cut(2)),  # no request to explain
        ("uauaua", 0, Cut(5, 4)),  # one item always stays
        ("uauaua", 60, None),  # all of it is recent
        ("u", 0, None),
        ("", 0, None),
    ],
)
def test_cuts_at_the_first_place_from_the_item_that_reaches_the_budget(
    letters: str, keep: int, expected: Cut | None
) -> None:
    assert cut(letters, keep=keep) == expected


def test_results_at_the_end_that_alone_reach_the_budget_leave_the_nearest_cut_before_them() -> None:
    """Sheet 7.3: the reference system falls back to the first candidate then, and compacts nothing."""
    assert cut("uauacr", [10, 10, 10, 10, 10, 90_000], keep=1_000) == Cut(4, 2)
    assert cut("uauCrr", [10, 10, 10, 10, 90_000, 90_000], keep=1_000) == Cut(3, 2)


def test_what_the_previous_compaction_kept_is_cut_from() -> None:
    """Sheet 7.3: in the reference system it is neither summarised nor kept by the next compaction. Here it follows the
    summary in the context, and leaves it only through a cut."""
    summary_and_kept_and_since = "uuaua"
    assert cut(summary_and_kept_and_since, keep=20, first=1) == Cut(3)
    assert cut(summary_and_kept_and_since, keep=30, first=1) == Cut(2, 1)


def test_a_summary_alone_before_the_cut_is_nothing_to_compact() -> None:
    assert cut("uu", keep=0, first=1) is None
    assert cut("uua", [50_000, 10, 10], keep=1_000, first=1) is None
    assert cut("uacr", [50_000, 9_000, 10, 10], keep=10, first=1) == Cut(2)


def test_the_cut_is_not_behind_the_pending_message() -> None:
    assert cut("uauau", [10, 10, 10, 10, 90_000], keep=100, last=4) == Cut(4)
    assert cut("uauacr", [10, 10, 10, 10, 90_000, 10], keep=100, last=2) == Cut(2)
    assert cut("uauau", [10, 10, 10, 10, 90_000], keep=100, last=0) is None


def test_a_preferred_cut_is_taken_while_little_enough_stays() -> None:
    """Memory was offered up to it."""
    assert cut("uauaua", keep=20, prefer=2, keep_at_most=40) == Cut(2)
    assert cut("uauaua", keep=20, prefer=3, keep_at_most=40) == Cut(3, 2)
    assert cut("uauaua", keep=20, prefer=2, keep_at_most=39) == Cut(4)
    assert cut("uauaua", keep=30, prefer=5, keep_at_most=90) == Cut(3, 2)  # it may be earlier of itself
    assert cut("ucraua", keep=10, prefer=2, keep_at_most=90) == Cut(1, 0)  # never between a call and its result
    assert cut("ucraua", keep=10, prefer=0, keep_at_most=90) == Cut(5, 4)  # nothing would go


def test_a_result_belongs_to_the_nearest_open_call_of_its_id() -> None:
    """Ids may repeat after a compaction; the first call never got a result."""
    items = items_of(
        user("one"), answer("", call("x")), user("two"), answer("", call("x")), result("done", "x"), answer("fine")
    )
    assert find_cut(items, [10] * 6, keep=35, last=6) == Cut(2)
    assert find_cut(items, [10] * 6, keep=20, last=6) == Cut(5, 2)


def test_a_result_that_came_late_is_not_parted_from_its_call() -> None:
    items = items_of(user("one"), answer("", call("x")), user("by the way"), result("done", "x"), answer("fine"))
    assert find_cut(items, [10] * 5, keep=30, last=5) == Cut(4, 2)
    assert find_cut(items, [10, 10, 10, 90, 10], keep=100, last=3) == Cut(1, 0)


letters = st.text("uabcCr", min_size=1, max_size=30)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[ContextItem], list[int]]:
    items = spelled(draw(letters))
    sizes = st.one_of(st.integers(0, 50), st.integers(0, 50_000))
    return items, draw(st.lists(sizes, min_size=len(items), max_size=len(items)))


def parts_no_pair(items: list[ContextItem], index: int) -> bool:
    before = {
        block.id
        for item in items[:index]
        if isinstance(item.message, AssistantMessage)
        for block in item.message.tool_calls
    }
    behind = {item.message.tool_call_id for item in items[index:] if isinstance(item.message, ToolResultMessage)}
    return not before & behind


@given(conversations(), st.integers(0, 60_000), st.data())
def test_any_cut_makes_progress_and_leaves_pairs_whole(
    talk: tuple[list[ContextItem], list[int]], keep: int, data: st.DataObject
) -> None:
    items, tokens = talk
    first = data.draw(st.integers(0, 1))
    last = data.draw(st.integers(0, len(items)))
    prefer = data.draw(st.none() | st.integers(0, len(items)))
    found = find_cut(items, tokens, keep=keep, last=last, first=first, prefer=prefer, keep_at_most=keep * 2)
    places = [
        at
        for at in range(first + 1, min(last, len(items) - 1) + 1)
        if not isinstance(items[at].message, ToolResultMessage) and parts_no_pair(items, at)
    ]
    if found is None:
        assert not places or sum(tokens[first:]) <= keep
        return
    assert found.index in places
    behind = next((at for at in places if at > found.index), None)
    if behind is not None:
        assert sum(tokens[behind:]) < keep or prefer is not None  # nothing is cut off that had room
    if found.split_turn is None:
        starts = not isinstance(items[found.index].message, AssistantMessage)
        assert starts or not any(isinstance(item.message, UserMessage) for item in items[first : found.index])
    else:
        assert first <= found.split_turn < found.index
        assert isinstance(items[found.split_turn].message, UserMessage)
        assert isinstance(items[found.index].message, AssistantMessage)


BUDGET = WindowBudget(window=8_000, reserve=2_000, limit=6_000, flush=4_500, keep_recent=600, summary=500)
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
