"""Which texts repeat each other, and what is left of them."""

from __future__ import annotations

import time
from datetime import date, timedelta

import pytest

from clawbot.text.copies import MAX_VALUES, VISIBLE, Kept, Line, More, fold, wording_of
from tests.tables import load_table

DAY = date(2026, 1, 10)

SAME = load_table(__file__, "SAME")
VARIANTS = load_table(__file__, "VARIANTS")
OTHERS = load_table(__file__, "OTHERS")


@pytest.mark.parametrize(("one", "other"), SAME)
def test_these_say_the_same(one: str, other: str) -> None:
    assert wording_of(one) == wording_of(other)


@pytest.mark.parametrize(("one", "other"), VARIANTS)
def test_these_are_variants(one: str, other: str) -> None:
    assert wording_of(one).words == wording_of(other).words
    assert wording_of(one).values != wording_of(other).values
    assert [each.more for each in fold([Line(one, DAY), Line(other, DAY)])] == [None, None]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_these_differ_in_what_matters(one: str, other: str) -> None:
    assert wording_of(one).words != wording_of(other).words


def days(count: int) -> list[date]:
    return [DAY + timedelta(number) for number in range(count)]


@pytest.mark.parametrize("text", ["- Backup of the photo server ran.", "- 备份照片服务器，没有错误。"])
def test_the_newest_takes_the_place_of_the_best(text: str) -> None:
    found = fold([Line("other"), *(Line(text, day) for day in days(24))])
    assert found == [Kept(0, 0), Kept(24, 1, More(23, DAY, DAY + timedelta(22)))]
    few = [Line(text, day) for day in days(3)]
    assert fold(few, newest=False) == [Kept(0, 0, More(2, DAY + timedelta(1), DAY + timedelta(2)))]


def test_a_changed_number_stays_visible() -> None:
    few = [f"- The port is {8000 + number}" for number in range(VISIBLE)]
    assert [each.at for each in fold([Line(text, day) for text, day in zip(few, days(VISIBLE), strict=True)])] == [
        0,
        1,
        2,
    ]
    many = [f"- Backup took {number} minutes" for number in range(40, 60)]
    (found,) = fold([Line(text, day) for text, day in zip(many, days(20), strict=True)])
    assert many[found.at] == "- Backup took 59 minutes"
    assert found.more is not None
    assert found.more.count == 19
    assert found.more.values[:2] == ("58", "57")
    assert len(found.more.values) == MAX_VALUES + 1


def test_a_number_that_is_asked_for_is_kept() -> None:
    orders = [f"- Order {number} was shipped" for number in range(4700, 4720)]
    kept = fold([Line(text, day) for text, day in zip(orders, days(20), strict=True)], {"4711", "order"})
    assert {orders[each.at] for each in kept} == {"- Order 4711 was shipped", "- Order 4719 was shipped"}


@pytest.mark.parametrize("text", ["- Status: done", "- 状态：完成"])
def test_a_short_text_needs_its_context(text: str) -> None:
    for abouts, count in ((("# Alpha", "# Beta"), 2), (("# Log 2026-01-10", "# Log 2026-01-11"), 1)):
        assert len(fold([Line(text, DAY, about) for about in abouts])) == count


def test_the_best_stays_where_it_is_clearly_better_for_what_is_around_it() -> None:
    lines = [Line("- paid the bill", day, score=score) for day, score in zip(days(3), (0.8, 0.79, 0.5), strict=True)]
    assert fold(lines) == [Kept(1, 0, More(2, DAY, DAY + timedelta(2)))]


def test_a_line_that_counts_from_its_day_is_another_one_on_another_day() -> None:
    lines = [Line("- saw the dentist yesterday", day, mark=day) for day in days(VISIBLE)]
    assert len(fold(lines)) == VISIBLE
    more = [Line("- saw the dentist yesterday", day, mark=day) for day in days(9)]
    assert [each.at for each in fold(more, {DAY})] == [0, 8]


def test_hundreds_of_candidates_take_little_time() -> None:
    texts = [f"- Line {number} of the log {'word ' * (number % 40)}" for number in range(500)]
    started = time.process_time()
    fold([Line(text) for text in texts])
    assert time.process_time() - started < 1
