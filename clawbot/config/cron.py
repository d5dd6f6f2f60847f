"""What a cron expression means: five fields as the sets of numbers that they allow. Pure; without libraries.

Weekdays are cron's: Sunday is 0, and 7 too. When day of the month and weekday are both restricted, either is enough, as
in cron.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from clawbot.config.values import expected

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?:\*|([a-z]+|\d+)(?:-([a-z]+|\d+))?)(?:/(\d+))?", re.ASCII)
_EXAMPLE = '"0 8 * * mon-fri"'


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    first: int = 0

    @property
    def kind(self) -> str:
        """What a value may be, for an error."""
        named = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"{self.least} to {self.most}{named}"


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("weekday", 0, 7, _WEEKDAYS),
)
_WEEKDAY = _FIELDS[-1]
_SUNDAY = 7


class Cron(NamedTuple):
    """The moments of a cron expression: the numbers that each field allows, in order. Weekdays: Sunday is 0.

    `every_day` and `every_weekday` say that the field begins with `*`: then the other one alone chooses the days.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    every_day: bool
    every_weekday: bool


def parse_cron(text: str) -> Cron:
    """The meaning of `text`. Raises PydanticCustomError, which says what was expected."""
    words = text.lower().split()
    if len(words) != len(_FIELDS):
        raise expected(f"five fields, minute hour day month weekday, such as {_EXAMPLE}")
    minutes, hours, days, months, weekdays = (_numbers(word, field) for word, field in zip(words, _FIELDS, strict=True))
    cron = Cron(minutes, hours, days, months, weekdays, words[2].startswith("*"), words[4].startswith("*"))
    if (cron.every_day or cron.every_weekday) and min(days) > max(_DAYS_OF_MONTH[month - 1] for month in months):
        raise expected("a day that one of its months has")
    return cron


def check_cron(text: str) -> str:
    """`text` with single blanks. Raises PydanticCustomError when it is no cron expression."""
    parse_cron(text)
    return " ".join(text.split())


def _numbers(word: str, field: _Field) -> tuple[int, ...]:
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _wrong(field)
        found.update(_range(match, field))
    if field is _WEEKDAY:
        found = {number % _SUNDAY for number in found}
    return tuple(sorted(found))


def _range(match: re.Match[str], field: _Field) -> range:
    low, high, step = match[1], match[2], int(match[3] or 1)
    if step < 1:
        raise expected(f"a step of at least 1 in the {field.name} of a cron expression")
    start = field.least if low is None else _number(low, field)
    # `5/10` is from 5 on, as many crons read it.
    open_end = low is None or (high is None and match[3] is not None)
    end = (field.most if field is not _WEEKDAY else _SUNDAY - 1) if open_end else _number(high or low, field)
    if end < start and field is _WEEKDAY:
        end += _SUNDAY
    if end < start:
        raise expected(f"a range from the smaller to the larger in the {field.name} of a cron expression")
    return range(start, end + 1, step)


def _number(word: str, field: _Field) -> int:
    if word in field.names:
        return field.names.index(word) + field.first
    number = int(word) if word.isdecimal() else -1
    if not field.least <= number <= field.most:
        raise _wrong(field)
    return number


def _wrong(field: _Field) -> Exception:
    return expected(f"{field.kind} as the {field.name} of a cron expression; *, ranges, steps and lists too")
