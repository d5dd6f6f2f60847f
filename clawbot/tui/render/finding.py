"""Where the words of a search are: of one in the page in the lines of an item, across the breaks that wrapping made; of
one in the memory in a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from clawbot.text.language import STOP_WORDS
from clawbot.text.patterns import lazy_re
from clawbot.text.tokens import tokens_of
from clawbot.tui.render.lines import WIDE, StyledLine, width_of

# Between two lines is a space, or perhaps nothing: next to CJK and punctuation, and where a long word was
# cut in two.
_SPACE, _MAYBE = "\n", "\r"
_LONG_WORD = 12  # cells at the end of a line, without a space, that may be the part of a longer word
_MARKER = 4  # cells before it, of a list or a quote
_BETWEEN = "[\r\u2066-\u2069]*"  # what may be between two characters that belong together
_MARGIN = re.compile(r"[\s▌▎│]*")
_WIDE = lazy_re(f"[{WIDE}]")


class Part(NamedTuple):
    """The characters of one line of an item from `start` to before `end`; `line` counts from 0."""

    line: int
    start: int
    end: int


Found = tuple[Part, ...]
"""One match of the words: a part in each line that they reach into."""


class Joined(NamedTuple):
    """The lines of an item as running text: where the text of each begins in it (`starts`), and how many characters of
    margin the line has before that (`margins`)."""

    text: str
    starts: tuple[int, ...]
    margins: tuple[int, ...]


def compile_query(query: str) -> re.Pattern[str] | None:
    """Return what finds `query`: in small letters it finds capitals, too. None where there is nothing to find."""
    words = query.split()
    if not words:
        return None
    pattern = r"\s+".join(_BETWEEN.join(map(re.escape, word)) for word in words)
    return re.compile(pattern, 0 if query != query.lower() else re.IGNORECASE)


def join(lines: Sequence[StyledLine]) -> Joined:
    """Return `lines` without their margins, one behind the other."""
    texts = [line.text for line in lines]
    margins = [match.end() if (match := _MARGIN.match(text)) else 0 for text in texts]
    bodies = [text[margin:].rstrip() for text, margin in zip(texts, margins, strict=True)]
    cells = [margin + width_of(body) for body, margin in zip(bodies, margins, strict=True)]
    full = max(cells, default=0) - 1  # a wide character may not have had room
    parts: list[str] = []
    starts: list[int] = []
    at = 0
    for number, body in enumerate(bodies):
        if number:
            above = bodies[number - 1]
            parts.append(_joint(above, body, is_full=cells[number - 1] >= full))
            at += 1
        starts.append(at)
        parts.append(body)
        at += len(body)
    return Joined("".join(parts), tuple(starts), tuple(margins))


def _joint(above: str, below: str, *, is_full: bool) -> str:
    """Return the text between two lines; `is_full`: the upper one is as wide as any."""
    if not above or not below:
        return _SPACE
    if not (_in_word(above[-1]) and _in_word(below[0])):
        return _MAYBE
    word = width_of(above[above.rfind(" ") + 1 :])
    return _MAYBE if is_full and word >= max(_LONG_WORD, width_of(above) - _MARKER) else _SPACE


def _in_word(character: str) -> bool:
    return character.isalnum() and (character.isascii() or not _WIDE.match(character))


def find_in(joined: Joined, pattern: re.Pattern[str]) -> tuple[Found, ...]:
    """Return all matches of `pattern`, in their order."""
    return tuple(_parts(joined, *match.span()) for match in pattern.finditer(joined.text))


def _parts(joined: Joined, start: int, end: int) -> Found:
    found: list[Part] = []
    line = bisect_right(joined.starts, start) - 1
    while line < len(joined.starts) and joined.starts[line] < end:
        first = joined.starts[line]
        # The joint behind a line is the last character before the next one.
        after = joined.starts[line + 1] - 1 if line + 1 < len(joined.starts) else len(joined.text)
        begin, stop = max(start, first), min(end, after)
        if begin < stop:
            margin = joined.margins[line]
            found.append(Part(line, begin - first + margin, stop - first + margin))
        line += 1
    return tuple(found)


_LAST_WORD = re.compile(r"[^\W_]+\Z")
_BEGUN = 3  # minimum characters of an incomplete last word


def marks(query: str, text: str) -> list[tuple[int, int]]:
    """Return the ranges of `text` (start, end) that match `query`, in order and without overlaps.

    A word at the very end of the query also matches longer words.
    """
    wanted, begun = _wanted(query)
    found: list[tuple[int, int]] = []
    for start, end, token in tokens_of(text):
        if token not in wanted and not (begun and text[start:end].casefold().startswith(begun)):
            continue
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


@lru_cache(maxsize=8)
def _wanted(query: str) -> tuple[frozenset[str], str]:
    """Return the tokens that match `query`, and its incomplete last word: "" if that is too short or a stop word."""
    from clawbot.text.query import query_tokens  # after the first paint

    match = _LAST_WORD.search(query)
    begun = match[0].casefold() if match else ""
    return query_tokens(query), begun if len(begun) >= _BEGUN and begun not in STOP_WORDS else ""
