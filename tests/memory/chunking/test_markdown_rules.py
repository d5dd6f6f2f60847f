"""The quick rules find the blocks that the parser's own rules find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from clawbot.memory.chunking import markdown_rules

LEAVES = {"fence", "code_block", "heading_open", "hr", "html_block", "list_item_open"}
OWN = {"paragraph_open": markdown_rules.TEXT, "table_open": markdown_rules.TABLE}

LINES = st.sampled_from(
    [
        *["", "  ", "text", "more text", "- a", "  - b", "   c", "1. x", "2. y", "10) z", "> q", ">"],
        *["> - r", ">> s", "# H", "#not", "```", "  ```", "~~~", "    code", "\tcode", "a | b", "|---|---|", "-|-"],
        *["| 1 | 2 |", "<div>", "</div>", "<!-- c", "-->", "***", "- - -", "___", "-", "*", "+ d", "*e*"],
        *["_f_", "-g", "====", "  indented", "      far", "> ```", "- ```", "1.", "张三：好"],
    ]
)


def shape(tokens: list[Token]) -> list[tuple[str, list[int] | None, str]]:
    names = LEAVES | set(OWN) | set(OWN.values())
    return [
        (OWN.get(token.type, token.type), token.map, token.tag if token.type == "heading_open" else "")
        for token in tokens
        if token.type in names
    ]


def blocks(parser: MarkdownIt, text: str) -> list[Token]:
    tokens: list[Token] = []
    state = StateBlock(text, parser, {}, tokens)
    parser.block.tokenize(state, 0, state.lineMax)
    return tokens


@given(st.lists(LINES, max_size=25).map("\n".join))
@settings(max_examples=1500, deadline=None)
def test_quick_and_slow_rules_agree(text: str) -> None:
    slow = MarkdownIt("commonmark", {"maxNesting": 32}).enable("table").disable(["reference", "lheading"])
    with pytest.MonkeyPatch.context() as patch:
        # Underlined headings are the one thing that is meant to differ.
        patch.setattr(markdown_rules, "_is_underlined", lambda *_: False)
        assert shape(blocks(markdown_rules.block_parser(32), text)) == shape(blocks(slow, text))


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("Title\n===", 1),
        ("Title\n  ---  ", 1),
        ("标题\n---", 1),
        ("a\nb\n---", 0),
        ("It is done.\n---", 0),
        ("说完了。\n---", 0),
        (f"{'long ' * 40}\n---", 0),
        ("Title\n-x-", 0),
        ("Title\n\n---", 0),
    ],
)
def test_what_is_underlined(text: str, headings: int) -> None:
    tokens = blocks(markdown_rules.block_parser(32), text)
    assert sum(token.type == "heading_open" for token in tokens) == headings


def test_no_part_of_the_parser_is_imported_while_another_thread_imports_the_whole() -> None:
    """Else Python may find a deadlock of imports, and an error hits whichever thread it finds it in: the screen's."""
    driver = Path(__file__).with_name("importing.py")
    done = subprocess.run([sys.executable, str(driver)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stdout + done.stderr
