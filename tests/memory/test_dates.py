from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.memory.dates import DateRange, Prefer, dates_in

TODAY = date(2026, 3, 18)
"""A Wednesday."""


def spans(text: str, reference: date = TODAY, prefer: Prefer = "nearest") -> list[str]:
    """The found ranges as `2026-03-02` or `2026-03-01..2026-03-31`."""
    return [shown(each) for each in dates_in(text, reference, prefer=prefer)]


def shown(found: DateRange) -> str:
    return str(found.start) if found.start == found.end else f"{found.start}..{found.end}"


MARCH = "2026-03-01..2026-03-31"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2026-03-02 we met", "2026-03-02"),
        ("see memory/2026-03-02.md", "2026-03-02"),
        ("2026-03-02T10:00:00Z", "2026-03-02"),
        ("2026/3/2", "2026-03-02"),
        ("2026.03.02", "2026-03-02"),
        ("3/2/2026", "2026-03-02"),
        ("25/12/2025", "2025-12-25"),
        ("2.3.2026", "2026-03-02"),
        ("2026-03 report", MARCH),
        ("7 May 2023", "2023-05-07"),
        ("the 7th of May, 2023", "2023-05-07"),
        ("May 7th, 2023", "2023-05-07"),
        ("May 7, 2023", "2023-05-07"),
        ("may 7th", "2026-05-07"),
        ("on march 3", "2026-03-03"),
        ("Sept. 5", "2026-09-05"),
        ("5 Jan", "2026-01-05"),
        ("7-9 May 2023", "2023-05-07..2023-05-09"),
        ("May 7–9, 2023", "2023-05-07..2023-05-09"),
        ("March 2024", "2024-03-01..2024-03-31"),
        ("in March of 2024", "2024-03-01..2024-03-31"),
        ("in March", MARCH),
        ("in march", MARCH),
        ("since April", "2026-04-01..2026-04-30"),
        ("mid-October", "2025-10-01..2025-10-31"),
        ("the October trip", "2025-10-01..2025-10-31"),
        ("last March", "2025-03-01..2025-03-31"),
        ("last February", "2026-02-01..2026-02-28"),
        ("next May", "2026-05-01..2026-05-31"),
        ("next January", "2027-01-01..2027-01-31"),
        ("this May", "2026-05-01..2026-05-31"),
        ("from May to July", "2026-05-01..2026-05-31 2026-07-01..2026-07-31"),
        ("as of January 9, 2013", "2013-01-09"),
        ("on Sun, 13 Oct 2002", "2002-10-13"),
        ("Sunday the 7th of May 2023", "2023-05-07"),
        ("in 2023", "2023-01-01..2023-12-31"),
        ("in 2023 I was", "2023-01-01..2023-12-31"),
        ("summer 2022", "2022-06-01..2022-08-31"),
        ("winter of 2023", "2023-12-01..2024-02-29"),
        ("Q3 2025", "2025-07-01..2025-09-30"),
        ("2025 Q1", "2025-01-01..2025-03-31"),
    ],
)
def test_english_absolute(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-03-18"),
        ("tonight and this morning", "2026-03-18"),
        ("Yesterday's talk", "2026-03-17"),
        ("last night", "2026-03-17"),
        ("tomorrow", "2026-03-19"),
        ("the day before yesterday", "2026-03-16"),
        ("the day after tomorrow", "2026-03-20"),
        ("last Tuesday", "2026-03-17"),
        ("last Wednesday", "2026-03-11"),
        ("last Fri", "2026-03-13"),
        ("this Friday", "2026-03-20"),
        ("next Tuesday", "2026-03-24"),
        ("Friday", "2026-03-20"),
        ("on Sunday", "2026-03-15"),
        ("Tuesday last week", "2026-03-10"),
        ("Friday of next week", "2026-03-27"),
        ("last week", "2026-03-09..2026-03-15"),
        ("this week", "2026-03-16..2026-03-22"),
        ("next week", "2026-03-23..2026-03-29"),
        ("last month", "2026-02-01..2026-02-28"),
        ("next month", "2026-04-01..2026-04-30"),
        ("this quarter", "2026-01-01..2026-03-31"),
        ("last year", "2025-01-01..2025-12-31"),
        ("last summer", "2025-06-01..2025-08-31"),
        ("next winter", "2026-12-01..2027-02-28"),
        ("last weekend", "2026-03-14..2026-03-15"),
        ("this past weekend", "2026-03-21..2026-03-22"),
        ("the weekend before", "2026-03-14..2026-03-15"),
        ("the weekend before last", "2026-03-07..2026-03-08"),
        ("the week before last", "2026-03-02..2026-03-08"),
        ("over the weekend", "2026-03-14..2026-03-15"),
        ("the Sunday before 25 May 2023", "2023-05-21"),
        ("the week after May 3, 2023", "2023-05-08..2023-05-14"),
        ("the day before", "2026-03-17"),
        ("three days ago", "2026-03-15"),
        ("a day ago", "2026-03-17"),
        ("two weeks ago", "2026-03-01..2026-03-07"),
        ("a month ago", "2026-02-01..2026-02-28"),
        ("a couple of years ago", "2024-01-01..2024-12-31"),
        ("a few days ago", "2026-03-12..2026-03-16"),
        ("10 days back", "2026-03-08"),
        ("two weeks from now", "2026-03-29..2026-04-04"),
        ("over the last three days", "2026-03-15..2026-03-18"),
        ("in the past 2 months", "2026-01-18..2026-03-18"),
        ("the next two weeks", "2026-03-18..2026-04-01"),
    ],
)
def test_english_relative(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026年3月2日", "2026-03-02"),
        ("2026年 3月 2号", "2026-03-02"),
        ("26年3月2日", "2026-03-02"),
        ("二〇二六年三月二日", "2026-03-02"),
        ("２０２６年３月２日", "2026-03-02"),
        ("3月2日开会", "2026-03-02"),
        ("三月二十一号", "2026-03-21"),
        ("十二月三十一日", "2025-12-31"),
        ("2026年3月", MARCH),
        ("三月做了什么", MARCH),
        ("3月份", MARCH),
        ("在三月里", MARCH),
        ("三月初", "2026-03-01..2026-03-10"),
        ("3月中旬", "2026-03-11..2026-03-20"),
        ("2月底", "2026-02-21..2026-02-28"),
        ("去年三月", "2025-03-01..2025-03-31"),
        ("明年的5月1日", "2027-05-01"),
        ("上个月", "2026-02-01..2026-02-28"),
        ("上個月5號", "2026-02-05"),
        ("下个月", "2026-04-01..2026-04-30"),
        ("上上个月", "2026-01-01..2026-01-31"),
        ("本月初", "2026-03-01..2026-03-10"),
        ("2025年", "2025-01-01..2025-12-31"),
        ("去年", "2025-01-01..2025-12-31"),
        ("前年", "2024-01-01..2024-12-31"),
        ("大前年", "2023-01-01..2023-12-31"),
        ("去年年底", "2025-11-01..2025-12-31"),
        ("明年上半年", "2027-01-01..2027-06-30"),
        ("2025年第三季度", "2025-07-01..2025-09-30"),
        ("上季度", "2025-10-01..2025-12-31"),
        ("昨天", "2026-03-17"),
        ("前天", "2026-03-16"),
        ("大前天", "2026-03-15"),
        ("今晚", "2026-03-18"),
        ("明天和後天", "2026-03-19 2026-03-20"),
        ("上周三", "2026-03-11"),
        ("上週三", "2026-03-11"),
        ("上礼拜", "2026-03-09..2026-03-15"),
        ("上个星期天", "2026-03-15"),
        ("上上周五", "2026-03-06"),
        ("这周五", "2026-03-20"),
        ("下周一", "2026-03-23"),
        ("下周一起去", "2026-03-23..2026-03-29"),
        ("上周日志出错", "2026-03-09..2026-03-15"),
        ("周五交", "2026-03-20"),
        ("禮拜天", "2026-03-15"),
        ("3月2日周一,3月4日(周三)", "2026-03-02 2026-03-04"),
        ("五月天气热", "2026-05-01..2026-05-31"),
        ("周末", "2026-03-14..2026-03-15"),
        ("上周末", "2026-03-14..2026-03-15"),
        ("下个周末", "2026-03-28..2026-03-29"),
        ("三天前", "2026-03-15"),
        ("3天之前", "2026-03-15"),
        ("十二天前", "2026-03-06"),
        ("两周前", "2026-03-01..2026-03-07"),
        ("兩個星期前", "2026-03-01..2026-03-07"),
        ("两个月以前", "2026-01-01..2026-01-31"),
        ("半年前", "2025-09-01..2025-09-30"),
        ("五年前", "2021-01-01..2021-12-31"),
        ("几天前", "2026-03-12..2026-03-16"),
        ("最近三天", "2026-03-15..2026-03-18"),
        ("过去两周", "2026-03-04..2026-03-18"),
        ("前几天", "2026-03-15..2026-03-18"),
    ],
)
def test_chinese(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version 1.2.3 and v2.0.26",
        "release 2024.1.2",
        "at 12:30, 7:05 pm",
        "it costs $20.26, 1,999 or 2.3",
        "it may rain, you may 3 times",
        "this may be so; maybe",
        "they march on, march 5 miles and then the last march began",
        "version 3 may be found, by Sun Microsystems, the late 1980's and in 1990s",
        "wait a second, the second one",
        "April Jones met June and August",
        "he sat in the sun and wed her",
        "Jan and May came to see us",
        "every Tuesday, on Fridays, each Monday",
        "the last week of it, the last year in office",
        "the week before the launch",
        "24/7, 3/4 of it, 1/2",
        "port 2024, 2023 items, in 2000 lines",
        "call 555-2026-03-02-17",
        "2026-13-45 and 30 February",
        "31 April 2023",
        "一周三次,每周三,每个周五",
        "周一到周五上班",
        "他叫三月,书名「三月」,《三月》",
        "五月天的歌,三月龄的猫",
        "三个月的工作,两年",
        "十三月 13月",
        "透明天花板,以后天气,文明日报",
        "晚上周围没人,以下周边",
        "花了三天前端才做完",
        "每天每年都去",
        "2月30日",
        "第三季 数据库 今后",
    ],
)
def test_no_dates(text: str) -> None:
    assert spans(text) == []


