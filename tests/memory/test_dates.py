from __future__ import annotations

import tomllib
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.memory.dates import DateRange, Prefer, dates_in
from tests.memory.index_host import House, find, paths

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
        ("this past weekend", "2026-03-14..2026-03-15"),
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
        ("two weeks after 3 May 2024", "2024-05-14..2024-05-20"),
        ("two days before the 3rd of May, 2024", "2024-05-01"),
        ("a day after 2024-05-03", "2024-05-04"),
        ("the Sunday before the 25th of May, 2023", "2023-05-21"),
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
        "原来年轻人将来月底才走",
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Was war am 12. März 2025?", "2025-03-12"),
        ("12. maerz", "2026-03-12"),
        ("vom 3. bis 5. Mai 2025", "2025-05-03..2025-05-05"),
        ("3.-5. Mai", "2026-05-03..2026-05-05"),
        ("am 12.3. beim Zahnarzt", "2026-03-12"),
        ("Termin 12.03. um 10", "2026-03-12"),
        ("am 12.3.25", "2025-03-12"),
        ("am 12.3.2025", "2025-03-12"),
        ("3. KW", "2026-01-12..2026-01-18"),
        ("KW 12/2025", "2025-03-17..2025-03-23"),
        ("im März", "2026-03-01..2026-03-31"),
        ("im April", "2026-04-01..2026-04-30"),
        ("im Mai 2025", "2025-05-01..2025-05-31"),
        ("Ende Oktober", "2025-10-01..2025-10-31"),
        ("letzten Mai", "2025-05-01..2025-05-31"),
        ("letzten Sommer", "2025-06-01..2025-08-31"),
        ("Sommer 2024", "2024-06-01..2024-08-31"),
        ("gestern Abend", "2026-03-17"),
        ("vorgestern", "2026-03-16"),
        ("heute morgen", "2026-03-18"),
        ("Morgen gehe ich zum Arzt", "2026-03-19"),
        ("übermorgen", "2026-03-20"),
        ("letzten Dienstag", "2026-03-17"),
        ("am Dienstag", "2026-03-17"),
        ("Mittwoch, 12. März 2025", "2025-03-12"),
        ("vor drei Tagen", "2026-03-15"),
        ("vor einer Woche", "2026-03-08..2026-03-14"),
        ("vor zwei Wochen", "2026-03-01..2026-03-07"),
        ("vor ein paar Tagen", "2026-03-12..2026-03-16"),
        ("vor einem halben Jahr", "2025-09-01..2025-09-30"),
        ("vor 2 Jahren", "2024-01-01..2024-12-31"),
        ("in drei Tagen", "2026-03-21"),
        ("nächste Woche", "2026-03-23..2026-03-29"),
        ("letzte Woche", "2026-03-09..2026-03-15"),
        ("vorletzte Woche", "2026-03-02..2026-03-08"),
        ("letzte Woche Dienstag", "2026-03-10"),
        ("Dienstag letzter Woche", "2026-03-10"),
        ("nächsten Monat", "2026-04-01..2026-04-30"),
        ("dieses Jahr", "2026-01-01..2026-12-31"),
        ("in den letzten drei Tagen", "2026-03-15..2026-03-18"),
        ("in den letzten Wochen", "2026-02-25..2026-03-18"),
        ("am Wochenende", "2026-03-14..2026-03-15"),
        ("letztes Wochenende", "2026-03-14..2026-03-15"),
        ("im Jahr 2024", "2024-01-01..2024-12-31"),
        ("seit 2023", "2023-01-01..2023-12-31"),
        ("1. Quartal 2025", "2025-01-01..2025-03-31"),
        ("letzte Nacht", "2026-03-17"),
        ("1. April 2025", "2025-04-01"),
        ("am 1. August", "2026-08-01"),
        ("zwei Wochen nach dem 3. Mai 2024", "2024-05-14..2024-05-20"),
        ("der Sonntag vor dem 25. Mai 2023", "2023-05-21"),
        ("die Woche nach dem 3. Mai 2024", "2024-05-06..2024-05-12"),
    ],
)
def test_german(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("el 3 de mayo de 2025", "2025-05-03"),
        ("3 de mayo", "2026-05-03"),
        ("el 1 de enero", "2026-01-01"),
        ("del 3 al 5 de mayo de 2025", "2025-05-03..2025-05-05"),
        ("en abril", "2026-04-01..2026-04-30"),
        ("en mayo de 2024", "2024-05-01..2024-05-31"),
        ("mayo pasado", "2025-05-01..2025-05-31"),
        ("ayer", "2026-03-17"),
        ("anteayer", "2026-03-16"),
        ("anoche", "2026-03-17"),
        ("hoy", "2026-03-18"),
        ("¿Qué hago mañana?", "2026-03-19"),
        ("pasado mañana", "2026-03-20"),
        ("el martes pasado", "2026-03-17"),
        ("el próximo lunes", "2026-03-23"),
        ("el martes", "2026-03-17"),
        ("hace dos semanas", "2026-03-01..2026-03-07"),
        ("hace unos días", "2026-03-12..2026-03-16"),
        ("hace tres días", "2026-03-15"),
        ("hace un año", "2025-01-01..2025-12-31"),
        ("hace medio año", "2025-09-01..2025-09-30"),
        ("dentro de dos semanas", "2026-03-29..2026-04-04"),
        ("la semana que viene", "2026-03-23..2026-03-29"),
        ("la semana pasada", "2026-03-09..2026-03-15"),
        ("el mes pasado", "2026-02-01..2026-02-28"),
        ("el año pasado", "2025-01-01..2025-12-31"),
        ("el martes de la semana pasada", "2026-03-10"),
        ("este fin de semana", "2026-03-21..2026-03-22"),
        ("el fin de semana", "2026-03-14..2026-03-15"),
        ("los últimos tres días", "2026-03-15..2026-03-18"),
        ("las últimas dos semanas", "2026-03-04..2026-03-18"),
        ("verano de 2024", "2024-06-01..2024-08-31"),
        ("el verano pasado", "2025-06-01..2025-08-31"),
        ("en 2024", "2024-01-01..2024-12-31"),
        ("esta mañana", "2026-03-18"),
        ("miércoles 12 de marzo", "2026-03-12"),
        ("febrero", "2026-02-01..2026-02-28"),
        ("primer trimestre de 2025", "2025-01-01..2025-03-31"),
        ("el 3/5", "2026-05-03"),
        ("el 3/5/2025", "2025-05-03"),
        ("¿qué pasó el 13/4/25?", "2025-04-13"),
        ("el domingo antes del 25 de mayo de 2023", "2023-05-21"),
        ("dos días después del 3 de mayo", "2026-05-05"),
    ],
)
def test_spanish(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("le 5 juin", "2026-06-05"),
        ("le 1er mai", "2026-05-01"),
        ("1er mai 2025", "2025-05-01"),
        ("du 3 au 5 mai", "2026-05-03..2026-05-05"),
        ("en avril", "2026-04-01..2026-04-30"),
        ("en mars 2025", "2025-03-01..2025-03-31"),
        ("mars dernier", "2025-03-01..2025-03-31"),
        ("hier j'ai mangé", "2026-03-17"),
        ("hier soir, nous avons vu", "2026-03-17"),
        ("avant-hier", "2026-03-16"),
        ("aujourd’hui", "2026-03-18"),
        ("demain", "2026-03-19"),
        ("après-demain", "2026-03-20"),
        ("mardi dernier", "2026-03-17"),
        ("mardi prochain", "2026-03-24"),
        ("mardi", "2026-03-17"),
        ("il y a trois jours", "2026-03-15"),
        ("il y a une semaine", "2026-03-08..2026-03-14"),
        ("il y a quelques jours", "2026-03-12..2026-03-16"),
        ("il y a deux mois", "2026-01-01..2026-01-31"),
        ("dans deux semaines", "2026-03-29..2026-04-04"),
        ("la semaine prochaine", "2026-03-23..2026-03-29"),
        ("la semaine dernière", "2026-03-09..2026-03-15"),
        ("le mois dernier", "2026-02-01..2026-02-28"),
        ("l'année dernière", "2025-01-01..2025-12-31"),
        ("l'an dernier", "2025-01-01..2025-12-31"),
        ("l'été dernier", "2025-06-01..2025-08-31"),
        ("été 2024", "2024-06-01..2024-08-31"),
        ("cet été", "2026-06-01..2026-08-31"),
        ("ce week-end", "2026-03-21..2026-03-22"),
        ("le week-end dernier", "2026-03-14..2026-03-15"),
        ("ces derniers jours", "2026-03-15..2026-03-18"),
        ("les trois derniers jours", "2026-03-15..2026-03-18"),
        ("ce matin", "2026-03-18"),
        ("lundi 12 mars", "2026-03-12"),
        ("en 2024", "2024-01-01..2024-12-31"),
        ("mardi de la semaine dernière", "2026-03-10"),
        ("2e trimestre 2025", "2025-04-01..2025-06-30"),
        ("août", "2026-08-01..2026-08-31"),
        ("le 15 août", "2026-08-15"),
        ("le 3/5", "2026-05-03"),
        ("le dimanche avant le 25 mai 2023", "2023-05-21"),
        ("deux semaines après le 3 mai", "2026-05-14..2026-05-20"),
    ],
)
def test_french(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3月14日", "2026-03-14"),
        ("令和7年4月1日", "2025-04-01"),
        ("平成元年", "1989-01-01..1989-12-31"),
        ("昨日", "2026-03-17"),
        ("一昨日", "2026-03-16"),
        ("おととい", "2026-03-16"),
        ("今日", "2026-03-18"),
        ("明日", "2026-03-19"),
        ("明後日", "2026-03-20"),
        ("先週の火曜日", "2026-03-10"),
        ("先週", "2026-03-09..2026-03-15"),
        ("来週の月曜", "2026-03-23"),
        ("先月", "2026-02-01..2026-02-28"),
        ("来月", "2026-04-01..2026-04-30"),
        ("来月5日", "2026-04-05"),
        ("昨年", "2025-01-01..2025-12-31"),
        ("去年の夏", "2025-06-01..2025-08-31"),
        ("昨年3月", "2025-03-01..2025-03-31"),
        ("3日前", "2026-03-15"),
        ("二週間前", "2026-03-01..2026-03-07"),
        ("2か月前", "2026-01-01..2026-01-31"),
        ("半年前", "2025-09-01..2025-09-30"),
        ("数日前", "2026-03-12..2026-03-16"),
        ("火曜日", "2026-03-17"),
        ("この前の火曜日", "2026-03-17"),
        ("今度の土曜日", "2026-03-21"),
        ("週末", "2026-03-14..2026-03-15"),
        ("先週末", "2026-03-14..2026-03-15"),
        ("過去3日間", "2026-03-15..2026-03-18"),
        ("ここ2週間", "2026-03-04..2026-03-18"),
        ("3月4日(水曜日)", "2026-03-04"),
        ("3月", "2026-03-01..2026-03-31"),
        ("2025年3月", "2025-03-01..2025-03-31"),
    ],
)
def test_japanese(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3월 14일", "2026-03-14"),
        ("2025년 3월 14일", "2025-03-14"),
        ("3월에", "2026-03-01..2026-03-31"),
        ("작년 3월", "2025-03-01..2025-03-31"),
        ("어제", "2026-03-17"),
        ("그저께", "2026-03-16"),
        ("오늘", "2026-03-18"),
        ("내일", "2026-03-19"),
        ("모레", "2026-03-20"),
        ("지난주 화요일", "2026-03-10"),
        ("지난주", "2026-03-09..2026-03-15"),
        ("지난 주말", "2026-03-14..2026-03-15"),
        ("이번 주", "2026-03-16..2026-03-22"),
        ("다음 주 월요일", "2026-03-23"),
        ("지난달", "2026-02-01..2026-02-28"),
        ("다음 달", "2026-04-01..2026-04-30"),
        ("다음 달 5일", "2026-04-05"),
        ("작년", "2025-01-01..2025-12-31"),
        ("작년 여름", "2025-06-01..2025-08-31"),
        ("지난 여름", "2025-06-01..2025-08-31"),
        ("3일 전", "2026-03-15"),
        ("3일 전에", "2026-03-15"),
        ("이틀 전", "2026-03-16"),
        ("일주일 전", "2026-03-08..2026-03-14"),
        ("두 달 전", "2026-01-01..2026-01-31"),
        ("3개월 전", "2025-12-01..2025-12-31"),
        ("며칠 전", "2026-03-12..2026-03-16"),
        ("2년 전", "2024-01-01..2024-12-31"),
        ("화요일", "2026-03-17"),
        ("지난 화요일", "2026-03-17"),
        ("주말에", "2026-03-14..2026-03-15"),
        ("최근 3일", "2026-03-15..2026-03-18"),
        ("지난 2주 동안", "2026-03-04..2026-03-18"),
        ("2025년", "2025-01-01..2025-12-31"),
        ("2025년 3분기", "2025-07-01..2025-09-30"),
        ("유월에", "2026-06-01..2026-06-30"),
        ("오월 삼일", "2026-05-03"),
        ("작년 시월 이십오일에", "2025-10-25"),
        ("십이월 십일", "2025-12-10"),
        ("2025년 삼월 십오일", "2025-03-15"),
    ],
)
def test_korean(text: str, expected: str) -> None:
    assert " ".join(spans(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Mars is a planet and Mars bars are sweet",
        "3 Mars bars and 2 mayo packets for the trip",
        "Mai Lee and Avril Lavigne sang, Julio too",
        "we like mayo on it, a day in Santo Domingo",
        "Mr Freitag said the thing to us",
        "hier ist der Schlüssel",
        "hier wohne ich am Fluss",
        "Guten Morgen, am Morgen war es kalt",
        "jeden Dienstag, montags und dienstags",
        "von Montag bis Freitag",
        "Do it so, am on it, Sa So Do Mi Mo Di",
        "el mar y la mar",
        "por la mañana la tarde",
        "todos los martes, los lunes, cada viernes",
        "de lunes a viernes",
        "tous les mardis, le lundi, chaque mardi",
        "du lundi au vendredi",
        "mardi gras",
        "Version 1.2.3. und 2.3.4.",
        "1.2. Einleitung",
        "siehe 3.1. Grundlagen",
        "upgrade to 3.5. Then reboot",
        "it costs 2.3. And so",
        "30. Februar",
        "31 de abril",
        "54. KW",
        "el 31 de febrero",
        "vor dem Haus in den Garten",
        "die letzte Woche des Urlaubs",
        "hace frío, hace calor",
        "il y a un problème dans deux maisons",
        "en 2000 lignes",
        "ce soit, cet homme, esta casa, este libro",
        "dans trois livres",
        "10 ans, drei Tage lang, tres días, trois jours",
        "nachts um drei",
        "毎週火曜日 毎日 毎月",
        "午前3時 日本 月曜から金曜",
        "きょうだい",
        "3日間の旅行",
        "매주 화요일 매일",
        "이번 주제 다음 주문 지난 주식",
        "3년 전체 오늘날 그제서야",
        "3개월 동안",
        "인내일",
        "일주일 동안",
        "in six months or a year",
        "The fin is on the ano an jour",
        "una pasada la esta",
        "ein paar Tage",
        "der letzte Tag",
        "Die Letzte Nachricht",
        "Mein Name ist Mai",
        "la dernière fois",
        "next passe of the tag",
        "el Jueves Santo y el Domingo de Ramos",
        "vendredi saint",
        "im Tal, im Zug, Ende der Reise",
        "ab 2000 Euro",
        "seit 2000 Euro",
        "Der Mars und der Monat",
        "en Marte",
        "de Julio Iglesias",
        "le 3/5 des clients",
        "el 1/2 de la tarta",
        "the 3/5 rule",
        "이월된 금액",
        "una semana antes del viaje",
    ],
)
def test_no_dates_in_any_of_them(text: str) -> None:
    assert spans(text) == []


