"""Sections of items, paragraphs and code are read without the parser, and give the blocks that it would give."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it.token import Token

from clawbot.memory.chunking import markdown
from clawbot.memory.chunking.markdown import Block, blocks_of

TEXTS = ["text", "中文：", "**bold**: x", "_u_ x", "[ ] t", "12:30 y", "3.5 km", "x  ", "a | b", "&nbsp;", "[a]: b"]
MARKS = ["- ", "* ", "+ ", "1. ", "2. ", "10) ", "-    ", "1)  "]
PLAIN = ["", "  ", "# H", "## Two", "```", "```py", "  ```", *TEXTS]
PLAIN += [f"{' ' * indent}{mark}{text}" for indent in (0, 2, 3, 4) for mark in MARKS for text in TEXTS[:3]]
PLAIN += [f"{' ' * indent}{text}" for indent in (1, 2, 4, 6) for text in TEXTS[:3]]
OTHERS = [
    *("# ", "#", "#x", "# H #", "#\tx", "-", "- ", "- # h", "- > q", "- ```", "- - x", "1. - x", "- 1. x", "-\tx"),
    *("---", "===", "***", "* * *", "__", "> q", "~~~", "````", "```a`b", "| a | b |", "|---|", ":--", "-- | --"),
    *("<div>", "<!-- x", "-->", "- <b>", "-5", "+x", "=x", "a\rb", "\r", "\tx", "\u3000", "\x0bx", "\\x"),
    *("-     code", "    - q"),
]


def by_parser(lines: Sequence[str]) -> list[Block]:
    """The blocks of `lines` without front matter, all of them read by the parser."""
    found: list[Block] = []
    reader = markdown._BlockReader(found)
    reader.parse(lines, 0, len(lines))
    return markdown._completed(found, lines)


def is_plain(lines: Sequence[str]) -> bool:
    return markdown._plain_lines(lines, 0, len(lines)) is not None


@settings(deadline=None, max_examples=400)
@given(lines=st.lists(st.sampled_from(PLAIN), max_size=10))
def test_plain_lines_give_the_blocks_of_the_parser(lines: list[str]) -> None:
    assert blocks_of(lines) == by_parser(lines)


@settings(deadline=None, max_examples=400)
@given(lines=st.lists(st.sampled_from([*PLAIN, *OTHERS]), max_size=10))
def test_any_lines_give_the_blocks_of_the_parser(lines: list[str]) -> None:
    assert blocks_of(lines) == by_parser(lines)


@settings(deadline=None, max_examples=200)
@given(lines=st.lists(st.text("-*+1.) #`~<>|=:_\\\t\r x中\u00a0", max_size=8), max_size=8))
def test_any_text_gives_the_blocks_of_the_parser(lines: list[str]) -> None:
    if lines[:1] != ["---"]:
        assert blocks_of(lines) == by_parser(lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["# Day", "", "- one", "- two", "  more", "", "Anna: hello", "goes on"],
        ["- one", "  - inside", "    - deeper", "  - inside", "- two", "lazy", "1. other list"],
        ["text", "```py", "# no heading", "```", "text"],
    ],
)
def test_usual_notes_are_plain(lines: list[str]) -> None:
    assert is_plain(lines)
    assert blocks_of(lines) == by_parser(lines)


@pytest.mark.parametrize("line", OTHERS)
def test_what_may_be_another_block_is_left_to_the_parser(line: str) -> None:
    assert not is_plain(["text", line, "text"])


def test_a_section_that_is_not_plain_leaves_the_others_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = markdown._parse

    def watched(text: str) -> list[Token]:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(markdown, "_parse", watched)
    lines = ["# A", "- one", "# B", "> quote", "# C", "- two"]
    found = blocks_of(lines)
    assert parsed == ["# B\n> quote"]
    monkeypatch.undo()
    assert found == by_parser(lines)
