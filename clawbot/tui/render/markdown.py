"""Markdown as pieces: what markdown-it finds, flattened, so that each piece can be wrapped and cached by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from clawbot.tui.render.inline import inline_spans
from clawbot.tui.render.lines import Span
from clawbot.tui.render.pieces import Cell, Code, Flow, Indent, Piece, Rule, Table

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE_LINES = 60  # a long block of code is cut into pieces of so many lines: each is coloured by itself
CODE_CHARS = 4000
BULLETS = ("•", "◦", "▪")

# HTML stays visible as text: nothing of a reply is hidden, and nothing of it is interpreted.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass
class _List:
    number: int | None
    tight: bool = True


@dataclass
class _Walk:
    """Where the walk over the tokens stands."""

    pieces: list[Piece] = field(default_factory=list)
    indents: list[Indent] = field(default_factory=lambda: [Indent()])
    lists: list[_List] = field(default_factory=list)
    base: str = ""
    fresh_item: bool = False  # the next piece carries the marker of its list item
    item_count: int = 0
    quotes: int = 0  # how many are open
    fresh_quote: bool = False  # the next piece is the first of its quote

    def indent(self) -> Indent:
        """The indent of the next piece. A marker is shown once."""
        indent = self.indents[-1]
        air = indent.rest if self.quotes and not self.fresh_quote else ()
        self.fresh_quote = False
        self.indents[-1] = Indent(indent.rest, indent.rest)
        return Indent(indent.first, indent.rest, air)

    def gap(self) -> bool:
        """Whether air stands before the next piece: not inside tight lists, nor before the first item."""
        if not self.lists:
            return True
        if self.fresh_item:
            self.fresh_item = False
            first = self.item_count == 1 and len(self.lists) == 1
            return first or not self.lists[-1].tight
        return not self.lists[-1].tight


def parse(text: str, env: dict[str, Any] | None = None) -> list[Token]:
    """The tokens of `text`; `env` carries link definitions from one part of a text to the next."""
    return PARSER.parse(text, env)


def pieces_of(tokens: list[Token]) -> list[Piece]:
    """The pieces that `tokens` stand for, in order."""
    walk = _Walk()
    at = 0
    while at < len(tokens):
        if tokens[at].type == "table_open":
            end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
            walk.pieces.append(_table(tokens[at:end], walk))
            at = end
        else:
            _step(tokens, at, walk)
        at += 1
    return walk.pieces


def markdown_pieces(text: str) -> list[Piece]:
    """The pieces of a whole text."""
    return pieces_of(parse(text))


def _step(tokens: list[Token], at: int, walk: _Walk) -> None:
    token = tokens[at]
    match token.type:
        case "inline":
            spans = inline_spans(token.children or (), walk.base)
            walk.pieces.append(Flow(tuple(spans), walk.indent(), walk.gap()))
        case "fence" | "code_block":
            walk.pieces.extend(_code(token, walk))
        case "hr":
            walk.pieces.append(Rule(walk.indent(), walk.gap()))
        case _:
            _container(tokens, at, walk)


def _container(tokens: list[Token], at: int, walk: _Walk) -> None:
    """What holds other blocks, or says how they look."""
    token = tokens[at]
    match token.type:
        case "heading_open":
            walk.base = "heading-1" if token.tag == "h1" else "heading"
        case "heading_close":
            walk.base = ""
        case "blockquote_open":
            _push(walk, (Span("▎ ", "quote-bar"),), (Span("▎ ", "quote-bar"),))
            walk.base = "quote"
            walk.fresh_quote = walk.quotes == 0
            walk.quotes += 1
        case "blockquote_close":
            walk.indents.pop()
            walk.quotes -= 1
            walk.base = ""
        case "bullet_list_open" | "ordered_list_open":
            start = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else None
            walk.lists.append(_List(start, _is_tight(tokens, at)))
            walk.item_count = 0 if len(walk.lists) == 1 else walk.item_count
        case "bullet_list_close" | "ordered_list_close":
            walk.lists.pop()
        case "list_item_open":
            _open_item(walk)
        case "list_item_close":
            walk.indents.pop()


def _push(walk: _Walk, first: tuple[Span, ...], rest: tuple[Span, ...]) -> None:
    outer = walk.indents[-1]
    walk.indents.append(Indent((*outer.first, *first), (*outer.rest, *rest)))


def _open_item(walk: _Walk) -> None:
    current = walk.lists[-1]
    if current.number is None:
        marker = f"{BULLETS[(len(walk.lists) - 1) % len(BULLETS)]} "
    else:
        marker = f"{current.number}. "
        current.number += 1
    _push(walk, (Span(marker, "marker"),), (Span(" " * len(marker)),))
    walk.fresh_item = True
    walk.item_count += 1


def _is_tight(tokens: list[Token], at: int) -> bool:
    """Whether the list that opens at `at` has its paragraphs hidden, as markdown-it marks tight lists."""
    level = tokens[at].level
    for token in tokens[at + 1 :]:
        if token.level <= level:
            return True
        if token.type == "paragraph_open" and token.level == level + 2:
            return token.hidden
    return True


def _code(token: Token, walk: _Walk) -> Iterator[Code]:
    language = token.info.split()[0] if token.info.split() else ""
    gap = walk.gap()
    for chunk in code_chunks(token.content.removesuffix("\n")):
        yield Code(chunk, language, walk.indent(), gap)
        gap = False


def code_chunks(code: str) -> Iterator[str]:
    """Cut `code` at line ends into chunks of bounded size."""
    lines: list[str] = []
    size = 0
    for line in code.expandtabs(4).split("\n"):
        lines.append(line)
        size += len(line)
        if len(lines) >= CODE_LINES or size >= CODE_CHARS:
            yield "\n".join(lines)
            lines, size = [], 0
    if lines:
        yield "\n".join(lines)


def _table(tokens: list[Token], walk: _Walk) -> Table:
    rows: list[list[Cell]] = []
    aligns: list[str] = []
    head = True
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "th_open":
            aligns.append(str(token.attrs.get("style", "")).rpartition(":")[2] or "left")
        elif token.type == "thead_close":
            head = False
        elif token.type == "inline":
            rows[-1].append(tuple(inline_spans(token.children or (), "strong" if head else "")))
    width = len(aligns)
    padded = tuple(tuple((row + [()] * width)[:width]) for row in rows)
    return Table(padded, tuple(aligns), walk.indent(), walk.gap())


def continued(piece: Piece) -> Piece:
    """`piece` without the air before it: it goes on from what stands above."""
    return replace(piece, gap=False) if isinstance(piece, Flow | Code | Rule | Table) else piece
