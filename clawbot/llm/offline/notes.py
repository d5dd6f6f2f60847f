"""Looking into the notes: the tool calls that search them, and the lines that come back."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable
from datetime import date, timedelta
from typing import Any

from msgspec import Struct

from clawbot.llm.offline.turn import Call, Outcome, Turn
from clawbot.llm.offline.words import Term, pattern, stems, tokens

_GREP_LINE = re.compile(r"(?P<path>[^:\n]{1,400}?):(?P<line>\d{1,7}):(?P<text>.*)")
_CITED = re.compile(r"(?P<path>[\w./ -]{1,400}?\.md)(?:#L|:)(?P<line>\d{1,7})(?:-L?\d+)?[:\s]\s{0,4}(?P<text>.*)")
_NOTES = re.compile(r"(?:memory|user)\.md|memory/.+\.md", re.IGNORECASE)
_DATED = re.compile(r"memory/(?P<date>\d{4}-\d{2}-\d{2})")
_NOTICE = re.compile(r"\[stopped after[^\]]*\]\s*\Z")
_MISSING = re.compile(r"does not exist|no such file|not found", re.IGNORECASE)

_EMPTY_FIELD = re.compile(r"[:：]\**\s*\Z")
_HEADING = re.compile(r"\s{0,3}#")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s")

HEADING_WORDS = 4
"""A heading of fewer words names a subject, and tells nothing about it."""

RECENT_MONTHS = 3
"""How far back the second look goes when the first found more than it could show; older lines are then incomplete."""


class Line(Struct, frozen=True):
    """A line of a note, as it stands in the file."""

    path: str
    number: int
    text: str

    @property
    def source(self) -> str:
        """`memory/2026-11-20.md:3`."""
        return f"{self.path}:{self.number}"

    @property
    def day(self) -> str:
        """The date in the file's name; empty for a file that is about no day."""
        found = _DATED.match(self.path)
        return found["date"] if found else ""


class Search(Struct, frozen=True):
    """What a search came to. `trouble` is the tool that failed and its words, when nothing could be looked at;
    `ranked` says that the order of `lines` is by meaning, not by place."""

    lines: list[Line]
    trouble: Outcome | None = None
    ranked: bool = False


SearchSteps = Generator[list[Call], list[Outcome], Search]


def can_search(turn: Turn) -> bool:
    """Whether there is a tool to search the notes with."""
    return bool(turn.tools & {"memory_search", "grep"})


def search(turn: Turn, wanted: list[Term]) -> SearchSteps:
    """Find the lines with any of `wanted`: by the memory index where there is one, else by grep."""
    if "memory_search" in turn.tools:
        outcomes = yield [Call("memory_search", {"query": turn.text[:400]})]
        lines = _indexed(outcomes[0])
        if lines or "grep" not in turn.tools:
            return Search(lines, outcomes[0] if outcomes[0].is_error else None, ranked=True)
    return (yield from grep_notes(turn, pattern(wanted), wanted))


def grep_notes(turn: Turn, regex: str, wanted: list[Term]) -> SearchSteps:
    """Find the lines of the notes that fit `regex`. When there are too many, a second look narrows: lines with two of
    `wanted`, and the newest months whole."""
    outcomes = yield [grep_call(regex, "*.md")]
    first = outcomes[0]
    lines = grepped(first)
    if first.is_error:
        return Search([], None if _MISSING.search(first.text) else first)
    if not _NOTICE.search(first.text):
        return Search(lines)
    closer = yield _narrower(regex, wanted, lines, turn.now.date())
    for outcome in closer:
        lines += grepped(outcome)
    return Search(list(dict.fromkeys(lines)))


def grep_day(day: date, regex: str) -> SearchSteps:
    """Find the lines that fit `regex` in the notes of one day."""
    outcomes = yield [grep_call(regex, f"memory/{day.isoformat()}*.md")]
    trouble = outcomes[0] if outcomes[0].is_error and not _MISSING.search(outcomes[0].text) else None
    return Search(grepped(outcomes[0]), trouble)


