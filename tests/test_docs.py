"""What three pages in docs/ promise is held by tests: the faults of the reference system, security, habits."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHEET = ROOT.joinpath("docs", "reference-behaviour.md").read_text(encoding="utf-8")
FAULTS = ROOT.joinpath("docs", "reference-faults.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^\| (\d+(?:\.\d+)?)\b(.*)$", SHEET, re.MULTILINE))
CHAPTERS = {"1", "3", "4", "6", "7", "8", "9", "10", "11", "18", "19", "20", "21"}
CASES = set(re.findall(r"^(\d+)\. ", SHEET.partition("## List B")[2], re.MULTILINE))


def test_every_fault_of_the_chapters_that_are_listed_is_listed() -> None:
    rows = re.findall(r"^\| ([\dB., ]+) \|", FAULTS, re.MULTILINE)
    listed = {number for row in rows for number in re.findall(r"(?<!B )\b\d+(?:\.\d+)?", row)}
    faults = {number for number, text in SECTIONS.items() if "**Fault:**" in text}
    assert {number for number in faults if number.partition(".")[0] in CHAPTERS} <= listed
    assert listed <= SECTIONS.keys()
    assert {case for row in rows for case in re.findall(r"B (\d+)", row)} <= CASES


def test_the_list_of_faults_names_tests_that_are_there() -> None:
    file, missing = "", []
    for name in re.findall(r"`((?:\w+/)*test_\w+\.py|test_\w+)`", FAULTS):
        if name.endswith(".py"):
            file = ROOT.joinpath("tests", name).read_text(encoding="utf-8")
        elif not re.search(rf"def {name}\(", file):
            missing.append(name)
    assert "test_what_a_reset_is" in FAULTS
    assert missing == []


def test_what_the_page_on_security_promises_is_held_by_tests_that_are_there() -> None:
    page = ROOT.joinpath("docs", "security.md").read_text(encoding="utf-8")
    assert_held(page.partition("## What does not hold")[0], least=30)


def test_what_the_page_on_habits_counts_as_whole_is_held_by_a_test() -> None:
    page = ROOT.joinpath("docs", "habits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+b? \|.*$", page, re.MULTILINE)
    whole = [row for row in rows if row.split("|")[3].strip() == "Y"]
    assert f"{len(whole)} are whole, {len([row for row in rows if '| p |' in row])} partly" in page
    assert len(rows) == 39
    for row in whole:
        assert_held(row, least=1)
    assert_held(page, least=len(whole))


def assert_held(text: str, *, least: int) -> None:
    """The tests that `text` names are there, and `least` at least."""
    promised = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", text)
    assert len(promised) >= least, text
    for file, name in promised:
        found = ROOT.joinpath("tests", file).read_text(encoding="utf-8")
        assert re.search(rf"(?:def|class) {name}\b", found) if name else "def test_" in found, (file, name)
