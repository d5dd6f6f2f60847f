"""Patterns that are compiled when they are first used: with sets of Chinese characters one takes milliseconds, and most
commands need few of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Any, cast


class _Later:
    """Has the attributes of the pattern; keeps those that were asked for."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)
        return found


def lazy_re(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, at the first use. A mistake in `pattern` is found only then."""
    return cast("re.Pattern[str]", _Later(pattern, flags))


def any_glob(globs: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches what fits one of the shell's `globs`, upper and lower case apart."""
    return re.compile("|".join(map(translate, globs)))
