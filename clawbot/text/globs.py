"""Globs over paths: `*` and `?` within one name, `**` over any folders, `[ab]`, `{md,txt}`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from clawbot.errors import ClawbotError
from clawbot.text.names import composed
from clawbot.text.patterns import lazy_re

MAX_CHARACTERS = 500
"""Longer globs are refused: a model may send any."""

_PART = lazy_re(r"(?:\*\*/)+|\*+|\?|\[[!^]?\]?[^\]/]*\]|\{[^{}/]*\}|.", re.DOTALL)
_NO_CLASSES = ("[]", "[!]", "[^]")
Part = str | tuple[tuple[str, ...], ...]
"""A wildcard or a character; or the alternatives of braces, each a sequence of parts."""


class GlobError(ClawbotError, ValueError):
    """A glob that is too long."""


class Glob:
    """A compiled glob; see `compile_glob`."""

    def __init__(self, pattern: str) -> None:
        self._parts = _parts(composed(pattern))
        self._begin = _literal(self._parts)
        self._end = _literal(reversed(self._parts))[::-1]

    def fits(self, path: str) -> bool:
        """Whether the glob matches all of `path`, a path with "/". Case-sensitive; the Unicode form (NFC, NFD) is
        ignored."""
        path = composed(path)
        may_fit = path.startswith(self._begin) and path.endswith(self._end)
        return may_fit and bool(_Path(path).after(self._parts, 1) >> len(path))


@lru_cache(maxsize=16)
def compile_glob(pattern: str) -> Glob:
    """Compile `pattern`. Any text is valid; raises GlobError if it is too long."""
    if len(pattern) > MAX_CHARACTERS:
        raise GlobError(
            f"The pattern {pattern[:40]}… is longer than {MAX_CHARACTERS} characters.", hint="Use a shorter one."
        )
    return Glob(pattern)


def _parts(pattern: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for part in _PART.findall(pattern):
        if len(part) > 1 and part[0] == "{":
            parts.append(tuple(_signs(choice) for choice in part[1:-1].split(",")))
        else:
            parts += _signs(part)
    return tuple(parts)


def _literal(parts: Iterable[Part]) -> str:
    """Return the literal prefix of `parts`."""
    found = ""
    for part in parts:
        if not isinstance(part, str) or len(part) > 1 or part in "*?":
            break
        found += part
    return found


def _signs(text: str) -> tuple[str, ...]:
    """`text` without braces, split into tokens: `**/`, `**`, `*`, `?`, a class, a character. An empty class is not a
    class."""
    signs: list[str] = []
    for part in _PART.findall(text):
        if part[0] == "*":
            signs.append("**/" if part[-1] == "/" else part[:2])
        else:
            signs += list(part) if part in _NO_CLASSES or part[0] == "{" else [part]
    return tuple(signs)


class _Path:
    """A path while a glob is matched against it.

    All positions that the glob can have reached are tracked at once as the bits of one number: bit n is before
    character n. So the time grows with both lengths, without the exponential backtracking of a regular expression.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._all = (1 << len(path)) - 1
        self._of_sign: dict[str, int] = {}
        self._slashes = self._fitting("/")
        self._names = self._all & ~self._slashes

    def after(self, parts: tuple[Part, ...], positions: int) -> int:
        """Return the positions reached from `positions` by `parts`."""
        for part in parts:
            if not positions:
                break
            if isinstance(part, tuple):
                reached = 0
                for choice in part:
                    reached |= self.after(choice, positions)
                positions = reached
            else:
                positions = self._step(part, positions)
        return positions

    def _step(self, sign: str, positions: int) -> int:
        if sign == "*":
            return positions | _run(positions, self._names)
        if sign == "**":
            return positions | _run(positions, self._all)
        if sign == "**/":
            # Over names that end with a slash; a slash directly after another one ends no name.
            ends = self._slashes & self._names << 1
            over = _run(positions & self._names, self._names | ends)
            return positions | over & self._slashes << 1
        return (positions & self._fitting(sign)) << 1

    def _fitting(self, sign: str) -> int:
        """Return the positions of the characters that match `sign`."""
        if sign == "?":
            return self._names
        if sign not in self._of_sign:
            found = 0
            if len(sign) > 1:
                wanted = sign.replace("[^", "[!", 1)
                for at, character in enumerate(self._path):
                    found |= (character != "/" and fnmatchcase(character, wanted)) << at
            else:
                at = self._path.find(sign)
                while at >= 0:
                    found |= 1 << at
                    at = self._path.find(sign, at + 1)
            self._of_sign[sign] = found
        return self._of_sign[sign]


def _run(positions: int, passable: int) -> int:
    """The positions reachable from `positions` over `passable` characters, besides some of `positions` themselves.

    Adding a bit at the start of a run of ones turns the run to zeros and sets the bit after it.
    """
    return (passable + (positions & passable)) ^ passable
