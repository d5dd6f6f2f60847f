"""Whether a later statement states another value of what an earlier one does: the rule of the search, and the frames of
statements about a person."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from clawbot.memory.search.updates import updates
from clawbot.plugins.dreaming.lines import bare, denies, has, pattern, table, words
from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re

_FEWEST = 2  # words that two statements share, to be about one thing
_SHORT = 4  # words of a value
_TITLE = lazy_re(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.(?=\s)")
_CLAUSE = lazy_re(r"[,;.](?=\s|\Z|[^\x00-\x7f])")
_NAME = re.compile(r"[A-Z]\w+|\d")


class _Statement(Struct, frozen=True):
    """What is compared of a line: its words, the `thing` and the words and the shape of the `value` stated of it, the
    words behind each of the `slots`, what it `leaves` for something else, and whether it is `news` or `denies`.
    `plain` is its text without words of news."""

    text: str
    plain: str
    words: frozenset[str]
    thing: frozenset[str]
    value: frozenset[str]
    shape: str
    slots: dict[str, frozenset[str]]
    leaves: tuple[frozenset[str], ...]
    news: bool
    denies: bool


def replaces(old: str, new: str) -> bool:
    """Return whether `new`, written later, replaces `old`. Both may have bullets and days."""
    before, after = _read(old), _read(new)
    if before.text.lower() == after.text.lower():
        return False
    slots = before.slots.keys() & after.slots.keys()
    if any(before.slots[name].isdisjoint(after.slots[name]) for name in slots):
        return True
    if any(left <= before.words for left in after.leaves):
        return True
    if before.thing and before.thing == after.thing and before.value != after.value:
        return after.news or before.shape == after.shape != ""
    common = before.words & after.words
    return bool(common) and (_is_changed(before, after, common) or updates(before.text, after.text))


def restated(old: str, new: str) -> str:
    """Return `new` with the beginning of `old`, where both fill the same slot: a question for it finds both."""
    text = bare(old)
    for name in _read(old).slots.keys() & _read(new).slots.keys():
        before, after = pattern("slots", name).search(text), pattern("slots", name).search(new)
        if before is not None and after is not None and not (before.start() or after.start()):
            return f"{before[0]}{new[after.end() :]}"
    return new


def _is_changed(old: _Statement, new: _Statement, common: frozenset[str]) -> bool:
    """Return whether `new` speaks of a change, and has enough words in `common` with `old`, or the same beginning."""
    if not new.news or old.denies != new.denies or not (old.words - common and new.words - common):
        return False
    is_enough = len(common) >= _FEWEST and 2 * len(common) >= min(len(old.words), len(new.words))
    beginning = pattern("frames", "beginning").match(old.plain)
    return is_enough or (beginning is not None and new.plain.startswith(beginning[0]))


@lru_cache(16_384)
def _read(line: str) -> _Statement:
    text = _TITLE.sub(r"\1", fold(bare(line)))
    plain = " ".join(pattern("frames", "news").sub(" ", text).split())
    thing, value = _framed(plain)
    slots = {name: match.end() for name in table()["slots"] if (match := pattern("slots", name).search(text))}
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
        thing=words(thing) if value.strip() else frozenset(),
        value=words(value),
        shape=_shape(value),
        slots={name: found for name, end in slots.items() if (found := words(_CLAUSE.split(text[end:])[0]))},
        leaves=tuple(filter(None, map(words, left))),
        news=has("frames", "news", text) or has("lasting", "change", text),
        denies=denies(text),
    )


def _framed(text: str) -> tuple[str, str]:
    """Return the name of the thing that `text` is about, and what it states of it; "" without."""
    if (used := pattern("frames", "used_as").match(text)) is not None:
        return f"{used['who']} {used['thing']}", used["value"]
    found = pattern("frames", "states").search(text)
    return (text[: found.start()], text[found.end() :]) if found else ("", "")


def _shape(value: str) -> str:
    """Return whether a short value is a number or begins with a name; "" for any other."""
    found = _NAME.match(value.removeprefix("a ").removeprefix("the "))
    if found is None or len(words(value)) > _SHORT:
        return ""
    return "number" if found[0].isdigit() else "name"
