"""Puts lines that hold at the time of a question before those that state the same for another time, by the marks of
`clawbot/memory/dates/validity.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct, structs

from clawbot.languages.tables import pattern_in
from clawbot.memory.dates import dates_in
from clawbot.memory.dates.validity import Validity
from clawbot.memory.search.updates import LITTLE, MOST, InTime, Statement, newest_first
from clawbot.text.copies import wording_of
from clawbot.text.patterns import lazy_re

_BEFORE = lazy_re(pattern_in("asks_before"), re.IGNORECASE)
_OPEN = lazy_re(pattern_in("asks_open"), re.IGNORECASE)
_EXTRA = 2
"""Words that a line may have besides those of an ended one that it repeats."""


class AskedTime(Struct, frozen=True):
    """The time that a question asks for: its `days`, each a first and last one; else `today`, or if `is_before` what
    held before and no longer does. `is_open`: it names no value, but asks for one."""

    today: date
    days: tuple[tuple[date, date], ...] = ()
    is_before: bool = False
    is_open: bool = False

    @classmethod
    def of(cls, texts: Sequence[str], today: date) -> AskedTime:
        """Return the time that the wordings `texts` of a question ask for."""
        named = ((each.start, each.end) for text in texts for each in dates_in(text, today, prefer="past"))
        days = tuple(each for each in named if each != (today, today))
        is_before = not days and any(map(_BEFORE.search, texts))
        return cls(today, days, is_before, any(map(_OPEN.search, texts)))

    def share(self, validity: Validity) -> float:
        """Return how much of the time a line holds, 0 to 1; of the days or its own ones, whichever are fewer."""
        if not self.days:
            has_ended = validity.has_ended(self.today)
            return float(
                has_ended if self.is_before else not has_ended and validity.days_within(self.today, self.today)
            )
        return max(self._share_of(validity, first, last) for first, last in self.days)

    def _share_of(self, validity: Validity, first: date, last: date) -> float:
        own = ((validity.until or date.max) - (validity.since or date.min)).days + 1
        return validity.days_within(first, last) / max(1, min(own, (last - first).days + 1))

    def end_of(self, validity: Validity | None) -> date | None:
        """Return the day on which a line ended, if that was before the time and before today; None of a question for
        what held before."""
        if validity is None or self.is_before or self.share(validity):
            return None
        first = min([self.today, *(first for first, _ in self.days)])
        return validity.until if validity.has_ended(first) else None


def put_in_time(statements: Sequence[Statement], asked: AskedTime) -> InTime:
    """Put each line that does not hold at the time, or less of it, behind the one that does and is most like it.
    Where no days are asked for, the newest of several values is first (`newest_first`)."""
    found = InTime(range(len(statements)), frozenset()) if asked.days else newest_first(statements)
    if all(each.validity is None for each in statements):
        return found
    statements = _with_copies(statements)
    order, earlier, ended = list(found.order), set(found.earlier), dict[int, date]()
    shares = [
        float(not asked.is_before) if each.validity is None else asked.share(each.validity) for each in statements
    ]
    for old in [at for at in found.order if shares[at] < 1]:
        if day := asked.end_of(statements[old].validity):
            ended[old] = day
        better = [
            (_likeness(statements[old], statements[at], asked), -order.index(at), at)
            for at in order
            if shares[at] > shares[old]
        ]
        likeness, _, new = max(better, default=(0.0, 0, old))
        if not likeness:
            continue
        earlier |= {old} & ended.keys()
        if order.index(old) < order.index(new):
            order.remove(new)
            order.insert(order.index(old), new)
    return InTime(order, frozenset(earlier), ended)


def _with_copies(statements: Sequence[Statement]) -> list[Statement]:
    """Return `statements`; one without a mark that states, before the end, what an ended one states has ended, too."""
    ended = [each for each in statements if each.validity is not None and each.validity.until is not None]
    return [structs.replace(each, validity=_of_copy(each, ended)) for each in statements]


def _of_copy(statement: Statement, ended: Iterable[Statement]) -> Validity | None:
    if statement.validity is not None or statement.day is None:
        return statement.validity
    wording = wording_of(statement.text)
    words, values = set(wording.words), set(wording.values)
    for other in ended:
        known, until = wording_of(other.text), other.validity and other.validity.until
        is_same = (
            words.issuperset(known.words)
            and values.issuperset(known.values)
            and len(words) <= len({*known.words}) + _EXTRA
        )
        if is_same and until and statement.day <= until:
            return other.validity
    return None


def _likeness(old: Statement, new: Statement, asked: AskedTime) -> float:
    """Return the share of words, 0 to 1, that two lines about the same thing have in common: 1 if a colon follows the
    same words. 0 if they are about others, or the `new` one lacks a distinctive word of the question. Where one begins
    as the other ends, one word in common is enough, and one of an open question."""
    one, other = (set(wording_of(each.text).words) - LITTLE for each in (old, new))
    share = len(one & other) / max(1, min(len(one), len(other)))
    share = 1.0 if _label(old.text) and _label(old.text) == _label(new.text) else share
    follows = old.validity and new.validity and old.validity.until and old.validity.until == new.validity.since
    has_words = old.asked <= new.asked or (follows and asked.is_open and new.asked)
    return share if has_words and (share >= MOST or follows) else 0.0


def _label(text: str) -> Sequence[str]:
    label, colon, _ = text.replace("：", ":").partition(":")
    return wording_of(label).words if colon else ()
