from __future__ import annotations

from clawbot.config.schema_memory import LineWeights
from clawbot.memory.search.protocols import Budget, reordered
from clawbot.memory.search.results import ResultLine, build_ranges
from clawbot.memory.store.records import ChunkRow
from clawbot.memory.values import ChunkKind

WEIGHTS = LineWeights()


def lines(*sizes: int, kind: ChunkKind = "prose", section: int = 0) -> dict[int, ResultLine]:
    return {
        number: ResultLine(
            ChunkRow(number, number + 1, number + 1, kind, None, None, 0, "x" * size), section, kind != "item"
        )
        for number, size in enumerate(sizes)
    }


def ranges(
    ranked: list[int], known: dict[int, ResultLine], *, chars: int = 2_500, count: int = 6
) -> list[tuple[int, int]]:
    found = build_ranges(ranked, known, Budget(count, chars, 0.0), WEIGHTS)
    return [(each.first, each.last) for each in found]


def test_neighbours_become_one_range_with_what_lies_between() -> None:
    known = lines(*[50] * 20)
    assert ranges([5, 6], known) == [(5, 6)]
    assert ranges([5, 7], known) == [(5, 7)]
    assert ranges([5, 8], known) == [(5, 5), (8, 8)]
    assert ranges([5, 9, 7], known) == [(5, 9)]


def test_a_range_stands_where_its_best_line_does() -> None:
    assert ranges([12, 3, 4, 11], lines(*[50] * 20)) == [(11, 12), (3, 4)]


def test_items_and_sections_stay_apart() -> None:
    assert ranges([5, 6], lines(*[50] * 20, kind="item")) == [(5, 5), (6, 6)]
    apart = {**lines(*[50] * 20), 6: lines(*[50] * 20, section=1)[6]}
    assert ranges([5, 6], apart) == [(5, 5), (6, 6)]


def test_ranges_have_a_length_but_a_line_stays_whole() -> None:
    assert ranges([1, 2], lines(*[400] * 5)) == [(1, 1), (2, 2)]
    assert ranges([1], lines(*[1_400] * 5)) == [(1, 1)]


def test_the_budget_of_characters_and_results() -> None:
    known = lines(*[100] * 60)
    spread = list(range(0, 60, 4))
    assert len(ranges(spread, known)) == 6
    assert len(ranges(spread, known, count=12)) == 12
    assert len(ranges(spread, known, chars=310)) == 3
    assert ranges(spread, known, count=1) == [(0, 0)]


def test_the_best_line_comes_first_however_long_it_is() -> None:
    """Notes of long paragraphs with short lines between them: the short ones must not drive out what was found."""
    assert ranges([1, 3, 5, 7], lines(50, 1_600, 50, 400, 50, 400, 50, 400, kind="item"))[0] == (1, 1)
    (only,) = build_ranges([1, 3], lines(50, 4_000, 50, 60), Budget(6, 2_500, 0.0), WEIGHTS)
    assert (only.first, only.last, only.chars) == (1, 1, 2_500)
    headed = {**lines(50, 600, 50), 0: lines(50, kind="heading")[0]}
    (only,) = build_ranges([0, 2], headed, Budget(6, 500, 0.0), WEIGHTS)
    assert (only.first, only.last, only.chars) == (0, 1, 500)


def test_a_long_line_gets_what_is_left_before_worse_ones_do() -> None:
    known = lines(*[1_300, 40] * 4, kind="item")
    found = build_ranges([0, 2, 1, 3, 5], known, Budget(6, 2_500, 0.0), WEIGHTS)
    assert [(each.first, each.chars) for each in found] == [(0, None), (2, 1_080), (1, None), (3, None), (5, None)]
    assert ranges([0, 2, 1, 3], known, chars=1_900) == [(0, 0), (1, 1), (3, 3)]


def test_the_first_page_keeps_to_few_places() -> None:
    """Lines that join one of the first four ranges come before a fifth place does."""
    known = lines(*[100] * 60)
    found = ranges([0, 10, 20, 30, 40, 1, 11, 21], known, chars=720)
    assert found == [(0, 1), (10, 11), (20, 21), (30, 30)]


def test_a_shorter_line_may_follow_one_that_does_not_fit() -> None:
    known = lines(100, 50, 50, 50, 900, 50, 50, 50, 40)
    assert ranges([0, 4, 8], known, chars=200) == [(0, 0), (8, 8)]


def test_the_best_line_comes_in_any_case() -> None:
    assert ranges([2, 3], lines(*[5_000] * 5)) == [(2, 2)]
    assert ranges([], {}) == []


def test_lines_are_in_one_range_alone() -> None:
    known = lines(*[90] * 40)
    found = ranges([3, 5, 7, 9, 11, 13, 15, 17, 10, 4, 6, 8], known, count=12)
    covered = [number for first, last in found for number in range(first, last + 1)]
    assert len(covered) == len(set(covered))


def test_reordered_passes_over_what_is_no_number_of_a_text() -> None:
    assert reordered(4, [2, 2, 7, -1, 0]) == [2, 0, 1, 3]
    assert reordered(3, None) == [0, 1, 2]
    assert reordered(0, [1]) == []


def test_a_larger_budget_only_adds_behind_what_is_usual() -> None:
    known = lines(*[100] * 80)
    ranked = [40, 10, 60, 25, 42, 11, 12, 26, 62, 70, 5, 39, 9, 27, 72, 0]
    usual = (5, 900)
    few = build_ranges(ranked, known, Budget(5, 900, 0.0, usual), WEIGHTS)
    many = build_ranges(ranked, known, Budget(48, 12_000, 0.0, usual), WEIGHTS)
    assert many[: len(few)] == few
    assert len(many) > len(few)
    shown = [number for each in many for number in range(each.first, each.last + 1)]
    assert set(ranked) <= set(shown)
    assert len(shown) == len(set(shown))