@pytest.mark.parametrize(
    ("text", "past", "nearest"),
    [
        ("April 5", "2025-04-05", "2026-04-05"),
        ("March 18", "2026-03-18", "2026-03-18"),
        ("in April", "2025-04-01..2025-04-30", "2026-04-01..2026-04-30"),
        ("in March", MARCH, MARCH),
        ("Friday", "2026-03-13", "2026-03-20"),
        ("4月5日", "2025-04-05", "2026-04-05"),
        ("四月", "2025-04-01..2025-04-30", "2026-04-01..2026-04-30"),
        ("周五", "2026-03-13", "2026-03-20"),
        ("29 Feb", "2024-02-29", "2028-02-29"),
    ],
)
def test_a_question_looks_back_a_note_looks_around(text: str, past: str, nearest: str) -> None:
    assert spans(text, prefer="past") == [past]
    assert spans(text, prefer="nearest") == [nearest]


@pytest.mark.parametrize(
    ("text", "precision"),
    [("yesterday", "day"), ("last week", "week"), ("in March", "month"), ("2025年", "year"), ("周末", "day")],
)
def test_precision(text: str, precision: str) -> None:
    assert [each.precision for each in dates_in(text, TODAY)] == [precision]


def test_wording_and_order() -> None:
    found = dates_in("上周三 we met, not on May 7th, 2023; 2026-03-11 again.", TODAY)
    assert [each.text for each in found] == ["上周三", "May 7th, 2023"]