@pytest.mark.parametrize(
    ("text", "past", "nearest"),
    [
        ("am 5. April", "2025-04-05", "2026-04-05"),
        ("am 5.4. war das", "2025-04-05", "2026-04-05"),
        ("en abril", "2025-04-01..2025-04-30", "2026-04-01..2026-04-30"),
        ("le 20 mars", "2025-03-20", "2026-03-20"),
        ("vendredi", "2026-03-13", "2026-03-20"),
        ("KW 20", "2025-05-12..2025-05-18", "2026-05-11..2026-05-17"),
        ("金曜日", "2026-03-13", "2026-03-20"),
        ("4월 5일", "2025-04-05", "2026-04-05"),
    ],
)
def test_a_question_of_another_language_looks_back(text: str, past: str, nearest: str) -> None:
    assert spans(text, prefer="past") == [past]
    assert spans(text, prefer="nearest") == [nearest]


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("gestern", "day"),
        ("KW 12", "week"),
        ("la semana pasada", "week"),
        ("en avril", "month"),
        ("昨年", "year"),
        ("지난달", "month"),
        ("am Wochenende", "day"),
    ],
)
def test_precision_in_other_languages(text: str, precision: str) -> None:
    assert [each.precision for each in dates_in(text, TODAY)] == [precision]