def grep_call(regex: str, glob: str) -> Call:
    """A search of the workspace's files that fit `glob`, in any case."""
    return Call("grep", {"pattern": regex, "glob": glob, "ignore_case": True})


def _narrower(regex: str, wanted: list[Term], seen: list[Line], today: date) -> list[Call]:
    calls = [grep_call(regex, f"memory/{month}*.md") for month in _months(today)]
    if len(wanted) > 1:
        rarest = sorted(wanted, key=lambda term: sum(has_term(line.text, term) for line in seen))[:2]
        both = "".join(f"(?=.*(?:{pattern([term])}))" for term in rarest)
        calls.append(grep_call(f"^{both}", "memory/**/*.md"))
    return calls


def _months(today: date) -> list[str]:
    months, day = [], today
    for _ in range(RECENT_MONTHS):
        months.append(f"{day:%Y-%m}")
        day = day.replace(day=1) - timedelta(days=1)
    return months


def grepped(outcome: Outcome) -> list[Line]:
    """The lines of notes in what grep answered."""
    if outcome.is_error:
        return []
    found = (_GREP_LINE.fullmatch(line) for line in outcome.text.splitlines())
    return _of_notes(
        Line(match["path"].removeprefix("./"), int(match["line"]), match["text"]) for match in found if match
    )


def lines_in(outcome: Outcome) -> list[Line]:
    """The lines of notes in the answer of one of the searches; none in that of another tool."""
    search_tools = {"memory_search": _indexed, "grep": grepped}
    return search_tools[outcome.call.name](outcome) if outcome.call.name in search_tools else []


def _of_notes(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if _NOTES.fullmatch(line.path) and not _is_form(line)]


def _is_form(line: Line) -> bool:
    """Whether the line is part of the form that notes are written into, as the templates have it, and says nothing
    itself: an empty field, a short heading, a sentence about the notes."""
    if _EMPTY_FIELD.search(line.text):
        return True
    if _HEADING.match(line.text):
        return len(tokens(line.text)) < HEADING_WORDS
    return not _ITEM.match(line.text) and (line.path.lower() == "user.md" or "`memory/`" in line.text)


def _indexed(outcome: Outcome) -> list[Line]:
    """The lines of a memory search, best first: its JSON (reference sheet 14.1), or text that cites `path:line`."""
    if outcome.is_error:
        return []
    try:
        answer = json.loads(outcome.text)
    except ValueError:
        found = (_CITED.match(line.strip().lstrip("-* ")) for line in outcome.text.splitlines())
        return [Line(match["path"], int(match["line"]), match["text"]) for match in found if match]
    results = answer.get("results") if isinstance(answer, dict) else answer
    return [line for result in results or [] if isinstance(result, dict) for line in _snippet(result)]


def _snippet(result: dict[str, Any]) -> list[Line]:
    path, start = result.get("path"), result.get("startLine", result.get("line", 1))
    text = result.get("snippet", result.get("text"))
    if not isinstance(path, str) or not isinstance(start, int) or not isinstance(text, str):
        return []
    return [Line(path, start + at, line) for at, line in enumerate(text.splitlines()) if line.strip()]


def has_term(text: str, term: Term) -> bool:
    """Whether `text` holds a form of `term`."""
    return match_strength(text, set(stems(text)), term) > 0


def match_strength(text: str, text_stems: set[str], term: Term) -> float:
    """How well a line fits a term: 1 for the word itself, less for a longer word and for a related one, 0 for none.

    `text` is the normalised line, `text_stems` its stems.
    """
    best = 0.0
    for rank, form in enumerate(term.forms):
        value = 1.0 if rank == 0 else 0.7
        if form in text_stems or (not form.isascii() and form in text):
            best = max(best, value)
        elif len(form) > 3 and form.isascii() and any(word.startswith(form) for word in text_stems):
            best = max(best, value * 0.8)
    return best


def same_words(one: str, other: str) -> bool:
    """Whether two texts say the same, apart from signs and case."""
    return tokens(one) == tokens(other)
