"""What names, folders, headings and front matter say of the day: tables of what people write."""

from __future__ import annotations

import tomllib
from datetime import date, timedelta
from importlib.resources import files
from zoneinfo import ZoneInfo

import pytest

from clawbot.memory.dates.named import Order, is_ambiguous, named, named_path, order_in, order_of_locale
from clawbot.memory.documents.days import date_of, days_in, marks_of, named_by

TENTH = date(2026, 1, 10)
WEEK = (date(2026, 1, 5), date(2026, 1, 11))
MONTH = (date(2026, 1, 1), date(2026, 1, 31))
QUARTER = (date(2026, 1, 1), date(2026, 3, 31))
TABLE = tomllib.loads(files("clawbot.memory.dates").joinpath("names.toml").read_text("utf-8"))

NAMES = {
    # Logseq, Roam, Obsidian and its folder formats
    "journals/2026_01_10.md": TENTH,
    "Daily/2026/01-January/2026-01-10-Saturday.md": TENTH,
    "Daily/2026-01-10 Sat.md": TENTH,
    "2026-01-10 (Sat).md": TENTH,
    "Daily Notes/2026/Q1/2026-01-10.md": TENTH,
    "2026/2026-01/2026-01-10.md": TENTH,
    "2026/01/10.md": TENTH,
    "2026/01/10 Saturday.md": TENTH,
    "2026/1/9.md": TENTH - timedelta(1),
    "2026/01 January/10.md": TENTH,
    "2026/2026-01/10.md": TENTH,
    "journal/2026/Januar/10.md": TENTH,
    "2026年/01月/10日.md": TENTH,
    "January 10th, 2026.md": TENTH,
    "Sat, Jan 10th, 2026.md": TENTH,
    "Saturday, January 10, 2026.markdown": TENTH,
    "10 Jan 2026.md": TENTH,
    "10th January 2026.md": TENTH,
    "jan_10_2026.md": TENTH,
    # numbers
    "10.01.2026.md": TENTH,
    "10.1.2026 Notizen.md": TENTH,
    "10-01-2026.md": TENTH,
    "2026.01.10.md": TENTH,
    "2026 01 10.md": TENTH,
    "20260110.md": TENTH,
    "20260110T093000.md": TENTH,
    "202601100930 Zettel.md": TENTH,
    "Pasted-20260110.md": TENTH,
    # times and what follows
    "2026-01-10T0930.md": TENTH,
    "2026-01-10T09-30-00Z.md": TENTH,
    "2026-01-10-0930-slug.md": TENTH,
    "2026-01-10_09.30 standup.md": TENTH,
    "2026-01-10周六.md": TENTH,
    # other languages
    "2026年1月10日.md": TENTH,
    "2026年01月10日 星期六.md": TENTH,
    "周六 2026年1月10日.md": TENTH,
    "二〇二六年一月十日.md": TENTH,
    "令和8年1月10日.md": TENTH,
    "2026년 1월 10일.md": TENTH,
    "10. Januar 2026.md": TENTH,
    "Samstag, 10. Januar 2026.md": TENTH,
    "10 janvier 2026.md": TENTH,
    "10 de enero de 2026.md": TENTH,
    "1er février 2026.md": date(2026, 2, 1),
    "5. März 2026.md": date(2026, 3, 5),
    # behind words, in the name of a folder
    "Standup 2026-01-10.md": TENTH,
    "Trip to Rome (2026-01-10).md": TENTH,
    "会议 2026年1月10日.md": TENTH,
    "2026-01-10/standup.md": TENTH,
    "2026-01-10 launch/notes/plan.md": TENTH,
    "2026-W02-6.md": TENTH,
    "2026W026.md": TENTH,
}
PERIODS = {
    "2026-W02.md": WEEK,
    "2026W02 review.md": WEEK,
    "Weekly/2026/2026-KW02.md": WEEK,
    "KW 2 2026.md": WEEK,
    "2026 Week 2.md": WEEK,
    "2026年第2周.md": WEEK,
    "2026-01-05 to 2026-01-11.md": WEEK,
    "2026-01-05--2026-01-11.md": WEEK,
    "2026-01.md": MONTH,
    "2026_01 review.md": MONTH,
    "2026/01-January/plans.md": MONTH,
    "2026-01/plans.md": MONTH,
    "January 2026.md": MONTH,
    "Januar 2026.md": MONTH,
    "2026年1月.md": MONTH,
    "2026年1月 总结.md": MONTH,
    "2026-Q1.md": QUARTER,
    "Q1 2026.md": QUARTER,
    "2026年第1季度.md": QUARTER,
}
NO_DAYS = """
version 2026.1.10|1.2.2026-notes|v2026.01.10|app-2026.1.10|2026.1.10|2026.01.10.4|20261399|2026-13-01|2026-02-30
31-02-2026|99-99-2026|report-2026|2026|2026-|2026-010|2026-555-0110|+49-2026-0110|call +86 2026 0110|0170 20260110
phone 20260110|555-2026-01-10|12345678|202603101|a20260310|20260310a|2026-W54|2025-W53|2026-Q5|RFC 2026|port 20260
2026-99|1-2026|2026/01 Projects/plan|2026/plan|March of 2026|第2周|1月10日|10 January|yesterday|2026年|2126-01-10
"""


