"""The blocks of a Markdown file by line: items, paragraphs, code, tables and headings, with the headings above each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

BlockKind = Literal["paragraph", "item", "code", "heading", "table", "rule"]

HEADING_CHARS = 200
"""Headings are repeated for each chunk below them, so they are truncated to this many characters."""

# Two levels for a list, one for a quote. Deeper nesting is read as paragraphs, so that parsing takes linear time.
_DEEPEST = 32
_MATTER_LINES = 200
_MATTER_START = re.compile(r"---[ \t]*\r?")
_MATTER_END = re.compile(r"(?:---|\.\.\.)[ \t]*\r?")
_MATTER_KEY = re.compile(r"""["']?[^\W\d][\w "'.-]*:(?:\s|$)""")
_LEAVES: dict[str, BlockKind] = {
    "text": "paragraph",
    "html_block": "paragraph",
    "fence": "code",
    "code_block": "code",
    "table": "table",
    "heading_open": "heading",
    "hr": "rule",
}


class Block(Struct):
    """Lines `start` to before `end` (from 0) that belong together.

    `item` is a number shared by the blocks of one list item, 0 outside lists. `headings` are those above, outermost
    first.
    """

    start: int
    end: int
    kind: BlockKind
    item: int
    headings: tuple[str, ...]


def blocks_of(lines: Sequence[str]) -> list[Block]:
    """The blocks of a file in order, each starting at another line. They contain no blank lines.

    Lines that the parser rejects (nested too deeply) become paragraphs. Blocks: 10 ms for a megabyte.
    """
    offset = _front_matter(lines)
    found = [Block(0, offset, "code", 0, ())] if offset else []
    # Carriage returns would count as line breaks and shift all following lines.
    text = "\n".join(lines[offset:]).replace("\r", " ")
    reader = _BlockReader(found, offset)
    for token in _parse(text):
        reader.take(token)
    return _completed(found, lines)


class _BlockReader:
    """Converts the parser's tokens to blocks."""

    def __init__(self, blocks: list[Block], offset: int) -> None:
        self._blocks = blocks
        self._offset = offset
        self._items: list[int] = []
        self._count = 0
        self._headings: tuple[tuple[int, str], ...] = ()
        self._names: tuple[str, ...] = ()
        self._opened = 0

    def take(self, token: Token) -> None:
        """Process one token."""
        kind = token.type
        if kind == "list_item_open":
            self._count += 1
            self._items.append(self._count)
            self._add(token, "item")
        elif kind == "list_item_close":
            self._items.pop()
        elif kind in _LEAVES:
            # Headings inside quotes and items don't count as headings of the file.
            self._opened = int(token.tag[1]) if kind == "heading_open" and token.level == 0 else 0
            if self._opened:
                self._leave(self._opened)
            self._add(token, _LEAVES[kind])
        elif kind == "inline" and self._opened:
            self._enter(self._opened, token.content)
            self._opened = 0

    def _add(self, token: Token, kind: BlockKind) -> None:
        if token.map is None:
            return
        start, end = token.map[0] + self._offset, token.map[1] + self._offset
        item = self._items[-1] if self._items else 0
        last = self._blocks[-1] if self._blocks else None
        if kind == "item":
            end = start + 1
        elif item and kind not in {"code", "table"}:
            kind = "item"
        if last is not None and start < last.end:
            # An item and its first text, or an item inside an item, on one line.
            last.end = max(end, last.end)
            last.item = item
        else:
            self._blocks.append(Block(start, end, kind, item, self._names))

    def _leave(self, level: int) -> None:
        self._headings = tuple(entry for entry in self._headings if entry[0] < level)
        self._names = tuple(name for _, name in self._headings if name)

    def _enter(self, level: int, text: str) -> None:
        name = " ".join(text[: 2 * HEADING_CHARS].split())[:HEADING_CHARS]
        self._headings = (*self._headings, (level, name))
        self._names = tuple(name for _, name in self._headings if name)


def _completed(blocks: list[Block], lines: Sequence[str]) -> list[Block]:
    """`blocks`, with a paragraph for each run of uncovered lines."""
    complete: list[Block] = []
    position = 0
    headings: tuple[str, ...] = ()
    for block in blocks:
        if block.start > position:
            complete += _paragraphs(lines, position, block.start, headings)
        complete.append(block)
        position, headings = block.end, block.headings
    return complete + _paragraphs(lines, position, len(lines), headings)


def _paragraphs(lines: Sequence[str], start: int, end: int, headings: tuple[str, ...]) -> list[Block]:
    found: list[Block] = []
    for number in range(start, end):
        if not lines[number] or lines[number].isspace():
            continue
        if found and found[-1].end == number:
            found[-1].end = number + 1
        else:
            found.append(Block(number, number + 1, "paragraph", 0, headings))
    return found


def _front_matter(lines: Sequence[str]) -> int:
    """The number of lines of YAML front matter, including its fences; 0 without any."""
    if len(lines) < 2 or not _MATTER_START.fullmatch(lines[0]) or not _MATTER_KEY.match(lines[1]):
        return 0
    for number, line in enumerate(lines[1:_MATTER_LINES], start=2):
        if _MATTER_END.fullmatch(line):
            return number
    return 0


def _parse(text: str) -> list[Token]:
    parser = _parser()
    # Not before the parser: a part of a package that another thread is in the middle of importing (the screen does)
    # can end in a deadlock, which Python breaks by an error in one of the threads.
    from markdown_it.rules_block import StateBlock

    tokens: list[Token] = []
    state = StateBlock(text, parser, {}, tokens)
    parser.block.tokenize(state, 0, state.lineMax)
    return tokens


@cache
def _parser() -> MarkdownIt:
    # Deferred: the import (90 ms) takes longer than a whole search.
    from clawbot.memory.chunking.markdown_rules import block_parser

    return block_parser(_DEEPEST)
