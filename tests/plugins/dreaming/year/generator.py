"""A year of daily notes of an invented person, the same for each seed: what holds, changes of mind, repetitions, the
small things of a day, secrets, and orders that somebody has planted."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from msgspec import Struct, convert

FIRST_DAY = date(2025, 1, 6)
DAYS = 365


class Slot(Struct, frozen=True):
    """One thing that holds: a question, and its values, each with what an answer has, its first line, and others."""

    question: str
    values: list[list[str]]

    @property
    def present(self) -> str:
        """What an answer at the end of the year has."""
        return self.values[-1][0]

    @property
    def past(self) -> list[str]:
        """What it must not have."""
        return [value[0] for value in self.values[:-1]]


class Person(Struct, frozen=True):
    """The table of a language."""

    secrets: list[str]
    orders: list[str]
    trivia: list[str]
    food: list[str]
    person: list[str]
    topic: list[str]
    slot: list[Slot]
    entries: dict[str, str] = {}


class Year(Struct, frozen=True):
    """`notes` are the lines of each day, from the first on. `stated` are the slot and the value of each line that
    states one."""

    person: Person
    notes: list[list[str]]
    stated: dict[str, tuple[int, int]]

    def days(self) -> Iterator[tuple[date, list[str]]]:
        """Yield each day with its lines."""
        for number, lines in enumerate(self.notes):
            yield FIRST_DAY + timedelta(days=number), lines


def person_of(language: str) -> Person:
    """Return the table of `language`."""
    return convert(tomllib.loads(Path(__file__).with_name(f"{language}.toml").read_text("utf-8")), Person)


def year_of(language: str, days: int = DAYS, seed: int = 29) -> Year:
    """Return the first `days` of a year; all values are stated in them."""
    chance, person = random.Random(f"{language} {seed}"), person_of(language)
    notes: list[list[str]] = [[_trivial(chance, person) for _ in range(chance.randint(1, 4))] for _ in range(days)]
    stated: dict[str, tuple[int, int]] = {}
    for number, slot in enumerate(person.slot):
        # Each value holds for a part of the year, in which it is stated and then repeated.
        borders = [0, *sorted(chance.sample(range(days // 6, days * 9 // 10), len(slot.values) - 1)), days]
        for at, (_, first, *others) in enumerate(slot.values):
            start, end = borders[at], borders[at + 1]
            begin = start if at else chance.randrange(max(days // 6 - 1, 1))
            _put(chance, notes[begin], first)
            for line in (first, *others):
                stated[line] = number, at
            for line in chance.choices(others or [first], k=chance.randint(0, 2)):
                if begin + 2 < end:
                    _put(chance, notes[chance.randrange(begin + 1, end)], line)
    for line in (*person.secrets, *person.orders):
        _put(chance, notes[chance.randrange(days)], line)
    return Year(person, notes, stated)


def _put(chance: random.Random, lines: list[str], line: str) -> None:
    if line not in lines:
        lines.insert(chance.randint(0, len(lines)), line)


def _trivial(chance: random.Random, person: Person) -> str:
    template = chance.choice(person.trivia)
    fill = {name: chance.choice(getattr(person, name)) for name in ("food", "person", "topic")}
    hour = f"{chance.randint(5, 20)}:{chance.choice(['00', '15', '30'])}"
    return template.format(**fill, minutes=chance.randint(3, 55), hour=hour)
