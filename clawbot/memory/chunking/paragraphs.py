"""Where a paragraph is to be cut: what people say, lines that stand for themselves, and text that is only wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

Cut = tuple[int, int, Literal["prose", "dialogue", "item"]]
"""Lines from the first up to the second (from 0, without it), and what they are."""

LONG_CHARS = 800
"""What takes more lines than fit into so many characters is split between lines."""

# Nobody wraps text at more columns than this: such lines end where a thought ends.
_WIDEST_WRAP = 120
# Of the lines of a paragraph, the share that must end a sentence for each to stand for itself.
_ENDING_SHARE = 0.75
_ENDS = frozenset(".!?;:…。！？；：\\")
_CLOSERS = " \t\"'”’»」』）)]*_`~"

_TIME = r"(?:\[?\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+(?:[-–—][ \t]+)?)?"
_SPEAKER = re.compile(
    rf"[ \t]*(?:>[ \t]?)*{_TIME}[*_<@]{{0,3}}(?P<name>[^\W\d_][^\n:：*<>|/，。,!?！？]{{0,39}})[*_>]{{0,3}}"
    r"(?::[*_]{0,3}(?=\s)|：)"
)
_MOST_NAMES = 4
_MARKER = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+\S")


def paragraph_cuts(lines: Sequence[str], start: int, end: int, limit: int = LONG_CHARS) -> Iterator[Cut]:
    """Cut the paragraph in `lines` from `start` up to `end`: all its lines come back, in order.

    Lines that begin with a name (`Anna: …`) are each a piece, with what is wrapped below them; so are lines that are
    too long to be wrapped ones or that mostly end sentences. Other text stays whole, up to `limit` characters.
    """
    if end - start == 1:
        yield start, end, "dialogue" if _speaker(lines[start]) else "prose"
        return
    speakers = [_speaker(line) for line in lines[start:end]]
    is_talk = _is_talk(speakers)
    alone = _stand_alone(lines[start:end])
    first, kind = start, _kind(lines[start], talks=is_talk and speakers[0] is not None, inside="prose")
    for number in range(start + 1, end):
        talks = is_talk and speakers[number - start] is not None
        if talks or alone or _MARKER.match(lines[number]):
            yield from _within(lines, first, number, kind, limit)
            first, kind = (
                number,
                _kind(lines[number], talks=talks, inside="dialogue" if kind == "dialogue" else "prose"),
            )
    yield from _within(lines, first, end, kind, limit)


def line_groups(lines: Sequence[str], start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """The lines from `start` up to `end` in groups of at most `limit` characters, or of one line that is longer."""
    first, size = start, 0
    for number in range(start, end):
        length = len(lines[number]) + 1
        if number > first and size + length > limit:
            yield first, number
            first, size = number, 0
        size += length
    yield first, end


def _within(
    lines: Sequence[str], start: int, end: int, kind: Literal["prose", "dialogue", "item"], limit: int
) -> Iterator[Cut]:
    for first, last in line_groups(lines, start, end, limit):
        yield first, last, kind


def _kind(line: str, *, talks: bool, inside: Literal["prose", "dialogue"]) -> Literal["prose", "dialogue", "item"]:
    if talks:
        return "dialogue"
    return "item" if _MARKER.match(line) else inside


def _speaker(line: str) -> str | None:
    """Who says the line, when it looks like something said."""
    found = _SPEAKER.match(line)
    if found is None:
        return None
    name = found["name"].strip()
    return name if len(name.split()) <= _MOST_NAMES else None


def _is_talk(speakers: Sequence[str | None]) -> bool:
    """Whether the lines of a paragraph are said by somebody, and not prose with a colon in it.

    Names begin with a capital, or are of a script without; where every line has one, any word will do.
    """
    named = [name for name in speakers if name is not None]
    proper = [name for name in named if not any(word[0].islower() for word in name.split())]
    return len(named) == len(speakers) or (len(proper) > 1 and len(proper) == len(named)) or speakers[0] in proper


def _stand_alone(lines: Sequence[str]) -> bool:
    """Whether each line is a thought of its own, and not a part of wrapped text."""
    if any(len(line) > _WIDEST_WRAP or _columns(line) > _WIDEST_WRAP for line in lines):
        return True
    inner = lines[:-1]
    ending = sum(line.endswith("  ") or line.rstrip(_CLOSERS)[-1:] in _ENDS for line in inner)
    return ending >= _ENDING_SHARE * len(inner)


def _columns(line: str) -> int:
    """About how many columns a terminal needs for `line`: two for a character of Chinese, Japanese or Korean."""
    return len(line) if line.isascii() else len(line) + sum(char >= "\u2e80" for char in line)
