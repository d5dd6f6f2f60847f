"""Matching for forgetting: a phrase as typed, the lines of a note, or everything. Pure.

Nothing is fuzzy, so that users can predict what is removed. Texts are compared as in search: case-insensitive,
Unicode-normalised, with whitespace folded.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from clawbot.sessions.envelopes import REFERENCE
from clawbot.sessions.forgotten import MARK
from clawbot.text.tokens import INVISIBLE

SHORTEST = 2
"""Minimum characters of a phrase; a single one occurs in nearly every line."""

_TELLING = 8  # minimum characters that identify a line; half as many for Chinese
_START = 4
_WIDE = 0x2E80
_INVISIBLE = re.compile(f"[{INVISIBLE}]+")
# Prefixes of a line: quote marks, list marks, headings, speaker and time.
_LEAD = re.compile(
    r"(?:\s|>|[-*+•](?=\s)|\d{1,3}[.)](?=\s)|#+(?=\s)|\[[ xX]\](?=\s))*"
    r"(?:(?:\d{4}-\d{2}-\d{2} )?(?:\d{2}:\d{2} )?(?:user|assistant):\s*)?(?:\s|>)*"
)
_REFERENCE = re.compile(rf"{REFERENCE}\s*$")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")


class ForgetTarget(Protocol):
    """What to forget."""

    def holds(self, text: str) -> bool:
        """Whether `text` (one or several lines) contains some of it."""
        ...


def plain(text: str) -> str:
    """`text` normalised for comparison."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
        text = unicodedata.normalize("NFKC", text.casefold())
    return " ".join(text.casefold().split())


class Phrase:
    """A text typed by the user."""

    def __init__(self, text: str) -> None:
        self._plain = plain(text)

    @property
    def is_telling(self) -> bool:
        """Whether it is long enough to be removed."""
        return len(self._plain) >= SHORTEST

    def shares(self, words: str) -> bool:
        """Whether one of `words` is a word of it, or it occurs in them."""
        own = set(self._plain.split())
        return self.holds(words) or any(
            word in own or (len(word) > 1 and _is_wide(word) and word in self._plain) for word in plain(words).split()
        )

    def holds(self, text: str) -> bool:
        return self._plain in plain(text.replace(MARK, ""))


class WholeLines:
    """Lines of a note or of messages, matched as whole lines, whatever their prefix."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.keys = frozenset(key for text in texts for line in text.splitlines() if (key := _key(line)))

    def holds(self, text: str) -> bool:
        """Whether one of them is a line of `text`."""
        return any(_key(line) in self.keys for line in text.splitlines())


class Mentions:
    """The same lines anywhere, also inside others: for reporting, not for removing."""

    def __init__(self, lines: WholeLines) -> None:
        self._by_start: dict[str, list[str]] = {}
        for key in lines.keys:
            self._by_start.setdefault(key[:_START], []).append(key)

    def holds(self, text: str) -> bool:
        words = plain(text)
        starts = (place for place in range(len(words)) if words[place : place + _START] in self._by_start)
        return any(
            words.startswith(key, place) for place in starts for key in self._by_start[words[place : place + _START]]
        )


class Everything:
    """Matches all text."""

    def holds(self, text: str) -> bool:
        return bool(text.strip())


def _key(line: str) -> str:
    """The normalised line for comparison; "" if it is too short to be identified."""
    if _REFERENCE.search(line) or MARK in line:
        return ""
    words = _EDGES.sub("", plain(line[_match_end(line) :]))
    weight = len(words) + sum(map(_is_wide, words))
    return words if weight >= _TELLING and any(map(str.isalpha, words)) else ""


def _is_wide(text: str) -> bool:
    """Whether the script writes no spaces between words."""
    return all(ord(char) >= _WIDE for char in text)


def _match_end(line: str) -> int:
    found = _LEAD.match(line)
    return found.end() if found else 0


def stands_in(text: str, wanted: ForgetTarget) -> bool:
    """Whether `text`, which may be JSON printed by a tool, contains some of what is wanted."""
    return wanted.holds(text) or any(wanted.holds(part) for part in _inside(text))


def taken_out(text: str, wanted: ForgetTarget) -> str:
    """`text` with each matching line replaced by a mark; the whole text if the match spans lines or is inside JSON."""
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
    """All strings in JSON data, names included; fields whose name `wants` rejects are skipped."""
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
