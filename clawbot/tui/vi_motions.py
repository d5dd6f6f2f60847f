"""Where vi's motions lead in a text: offsets in, a span out. No state, no screen."""

from __future__ import annotations

import re
from typing import NamedTuple

from clawbot.text.graphemes import edge, edges

# A run of one kind: of the word, or of what is neither word nor blank. An empty line is a word, too.
_WORDS = re.compile(r"\w+|[^\w\s]+|(?<=\n)(?=\n)")
_BIG_WORDS = re.compile(r"\S+|(?<=\n)(?=\n)")
_OPPOSITE = {"f": "F", "F": "f", "t": "T", "T": "t"}


class Span(NamedTuple):
    """From the cursor to the place that a motion leads to; `inclusive` of that character, or `whole` lines."""

    start: int
    end: int
    inclusive: bool = False
    whole: bool = False


def line_start(text: str, at: int) -> int:
    """The offset at which the line of `at` begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """The offset of the line break that ends the line of `at`, or of the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def column(text: str, at: int) -> int:
    """How far `at` is from the beginning of its line."""
    return at - line_start(text, at)


def place_of(text: str, at: int) -> tuple[int, int]:
    """The line (from 0) and the column of the offset `at`."""
    return text.count("\n", 0, at), at - line_start(text, at)


def shared(old: str, new: str) -> tuple[int, int]:
    """How many characters two texts begin with and, of the rest, end with alike."""
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    end = next((at for at in range(most - start) if old[-1 - at] != new[-1 - at]), most - start)
    return start, end


def clamped(text: str, at: int) -> int:
    """`at`, on a character of its line: not behind the last one, unless the line is empty."""
    at = max(0, min(at, len(text)))
    return edge(text, min(at, max(line_start(text, at), line_end(text, at) - 1)))


def move(text: str, at: int, motion: str, count: int, found: str) -> Span | None:
    """Where `motion` leads from `at`, `count` times (0: none was given); None where it leads nowhere. `found` is the
    last search in a line (`fx`), which `;` and `,` do again."""
    times = max(1, count)
    if motion in ("j", "k"):
        return _vertical(text, at, times if motion == "j" else -times)
    if motion in ("gg", "G"):
        return _to_line(text, at, count or (1 if motion == "gg" else text.count("\n") + 1))
    if motion in ";,":
        if not found:
            return None
        motion = found if motion == ";" else _OPPOSITE[found[0]] + found[1]
        return _in_line(text, at, motion, times, again=True)
    if motion[0] in "fFtT":
        return _in_line(text, at, motion, times)
    if motion in "wbeWBE":
        return _by_word(text, at, motion, times)
    return Span(at, _along(text, at, motion, times))


def _along(text: str, at: int, motion: str, times: int) -> int:
    start, end = line_start(text, at), line_end(text, at)
    match motion:
        case "h":
            found = edges(text[start:at])
            return start + found[max(0, len(found) - 1 - times)]
        case "l":
            found = edges(text[at:end])
            return at + found[min(times, len(found) - 1)]
        case "0":
            return start
        case "^":
            return start + len(text[start:end]) - len(text[start:end].lstrip())
    for _ in range(times - 1):
        end = line_end(text, min(len(text), end + 1))
    return end


def _vertical(text: str, at: int, steps: int) -> Span | None:
    """So many lines down or, below 0, up, as far as there are any."""
    place, aim = at, column(text, at)
    for _ in range(abs(steps)):
        next_line = line_end(text, place) + 1 if steps > 0 else line_start(text, place) - 1
        if not 0 <= next_line <= len(text):
            break
        place = line_start(text, next_line)
    if line_start(text, place) == line_start(text, at):
        return None
    return Span(at, clamped(text, min(place + aim, line_end(text, place))), whole=True)


def _to_line(text: str, at: int, number: int) -> Span:
    place = 0
    for _ in range(number - 1):
        end = line_end(text, place)
        if end == len(text):
            break
        place = end + 1
    return Span(at, _along(text, place, "^", 1), whole=True)


def _in_line(text: str, at: int, motion: str, times: int, *, again: bool = False) -> Span | None:
    kind, sign = motion[0], motion[1]
    start, end = line_start(text, at), line_end(text, at)
    place = at
    if again and kind in "tT":
        place += 1 if kind == "t" else -1  # else it stays before the one that it found last
    for _ in range(times):
        place = text.find(sign, place + 1, end) if kind in "ft" else text.rfind(sign, start, max(start, place))
        if place < 0:
            return None
    if kind in "tT":
        place += -1 if kind == "t" else 1
    return Span(at, place, inclusive=kind in "ft")


def _by_word(text: str, at: int, motion: str, times: int) -> Span:
    words = [found.span() for found in (_WORDS if motion.islower() else _BIG_WORDS).finditer(text)]
    place = at
    for _ in range(times):
        match motion.lower():
            case "w":
                place = next((start for start, _ in words if start > place), len(text))
            case "b":
                place = next((start for start, _ in reversed(words) if start < place), 0)
            case _:
                last = max(0, len(text) - 1)
                place = next((end - 1 for start, end in words if end - 1 > place and end > start), last)
    return Span(at, place, inclusive=motion in "eE")


def object_at(text: str, at: int, name: str) -> Span | None:
    """The word that `at` is in (`iw`, `iW`), with the blanks after it or else before it (`aw`, `aW`)."""
    start, end = line_start(text, at), line_end(text, at)
    kinds = r"\w+|[^\w\s]+|\s+" if name[1] == "w" else r"\S+|\s+"
    for found in re.finditer(kinds, text[start:end]):
        if found.start() <= at - start < found.end():
            first, last = found.span()
            if name[0] == "a":
                after = len(text[start + last : end]) - len(text[start + last : end].lstrip())
                before = first - len(text[start : start + first].rstrip())
                first, last = (first, last + after) if after else (first - before, last)
            return Span(start + first, start + last)
    return Span(at, at) if start == end else None