@pytest.mark.parametrize(("path", "day"), NAMES.items())
def test_a_name_says_the_day(path: str, day: date) -> None:
    found = named_path(path, "day")
    assert found is not None
    assert found.period is not None
    assert days_in(found.period) == (day,)


@pytest.mark.parametrize(("path", "days"), PERIODS.items())
def test_a_name_says_a_week_a_month_or_a_quarter(path: str, days: tuple[date, date]) -> None:
    found = named_path(path)
    assert found is not None
    assert found.period is not None
    assert (found.period.start, found.period.end) == days
    assert date_of(path) is None


@pytest.mark.parametrize("name", NO_DAYS.replace("\n", "|").strip("|").split("|"))
def test_other_numbers_are_no_day(name: str) -> None:
    assert named_path(f"{name}.md", "day") is None


@pytest.mark.parametrize("form", TABLE["forms"], ids=lambda form: form["like"][0])
def test_each_form_of_the_table_reads_its_examples(form: dict[str, list[str]]) -> None:
    for name in form["like"]:
        found = named(name, "day", at_end=True) or named_path(f"{name}.md", "day")
        assert found is not None, name
        assert found.period is not None, name
        assert found.period.start.year == 2026, name


@pytest.mark.parametrize(
    ("name", "order", "day"),
    [
        ("03-04-2026", "day", date(2026, 4, 3)),
        ("03-04-2026", "month", date(2026, 3, 4)),
        ("03_04_2026", "month", date(2026, 3, 4)),
        ("03-04-2026", None, None),
        ("25-04-2026", "month", date(2026, 4, 25)),
        ("04-25-2026", "day", date(2026, 4, 25)),
        ("04-04-2026", None, date(2026, 4, 4)),
        ("03.04.2026", "month", date(2026, 4, 3)),
    ],
)
def test_an_order_decides_between_two_days(name: str, order: Order | None, day: date | None) -> None:
    found = named(name, order)
    assert found is not None
    assert (found.period.start if found.period else None) == day
    assert found.is_ambiguous == is_ambiguous(name) == (name in ("03-04-2026", "03_04_2026"))


@pytest.mark.parametrize(
    ("name", "order"),
    [("25-04-2026.md", "day"), ("04-25-2026.md", "month"), ("03-04-2026.md", None), ("2026-04-25.md", None)],
)
def test_a_name_shows_the_order(name: str, order: Order | None) -> None:
    assert order_in(name) == order


