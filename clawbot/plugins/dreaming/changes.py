"""Whether a later statement states another value of what an earlier one does: the rule of the search, and the frames of
statements about a person."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from clawbot.memory.search.updates import updates
from clawbot.plugins.dreaming.lines import bare, denies, has, pattern, table, words
from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re

_FEWEST = 2  # words that two statements share, to be about one thing
_SHORT = 4  # words of a value
_TITLE = lazy_re(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.(?=\s)")
_CLAUSE = lazy_re(r"[,;.](?=\s|\Z|[^\x00-\x7f])|\bthat\s")
_NAME = re.compile(r"\+?\d|[A-Z]\w+")
_ARTICLE = re.compile(r"(?:an?|the) ")
_LABELS = frozenset({":", "：", "=", "→", "->", "=>"})


class _Frame(Struct, frozen=True):
    """What a clause states: the words of its `subject`, of the `thing` and of the `value`, the `link` between them, the
    value's shape. `is_name`: the thing may be somebody, of whom several things are true at once."""

    subject: frozenset[str]
    thing: frozenset[str]
    link: str
    value: frozenset[str]
    shape: str
    is_name: bool

    def differs(self, new: _Frame, *, news: bool) -> bool:
        """Return whether `new` states another value of the same thing."""
        if self.thing != new.thing or self.value <= new.value or new.value <= self.value:
            return False
        is_label = {self.link, new.link} <= _LABELS
        return (news and not self.is_name) or is_label or self.shape == new.shape != ""

    def is_other(self, new: _Frame) -> bool:
        """Return whether both state something of somebody, and the one has nothing to do with the other."""
        return self.is_name and self.thing == new.thing


class _Statement(Struct, frozen=True):
    """What is compared of a line: its words, what its clauses state of a thing, those with `counts` by what they are
    without their numbers, the words behind each of the `slots` of somebody, what it `leaves` for something else, and
    whether it is `news` or `denies`. `plain` is its text without words of news."""

    text: str
    plain: str
    words: frozenset[str]
    frames: tuple[_Frame, ...]
    counts: dict[str, str]
    slots: dict[tuple[str, frozenset[str]], frozenset[str]]
    leaves: tuple[frozenset[str], ...]
    news: bool
    denies: bool


def replaces(old: str, new: str) -> bool:
    """Return whether `new`, written later, replaces `old`. Both may have bullets and days."""
    before, after = _read(old), _read(new)
    if before.text.lower() == after.text.lower():
        return False
    if any(left <= before.words and not any(left <= each.subject for each in before.frames) for left in after.leaves):
        return True
    if slots := list(_same_slots(before, after)):
        return any(one.isdisjoint(other) for one, other in slots)
    pairs = [(one, other) for one in before.frames for other in after.frames]
    if any(one.differs(other, news=after.news) for one, other in pairs):
        return True
    if any(before.counts[each] != after.counts[each] for each in before.counts.keys() & after.counts.keys()):
        return True
    if any(one.thing & other.thing if one.value == other.value else one.is_other(other) for one, other in pairs):
        return False
    common = before.words & after.words
    return bool(common) and (_is_changed(before, after, common) or updates(before.text, after.text))


def restated(old: str, new: str) -> str:
    """Return `new` with the beginning of `old`, where both fill the same slot: a question for it finds both."""
    text = bare(old)
    for name, _whose in _read(old).slots.keys() & _read(new).slots.keys():
        before, after = pattern("slots", name).search(text), pattern("slots", name).search(new)
        if before is not None and after is not None and not any((*before.groups(), *after.groups())):
            return f"{text[: before.end()]}{new[after.end() :]}"
    return new


def _same_slots(old: _Statement, new: _Statement) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield what fills each slot before and after, of one person: a later clause may leave out who it is."""
    for (name, whose), before in old.slots.items():
        for (other, who), after in new.slots.items():
            if name == other and (whose == who or (not who and whose <= new.words)):
                yield before, after


def _is_changed(old: _Statement, new: _Statement, common: frozenset[str]) -> bool:
    """Return whether `new` speaks of a change, and has enough words in `common` with `old`, or the same beginning."""
    if not new.news or old.denies != new.denies or not (old.words - common and new.words - common):
        return False
    is_enough = len(common) >= _FEWEST and 2 * len(common) >= min(len(old.words), len(new.words))
    beginning = pattern("frames", "beginning").match(old.plain)
    return is_enough or (beginning is not None and new.plain.startswith(beginning[0]))


@lru_cache(16_384)
def _read(line: str) -> _Statement:
    text = pattern("frames", "label").sub("", _TITLE.sub(r"\1", fold(bare(line))), count=1)
    plain = _plain(text)
    clauses = _CLAUSE.split(plain)
    lowered, numbers = [each.lower() for each in clauses], pattern("frames", "numbers")
    left = (
        part
        for match in pattern("frames", "from").finditer(text)
        for name, part in match.groupdict().items()
        if name.startswith("a") and part
    )
    return _Statement(
        text=text,
        plain=plain.replace(" ", ""),
        words=words(plain),
        frames=tuple(filter(None, map(_framed, clauses))),
        counts={masked: each for each in lowered if (masked := numbers.sub("#", each)) != each and words(masked)},
        slots=dict(_slots_of(text)),
        leaves=tuple(filter(None, map(words, left))),
        news=has("frames", "news", text) or has("lasting", "change", text),
        denies=denies(text),
    )


def _plain(text: str) -> str:
    return " ".join(pattern("frames", "news").sub(" ", text).split())


def _slots_of(text: str) -> Iterator[tuple[tuple[str, frozenset[str]], frozenset[str]]]:
    """Yield the slots that `text` fills, each with whose it is, and the words in it."""
    for name in table()["slots"]:
        if (match := pattern("slots", name).search(text)) is not None:
            filled = next(filter(None, match.groups()), "") or _value(text[match.end() :])
            if found := words(_plain(filled)):
                whose = _CLAUSE.split(pattern("frames", "self").sub("", _plain(text[: match.start()])))[-1]
                yield (name, words(whose)), found


def _value(text: str) -> str:
    """Return `text` up to where a value ends."""
    return pattern("frames", "rest").split(text.strip(), maxsplit=1)[0]


def _framed(text: str) -> _Frame | None:
    """Return what a clause states of a thing, if it names one."""
    if (used := pattern("frames", "used_as").match(text)) is not None:
        subject = thing = f"{used['who']} {used['thing']}"
        link, value = "", used["value"]
    else:
        found = pattern("frames", "states").search(text) or pattern("frames", "acts").search(text)
        if found is None:
            return None
        subject, link, value = text[: found.start()], found[0].strip(), text[found.end() :]
        thing = " ".join([subject, *filter(None, found.groups())])
    value = _value(value)
    names, stated = words(thing), words(value)
    is_name = link.startswith("is") and _NAME.fullmatch(subject) is not None
    return _Frame(words(subject), names, link, stated, _shape(link, value), is_name) if names and stated else None


def _shape(link: str, value: str) -> str:
    """Return whether a short value is a number or a name, or Chinese words behind one link; "" for any other."""
    if len(words(value)) > _SHORT:
        return ""
    found = _NAME.match(_ARTICLE.sub("", value))
    if found is None:
        return f"{link} words" if value[:1] > "\u2e7f" else ""
    return "number" if found[0][-1].isdigit() else "name"
