"""The patterns of the program are such as `re` reads alike in every Python that is promised."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clawbot
from clawbot.text.patterns import lazy_re

PACKAGE = Path(clawbot.__file__).parent
MODULES = sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "hooks").rglob("*.py")])
# An escape, or a set of characters: a `+` in them repeats nothing.
LITERAL = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
POSSESSIVE = re.compile(r"[*+?}]\+|\(\?>")


def is_possessive(pattern: str) -> bool:
    """Whether `pattern` holds a possessive quantifier or an atomic group."""
    return POSSESSIVE.search(LITERAL.sub("x", pattern)) is not None


def is_pattern(text: str) -> bool:
    """Whether `re` accepts `text`: three plus signs are no pattern."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def patterns(source: str) -> Iterator[str]:
    """Every text in `source`, which uses `re`; `x` stands for what an f-string puts in."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in inner:
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def uses_re(source: str) -> bool:
    importing = r"^\s*(?:import re$|import re,|from re import|from clawbot\.text\.patterns import)"
    return re.search(importing, source, re.MULTILINE) is not None


def test_no_pattern_needs_what_re_gets_wrong_before_python_3_11_5() -> None:
    """That version of Debian 12 accepts `*+`, `++`, `?+` and `(?>…)` and then finds what is not there."""
    sources = {path: path.read_text(encoding="utf-8") for path in MODULES}
    searched = {path: list(patterns(source)) for path, source in sources.items() if uses_re(source)}
    assert len(searched) > 50
    found = [(path, each) for path, texts in searched.items() for each in texts if is_possessive(each)]
    assert [(path, each) for path, each in found if is_pattern(each)] == []


@pytest.mark.parametrize("pattern", [r"\s*+x", "a++", "a?+", "a{1,2}+", "(?>a|b)", r"[a+]++", r"(?:x)*+"])
def test_what_is_possessive(pattern: str) -> None:
    assert is_possessive(pattern)


def test_texts_are_found_in_f_strings_too() -> None:
    assert list(patterns("re.compile(rf'(?>{x})'), f(b'a++', 1)")) == ["(?>x)", "a++"]


@pytest.mark.parametrize("pattern", [r"[*+]", r"\++", r"\*+x", r"[^]*]+", r"(?:a)+\+", "a+?"])
def test_what_is_not(pattern: str) -> None:
    assert not is_possessive(pattern)


def test_what_is_compiled_at_its_first_use_compiles() -> None:
    found = {
        f"{module}.{name}": each.pattern
        for module in (importlib.import_module(f"clawbot.{path}") for path in lazy_modules())
        for name, each in vars(module).items()
        if type(each) is type(lazy_re(""))
    }
    assert len(found) > 80


def lazy_modules() -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        if "lazy_re(" in path.read_text(encoding="utf-8"):
            yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
