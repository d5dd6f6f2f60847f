"""The dream without a model: lasting statements of the notes, what they change, repetitions, and lines that are there
twice."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct

from clawbot.languages.tables import pattern_in
from clawbot.memory.dates import dates_in
from clawbot.memory.dates.validity import marked, validity_of
from clawbot.plugins.dreaming.applying import MAIN
from clawbot.plugins.dreaming.book import Book, SourceLine
from clawbot.plugins.dreaming.changes import replaces, restated
from clawbot.plugins.dreaming.lines import is_alike, is_covered
from clawbot.plugins.dreaming.proposals import Proposal, identified
from clawbot.plugins.dreaming.tables import has
from clawbot.text.interface import _
from clawbot.text.patterns import lazy_re
from clawbot.text.statements import is_statement, marks, sentences

MAX_PROPOSALS = 200
REPEATED = 3
"""On so many days a fact was written, or so many times asked for, to be worth a line."""

_ALIKE = 0.8
_NEAR = timedelta(days=14)  # a day named within is one of the note's time
_LASTING = frozenset({"preference", "personal", "decision", "identifier"})
_STATES = lazy_re(rf"[:：](?!\d)|{pattern_in('states')}")
_MAX_CHARS, _LONG = 240, 160  # of a fact; a longer line, and one with an event, is split into its sentences


class Fact(Struct, frozen=True):
    """A statement of a note: its words, and the line that it is in."""

    text: str
    line: SourceLine

    @property
    def day(self) -> date:
        return self.line.day or date.min


def propose(book: Book, often: Collection[str] = ()) -> list[Proposal]:
    """Return what the notes of `book` change in MEMORY.md; `often` are the positions of lines that answered often."""
    entries = [entry for entry in book.entries if validity_of(entry.text).until is None]
    found = [*_changes(book, entries, often), *_repeated_entries(entries), *_earlier_entries(entries)]
    return [identified(each) for each in found[:MAX_PROPOSALS]]


def _changes(book: Book, entries: Sequence[SourceLine], often: Collection[str]) -> Iterator[Proposal]:
    facts = [fact for line in book.notes for fact in _facts_in(line)]
    older = [fact for line in book.before for fact in _facts_in(line)]
    asked = [fact for fact in older if fact.line.source in often]
    known = list(entries)
    for fact in _newest(_worth_a_line([*asked, *facts], older, entries, often)):
        old = [entry for entry in known if _replaces(fact, entry)]
        if not old and any(_states(entry, fact) for entry in known):
            continue
        known = [entry for entry in known if entry not in old]
        yield _superseding(fact, old[:2]) if old else _adding(fact, fact.line.source in often, [*older, *facts])


def _worth_a_line(
    facts: Sequence[Fact], older: Sequence[Fact], entries: Sequence[SourceLine], often: Collection[str]
) -> list[Fact]:
    return [
        fact
        for fact in facts
        if is_lasting(fact.text, fact.day)
        or fact.line.source in often
        or any(_replaces(fact, entry) for entry in entries)
        or (_may_repeat(fact.text) and len(_days_of(fact, [*older, *facts])) >= REPEATED)
    ]


@lru_cache(8_192)
def is_lasting(text: str, day: date) -> bool:
    """Return whether `text`, of a note of `day`, holds for more than that day."""
    is_change, found = has("lasting", "change", text), marks(text)
    if not is_statement(text) or (not is_change and (has("lasting", "trivia", text) or has("lasting", "event", text))):
        return False
    if not is_change and _is_near(text, day) and found.isdisjoint({"preference", "personal"}):
        return False
    states = has("lasting", "habit", text) or _STATES.search(text.lower()) is not None
    return is_change or states or not found.isdisjoint(_LASTING)


@lru_cache(8_192)
def _may_repeat(text: str) -> bool:
    """Return whether a statement can be a fact because it is repeated: it is none of what happens on each day."""
    return is_statement(text) and not (has("lasting", "trivia", text) or has("lasting", "event", text))


def _facts_in(line: SourceLine) -> Iterator[Fact]:
    is_one = len(line.text) <= _LONG and not has("lasting", "event", line.text)
    for part in [line.text] if is_one else sentences(line.text):
        if len(part) <= _MAX_CHARS:
            yield Fact(part, line)


def _newest(facts: Sequence[Fact]) -> list[Fact]:
    """Return `facts` without those that a later one repeats or replaces, oldest first."""
    kept: list[Fact] = []
    for fact in reversed(facts):
        is_past = any(replaces(fact.text, later.text) or is_alike(fact.text, later.text, _ALIKE) for later in kept)
        if not is_past:
            kept.append(fact)
    return kept[::-1]


def _states(entry: SourceLine, fact: Fact) -> bool:
    """Return whether the entry states the fact already, in its own words."""
    text = restated(entry.text, fact.text)
    return is_covered(text, entry.text) or is_alike(text, entry.text, _ALIKE)


def _replaces(fact: Fact, entry: SourceLine) -> bool:
    """Return whether the fact states another value of what `entry` does, since a later day."""
    if not replaces(entry.text, fact.text) or not is_statement(fact.text):
        return False
    since = validity_of(entry.text).since
    is_one_day = _is_near(fact.text, fact.day) and not has("lasting", "change", fact.text)
    return not is_one_day and (since is None or since < fact.day)


def _is_near(text: str, day: date) -> bool:
    """Return whether `text` names a single day near `day`."""
    return any(each.start == each.end and abs(each.start - day) <= _NEAR for each in dates_in(text, day))


def _days_of(fact: Fact, all_facts: Iterable[Fact]) -> dict[date, str]:
    """Return the days on which the fact was written, each with its last position."""
    return {each.day: each.line.source for each in all_facts if is_alike(each.text, fact.text, _ALIKE)}


def _adding(fact: Fact, is_asked: bool, all_facts: Sequence[Fact]) -> Proposal:
    days = _days_of(fact, all_facts)
    reason = _("Asked for several times.") if is_asked else _("A lasting statement.")
    if len(days) >= REPEATED:
        reason = _("Repeated on {n} days.").format(n=len(days))
    sources = tuple(dict.fromkeys((*sorted(days.values())[-2:], fact.line.source)))
    first = min((day for day, source in days.items() if source in sources), default=fact.day)
    return Proposal("", "add", MAIN, _entry(fact.text, first), sources, reason)


def _superseding(fact: Fact, old: Sequence[SourceLine]) -> Proposal:
    file = old[0].path
    return Proposal(
        id="",
        kind="supersede",
        file=file,
        text=_entry(restated(old[0].text, fact.text), fact.day),
        sources=(fact.line.source,),
        reason=_("A later note states another value."),
        old=tuple(dict.fromkeys(each.text for each in old if each.path == file)),
        until=str(fact.day),
    )


def _entry(text: str, since: date) -> str:
    return marked(f"- {text}", since=since)


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
        later = [
            (day, each)
            for day, each in dated
            if day > since and each.path == entry.path and replaces(entry.text, each.text)
        ]
        if later:
            day, new = min(later, key=lambda pair: pair[0])
            reason = _("A later line states another value.")
            yield Proposal("", "supersede", entry.path, new.text, (new.source,), reason, (entry.text,), str(day))
