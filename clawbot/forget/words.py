"""Owns what is looked for when something is to be forgotten: a phrase as it was typed, the lines of a note, or all.
Pure.

Nothing here is fuzzy: what is removed must be foreseen. Texts are compared as the search compares them: without case,
in one Unicode form, with any blanks alike.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from clawbot.sessions.echo import REFERENCE
from clawbot.sessions.forgotten import MARK
from clawbot.text.tokens import INVISIBLE

SHORTEST = 2
"""Characters of a phrase; one stands in nearly every line."""

_TELLING = 8  # a line is known again by so many characters, of Chinese by half of them
_START = 4
_WIDE = 0x2E80
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
# What stands before the words of a line: marks of quotes, lists and headings, who said it and when.
_LEAD = re.compile(
    r"(?:\s|>|[-*+•](?=\s)|\d{1,3}[.)](?=\s)|#+(?=\s)|\[[ xX]\](?=\s))*"
    r"(?:(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?:user|assistant):\s*)?(?:\s|>)*"
)
_REFERENCE = re.compile(rf"{REFERENCE}\s*$")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


class ForgetTarget(Protocol):
    """What is to be forgotten."""

    def holds(self, text: str) -> bool:
        """Whether a line, or a text of several, holds some of it."""
        ...


def plain(text: str) -> str:
    """`text` as it is compared."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        text = unicodedata.normalize("NFKC", text.casefold())
    return " ".join(text.casefold().split())


class Phrase:
    """A text that the user typed."""

    def __init__(self, text: str) -> None:
        self._plain = plain(text)

    @property
    def is_telling(self) -> bool:
        """Whether there is enough of it to remove anything by."""
        return len(self._plain) >= SHORTEST

    def shares(self, words: str) -> bool:
        """Whether one of `words` is a word of it, or it stands in them."""
        own = set(self._plain.split())
        return self.holds(words) or any(
            word in own or (len(word) > 1 and _is_wide(word) and word in self._plain) for word in plain(words).split()
        )

    def holds(self, text: str) -> bool:
        """Whether it stands in `text`."""
        return self._plain in plain(text.replace(MARK, ""))


class WholeLines:
    """Lines that stood in a note, or were said: known again behind other marks, as a whole alone."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.keys = frozenset(key for text in texts for line in text.splitlines() if (key := _key(line)))

    def holds(self, text: str) -> bool:
        """Whether one of them is a line of `text`."""
        return any(_key(line) in self.keys for line in text.splitlines())


class Mentions:
    """The same lines wherever they stand, in others too: for telling, not for removing."""

    def __init__(self, lines: WholeLines) -> None:
        self._by_start: dict[str, list[str]] = {}
        for key in lines.keys:
            self._by_start.setdefault(key[:_START], []).append(key)

    def holds(self, text: str) -> bool:
        """Whether one of them stands in `text`."""
        words = plain(text)
        starts = (place for place in range(len(words)) if words[place : place + _START] in self._by_start)
        return any(
            words.startswith(key, place) for place in starts for key in self._by_start[words[place : place + _START]]
        )


class Everything:
    """All that was said."""

    def holds(self, text: str) -> bool:
        """Whether there is anything in `text`."""
        return bool(text.strip())


def _key(line: str) -> str:
    """What two lines that say the same have in common; "" for one that says too little to be known by."""
    if _REFERENCE.search(line) or MARK in line:
        return ""
    words = _EDGES.sub("", plain(line[_match_end(line) :]))
    weight = len(words) + sum(map(_is_wide, words))
    return words if weight >= _TELLING and any(map(str.isalpha, words)) else ""


def _is_wide(text: str) -> bool:
    """Whether it is of a script that writes no blanks between words."""
    return all(ord(char) >= _WIDE for char in text)


def _match_end(line: str) -> int:
    found = _LEAD.match(line)
    return found.end() if found else 0


def stands_in(text: str, wanted: ForgetTarget) -> bool:
    """Whether `text`, which may be JSON as tools print it, holds some of what is wanted."""
    return wanted.holds(text) or any(wanted.holds(part) for part in _inside(text))


def taken_out(text: str, wanted: ForgetTarget) -> str:
    """`text` with a mark in the place of each line that holds some of what is wanted; of the whole, where that is over
    several lines, or inside of JSON."""
    if not stands_in(text, wanted):
        return text
    lines = text.split("\n")
    cleaned = "\n".join(MARK if wanted.holds(line) else line for line in lines)
    return MARK if stands_in(cleaned.replace(MARK, ""), wanted) or isinstance(wanted, Everything) else cleaned


def _inside(text: str) -> Iterator[str]:
    if text[:1] in ("{", "["):
        try:
            yield from strings_in(json.loads(text))
        except (ValueError, RecursionError):
            return


def strings_in(value: Any, wants: Callable[[str], bool] = lambda _name: True) -> Iterator[str]:
    """All texts in JSON data, names too; fields whose name is not wanted are passed over."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_in(item, wants)
    elif isinstance(value, dict):
        for name, item in value.items():
            if wants(name):
                yield name
                yield from strings_in(item, wants)
