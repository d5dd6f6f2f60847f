"""The blocks of a Markdown file by line: items, paragraphs, code, tables and headings, with the headings above each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct

from clawbot.text.patterns import lazy_re

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


class Block(Struct, gc=False):
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
    """Return the blocks of a file in order, each starting at another line. They contain no blank lines.

    Lines that the parser rejects (nested too deeply) become paragraphs. Sections of nothing but items and paragraphs,
    which are most of the notes, are read without the parser. Blocks: 10 ms for a megabyte.
    """
    offset = _front_matter(lines)
    found = [Block(0, offset, "code", 0, ())] if offset else []
    reader = _BlockReader(found)
    begins = [number for number in range(offset, len(lines)) if _HEADING.match(lines[number])]
    # A heading ends everything before it, so that each section can be read for itself.
    for start, end in itertools.pairwise(dict.fromkeys((offset, *begins, len(lines)))):
        if (plain := _plain_lines(lines, start, end)) is not None:
            reader.take_plain(lines, start, plain)
        elif any(mark in line for line in lines[start:end] for mark in _OPENS):
            reader.parse(lines, start, len(lines))
            break
        else:
            reader.parse(lines, start, end)
    return _completed(found, lines)


_HEADING = re.compile(r"#{1,6}[ \t]")
# The kinds of lines in a plain section, each by the characters before its text. A text begins with none that could make
# it another block: neither a marker, nor what underlines a heading or rules a table.
_TEXT = r"(?:[^\s`~>*\-_+<#=|:\d\\]|\*\*?[^\s*]|__?[^\s_]|\d(?!\d{0,8}[.)](?:[ \t]|$)))"
_PLAIN = lazy_re(
    r"(?P<code>(?P<fence>`{3,})[^`]*$)"
    rf"|(?P<blank>[ \t]*$)|(?P<heading>#{{1,6}})[ ](?=[^\s#][^#]*$)|(?P<text>)(?={_TEXT})"
    rf"|(?P<item>[ ]*(?:[-*+]|(?P<number>\d{{1,9}})[.)])[ ]{{1,4}})(?={_TEXT})|(?P<further>[ ]{{1,12}})(?={_TEXT})"
)
_DEEPEST_PLAIN = 8

# A paragraph does not go on after them.
_ENDING = frozenset(("blank", "heading", "code"))

PlainKind = Literal["blank", "heading", "text", "item", "further", "code"]
PlainLine = tuple[PlainKind, int]
"""Its kind, and where its text begins; in code 0 after the first line."""


def _plain_lines(lines: Sequence[str], start: int, end: int) -> list[PlainLine] | None:
    """Return the lines of a section, if they are nothing but its heading, items, code between fences, and paragraphs
    without indentation; None if the parser has to decide."""
    found: list[PlainLine] = []
    # Where the markers and the texts of the items begin that are open at this line, outermost first.
    items: list[tuple[int, int]] = []
    before: PlainKind = "blank"
    fence: re.Pattern[str] | None = None
    for line in lines[start:end]:
        if fence is not None:
            found.append(("code", 0))
            fence = None if fence.match(line) else fence
            continue
        plain = _PLAIN.match(line)
        kind = cast("PlainKind | None", plain.lastgroup if plain else None)
        if plain is None or kind is None or "\r" in line:
            return None
        if kind == "item":
            indent = len(line) - len(line.lstrip())
            inside = _opened_for(items, indent, before, plain["number"])
            if inside is None:
                return None
            items = [*items[:inside], (indent, plain.end())]
        elif kind == "further":
            # A wrapped line; after a blank one it could be code, or a paragraph of an item.
            if before in _ENDING:
                return None
        elif kind != "blank" and (kind != "text" or before in _ENDING):
            items = []
        if kind == "code":
            fence = _closing(len(plain["fence"]))
        found.append((kind, plain.end()))
        before = kind
    return None if fence is not None else found


@cache
def _closing(length: int) -> re.Pattern[str]:
    """Return the pattern of the end of code that began with `length` backticks."""
    return re.compile(rf"[ ]{{0,3}}`{{{length},}}[ \t\r]*$")


def _opened_for(items: Sequence[tuple[int, int]], indent: int, before: PlainKind, number: str | None) -> int | None:
    """Return how many open `items` contain an item with this `indent`; None if the parser has to decide."""
    depth = next((depth for depth, (marker, _) in enumerate(items) if marker == indent), None)
    if depth is None:
        if indent != (items[-1][1] if items else 0) or len(items) == _DEEPEST_PLAIN:
            return None
        depth = len(items)
        # In a paragraph only a list that starts with 1 can begin.
        if number not in (None, "1") and before not in _ENDING:
            return None
    return depth


# A block with one of these, code or HTML, may go on after a heading.
_OPENS = ("```", "~~~", "<")


class _BlockReader:
    """Converts lines of plain sections and the parser's tokens to blocks."""

    def __init__(self, blocks: list[Block]) -> None:
        self._blocks = blocks
        self._offset = 0
        self._items: list[int] = []
        self._count = 0
        self._headings: tuple[tuple[int, str], ...] = ()
        self._names: tuple[str, ...] = ()
        self._opened = 0

    def parse(self, lines: Sequence[str], start: int, end: int) -> None:
        """Read the lines from `start` to before `end` with the parser."""
        self._offset = start
        # Carriage returns would count as line breaks and shift all following lines.
        for token in _parse("\n".join(lines[start:end]).replace("\r", " ")):
            self.take(token)

    def take_plain(self, lines: Sequence[str], start: int, plain: Sequence[PlainLine]) -> None:
        """Take the lines of a plain section that begins at `start`."""
        current: Block | None = None
        for number, (kind, begin) in enumerate(plain, start):
            if kind == "blank":
                current = None
            elif kind == "heading":
                self._leave(begin - 1)
                self._blocks.append(Block(number, number + 1, "heading", 0, self._names))
                self._enter(begin - 1, lines[number][begin:].strip())
                current = None
            elif kind == "code" and begin:
                current = Block(number, number + 1, "code", 0, self._names)
                self._blocks.append(current)
            elif kind == "item" or current is None or (current.kind == "code" and kind != "code"):
                self._count += kind == "item"
                item = self._count if kind == "item" else 0
                current = Block(number, number + 1, "item" if item else "paragraph", item, self._names)
                self._blocks.append(current)
            else:
                current.end = number + 1

    def take(self, token: Token) -> None:
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
    """Return the number of lines of YAML front matter, including its fences; 0 without any."""
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
    # Deferred: the import (90 ms) takes longer than a search.
    from clawbot.memory.chunking.markdown_rules import block_parser

    return block_parser(_DEEPEST)
