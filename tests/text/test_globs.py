"""What globs fit: as the plain regular expression would, and without its way of taking for ever."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.text.globs import MAX_CHARACTERS, GlobError, compile_glob
from tests.tables import load_table

PARTS = ("**/", "**", "*", "?", "a", "b", "/", ".", "[ab]", "[!a]", "[a-b]", "{a,*b}", "{,ab,?}", "记", "[记]")


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    load_table(__file__, "globs"),
)
def test_globs(pattern: str, fits: list[str], others: list[str]) -> None:
    glob = compile_glob(pattern)
    assert [path for path in fits + others if glob.fits(path)] == fits


@given(st.text(alphabet="*?[]{}!^,-\\/a&~|ż.", max_size=12), st.text(max_size=8))
def test_any_text_is_a_glob(pattern: str, path: str) -> None:
    assert compile_glob(pattern).fits(path) in (True, False)


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS), max_size=5), st.text(alphabet="ab/.记\n", max_size=8))
def test_it_fits_what_the_regular_expression_does(parts: list[str], path: str) -> None:
    pattern = "".join(parts)
    assert compile_glob(pattern).fits(path) == bool(re.fullmatch(expression(pattern), path, re.DOTALL)), pattern


def expression(pattern: str) -> str:
    """The glob, of PARTS, as a regular expression that shows what it means."""
    found = re.findall(r"(?:\*\*/)+|\*+|\[[^]]+\]|\{[^}]+\}|.", pattern)
    return "".join(map(translated, found))


def translated(part: str) -> str:
    if part.startswith("**/"):
        return "([^/]+/)*"
    if part.startswith("{"):
        return "(" + "|".join(map(expression, part[1:-1].split(","))) + ")"
    if part.startswith("["):
        return part.replace("[!", "[^/")
    if part.startswith("**"):
        return ".*"
    return {"*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (lambda size: "**" + "a*" * size + "b", lambda size: "a" * size * 8),
        (lambda size: "**?" * size + "X", lambda size: "ab/" * size),
        (lambda size: "**/" + "*/**/" * size + "X", lambda size: "a/" * size * 4),
        (lambda size: "{*,**,a*}" * (size // 16) + "X", lambda size: "aé" * size * 4),
        (lambda size: "{a,aa}{,a}" * size + "X", lambda size: "a" * size * 4),
        (lambda size: "*[ab]" * size + "X", lambda size: "ab" * size * 4),
    ],
)
def test_the_work_grows_with_the_length_alone(pattern: Callable[[int], str], path: Callable[[int], str]) -> None:
    work = [lines_run(pattern(32), path(size)) for size in (64, 128, 256)]
    assert work[1] < 3 * work[0] + 1_000
    assert work[2] < 3 * work[1] + 1_000
    assert work[2] < 100_000


def lines_run(pattern: str, path: str) -> int:
    """How many lines of Python run until it is clear that `pattern` does not fit `path`."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    compile_glob.cache_clear()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert not compile_glob(pattern).fits(path)
    finally:
        sys.settrace(before)
    return count


def test_a_glob_that_is_too_long_is_refused() -> None:
    with pytest.raises(GlobError):
        compile_glob("a" * MAX_CHARACTERS + "*")


def test_many_choices_are_none_too_many() -> None:
    months = ",".join(f"{number:02}" for number in range(1, 13))
    days = ",".join(f"{number:02}" for number in range(1, 32))
    glob = compile_glob(f"2026-{{{months}}}-{{{days}}}.md")
    assert glob.fits("2026-12-31.md")
    assert not glob.fits("2026-13-31.md")
