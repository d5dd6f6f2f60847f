"""Finds lines that state another value of the same thing on a later day, and puts the newest first."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import combinations

from msgspec import Struct, structs

from clawbot.languages.stems import stem
from clawbot.languages.tables import ALPHABETIC, pattern_in, words_in
from clawbot.memory.dates.european import FULL_MONTHS, MONTH_NUMBERS, WEEKDAY_NUMBERS, without_marks
from clawbot.memory.dates.validity import Validity
from clawbot.text.language import CALENDAR_WORDS, CJK, FOREIGN_STOP_WORDS, SHARED_STOP_WORDS, STOP_WORDS, small_letters
from clawbot.text.patterns import lazy_re
from clawbot.text.query import base_of, cjk_found, token_pattern
from clawbot.text.tokens import CJK_RUN, plain_forms, words_of

FEWEST, MOST, LONGEST, CLAUSES = 2, 0.5, 300, 4
"""Least number and share of names that two lines about the same thing share, a line's most characters and clauses."""

LITTLE = STOP_WORDS | FOREIGN_STOP_WORDS | SHARED_STOP_WORDS | {"user", "assistant"}
_DAYS = frozenset({*CALENDAR_WORDS, *FULL_MONTHS, *WEEKDAY_NUMBERS})
_MONTHS = frozenset({*MONTH_NUMBERS, "may"})
_COUNTS = words_in("values")
_HAN_VALUE = lazy_re(pattern_in("value", "zh"))
_NUMBER = lazy_re(r"[vV]?\d")
_TIME = lazy_re(
    rf"(?i:\.?\s*(?:{pattern_in('unit_of_time')}|uhr\b|[ap]m\b|h\b|(?:{'|'.join(sorted(_DAYS | _MONTHS))})\b))"
)
_AT = lazy_re(r"(?i:\b(?:at|um|a las?|à)\s*$)")
_NEXT_TO = lazy_re(r"[\s*_`\"']*")
_MARKER = lazy_re(rf"\s*(?:(?:[-*+]|\d+[.)])\s+(?:\[ \]\s+)?)?(?:(?:user|assistant):\s*|{pattern_in('role', 'zh')})?")
_CLAUSE = lazy_re(
    rf"(?<!\d)[.!?;,](?:\s+|$)|[。！？；，]|(?<=[^\x00-\x7f]),(?=\D)|,(?=[^\x00-\x7f])|{pattern_in('because')}",
    re.IGNORECASE,
)


class _Sign:
    """The pattern `name` of all languages, for a text in small letters. In one without Chinese, Japanese and Korean,
    the others alone are found eight times as fast."""

    def __init__(self, name: str, before: str = "") -> None:
        self._all = lazy_re(before + pattern_in(name))
        self._alphabetic = lazy_re(before + pattern_in(name, *ALPHABETIC))

    def of(self, text: str) -> re.Pattern[str]:
        return self._alphabetic if text.isascii() or max(text) < "\u2e80" else self._all


_INTO = _Sign("into")
_STATES = _Sign("states", r"[:：](?!\d)|")
_CHANGES = _Sign("changes")
_REPORTS = _Sign("reports")
_DENIES = _Sign("denies")


class Statement(Struct, frozen=True):
    """A line, the day that it was written for, None if unknown, and which distinctive words of the question it has;
    `validity` if it is marked with the days between which it holds, and the text is without the mark."""

    text: str
    day: date | None
    asked: frozenset[int] = frozenset()
    validity: Validity | None = None


class InTime(Struct, frozen=True):
    """The positions of statements in their new `order`, those that a later one of the others replaces, and the days on
    which some `ended`."""

    order: Sequence[int]
    earlier: frozenset[int]
    ended: Mapping[int, date] = {}


def newest_first(statements: Sequence[Statement]) -> InTime:
    """Put the newest statement about a thing at the position of the best one, if it has its words of the question; and
    one of no day, which may hold now, behind those that differ."""
    order, earlier = list(range(len(statements))), set[int]()
    # Lines without a word of the question are no answers, unless all are found by their meaning alone.
    answers = [at for at in order if statements[at].asked] or order
    topics = {at: _topics(statements[at].text) for at in answers}
    by_day = sorted((at for at in answers if topics[at]), key=lambda at: statements[at].day or date.max)
    alike = [(old, new) for old, new in combinations(by_day, 2) if _is_alike(topics[old], topics[new])]
    same_day = [pair for pair in alike if statements[pair[0]].day == statements[pair[1]].day]
    # Several values on one day are those of several things, which other lines name, such as headings.
    listed = {topic.names for pair in same_day for at in pair for topic in topics[at]}
    for old, new in alike:
        days = statements[old].day, statements[new].day
        has_words = statements[old].asked <= statements[new].asked
        if not has_words or days[0] == days[1] or any(topic.names in listed for topic in topics[old]):
            continue
        if days[1] is not None:
            earlier.add(old)
        if order.index(old) < order.index(new):
            order.remove(new)
            order.insert(order.index(old) + (days[1] is None), new)
    return InTime(order, frozenset(earlier))


