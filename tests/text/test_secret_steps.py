"""No text takes more steps than its length asks for: every pattern of secrets is run by a matcher that counts what a
backtracking one tries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]  # the parsed pattern has no public form
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import pytest

from clawbot.text.secret_shapes import _shapes
from clawbot.text.secret_words import _lexicon
from clawbot.text.secrets import find_secrets

SEEDS = (
    "a", " ", "password ", "password is ", "密码", "密码在", "eyJ", "-eyJ", "sk-", "-sk-", "://", "://a:", "4 ", "4-",
    "curl ", "mysql ", "aA1", "aA1_", "token=", "1234567890:", "login a", "login: a / ", "log in with a and ",
    "unlock with a",
    "combination 12-", "wifi: a,", "key to ", "key to a is ", "Cookie: a=", "pat1.", "s.", "1/2", "re_", "t1.a", "aws ",
    "use aaaa as my ", "aaaa is my a ", "/a/", "'auth': 'a", "identified by 'a",
    "sk", "aA1+ASt", "11", "1-", "AAAA", "00D", "tk_1", "secret-1", "server=a;", "server=a;password=", "jdbc:oracle:a:",
)  # fmt: skip
STEPS = 500  # a character, of all patterns together
CATEGORIES: dict[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_WORD: lambda char: char.isalnum() or char == "_",
}


class Counter:
    """Finds `pattern` in a text as `re` does, and counts the `steps`."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.tree = list(parser.parse(pattern, flags))
        self.fold = bool(flags & re.IGNORECASE)
        self.steps = 0

    def run(self, text: str) -> None:
        """Look through `text`."""
        at = 0
        while at <= len(text):
            end = next(self._ways(self.tree, text, at), None)
            at = max(at + 1, end or 0)

    def _fits(self, node: tuple[Any, Any], char: str) -> bool:
        kind, value = node
        if kind is op.IN:
            negated = value[0][0] is op.NEGATE
            return any(self._fits(each, char) for each in value if each[0] is not op.NEGATE) is not negated
        if kind is op.CATEGORY:
            test = CATEGORIES.get(value)
            plain = next(found for name, found in CATEGORIES.items() if str(name)[9:] in str(value))
            return test(char) if test else not plain(char)
        chars = {char, char.lower(), char.upper()} if self.fold else {char}
        if kind is op.RANGE:
            return any(value[0] <= ord(each) <= value[1] for each in chars if len(each) == 1)
        if kind is op.ANY:
            return char != "\n"
        same = chr(value) in chars
        return same if kind is op.LITERAL else not same

    def _ways(self, nodes: Sequence[tuple[Any, Any]], text: str, at: int) -> Iterator[int]:
        """Where a match of `nodes` from `at` on may end, in the order that they are tried."""
        self.steps += 1
        if not nodes:
            yield at
            return
        (kind, value), rest = nodes[0], nodes[1:]
        if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY, op.RANGE):
            if at < len(text) and self._fits(nodes[0], text[at]):
                yield from self._ways(rest, text, at + 1)
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from self._ways([*branch, *rest], text, at)
        elif kind is op.SUBPATTERN:
            yield from self._ways([*value[3], *rest], text, at)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, inner = value
            ends = self._ends(list(inner), text, at, int(most))
            ends = ends[least:] if kind is op.MIN_REPEAT else ends[least:][::-1]
            for end in ends:
                yield from self._ways(rest, text, end)
        elif self._holds(kind, value, text, at):
            yield from self._ways(rest, text, at)

    def _holds(self, kind: Any, value: Any, text: str, at: int) -> bool:
        """Whether what is looked for around `at` is there."""
        if kind is op.AT:
            return self._stands(value, text, at)
        start = at if value[0] > 0 else at - value[1].getwidth()[0]
        holds = start >= 0 and next(self._ways(list(value[1]), text, start), None) is not None
        return holds is (kind is op.ASSERT)

    def _ends(self, inner: list[tuple[Any, Any]], text: str, at: int, most: int) -> list[int]:
        """Where `inner` may end after none, one, two … of it."""
        ends = [at]
        while len(ends) <= most and (end := next(self._ways(inner, text, ends[-1]), None)) not in (None, ends[-1]):
            ends.append(end or 0)
        return ends

    def _stands(self, place: Any, text: str, at: int) -> bool:
        if place in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return at == 0
        if place in (op.AT_END, op.AT_END_STRING):
            return at == len(text)
        before, behind = text[at - 1 : at], text[at : at + 1]
        edge = bool(before and CATEGORIES[op.CATEGORY_WORD](before)) != bool(
            behind and CATEGORIES[op.CATEGORY_WORD](behind)
        )
        return edge is (place is op.AT_BOUNDARY)


def patterns(text: str) -> Iterator[tuple[str, int]]:
    """The patterns that are tried on `text`."""
    for shape in _shapes():
        if any(mark in text for mark in shape.marks):
            yield shape.pattern.pattern, shape.pattern.flags
    for form in _lexicon().forms:
        if any(mark in text.lower() for mark in form.marks):
            yield form.pattern.pattern, form.pattern.flags
    yield _lexicon().name.pattern, _lexicon().name.flags


def steps(text: str) -> int:
    """How many steps all patterns together take."""
    counters = [Counter(pattern, flags & ~re.UNICODE) for pattern, flags in patterns(text)]
    for counter in counters:
        counter.run(text)
    return sum(counter.steps for counter in counters)


@pytest.mark.few(12)
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_grow_with_the_length_alone(seed: str) -> None:
    short, long = steps(seed * (200 // len(seed))), steps(seed * (400 // len(seed)))
    assert long <= STEPS * 400
    assert long <= 2.4 * short


@pytest.mark.long
def test_a_megabyte_comes_to_its_end() -> None:
    assert find_secrets("password is login: a / aA1_" * 40_000) is not None
