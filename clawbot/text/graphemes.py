"""Characters as a reader sees them: several code points may be one, such as a letter with its accent."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


def edges(text: str) -> Sequence[int]:
    """Return the offsets at which characters begin, and the length of `text`."""
    if len(text) < 2 or text.isascii():
        return range(len(text) + 1)
    import regex

    return [*(found.start() for found in regex.finditer(r"\X", text)), len(text)]


def edge(text: str, at: int, *, after: bool = False) -> int:
    """Return the offset `at`, or where the character that it is within begins, or ends if `after`."""
    found = edges(text)
    number = min(bisect_left(found, max(0, at)), len(found) - 1)
    return found[number - (found[number] > at >= 0 and not after)]