def updates(old: str, new: str) -> bool:
    """Return whether the line `new`, written later, states another value of what `old` does."""
    return _is_alike(_topics(old), _topics(new))


class _Topic(Struct, frozen=True):
    """What a clause is about: its `names` are content words and numbers of things, `proper` those that can't be verbs.
    What it states: its `values`, each with its sort, or the names in `stated`, which are also in `names`.

    `line` are the names of all clauses. `changes`, `reports`, `denies`, `states`: it has such words; `ends`: with a
    value."""

    names: frozenset[str]
    proper: frozenset[str]
    stated: frozenset[str]
    values: frozenset[tuple[str, str]]
    changes: bool
    reports: bool
    denies: bool
    states: bool
    ends: bool
    line: frozenset[str] = frozenset()

    @property
    def subject(self) -> frozenset[str]:
        return self.names - self.stated


def _is_alike(old: Sequence[_Topic], new: Sequence[_Topic]) -> bool:
    return any(_is_update(one, other) for one in old for other in new)


def _is_update(old: _Topic, new: _Topic) -> bool:
    """Return whether `new` states another value of the same thing: another one of the same sort, another name, or that
    it is no longer so. Reports and repetition don't."""
    if old.reports or (new.reports and not new.changes):
        return False
    if not (common := old.names & new.names):
        return False
    if differing := _differing_sorts(old, new):
        return _is_same_thing(old, new, differing)
    if old.values == new.values and old.denies != new.denies and common == old.names:
        is_enough = len(common) >= FEWEST or (new.changes and bool(old.values))
        return is_enough and len(new.names - common) <= 1
    if not (old.stated - new.stated and new.stated - old.stated) or (old.values and new.values):
        return False
    if new.changes:
        shared = old.subject & new.subject
        least = min(len(old.subject), len(new.subject))
        # A Chinese word is several pairs of characters.
        is_enough = sum(1 if name.isascii() else 0.5 for name in shared) >= FEWEST or old.subject == new.subject
        return bool(shared) and is_enough and len(shared) >= least * MOST
    is_key = old.line - old.stated == new.line - new.stated and len(old.subject) >= FEWEST
    return is_key and old.states and new.states


def _is_same_thing(old: _Topic, new: _Topic, differing: frozenset[str]) -> bool:
    """Return whether two clauses with other values of the sorts `differing` are about one thing: one has all names of
    the other, or most if it speaks of a change."""
    common = old.names & new.names
    fewer, more = sorted((new.names, old.names), key=len)
    if new.changes and len(common) < FEWEST:
        return common == fewer and len(more) <= FEWEST + 1 and (fewer is new.names or old.states)
    if new.changes:
        return len(common) >= MOST * len(fewer)
    fewer, more = sorted((new.line, old.line), key=len)
    extra, states = more - fewer, old.states and new.states
    # Without a verb, a day or time is that of an event, and so is a number in the middle.
    if not states and not (old.ends and new.ends and "number" in differing):
        return False
    is_enough = len(old.subject & new.subject) >= FEWEST or states
    return fewer <= more and len(extra) <= 1 and is_enough and extra.isdisjoint(old.proper | new.proper)


def _differing_sorts(old: _Topic, new: _Topic) -> frozenset[str]:
    """Return the sorts of which `new` has another value than `old`; one that speaks of a change may repeat the old."""
    found = set[str]()
    for sort in {sort for sort, _ in old.values}:
        before, after = ({value for each, value in topic.values if each == sort} for topic in (old, new))
        if after - before and (before - after or new.changes):
            found.add(sort)
    return frozenset(found)


