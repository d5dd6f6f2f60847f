"""The reference sheet in docs/ has what the code cites of it, and its faults are in the list of what holds them off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHEET = ROOT.joinpath("docs", "reference-behaviour.md").read_text(encoding="utf-8")
FAULTS = ROOT.joinpath("docs", "architecture.md").read_text(encoding="utf-8").partition("## Faults of the reference")[2]
SECTIONS = dict(re.findall(r"^#{2,3} (\d+(?:\.\d+)?)\.? .+\n+((?:(?!#).*\n)*)", SHEET, re.MULTILINE))
CHAPTERS = {"1", "3", "4", "6", "7", "8", "9", "10", "11", "18", "19", "20", "21"}
CASES = set(re.findall(r"^(\d+)\. ", SHEET.partition("## List B")[2], re.MULTILINE))

_NUMBERS = r"\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*"
_CITED = re.compile(
    rf"(?:\bsheets?|\breference)(?:,? sections?)? ({_NUMBERS})|^[\"# ]*Section ({_NUMBERS})",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(rf"\blist B ({_NUMBERS})", re.IGNORECASE)
_WRAP = re.compile(r"\n[ #]*")  # a citation may be broken by the end of a line


def sections_in(text: str) -> set[str]:
    """The numbers of the sheet's sections that `text` cites."""
    flat = _WRAP.sub(" ", text)
    found = [first or second for first, second in (*_CITED.findall(flat), *_CITED.findall(text))]
    return {number for numbers in found for number in _spelled(numbers)}


def cases_in(text: str) -> set[str]:
    """The numbers of the sheet's list B that `text` cites."""
    return {number for numbers in _LISTED.findall(_WRAP.sub(" ", text)) for number in _spelled(numbers)}


def _spelled(numbers: str) -> Iterator[str]:
    """Each of `numbers`; "7.4 to 7.6" is 7.4, 7.5 and 7.6."""
    for part in re.split(r", | and ", numbers):
        first, _, last = part.partition(" to ")
        chapter, _, number = first.rpartition(".")
        end = int(last.rpartition(".")[2]) if last else int(number)
        yield from (f"{chapter}.{each}".lstrip(".") for each in range(int(number), end + 1))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(reference sheet 7.3)", {"7.3"}),
        ("reference sheet\n    section 8.3.", {"8.3"}),
        ("Rules of the reference sheet, section 5.4: ANSI", {"5.4"}),
        ("# (reference\n# sheet 9.2, 9.3).", {"9.2", "9.3"}),
        ("reference sheet sections 18, 23, 24.", {"18", "23", "24"}),
        ("Rules: reference sheet 1.4 to 1.6.", {"1.4", "1.5", "1.6"}),
        ("the share of sheets 6.4 and 7.1", {"6.4", "7.1"}),
        ("transcripts included (reference 12.7)", {"12.7"}),
        ('    """Section 12.3, word for word."""', {"12.3"}),
        ("google sheets | 表格", set()),
    ],
)
def test_what_a_citation_is(text: str, numbers: set[str]) -> None:
    assert sections_in(text) == numbers


def test_every_section_that_is_cited_is_in_the_sheet_and_says_something() -> None:
    missing: dict[str, set[str]] = {}
    cited: set[str] = set()
    for path in _sources():
        text = path.read_text(encoding="utf-8")
        cited |= (numbers := sections_in(text))
        chapters = {number for number in numbers if "." not in number}
        unknown = {number for number in numbers - chapters if not SECTIONS.get(number, "").strip()}
        unknown |= {number for number in chapters if number not in SECTIONS}
        unknown |= {f"B {case}" for case in cases_in(text) - CASES}
        if unknown:
            missing[str(path.relative_to(ROOT))] = unknown
    assert {"1.3", "7.3", "7.5", "8", "10", "24"} <= cited
    assert missing == {}


def test_every_fault_of_the_chapters_that_are_listed_is_listed() -> None:
    rows = re.findall(r"^\| ([\dB., ]+) \|", FAULTS, re.MULTILINE)
    listed = {number for row in rows for number in re.findall(r"(?<!B )\b\d+(?:\.\d+)?", row)}
    faults = {number for number, text in SECTIONS.items() if "**Fault:**" in text}
    assert {number for number in faults if number.partition(".")[0] in CHAPTERS} <= listed
    assert listed <= SECTIONS.keys()
    assert {case for row in rows for case in re.findall(r"B (\d+)", row)} <= CASES


def _sources() -> Iterator[Path]:
    for folder in ("clawbot", "hooks", "tests"):
        yield from (path for path in ROOT.joinpath(folder).rglob("*.py") if path != Path(__file__))
