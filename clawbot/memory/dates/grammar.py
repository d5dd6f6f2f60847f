"""Owns how rules find dates in a text: one search for all of them, then the rule that matched says which days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property

from msgspec import Struct

from clawbot.memory.dates.ranges import Context, Period

_INNER_NAME = re.compile(r"\(\?P<\w+>")

Resolve = Callable[["re.Match[str]", Context], Period | None]
"""What days a match means; None when it is no date. Raises ValueError or OverflowError for impossible dates."""


class Rule(Struct, frozen=True):
    """A wording of dates; one without `resolve` is no date and is passed over. `name` is unique in a grammar."""

    name: str
    pattern: str
    resolve: Resolve | None


class Found(Struct, frozen=True):
    """A date in a text: where it stands, and its days."""

    start: int
    end: int
    period: Period


class Grammar:
    """The rules of one language, tried in their order at each place near a hint."""

    def __init__(self, rules: Sequence[Rule], *, hint: str, start: str, reach: int) -> None:
        """`hint` matches in the lower-case form of every date, at most `reach` characters behind the date's start;
        `start` matches where dates may start. Rules don't mind the case.
        """
        self._hint, self._start, self._reach = hint, start, reach
        self._rules = {rule.name: rule for rule in rules}

    def find(self, text: str, lower: str, context: Context) -> Iterator[Found]:
        """The dates of `text` without overlaps; `lower` is `text` in lower case, of the same length."""
        at = 0
        for hint in self._hints(lower):
            for start in self._starts(text, max(at, hint.start() - self._reach), hint.start() + 1):
                if start.start() < at:
                    continue
                match = self._match(text, start.start())
                period, at = self._resolve(match, context) if match else (None, start.end())
                if match and period:
                    yield Found(match.start(), match.end(), period)

    # Compiled when they are needed: all rules take some ten milliseconds, and most texts name no date.

    @cached_property
    def _hints(self) -> Callable[[str], Iterator[re.Match[str]]]:
        return re.compile(self._hint).finditer

    @cached_property
    def _starts(self) -> Callable[[str, int, int], Iterator[re.Match[str]]]:
        return re.compile(self._start).finditer

    @cached_property
    def _match(self) -> Callable[[str, int], re.Match[str] | None]:
        rules = self._rules.values()
        alternatives = (f"(?P<{rule.name}>{_INNER_NAME.sub('(?:', rule.pattern)})" for rule in rules)
        return re.compile("|".join(alternatives), re.IGNORECASE).match

    def _resolve(self, match: re.Match[str], context: Context) -> tuple[Period | None, int]:
        """The days of a match, and where to go on."""
        rule = self._rules[str(match.lastgroup)]
        inner = _compiled(rule.pattern).match(match.string, match.start())
        if rule.resolve is None or inner is None:
            return None, match.end()
        try:
            period = rule.resolve(inner, context)
        except (ValueError, OverflowError):
            # 31 February, or a day before the year 1: it looks like a date and is none, nor is a part of it.
            return None, match.end()
        return period, match.end() if period else match.start() + 1


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