def test_a_long_text_is_read_to_its_bound() -> None:
    assert spans("yesterday " + "x" * 1_000_000) == ["2026-03-17"]
    assert spans("x " * 500_000 + "yesterday") == []


PIECES = (
    "last next this the week weekend month year Tuesday sat May March 7 31 2023 th of before after ago two a few Q3 "
    "yesterday - / . , 上 下 个 周 月 三 十 天 前 年 2026 13 日 号 末 去 半 几 最近 星期 summer every 99 999 '"
)
WORDS = PIECES.split(" ")
MIXED = st.lists(st.sampled_from([*WORDS, " ", " ", " "]), max_size=20).map("".join)
EDGES = st.one_of(st.dates(), st.sampled_from([date.min, date.max, date.min + timedelta(1), date.max - timedelta(1)]))


@settings(deadline=None)
@given(st.one_of(st.text(max_size=80), MIXED), EDGES, st.sampled_from(["past", "nearest"]))
def test_any_text_and_any_reference(text: str, reference: date, prefer: Prefer) -> None:
    for found in dates_in(text, reference, prefer=prefer):
        assert found.start <= found.end
        assert found.text


@given(st.dates(date(1900, 1, 1), date(2199, 12, 31)), EDGES)
def test_a_full_date_is_itself(when: date, reference: date) -> None:
    for text in (when.isoformat(), f"{when.day} {when:%B} {when.year}", f"{when.year}年{when.month}月{when.day}日"):
        assert spans(text, reference) == [when.isoformat()]