def test_the_wording_keeps_its_accents() -> None:
    found = dates_in("Am 3. März war Anna da, n\u00e4chste Woche kommt Zo\u00eb.", TODAY)
    assert [each.text for each in found] == ["3. März", "nächste Woche"]


def test_a_53rd_week_is_of_a_year_that_has_one() -> None:
    assert spans("KW 53", date(2021, 6, 1)) == ["2020-12-28..2021-01-03"]
    assert spans("KW 53", date(2024, 6, 1)) == []


DATA = Path(__file__).parent / "data"
EXPRESSIONS = [
    (text, date.fromisoformat(day), meant)
    for days in tomllib.loads((DATA / "expressions.toml").read_text("utf-8")).values()
    for day, rows in days.items()
    for text, meant in rows.items()
]


@pytest.mark.parametrize(("text", "today", "meant"), EXPRESSIONS, ids=[text for text, _, _ in EXPRESSIONS])
def test_times_that_questions_name(text: str, today: date, meant: str) -> None:
    ends = [(each.start, each.end) for each in dates_in(text, today, prefer="past")]
    first, _, last = meant.partition("..")
    start = date.fromisoformat(first) if first else date.min
    assert ends == [(start, date.fromisoformat(last) if last else date.max if ".." in meant else start)]


@pytest.mark.parametrize("text", tomllib.loads((DATA / "traps.toml").read_text("utf-8"))["texts"])
def test_questions_without_a_time(text: str) -> None:
    assert spans(text, date(2026, 2, 23), "past") == []


