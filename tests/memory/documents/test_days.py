"""Which days the lines of a note are of."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from textwrap import dedent

import pytest

from clawbot.config.schema_memory import ExtraPath
from clawbot.memory.documents.days import date_of, day_of, marks_of
from clawbot.memory.documents.memory_files import MemoryDocuments
from tests.tables import load_table

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
    load_table(__file__, "the_front_matter_tells_the_day_before_the_name_does"),
)
def test_the_front_matter_tells_the_day_before_the_name_does(matter: str) -> None:
    text = f"---\n{matter}\n---\n\ntext\n"
    assert day_of(PATH, text) == TENTH
    assert day_of("memory/2026-01-01-trip.md", text) == TENTH


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "what_is_no_front_matter_with_a_date_tells_nothing"),
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
    load_table(__file__, "a_heading_tells_a_day_in_other_languages"),
)
def test_a_heading_tells_a_day_in_other_languages(heading: str) -> None:
    assert told(f"one\n# {heading}\ntwo\n")["two"] == {"2026-03-11"}


def test_a_note_with_a_day_is_of_it_also_below_the_heading_of_another_one() -> None:
    days = told("# 2026-03-10\none\n## 2026-03-11 plan\ntwo\n# rest\nthree\n", "memory/2026-03-10.md")
    assert days["one"] == days["three"] == {"2026-03-10"}
    assert days["two"] == {"2026-03-10", "2026-03-11"}


@pytest.mark.parametrize(
    "line",
    load_table(__file__, "what_only_speaks_of_a_day_is_not_of_it"),
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


APRIL, MARCH = date(2026, 4, 3), date(2026, 3, 4)


def days(workspace: Path, *extra: Path) -> dict[str, date | None]:
    """The day of each note, by its name."""
    documents = MemoryDocuments(workspace, [ExtraPath(path=path) for path in extra])
    read = {state.path: documents.read(state) for state in documents.list().files}
    return {Path(path).name: found.date if found else None for path, found in read.items()}


def write(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("- text\n")


@pytest.fixture(autouse=True)
def _no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_TIME", "LANG"):
        monkeypatch.delenv(name, raising=False)


def test_extra_paths_have_days_and_the_folders_above_them_say_nothing(tmp_path: Path) -> None:
    vault = tmp_path / "2025-01-01-backup" / "2024" / "01" / "vault"
    write(vault / "Daily/2026-03-05.md", vault / "2026/03/06.md", vault / "plan.md", vault / "2026/07 July/x.md")
    write(tmp_path / "alone" / "2026-03-07.md", tmp_path / "w/memory/journals/2026_03_08.md")
    assert days(tmp_path / "w", vault, tmp_path / "alone" / "2026-03-07.md") == {
        "2026-03-05.md": date(2026, 3, 5),
        "06.md": date(2026, 3, 6),
        "plan.md": None,
        "x.md": date(2026, 7, 31),
        "2026-03-07.md": date(2026, 3, 7),
        "2026_03_08.md": date(2026, 3, 8),
    }


@pytest.mark.parametrize(
    ("locale", "others", "day"),
    [
        ("", (), None),
        ("en_US.UTF-8", (), MARCH),
        ("de_DE.UTF-8", (), APRIL),
        ("en_US.UTF-8", ("25-04-2026.md",), APRIL),
        ("de_DE.UTF-8", ("04-25-2026.md",), MARCH),
        ("", ("2025/25-04-2025.md",), APRIL),
        ("en_US.UTF-8", ("25-04-2026.md", "04-26-2026.md"), MARCH),
    ],
)
def test_the_names_of_the_folder_decide_and_else_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str, others: tuple[str, ...], day: date | None
) -> None:
    monkeypatch.setenv("LANG", locale)
    write(*(tmp_path / "memory" / name for name in ("03-04-2026.md", *others)))
    assert days(tmp_path)["03-04-2026.md"] == day
    (found,) = MemoryDocuments(tmp_path, []).ambiguous()
    assert (found.path, found.day, found.by_folder) == ("memory/03-04-2026.md", day, len(others) == 1)


def test_another_order_lets_the_note_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "memory" / "03-04-2026.md", tmp_path / "memory" / "2026-04-03.md")
    documents = MemoryDocuments(tmp_path, [])
    before = {state.path: state for state in documents.list().files}
    write(tmp_path / "memory" / "25-04-2026.md")
    after = {state.path: state for state in documents.list().files}
    assert after["memory/03-04-2026.md"] != before["memory/03-04-2026.md"]
    assert after["memory/2026-04-03.md"] == before["memory/2026-04-03.md"]
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    assert {state.path: state for state in MemoryDocuments(tmp_path, []).list().files} == after
