"""Owns how a text that is too long is cut: around the words that were asked for, at sentences and blanks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from clawbot.memory.text import CJK, INVISIBLE, plain_forms

_FRONT, _BACK = "… ", " …"
_LEAST = 40
"""Characters below which signs of a cut would take more than they tell."""
_MOST_PLACES = 500
_SHORTEST_STEM = 3
_LONGEST_ENDING = 3

_SENTENCE = re.compile(r"[.!?][\"'”’)]*\s+|[。！？；][”’」』)）]*\s*|\n+")
_BLANK = re.compile(r"\s+")
_BEFORE = rf"(?<![^\W_{CJK}])"


class _Span(Struct, frozen=True):
    """Where words were found: from the first one to the end of the last one."""

    first: int
    end: int


def cut_around(text: str, chars: int, words: Sequence[str]) -> str:
    """At most `chars` characters of `text`: those with the most of `words`, the earliest of such; else the beginning.

    `words` are what was asked for, in lower case; longer words that begin like one of them count too.
    """
    if len(text) <= chars:
        return text
    before = chars // 4
    span = _fullest(sorted(_places(text, words)), chars - before - len(_FRONT + _BACK))
    if chars < _LEAST:
        return text[span.first : span.first + chars]
    start = 0
    if span.end > chars - len(_BACK):
        earliest = min(span.first - before, len(text) - chars + len(_FRONT))
        start = _start(text, max(0, earliest), span.first)
    lead = _FRONT if start else ""
    room = chars - len(lead)
    if len(text) - start <= room:
        return lead + text[start:]
    end = _end(text, max(span.end, start + room * 3 // 4), start + room - len(_BACK))
    return f"{lead}{text[start:end].rstrip()}{_BACK}"


def _start(text: str, start: int, match: int) -> int:
    """Where a sentence begins, else a word, from `start` on and not behind `match`."""
    for border in (_SENTENCE, _BLANK):
        found = border.search(text, start, match)
        if found:
            return found.end()
    return start


def _end(text: str, least: int, most: int) -> int:
    """Where a sentence ends, else a word: as late as possible between `least` and `most`."""
    for border in (_SENTENCE, _BLANK):
        ends = [found.end() for found in border.finditer(text, min(least, most), most)]
        if ends:
            return ends[-1]
    return most


def _places(text: str, words: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Where the words stand: start, end, and which word it is."""
    for number, word in enumerate(dict.fromkeys(words)):
        for pattern in _patterns(plain_forms(word)):
            found = [(each.start(), each.end(), number) for each in islice(pattern.finditer(text), _MOST_PLACES)]
            yield from found
            if found:
                break


def _patterns(word: str) -> Iterator[re.Pattern[str]]:
    """The word as it is, and what may be its stem."""
    stem = word[: max(_SHORTEST_STEM, len(word) - _LONGEST_ENDING)]
    for begun in (word, stem) if word.isascii() and word.isalpha() and stem != word else (word,):
        spelled = f"[{INVISIBLE}]*".join(map(re.escape, begun))
        yield re.compile(f"{_BEFORE if word[:1].isascii() else ''}{spelled}", re.IGNORECASE)


def _fullest(places: Sequence[tuple[int, int, int]], reach: int) -> _Span:
    """The stretch of at most `reach` characters with the most different words, the first one of several."""
    best, most = _Span(0, 0), 0
    inside: Counter[int] = Counter()
    first = 0
    for last, (_, end, word) in enumerate(places):
        inside[word] += 1
        while first < last and end - places[first][0] > reach:
            gone = places[first][2]
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        if len(inside) > most:
            best, most = _Span(places[first][0], end), len(inside)
    return best
