"""What a glob over paths means: `*` and `?` within one name, `**` for any number of folders, `[ab]`, `{md,txt}`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain, product

from clawbot.errors import ClawbotError

MAX_CHARACTERS = 500
"""A longer glob is refused: a model may send any."""

MAX_PLACES = 10_000
"""What a glob may come to once its braces are written out, in characters: `{a,b}{a,b}{a,b}` is eight globs."""

MAX_STEPS = 2_000
"""So many steps are remembered by a glob before it begins anew."""

_PART = re.compile(r"\*\*/(?:\*\*/)*|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}/]*\}|.", re.DOTALL)
_FOLDERS = "**/"
_STARS = ("*", "**")


class GlobError(ClawbotError):
    """A glob that would take too long."""


class Glob:
    """A glob, ready to be compared with paths; see `compile_glob`.

    All places of the pattern that a path may have come to are followed at once, as the bits of one number. So the time
    grows with the length of the path and never with the ways to share it out between the stars, as it would with a
    regular expression.
    """

    def __init__(self, pattern: str) -> None:
        self._literal: Counter[str] = Counter()
        self._classes: Counter[str] = Counter()
        self._any = self._stars = self._double = self._hubs = self._inside = 0
        self._steps: dict[tuple[int, str], int] = {}
        self._end = start = place = 0
        for signs in _without_braces(pattern):
            start |= 1 << place
            for sign in signs:
                place = self._add(sign, 1 << place).bit_length() - 1
            self._end |= 1 << place
            place += 1
        self._start = self._closed(start)

    def fits(self, path: str) -> bool:
        """Whether the glob fits all of `path`, a path with "/". Case counts."""
        places, steps = self._start, self._steps
        for character in path:
            after = steps.get((places, character))
            if after is None:
                if len(steps) >= MAX_STEPS:
                    steps.clear()
                after = steps[places, character] = self._step(places, character)
            if not after:
                return False
            places = after
        return bool(places & self._end)

    def _add(self, sign: str, bit: int) -> int:
        """Put `sign` at the place `bit`; returns the place behind it."""
        if sign == _FOLDERS:
            # Two places: between folders, and within the name of one.
            self._hubs |= bit
            self._inside |= bit << 1
            return bit << 2
        if sign == "**":
            self._double |= bit
        elif sign == "*":
            self._stars |= bit
        elif sign == "?":
            self._any |= bit
        elif len(sign) > 1:
            self._classes[sign] |= bit
        else:
            self._literal[sign] |= bit
        return bit << 1

    def _step(self, places: int, character: str) -> int:
        """Where `character` leads from `places`."""
        onward, staying, back = self._literal[character], self._double, 0
        if character == "/":
            back = (places & self._inside) >> 1
        else:
            onward |= self._any | self._hubs
            staying |= self._stars | self._inside
            for sign, bits in self._classes.items():
                onward |= bits if _has(sign, character) else 0
        return self._closed((places & onward) << 1 | (places & staying) | back)

    def _closed(self, places: int) -> int:
        """`places`, and those that are reached from them without a character."""
        before = -1
        while places != before:
            before = places
            places |= (places & (self._stars | self._double)) << 1 | (places & self._hubs) << 2
        return places


@lru_cache(maxsize=16)
def compile_glob(pattern: str) -> Glob:
    """The glob `pattern`. Every text is one; raises GlobError for one that is too long."""
    if len(pattern) > MAX_CHARACTERS:
        raise GlobError(
            f"The pattern {pattern[:40]}… is longer than {MAX_CHARACTERS} characters.", hint="Use a shorter one."
        )
    return Glob(pattern)


def _without_braces(pattern: str) -> Iterable[list[str]]:
    """The signs of `pattern`, once for each way to choose from its braces."""
    choices = [_choices(part) for part in _PART.findall(pattern)]
    longest = 1 + sum(max(map(len, choice)) for choice in choices)
    if math.prod(map(len, choices)) * (longest + len(choices)) > MAX_PLACES:
        raise GlobError(
            f"The pattern {pattern[:40]}… has too many choices in its braces.", hint="Use fewer braces, or `*`."
        )
    return (_merged(chain.from_iterable(chosen)) for chosen in product(*choices))


def _choices(part: str) -> list[list[str]]:
    if len(part) > 1 and part[0] == "{":
        return [[sign for one in _PART.findall(choice) for sign in _signs(one)] for choice in part[1:-1].split(",")]
    return [_signs(part)]


def _signs(part: str) -> list[str]:
    """A part other than braces as `**/`, `**`, `*`, `?`, a class, or single characters."""
    if part.startswith(_FOLDERS):
        return [_FOLDERS]
    if part.startswith("*"):
        return [part[:2]]
    # A class without anything in it is none.
    return list(part) if part in ("[]", "[!]", "[^]") else [part]


def _merged(signs: Iterable[str]) -> list[str]:
    """`signs` with one star for several in a row, which braces may bring together."""
    merged: list[str] = []
    for sign in signs:
        if merged and sign in _STARS and merged[-1] in _STARS:
            merged[-1] = max(merged[-1], sign)
        elif sign != _FOLDERS or merged[-1:] != [_FOLDERS]:
            merged.append(sign)
    return merged


def _has(sign: str, character: str) -> bool:
    """Whether the class `sign`, such as `[a-c]` or `[!x]`, fits `character`, which is no "/"."""
    negated = sign[1] in "!^"
    ranges = _ranges(sign[2 if negated else 1 : -1])
    # A range that goes backwards (`[z-a]`) fits nothing.
    if any(low > high for low, high in ranges):
        return False
    return any(low <= character <= high for low, high in ranges) != negated


@lru_cache(maxsize=512)
def _ranges(inside: str) -> list[tuple[str, str]]:
    found = []
    at = 0
    while at < len(inside):
        is_range = inside[at + 1 : at + 2] == "-" and at + 2 < len(inside)
        found.append((inside[at], inside[at + 2 if is_range else at]))
        at += 3 if is_range else 1
    return found
