"""The dream without a model: lasting statements of the notes, what they change, repetitions, and lines that are there
twice."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache
from operator import itemgetter
from pathlib import Path

from msgspec import structs

from clawbot.files import read_plain
from clawbot.languages.tables import pattern_in
from clawbot.memory.dates import dates_in
from clawbot.memory.dates.validity import marked, validity_of
from clawbot.plugins.dreaming.applying import MAIN
from clawbot.plugins.dreaming.book import Book
from clawbot.plugins.dreaming.changes import replaces, restated
from clawbot.plugins.dreaming.lines import has, is_alike, is_covered
from clawbot.plugins.dreaming.proposals import Proposal, SourceLine, identified
from clawbot.text.interface import _
from clawbot.text.patterns import lazy_re
from clawbot.text.statements import is_statement, marks, sentences

MAX_PROPOSALS = 200
REPEATED = 3
"""On so many days a fact was written, or so many times asked for, to be worth a line."""

_MAX_BYTES = 64 * 1024**2  # of a transcript
_SEARCH = b'"toolName":"memory_search"'
_ALIKE = 0.8
_NEAR = timedelta(days=14)  # a day named within is one of the note's time
_LASTING = frozenset({"preference", "personal", "decision", "identifier"})
_STATES = lazy_re(rf"[:：](?!\d)|[=→]|->|{pattern_in('states')}")
_STAMP = lazy_re(r"\A\[\d{1,2}:\d{2}\]\s*|`")  # what notes of agents have, and no fact
_MAX_CHARS, _LONG = 240, 160  # of a fact; a longer line, and one with an event, is split into its sentences


def often_found(transcripts: Path, since: float) -> frozenset[str]:
    """Return the positions (`memory/2026-03-09.md:1`) of the lines that were the first result of `REPEATED` searches in
    the transcripts of a folder that changed after `since`, in seconds since the epoch. Blocks. What can't be read is
    passed over: it is asked for again."""
    found: Counter[str] = Counter()
    for path in transcripts.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since:
                found.update(filter(None, map(_first, read_plain(path, _MAX_BYTES).split(b"\n"))))
    return frozenset(position for position, count in found.items() if count >= REPEATED)


def _first(line: bytes) -> str:
    """Return the position of the first result of a search, "" for any other line."""
    if _SEARCH not in line:
        return ""
    try:
        first = json.loads(line)["message"]["details"]["results"][0]
        return f"{first['path']}:{first.get('line') or first['startLine']}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def propose(book: Book, often: Collection[str] = ()) -> list[Proposal]:
    """Return what the notes of `book` change in MEMORY.md; `often` are the positions of lines that answered often."""
    entries = [entry for entry in book.entries if validity_of(entry.text).until is None]
    written = [entry for entry in entries if entry.number]
    found = [*_changes(book, entries, often), *_repeated_entries(written), *_earlier_entries(written)]
    return [identified(each) for each in found[:MAX_PROPOSALS]]


def _changes(book: Book, entries: Sequence[SourceLine], often: Collection[str]) -> Iterator[Proposal]:
    """Yield an addition or a supersession for each fact of the notes: a line, or a sentence of one."""
    facts = [fact for line in book.notes for fact in _facts_in(line)]
    older = [fact for line in book.before for fact in _facts_in(line)]
    known = list(entries)
    every = [*older, *facts]
    worthy = [
        fact
        for fact in (*(each for each in older if each.source in often), *facts)
        if is_lasting(fact.text, _day(fact))
        or fact.source in often
        or any(_replaces(fact, entry) for entry in entries)
        or (_may_repeat(fact.text) and len(_days_of(fact, every)) >= REPEATED)
    ]
    for fact in _newest(worthy):
        old = [entry for entry in known if _replaces(fact, entry)]
        if not old and any(_states(entry, fact) for entry in known):
            continue
        known = [entry for entry in known if entry not in old]
        yield _superseding(fact, old[:2]) if old else _adding(fact, fact.source in often, every)


@lru_cache(8_192)
def is_lasting(text: str, day: date) -> bool:
    """Return whether `text`, of a note of `day`, holds for more than that day."""
    is_change, found = has("lasting", "change", text), marks(text)
    if not is_statement(text) or not (is_change or _may_last(text)):
        return False
    if not is_change and _is_near(text, day) and found.isdisjoint({"preference", "personal"}):
        return False
    return is_change or _is_stated(text) or not found.isdisjoint(_LASTING)


def _is_stated(text: str) -> bool:
    return has("lasting", "habit", text) or _STATES.search(text.lower()) is not None


@lru_cache(8_192)
def _may_repeat(text: str) -> bool:
    """Return whether a statement can be a fact because it is repeated: it is none of what happens on each day."""
    is_fact = _is_stated(text) or not marks(text).isdisjoint(_LASTING)
    return is_statement(text) and is_fact and _may_last(text) and not has("lasting", "past", text)


def _may_last(text: str) -> bool:
    return not (has("lasting", "trivia", text) or has("lasting", "event", text))


def _facts_in(line: SourceLine) -> Iterator[SourceLine]:
    text = _STAMP.sub("", line.text)
    is_one = len(text) <= _LONG and (has("frames", "from", text) or not has("lasting", "event", text))
    for part in [text] if is_one else sentences(text):
        if len(part) <= _MAX_CHARS:
            yield structs.replace(line, text=part)


def _day(fact: SourceLine) -> date:
    return fact.day or date.min


def _newest(facts: Sequence[SourceLine]) -> list[SourceLine]:
    """Return `facts` without those that a later one repeats or replaces, oldest first."""
    kept: list[SourceLine] = []
    for fact in reversed(facts):
        if not any(replaces(fact.text, later.text) or is_alike(fact.text, later.text, _ALIKE) for later in kept):
            kept.append(fact)
    return kept[::-1]


def _states(entry: SourceLine, fact: SourceLine) -> bool:
    """Return whether the entry states the fact already, in its own words."""
    text = restated(entry.text, fact.text)
    return is_covered(text, entry.text) or is_alike(text, entry.text, _ALIKE)


def _replaces(fact: SourceLine, entry: SourceLine) -> bool:
    """Return whether the fact states another value of what `entry` does, since a later day."""
    if not replaces(entry.text, fact.text) or not is_statement(fact.text):
        return False
    since = validity_of(entry.text).since
    is_change = has("lasting", "change", fact.text) or has("frames", "from", fact.text)
    is_one_day = _is_near(fact.text, _day(fact)) or not _may_last(fact.text)
    return (is_change or not is_one_day) and (since is None or since < _day(fact))


def _is_near(text: str, day: date) -> bool:
    """Return whether `text` names a single day near `day`."""
    return any(each.start == each.end and abs(each.start - day) <= _NEAR for each in dates_in(text, day))


def _days_of(fact: SourceLine, all_facts: Iterable[SourceLine]) -> dict[date, str]:
    """Return the days on which the fact was written since another value held, each with its last position."""
    days: dict[date, str] = {}
    for each in all_facts:
        if is_alike(each.text, fact.text, _ALIKE):
            days[_day(each)] = each.source
        elif days and _day(each) < _day(fact) and replaces(fact.text, each.text):
            days.clear()
    return days


def _adding(fact: SourceLine, is_asked: bool, all_facts: Sequence[SourceLine]) -> Proposal:
    days = _days_of(fact, all_facts)
    reason = _("Asked for several times.") if is_asked else _("A lasting statement.")
    if len(days) >= REPEATED:
        reason = _("Repeated on {n} days.").format(n=len(days))
    sources = tuple(dict.fromkeys((*sorted(days.values())[-2:], fact.source)))
    first = min((day for day, source in days.items() if source in sources), default=_day(fact))
    return Proposal("", "add", MAIN, marked(f"- {fact.text}", first), sources, reason)


def _superseding(fact: SourceLine, old: Sequence[SourceLine]) -> Proposal:
    file, day = old[0].path, _day(fact)
    lines = tuple(dict.fromkeys(each.text for each in old if each.path == file))
    text, reason = marked(f"- {restated(old[0].text, fact.text)}", day), _("A later note states another value.")
    return Proposal("", "supersede", file, text, (fact.source,), reason, lines, str(day))


def _repeated_entries(entries: Sequence[SourceLine]) -> Iterator[Proposal]:
    """Yield a drop for each entry of which a later one of its file, or an earlier equal one, states everything."""
    gone: set[int] = set()
    for at, entry in enumerate(entries):
        others = (each for number, each in enumerate(entries) if number != at and number not in gone)
        cover = next((each for each in others if each.path == entry.path and is_covered(entry.text, each.text)), None)
        if cover is not None:
            gone.add(at)
            reason = _("Another line states the same.")
            yield Proposal("", "drop", entry.path, "", (cover.source,), reason, (entry.text,))


def _earlier_entries(entries: Sequence[SourceLine]) -> Iterator[Proposal]:
    """Yield a supersession for each entry that a later one of its file replaces already."""
    dated = [(since, entry) for entry in entries if (since := validity_of(entry.text).since) is not None]
    for since, entry in dated:
        after = [pair for pair in dated if pair[0] > since and pair[1].path == entry.path]
        later = [(day, each) for day, each in after if replaces(entry.text, each.text)]
        for day, new in sorted(later, key=itemgetter(0))[:1]:
            reason = _("A later line states another value.")
            yield Proposal("", "supersede", entry.path, new.text, (new.source,), reason, (entry.text,), str(day))
