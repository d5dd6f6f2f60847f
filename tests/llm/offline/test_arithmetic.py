"""Arithmetic as people type it, in English and Chinese: exact, bounded, and nothing that is not arithmetic."""

from __future__ import annotations

import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.offline.arithmetic import MAX_TASK, work_out
from tests.llm.offline.talk import Files, Talk

NOTHING = [
    "2026-11-22",
    "22/11/2026",
    "0171-5551234",
    "1.2.3",
    "5",
    "-5",
    "50%",
    "what is 5?",
    "what is 2 * foo",
    "1,23*5",
    "(((1",
    "1+",
    "1+1=3",
    "3!",
    "2^0.5",
    "(" * 30 + "1" + ")" * 30 + "+1",
    "1+" * MAX_TASK + "1",
    "__import__('os').system('true')+1",
    "",
]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("17*23", "391"),
        ("what is 17 × 23?", "391"),
        ("please calculate 12.5 * (3 - 1)", "25"),
        ("how much is 15% of 80", "12"),
        ("10 plus 4 minus 2 =", "12"),
        ("3 x 4", "12"),
        ("-2^2", "-4"),
        ("2**-2", "0.25"),
        ("2^3^2", "512"),
        ("1,234 * 5", "6,170"),
        ("0.1+0.2", "0.3"),
        ("17乘以23等于多少?", "391"),
        ("计算 100 除以 8", "12.5"),
        ("80的15%是多少", "12"),
        ("１７＊２３", "391"),
    ],
)
def test_it_is_worked_out_exactly(text: str, result: str) -> None:
    done = work_out(text)
    assert done is not None
    assert (done.result, done.rounded, done.problem) == (result, False, "")


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_no_arithmetic_is_left_alone(text: str) -> None:
    assert work_out(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [("1/0", "by_zero"), ("0^-1", "by_zero"), ("9^9^9", "too_large"), ("9^4000", "too_large")],
)
def test_what_has_no_result_says_why(text: str, problem: str) -> None:
    done = work_out(text)
    assert done is not None
    assert done.problem == problem


Task = tuple[str, Fraction]
SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _joined(parts: tuple[Task, str, Task]) -> Task:
    (left, value), sign, (right, other) = parts
    return f"({left} {sign} {right})", SIGNS[sign](value, other)


NUMBERS = st.integers(0, 99).map(lambda number: (str(number), Fraction(number)))
TASKS = st.recursive(NUMBERS, lambda task: st.tuples(task, st.sampled_from("+-*"), task).map(_joined), max_leaves=12)


@given(TASKS)
def test_any_nesting_is_worked_out(task: Task) -> None:
    text, value = task
    done = work_out(f"{text} + 1")
    assert done is not None
    assert done.rounded or Fraction(done.result.replace(",", "")) == value + 1


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("what is 17*23?", "`17*23` = 391"),
        ("17*23等于多少?", "`17*23` = 391"),
        ("1/3", "`1/3` ≈ 0.333333333333"),
        ("1/0", "`1/0` has no result: it divides by zero."),
        ("请计算 9^9^9 =", "`9^9^9` 太大,我算不了。"),
    ],
)
async def test_it_is_said_without_a_search(said: str, answer: str) -> None:
    files = Files()
    assert await Talk(files).say(said) == answer
    assert files.calls == []
