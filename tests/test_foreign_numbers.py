"""Numbers that somebody else wrote: thousands of digits, and digits that are none to `int`, stop nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import clawbot
from clawbot.attachments.mentions import mentions
from clawbot.clock import first_day
from clawbot.config.errors import ConfigProblem
from clawbot.config.values import parse_clock, parse_duration, parse_size
from clawbot.llm.failures import retry_after, stated_limit, stated_size, stated_wait
from clawbot.memory.dates.find import dates_in
from clawbot.text.numbers import whole_number
from clawbot.text.query import parse_query
from clawbot.tools.registry import explain_malformed
from clawbot.tui.render.cards import diff_rows
from clawbot.tui.render.lines import plain_spans

PACKAGE = Path(clawbot.__file__).parent
MODULES = sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "hooks").rglob("*.py")])
DIGITS = ["9" * 5000, "²", "٣" * 5000, "1²", "①", "９" * 20, "0", "-1", "1_000", ""]
ENDLESS = re.compile(r"\((?:\?P<\w+>)?(?:\\d|\[\d-\d\])(?:[+*]|\{\d*,\})")
CHECKS = {"isdigit", "isdecimal", "isnumeric"}


def converted(tree: ast.AST) -> Iterator[ast.expr]:
    """The arguments of `int` and `float`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
            yield from node.args[:1]


def endless_groups(source: str) -> list[str]:
    """The patterns of a module that captures digits without a bound, and converts what a match or a list holds."""
    tree = ast.parse(source)
    if not any(isinstance(part, ast.Subscript) for argument in converted(tree) for part in ast.walk(argument)):
        return []
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    texts = [text.decode("latin-1") if isinstance(text, bytes) else text for text in texts]
    return [text for text in texts if isinstance(text, str) and ENDLESS.search(text)]


def trusted_checks(source: str) -> list[str]:
    """What a function converts because `str.isdigit` or its like said so."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            checked = {
                ast.unparse(node.func.value)
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHECKS
            }
            parts = [ast.unparse(part) for argument in converted(function) for part in ast.walk(argument)]
            found += [f"{function.name}: {part}" for part in parts if part in checked]
    return found


def test_no_module_converts_digits_without_a_bound() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in MODULES if path.name != "numbers.py"}
    assert len(sources) > 200
    assert [f"{path}: {text}" for path, source in sources.items() for text in endless_groups(source)] == []
    assert [f"{path}: {text}" for path, source in sources.items() for text in trusted_checks(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        'P = re.compile(r"x:(?P<line>\\d+)")\nint(P.match(t)["line"])',
        'P = re.compile(rb"([0-9]+)x")\nint(P.match(t)[1] or 1)',
        'P = re.compile(r"x(\\d{2,})")\nfloat(found[1])',
    ],
)
def test_a_group_without_a_bound_is_found(source: str) -> None:
    assert endless_groups(source)
    assert not endless_groups(source.replace("\\d+", "\\d{1,9}").replace("]+", "]{1,9}").replace("{2,}", "{2,9}"))


@pytest.mark.parametrize(
    "body", ["int(x) if x.isdigit() else 0", "x.isdecimal() and int(x)", "float(x.y) if x.y.isdigit() else 0"]
)
def test_a_check_that_is_none_is_found(body: str) -> None:
    assert trusted_checks(f"def f(x):\n    return {body}\n")
    assert not trusted_checks(f"def f(x):\n    return {body.replace('int(x', 'int(z').replace('float(x', 'float(z')}\n")


@pytest.mark.parametrize(
    ("text", "number"),
    [("12", 12), ("0", 0), ("٣", 3), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("²", None), ("", None), ("-1", None)],
)
def test_a_number_is_parsed_within_its_bound(text: str, number: int | None) -> None:
    assert whole_number(text) == number


READERS: dict[str, Callable[[str], Any]] = {
    "a note": lambda text: list(plain_spans(f"See memory/x.md:{text} and a.md#L{text} end")),
    "a mention": lambda text: mentions(f'@notes.md:{text} @"my notes.md":1-{text}'),
    "a diff": lambda text: list(diff_rows(f"@@ -{text},1 +{text},1 @@\n+x\n")),
    "a query": lambda text: parse_query(f"{text} v{text}.1 a{text}"),
    "dates": lambda text: dates_in(f"in {text} days, {text}年前, vor {text} Tagen, {text}-01-02", date(2026, 1, 1)),
    "an error's limit": lambda text: stated_limit(f"maximum context length is {text} tokens"),
    "an error's size": lambda text: stated_size(f"prompt is too long: {text} tokens > 1"),
    "an error's wait": lambda text: stated_wait(f"Please try again in {text}s. retry after {text}"),
    "a header": retry_after,
    "arguments": lambda text: explain_malformed(f'{{"n": {text}}}'),
    "a place": lambda text: ConfigProblem(f"config.yaml:{text}", "", "").line,
}
REFUSING: dict[str, Callable[[str], Any]] = {
    "a day": first_day, "a duration": parse_duration, "a size": parse_size,
    "a clock": lambda text: parse_clock(f"{text}:{text}"),
}  # fmt: skip


@pytest.mark.parametrize("digits", DIGITS, ids=range(len(DIGITS)))
@pytest.mark.parametrize("name", READERS)
def test_digits_of_others_are_read_without_an_error(name: str, digits: str) -> None:
    READERS[name](digits)


@pytest.mark.parametrize("digits", DIGITS[:3], ids=range(3))
@pytest.mark.parametrize("name", REFUSING)
def test_digits_of_others_are_refused_in_words(name: str, digits: str) -> None:
    with pytest.raises(ValueError, match=r"expected|a duration|a size|a time"):
        REFUSING[name](digits)
