"""The rules of the dream without a model: what lasts, what replaces what, and what is proposed of notes."""

from __future__ import annotations

import json
import tomllib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from clawbot.plugins.dreaming.book import Book
from clawbot.plugins.dreaming.changes import replaces
from clawbot.plugins.dreaming.offline import is_lasting, often_found, propose
from clawbot.plugins.dreaming.proposals import Proposal, SourceLine, identified

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
DAY = date(2026, 3, 9)


@pytest.mark.parametrize("text", TABLE["lasting"])
def test_a_statement_lasts(text: str) -> None:
    assert is_lasting(text, DAY)


@pytest.mark.parametrize("text", TABLE["passing"])
def test_a_thing_of_a_day_passes(text: str) -> None:
    assert not is_lasting(text, DAY)


@pytest.mark.parametrize(("old", "new"), TABLE["replaced"])
def test_a_later_value_replaces_the_earlier_one(old: str, new: str) -> None:
    assert replaces(f"- {old} (since 2026-01-01)", new)


@pytest.mark.parametrize(("old", "new"), TABLE["different"])
def test_another_thing_replaces_nothing(old: str, new: str) -> None:
    assert not replaces(f"- {old} (since 2026-01-01)", new)


def book(memory: list[str], *notes: str, before: int = 0) -> Book:
    """Return a book with `notes` of one day each; the first so many are older ones, which are not read."""
    lines = [
        SourceLine(f"memory/{day}.md", 1, text, day)
        for number, text in enumerate(notes)
        for day in [DAY + timedelta(days=number)]
    ]
    entries = [SourceLine("MEMORY.md", number, line, None) for number, line in enumerate(memory, 1)]
    shown = {line.source: line for line in (*lines, *entries)}
    return Book({"MEMORY.md": tuple(memory)}, tuple(lines[before:]), shown, tuple(lines[:before]))


def test_a_fact_of_three_days_is_proposed_once_with_its_sources() -> None:
    line = "Blue Bottle opens at seven, says the sign"
    [proposal] = propose(book([], line, line, line, before=2))
    assert (proposal.kind, proposal.text) == ("add", f"- {line} (since 2026-03-10)")
    assert proposal.sources == ("memory/2026-03-10.md:1", "memory/2026-03-11.md:1")
    assert proposal.reason == "Repeated on 3 days."


def test_only_the_last_value_of_several_is_proposed() -> None:
    [chinese] = propose(book(["- 我在亮叶科技工作，做数据分析"], "我现在在北风软件工作，做数据分析"))
    assert chinese.text == "- 我现在在北风软件工作，做数据分析 (since 2026-03-09)"
    found = propose(book(["- I live in Porto"], "I moved to Lisbon", "I moved to Braga"))
    assert [(each.kind, each.text, each.old, each.until) for each in found] == [
        ("supersede", "- I live in Braga (since 2026-03-10)", ("- I live in Porto",), "2026-03-10")
    ]


@pytest.mark.parametrize(("memory", "notes", "before", "expected"), TABLE["proposed"])
def test_one_change_is_proposed(memory: list[str], notes: list[str], before: int, expected: list[str]) -> None:
    [proposal] = propose(book(memory, *notes, before=before))
    assert [proposal.kind, proposal.text, proposal.until, *proposal.old] == expected


def test_entries_that_only_wait_are_no_sources() -> None:
    waiting = identified(Proposal("", "add", "MEMORY.md", "- Tea is what Anna likes", (), "It is stated."))
    assert propose(book(["- Anna likes tea"]).changed(waiting)) == []


def test_entries_that_others_state_or_replace_are_found() -> None:
    memory = [
        "- Anna likes tea",
        "- Tea is what Anna likes",
        "- My rent is 850 euros (since 2025-01-01)",
        "- My rent is now 1,120 euros (since 2026-01-01)",
    ]
    found = {each.kind: each for each in propose(book(memory))}
    assert found["drop"].old == (memory[0],)
    assert (found["supersede"].old, found["supersede"].until) == ((memory[2],), "2026-01-01")


def test_what_three_searches_found_first_is_proposed(tmp_path: Path) -> None:
    line = "Blue Bottle opens at seven, says the sign"
    found = {"toolName": "memory_search", "details": {"results": [{"path": "memory/2026-03-09.md", "startLine": 1}]}}
    record = json.dumps({"type": "message", "message": found}, separators=(",", ":"))
    (tmp_path / "a.jsonl").write_text("\n".join([record, record, '{"toolName":"memory_search"', ""]), "utf-8")
    assert often_found(tmp_path, 0) == frozenset()
    (tmp_path / "b.jsonl").write_text(f"{record}\n", "utf-8")
    often = often_found(tmp_path, 0)
    assert propose(book([], line, "Rain all day", before=1)) == []
    [proposal] = propose(book([], line, "Rain all day", before=1), often)
    assert (proposal.text, proposal.reason) == (f"- {line} (since 2026-03-09)", "Asked for several times.")