@pytest.mark.parametrize(
    ("environment", "order"),
    [
        ({"LANG": "en_US.UTF-8"}, "month"),
        ({"LANG": "en_GB.UTF-8"}, "day"),
        ({"LANG": "de_DE.UTF-8"}, "day"),
        ({"LANG": "zh_CN.UTF-8"}, "month"),
        ({"LANG": "en_US.UTF-8", "LC_TIME": "en_GB.UTF-8"}, "day"),
        ({"LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8"}, None),
        ({}, None),
    ],
)
def test_the_locale_has_an_order(environment: dict[str, str], order: Order | None) -> None:
    assert order_of_locale(environment) == order


SHANGHAI = ZoneInfo("Asia/Shanghai")
MATTERS = {
    "created: 2026-01-10": TENTH,
    "created: '2026-01-10 09:30'": TENTH,
    "created_at: 2026-01-10T09:30:00+08:00": TENTH,
    "creation date: 2026-01-10 09:30": TENTH,
    "date created: Saturday, January 10th 2026, 9:30:00 am": TENTH,
    "dateCreated: 20260110": TENTH,
    'date: "10.01.2026"': TENTH,
    "date: [[2026-01-10]]": TENTH,
    "date:\n  - 2026-01-10": TENTH,
    "date: Jan 10th, 2026": TENTH,
    "date: 2026-01-10 23:30:00 +0800": TENTH,
    "date: 2026-01-09T23:30:00Z": TENTH,
    "date: 2026-01-10T01:00:00-05:00": TENTH,
    "date: 2026-01-10T00:00:00.000Z": TENTH,
    "日期: 2026年1月10日": TENTH,
    "创建时间: 2026-01-10 09:30": TENTH,
    "Datum: 10. Januar 2026": TENTH,
    "updated: 2026-01-10": None,
    "modified: 2026-01-10": None,
    "due date: 2026-01-10": None,
    "date: <% tp.date.now() %>": None,
    "date: {{date}}": None,
    "version: 2026.01.10": None,
}


@pytest.mark.parametrize(("matter", "day"), MATTERS.items())
def test_front_matter_says_the_day(matter: str, day: date | None) -> None:
    found = named_by("note.md", f"---\ntitle: x\n{matter}\n---\ntext\n", zone=SHANGHAI)
    assert (found.period.end if found and found.period else None) == day


def test_midnight_in_utc_is_the_day_alone_also_in_the_west() -> None:
    for value, day in (("2026-01-10T00:00:00.000Z", TENTH), ("2026-01-11T02:00:00Z", TENTH)):
        found = named_by("x.md", f"---\ndate: {value}\n---\n", zone=ZoneInfo("America/New_York"))
        assert (found.period.end if found and found.period else None) == day


@pytest.mark.parametrize(
    ("path", "text", "day"),
    [
        ("2026-01-10.md", "---\ncreated: 2026-01-12\n---\n", TENTH),
        ("2026-01-12.md", "---\ndate: 2026-01-10\n---\n", TENTH),
        ("2026-01/x.md", "---\ncreated: 2026-01-10\n---\n", TENTH),
        ("x.md", "+++\ndate = 2026-01-10T09:30:00+01:00\n+++\n", TENTH),
        ("x.md", "created:: [[Jan 10th, 2026]]\n- text\n", TENTH),
        ("x.md", "title:: x\ndate:: 2026-01-10\n", TENTH),
        ("x.md", "# Week\n- date:: 2026-01-10\n", None),
        ("x.md", "# 2026-W02\n- text\n", date(2026, 1, 11)),
        ("x.md", "# January 2026\n- text\n", date(2026, 1, 31)),
        ("x.md", "# January 2026 was cold\n- text\n", None),
    ],
)
def test_what_says_more_about_the_day_goes_first(path: str, text: str, day: date | None) -> None:
    found = named_by(path, text)
    assert (found.period.end if found and found.period else None) == day


def test_a_note_of_a_week_is_of_all_its_days_and_a_heading_in_it_of_one() -> None:
    days = days_in(named_path("2026-W02.md").period)  # type: ignore[union-attr, arg-type]  # it is a week: see above
    marks = marks_of("- a\n## 2026-01-07\n- b\n# rest\n- c\n", days)
    assert [(mark.line, len(mark.days)) for mark in marks] == [(1, 7), (2, 1), (4, 7)]
