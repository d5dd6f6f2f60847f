"""Where the words of a search stand in the lines of an item, across the breaks that wrapping made."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from clawbot.text.patterns import lazy_re
from clawbot.tui.render.lines import WIDE, StyledLine

# Between two lines stands a space, or nothing: where CJK was wrapped, and where a word as long as a line was cut.
_SPACE, _MAYBE = "\n", "\r"
_LONG_WORD = 24  # cells of a line without a space that may be the part of a longer word
_BETWEEN = "[\r\u2066-\u2069]*"  # what may stand between two characters that belong together
_MARGIN = re.compile(r"[\s▌▎│]*")
_WIDE = lazy_re(f"[{WIDE}]")


class Part(NamedTuple):
    """The characters of one line of an item from `start` to before `end`; `line` counts from 0."""

    line: int
    start: int
    end: int


Found = tuple[Part, ...]
"""One place where the words stand: a part in each line that they reach into."""


class Joined(NamedTuple):
    """The lines of an item as running text: where the text of each begins in it (`starts`), and how many characters of
    margin the line has before that (`margins`)."""

    text: str
    starts: tuple[int, ...]
    margins: tuple[int, ...]


def compile_query(query: str) -> re.Pattern[str] | None:
    """What finds `query`: in small letters it finds capitals, too. None where there is nothing to find."""
    words = query.split()
    if not words:
        return None
    pattern = r"\s+".join(_BETWEEN.join(map(re.escape, word)) for word in words)
    return re.compile(pattern, 0 if query != query.lower() else re.IGNORECASE)


def join(lines: Sequence[StyledLine]) -> Joined:
    """`lines` without their margins, one behind the other."""
    parts: list[str] = []
    starts: list[int] = []
    margins: list[int] = []
    at, last = 0, ""
    for line in lines:
        text = line.text
        match = _MARGIN.match(text)
        margin = match.end() if match else 0
        body = text[margin:].rstrip()
        if starts:
            parts.append(_joint(last, body))
            at += 1
        starts.append(at)
        margins.append(margin)
        parts.append(body)
        at += len(body)
        last = body
    return Joined("".join(parts), tuple(starts), tuple(margins))


def _joint(above: str, below: str) -> str:
    if not above or not below:
        return _SPACE
    if not (above.isascii() and below.isascii()) and (_WIDE.match(above[-1]) or _WIDE.match(below[0])):
        return _MAYBE
    return _MAYBE if len(above) >= _LONG_WORD and " " not in above else _SPACE


def find_in(joined: Joined, pattern: re.Pattern[str]) -> tuple[Found, ...]:
    """All places of `pattern`, in their order."""
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