@functools.lru_cache(4_096)
def _topics(line: str) -> tuple[_Topic, ...]:
    """Return the topics of the clauses of a line; none for headings, questions, and lines too long for one thing."""
    if len(line) > LONGEST or line.startswith(("#", "|")) or line.rstrip().endswith(("?", "？")):
        return ()
    text = _MARKER.sub("", plain_forms(line), count=1)
    lower = small_letters(text)
    reports, changes, things = _REPORTS.of(lower).search(lower) is not None, False, frozenset[str]()
    topics: list[_Topic] = []
    for clause in [part for part in _CLAUSE.split(text) if part][:CLAUSES]:
        # A change announced before, and the number of a thing, hold for what follows.
        lower = small_letters(clause)
        changes = changes or _CHANGES.of(lower).search(lower) is not None
        topic = _topic(clause, lower, reports=reports, changes=changes, things=things)
        if topic is not None:
            things = frozenset(name for name in topic.subject if any(map(str.isdigit, name)))
            topics.append(topic)
    names = frozenset[str]().union(*(topic.names for topic in topics))
    return tuple(structs.replace(topic, line=names) for topic in topics)


def _topic(text: str, lower: str, *, reports: bool, changes: bool, things: frozenset[str]) -> _Topic | None:
    stating_words = _STATES.of(lower)
    found = list(stating_words.finditer(lower))
    states = [each.end() for each in found]
    into = [each.end() for each in _INTO.of(lower).finditer(lower)] if changes else []
    split = max((end for end in (*states, *into) if text[end:].strip()), default=len(text))
    names, proper, stated, values = set[str](things), set[str](), set[str](), set[tuple[str, str]]()
    cleaned = stating_words.sub(_blank, _CHANGES.of(lower).sub(_blank, lower) if changes else lower)
    words = list(token_pattern("" if text.isascii() else CJK).finditer(cleaned))
    last = max((each.start() for each in words if each[0][0].isdigit()), default=0)
    end, is_after_name, ends = 0, True, False
    for each in words:
        word, at = text[each.start() : each.end()], each.start()
        own, stating, ends_with_name = _parts(word, at >= split)
        if _NUMBER.match(word):
            sort = _sort_of(cleaned, each)
            is_next = is_after_name and not (values or sort == "when") and _NEXT_TO.fullmatch(text, end, at)
            is_named = stating_words.match(lower, each.end()) or stating_words.match(lower, each.end() + 1)
            if text[at - 1 : at] == "#" or (is_next and (at < last or is_named)):
                own, stating = frozenset({word.lower()}), frozenset()
            else:
                stating = frozenset({(sort, word.lower())})
        names |= own
        if at >= split:
            stated |= own
        elif (at and word[0].isupper()) or any(map(str.isdigit, word)):
            proper |= own
        ends = bool(stating) or (ends and len(text) - each.end() <= 1)
        values |= stating
        is_after_name, end = ends_with_name, each.end()
    if not names:
        return None
    denies = _DENIES.of(lower).search(lower) is not None
    # One word before a colon labels an entry, it names no thing.
    is_thing = len(names - stated) >= FEWEST or any(each[0] not in ":：" for each in found)
    sets = (frozenset(names), frozenset(proper), frozenset(stated), frozenset(values))
    return _Topic(*sets, changes, reports, denies, bool(states) and is_thing, ends)


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _sort_of(text: str, number: re.Match[str]) -> str:
    if ":" in number[0] or _TIME.match(text, number.end()) or _AT.search(text, 0, number.start()):
        return "when"
    return "number"


@functools.lru_cache(8_192)
def _parts(word: str, is_stated: bool) -> tuple[frozenset[str], frozenset[tuple[str, str]], bool]:
    """Return the names and the values in a word or a run of Chinese, and whether it ends with a name."""
    lower = without_marks(word.lower())
    if lower.removesuffix("s") in _DAYS or lower in _DAYS or lower in _COUNTS:
        return frozenset(), frozenset({("number" if lower in _COUNTS else "when", lower)}), False
    if _NUMBER.match(lower):
        return frozenset(), frozenset(), False
    if not word.isascii() and CJK_RUN.match(word):
        terms = cjk_found(_HAN_VALUE.sub(" ", word)).terms
        names = frozenset(term.text for term in terms if term.weight == 1) or frozenset(term.text for term in terms)
        found = _HAN_VALUE.findall(word)
        whens = {each for each in found if _TIME.match(each, len(each) - 1) or not each[-1:].isnumeric()}
        values = frozenset(("when" if each in whens else "number", each) for each in found)
        return names, values, word.endswith(tuple(names))
    if is_stated and (any(map(str.isdigit, word)) or "/" in word or "." in word):
        return frozenset(), frozenset({("code", lower)}), False
    names = frozenset(stem(part) for part in words_of(base_of(word)) if part not in LITTLE)
    return names, frozenset(), bool(names)
