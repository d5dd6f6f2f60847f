"""Which days the lines of a note are of."""

from __future__ import annotations

from datetime import date
from textwrap import dedent

import pytest

from clawbot.memory.documents.days import date_of, day_of, marks_of

TENTH, ELEVENTH = date(2026, 3, 10), date(2026, 3, 11)
PATH = "memory/a.md"


def told(text: str, path: str = PATH) -> dict[str, set[str]]:
    """The days of each line of a note with a word in it, by that word; each line ends with one of its own."""
    text = dedent(text).lstrip("\n")
    day = day_of(path, text)
    marks = marks_of(text, day)
    found: dict[str, set[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        days = [mark.days for mark in marks if mark.line <= number][-1:] or [(day,) if day else ()]
        if line.strip():
            found[line.split()[-1]] = {each.isoformat() for each in days[0]}
    return found


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("20260310.md", TENTH),
        ("20260310-standup.md", TENTH),
        ("sub/20260310 会议.md", TENTH),
        ("202603101430 idea.md", TENTH),
        ("20260310143059.md", TENTH),
        ("2026-03-10 站会.md", TENTH),
        ("20260230.md", None),
        ("20261301.md", None),
        ("12345678.md", None),
        ("202603101.md", None),
        ("a20260310.md", None),
        ("20260310a.md", None),
    ],
)
def test_a_name_tells_the_day_with_and_without_hyphens(name: str, day: date | None) -> None:
    assert date_of(f"memory/{name}") == day


@pytest.mark.parametrize(
    "matter",
    [
        "date: 2026-03-10",
        'title: "a: b"\ndate: "2026-03-10"',
        "Date: 2026-03-10T23:30:00+01:00",
        "tags: [x]\ndate: 2026-03-10 09:00\n",
        "date: 10 March 2026",
        "date: 2026年3月10日",
        "date: 2026/03/10",
    ],
)
def test_the_front_matter_tells_the_day_before_the_name_does(matter: str) -> None:
    text = f"---\n{matter}\n---\n\ntext\n"
    assert day_of(PATH, text) == TENTH
    assert day_of("memory/2026-01-01-trip.md", text) == TENTH


@pytest.mark.parametrize(
    "text",
    [
        "date: 2026-03-10\n",
        "---\ntitle: x\n---\ndate: 2026-03-10\n",
        "---\ndate: 2026-02-31\n---\n",
        "---\ndate: tomorrow\n---\n",
        "---\nupdate: 2026-03-10\n---\n",
        "---\ndate: 2026-03-10\n",
    ],
)
def test_what_is_no_front_matter_with_a_date_tells_nothing(text: str) -> None:
    assert day_of(PATH, text) is None


def test_a_heading_that_begins_with_a_date_tells_it_for_what_stands_below() -> None:
    assert told(
        """
        before
        # Log-2026
        early
        ## 2026-03-10 standup
        one
        ### details
        two
        ## Mittwoch
        three
        ## Wednesday, 11 March 2026
        four
        # 2026年3月10日 周二
        五
        """
    ) == {
        "before": set(),
        "Log-2026": set(),
        "early": set(),
        "standup": {"2026-03-10"},
        "one": {"2026-03-10"},
        "details": {"2026-03-10"},
        "two": {"2026-03-10"},
        "Mittwoch": set(),
        "three": set(),
        "2026": {"2026-03-11"},
        "four": {"2026-03-11"},
        "周二": {"2026-03-10"},
        "五": {"2026-03-10"},
    }


@pytest.mark.parametrize(
    "heading",
    [
        "Mittwoch, 11. März 2026",
        "So, den 11. März 2026",
        "miércoles 11 de marzo de 2026",
        "mercredi 11 mars 2026 - réunion",
        "11.03.2026 Standup",
        "水曜日 2026年3月11日",
        "2026년 3월 11일 회의",
    ],
)
def test_a_heading_tells_a_day_in_other_languages(heading: str) -> None:
    assert told(f"one\n# {heading}\ntwo\n")["two"] == {"2026-03-11"}


def test_a_note_with_a_day_is_of_it_also_below_the_heading_of_another_one() -> None:
    days = told("# 2026-03-10\none\n## 2026-03-11 plan\ntwo\n# rest\nthree\n", "memory/2026-03-10.md")
    assert days["one"] == days["three"] == {"2026-03-10"}
    assert days["two"] == {"2026-03-10", "2026-03-11"}


@pytest.mark.parametrize(
    "line",
    [
        "## Plans for 2026-03-11",
        "## the 2026 budget",
        "## 2026-03",
        "## March 2026",
        "## Tuesday",
        "## yesterday, 2026",
        "## 2026-02-31",
        "##2026-03-11",
        "2026-03-11 launch",
        "- 2026-03-11 10:00 Ann: see you",
        "2026-03-11 10:00 dentist",
        "```\n# 2026-03-11\n```",
        "~~~sh\n2026-03-11 10:00 up\n~~~",
    ],
)
def test_what_only_speaks_of_a_day_is_not_of_it(line: str) -> None:
    assert marks_of(f"{line}\ntext\n", None) == marks_of(f"{line}\ntext\n", TENTH) == ()


def test_talk_tells_its_day_until_a_heading() -> None:
    days = told("[2026-03-10 23:59] Ann: one\n00:01 Bo: two\n2026-03-11T00:02:10 Ann: three\nfour\n# rest\nfive\n")
    assert days["one"] == days["two"] == {"2026-03-10"}
    assert days["three"] == days["four"] == {"2026-03-11"}
    assert days["rest"] == days["five"] == set()


def test_talk_in_a_note_with_a_day_is_of_both() -> None:
    days = told("2026-03-11 10:00 Dentist: bring the card one\ntwo\n", "memory/2026-03-10.md")
    assert days["one"] == days["two"] == {"2026-03-10", "2026-03-11"}


SESSION = """
# Session: 2026-03-10 23:10 – 2026-03-11 00:40 (Europe/Berlin)

- **Session ID**: id

## Conversation Summary

23:10 user: first
> 多行 second

23:59 assistant: third

2026-03-11 00:01 user: fourth

00:40 assistant: fifth
"""


@pytest.mark.parametrize("path", ["memory/2026-03-11-party.md", "memory/party.md", "memory/2026-03-20-later.md"])
def test_the_note_of_a_session_tells_the_day_of_each_text(path: str) -> None:
    days = told(SESSION, path)
    assert days["first"] == days["second"] == days["third"] == {"2026-03-10"}
    assert days["fourth"] == days["fifth"] == {"2026-03-11"}


def test_an_older_note_of_a_session_is_of_the_day_in_its_heading() -> None:
    old = "# Session: 2026-03-10 16:12 (Europe/Berlin)\n\n## Conversation Summary\n\nuser: one\n\nassistant: two\n"
    assert told(old, "memory/renamed.md")["one"] == {"2026-03-10"}
    assert marks_of(old, TENTH) == ()
