"""Which texts repeat each other, and what is left of them."""

from __future__ import annotations

import time
from datetime import date, timedelta

import pytest

from clawbot.text.copies import MAX_VALUES, VISIBLE, Kept, Line, More, fold, wording_of

DAY = date(2026, 1, 10)

SAME = [
    ("- Backup of the photo server ran, no errors.", "* backup of photo server ran - no error"),
    ("- [ ] Water the plants", "[ ] water plants!"),
    ("## Morning checks", "**Morning checks:**"),
    ("> Standup: nothing new", "Standup - nothing new."),
    ("[2026-01-10 07:30] heartbeat ok", "[2026-01-11 07:45] heartbeat OK"),
    ("2026-01-10 heartbeat ok", "2026-02-11 heartbeat ok"),
    ("1. Fed the hens", "2. Fed the hens"),
    ("- 备份照片服务器，没有错误。", "- 备份了照片服务器,没有错误"),
    ("ＡＢＣ 检查", "ABC检查"),
    ("- [ ] 浇花", "* [ ] 浇花！"),
]
VARIANTS = [
    ("port 8443", "port 9443"),
    ("- Backup took 41 minutes", "- Backup took 43 minutes"),
    ("Meeting on Monday", "Meeting on Tuesday"),
    ("- 07:30 dentist", "- 15:00 dentist"),
    ("- [ ] pay the rent", "- [x] pay the rent"),
    ("-5 degrees outside", "5 degrees outside"),
    ("周一开会", "周二开会"),
    ("端口是 8443", "端口是 9443"),
    ("1月10日体检", "2月12日体检"),
    ("Deployed v1.2.3 today", "Deployed v1.2.4 today"),
    ("端口8443已开", "端口9443已开"),
]
OTHERS = [
    ("I like tea", "I don't like tea"),
    ("I can come", "I can't come"),
    ("Backup ran.", "Backup ran?"),
    ("Backup ✅", "Backup ❌"),
    ("C++ course", "C course"),
    ("x > 5", "x < 5"),
    ("costs 5 €", "costs 5 $"),
    ("Tom beat Anna", "Anna beat Tom"),
    ("srv12 was restarted", "srv13 was restarted"),
    ("Moved to Berlin", "Moved to Bern"),
    ("User: yes", "Assistant: yes"),
    ("我喜欢茶", "我不喜欢茶"),
    ("备份有错误", "备份没有错误"),
    ("他来了吗", "他来了"),
    ("张三欠李四", "李四欠张三"),
]


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