PIECES = (
    "last next this the week weekend month year Tuesday sat May March 7 31 2023 th of before after ago two a few Q3 "
    "yesterday - / . , 上 下 个 周 月 三 十 天 前 年 2026 13 日 号 末 去 半 几 最近 星期 summer every 99 999 ' "
    "vor in am letzten drei Tagen Woche März mai mars hier morgen KW 53. . de el la hace il y a dos dernier"
    " pasado 年 先週 の 火曜日 "
    "令和 元 前 지난 주 화요일 전 월 이틀 일 달 "
    "Q1 spring week the 13th 2/14 29 February between and from to until since Christmas early first half end bis seit "
    "und 之前 以后 到 第 春 季 初 から まで 부터 까지 초 2024"
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


NOTES = {
    "memory/2026-03-12.md": "# Log\n\n- Zahnarzt 歯医者 치과 dentista dentiste\n",
    "memory/2026-02-12.md": "# Log\n\n- Zahnarzt 歯医者 치과 dentista dentiste\n",
    "memory/2026-01-12.md": "# Log\n\n- Zahnarzt 歯医者 치과 dentista dentiste\n",
}


@pytest.mark.parametrize(
    "question",
    [
        "Was war am 12. Februar 2026 beim Zahnarzt?",
        "Zahnarzt 12.02.2026",
        "¿Qué dijo el dentista el 12 de febrero de 2026?",
        "Qu'a dit le dentiste le 12 février 2026 ?",
        "令和8年2月12日の歯医者は?",
        "2026년 2월 12일 치과",
    ],
)
async def test_a_question_with_a_date_finds_the_note_of_that_day(house: House, question: str) -> None:
    for path, text in NOTES.items():
        house.write(path, text)
    async with house.opened(None) as index:
        await index.sync()
        assert paths(await find(index, question))[0] == "memory/2026-02-12.md"
