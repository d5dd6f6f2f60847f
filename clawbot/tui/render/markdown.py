"""Markdown as flat blocks, parsed by markdown-it, so that each block can be wrapped and cached separately."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from clawbot.text.sanitize import clean, isolate
from clawbot.tui.render.items import attempt
from clawbot.tui.render.lines import StyledSpan, inline_spans, plain_spans
from clawbot.tui.render.markdown_blocks import Cell, Code, Flow, Indent, MarkdownBlock, MarkdownTable, ThematicBreak

CODE_LINES = 60  # a long block of code is cut into blocks of so many lines: each is coloured by itself
CODE_CHARS = 4000
FLOW_CHARS = 4000  # of running text in one block
PARSED_CHARS = 250_000
"""Of one text; models write less. The rest is shown as it is written."""
SOURCE = "— "  # with which the last paragraph of a quote names its source
TASKS = {"[x] ": "☑ ", "[X] ": "☑ ", "[ ] ": "☐ "}
BULLETS = ("•", "◦", "▪")

# HTML remains visible as text: nothing of a reply is hidden, and nothing of it is interpreted.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
_DEEPEST = PARSER.options["maxNesting"]


@dataclass
class _List:
    number: int | None
    tight: bool = True


@dataclass
class _Walk:
    """The state of the walk over the tokens."""

    blocks: list[MarkdownBlock] = field(default_factory=list)
    indents: list[Indent] = field(default_factory=lambda: [Indent()])
    lists: list[_List] = field(default_factory=list)
    base: str = ""
    fresh_item: bool = False  # the next block carries the marker of its list item
    item_count: int = 0
    quotes: int = 0  # how many are open
    fresh_quote: bool = False  # the next block is the first of its quote

    def indent(self) -> Indent:
        """Return the indent of the next block. A marker is shown once."""
        indent = self.indents[-1]
        air = indent.rest if self.quotes and not self.fresh_quote else ()
        self.fresh_quote = False
        self.indents[-1] = Indent(indent.rest, indent.rest)
        return Indent(indent.first, indent.rest, air)

    def gap(self) -> bool:
        """Return whether a blank line precedes the next block: not inside tight lists, nor before the first item."""
        if not self.lists:
            return True
        if self.fresh_item:
            self.fresh_item = False
            first = self.item_count == 1 and len(self.lists) == 1
            return first or not self.lists[-1].tight
        return not self.lists[-1].tight


def parse(text: str, env: dict[str, Any] | None = None) -> list[Token]:
    """Return the tokens of `text`; `env` carries link definitions from one part of a text to the next. Blocks nested
    too deeply for the parser become paragraphs of their source."""
    tokens = attempt(lambda: PARSER.parse(text, env), lambda report: _as_written([text, report], None))
    if not any(map(_is_too_deep, tokens)):
        return tokens
    rows = text.split("\n")
    shown: list[Token] = []
    for block in _blocks(tokens):
        shown += _as_written(rows, block[0].map) if any(map(_is_too_deep, block)) else block
    return shown


def _is_too_deep(token: Token) -> bool:
    return token.level >= _DEEPEST - 1 and token.type in ("blockquote_open", "list_item_open")


def _blocks(tokens: list[Token]) -> Iterator[list[Token]]:
    block: list[Token] = []
    for token in tokens:
        block.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield block
            block = []


def _as_written(rows: list[str], span: list[int] | None) -> list[Token]:
    """Return `rows`, or those of `span` (first, end), as a paragraph."""
    paragraph = Token("paragraph_open", "p", 1, map=span, block=True)
    first, end = span or (0, len(rows))
    children = [Token("text", "", 0, content="\n".join(rows[first:end]))]
    inline = Token("inline", "", 0, map=span, level=1, children=children, content=children[0].content, block=True)
    return [paragraph, inline, Token("paragraph_close", "p", -1, block=True)]


def blocks_of(tokens: list[Token]) -> list[MarkdownBlock]:
    """Return the blocks of `tokens`, in order."""
    return [block for group in _blocks(tokens) for block in attempt(partial(_walked, group), partial(_plain, group))]


def _plain(tokens: list[Token], report: str) -> list[MarkdownBlock]:
    text = "\n".join(token.content for token in tokens if token.content)
    return [Flow((span,)) for span in (*_short([StyledSpan(isolate(text))]), StyledSpan(report, "mark"))]


def _walked(tokens: list[Token]) -> list[MarkdownBlock]:
    walk = _Walk()
    at = 0
    while at < len(tokens):
        if tokens[at].type == "table_open":
            end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
            walk.blocks.append(_table(tokens[at:end], walk))
            at = end
        else:
            _step(tokens, at, walk)
        at += 1
    return walk.blocks


def markdown_blocks(text: str) -> list[MarkdownBlock]:
    """Return the blocks of a complete text; a text too long to be parsed is shown as source."""
    return blocks_of(parse(text)) if len(text) <= PARSED_CHARS else list(plain_blocks(text))


def plain_blocks(text: str, *, gap: bool = True) -> Iterator[Flow]:
    """Yield the source `text` in blocks that are fast to wrap; `gap`: a blank line precedes the first."""
    at = 0
    while at < len(text):
        end = at + FLOW_CHARS
        if end < len(text):
            end = max(text.rfind("\n", at, end), text.rfind(" ", at, end), at + FLOW_CHARS // 2) + 1
        yield Flow(tuple(plain_spans(text[at:end].removesuffix("\n"))), gap=gap)
        at, gap = end, False


def _flows(spans: list[StyledSpan], walk: _Walk) -> Iterator[Flow]:
    """Yield a paragraph, cut where it is too long to be wrapped at once."""
    names_source = walk.quotes > 0 and not walk.fresh_quote and bool(spans) and spans[0].text.startswith(SOURCE)
    gap = walk.gap() and not names_source
    taken: list[StyledSpan] = []
    room = FLOW_CHARS
    for span in _short(spans):
        if len(span.text) > room and taken:
            yield Flow(tuple(taken), walk.indent(), gap)
            taken, room, gap = [], FLOW_CHARS, False
        taken.append(span)
        room -= len(span.text)
    yield Flow(tuple(taken), walk.indent(), gap)


def _short(spans: list[StyledSpan]) -> Iterator[StyledSpan]:
    for span in spans:
        for at in range(0, len(span.text), FLOW_CHARS) or (0,):
            yield span._replace(text=span.text[at : at + FLOW_CHARS])


def _step(tokens: list[Token], at: int, walk: _Walk) -> None:
    token = tokens[at]
    match token.type:
        case "inline":
            walk.blocks.extend(_flows(inline_spans(_ticked(token.children or [], walk), walk.base), walk))
        case "fence" | "code_block":
            walk.blocks.extend(_code(token, walk))
        case "hr":
            walk.blocks.append(ThematicBreak(walk.indent(), walk.gap()))
        case _:
            _container(tokens, at, walk)


def _ticked(children: list[Token], walk: _Walk) -> list[Token]:
    """Return the inline tokens of a paragraph; the `[x]` of a task becomes the mark of its list item."""
    if not (walk.fresh_item and children and children[0].type == "text"):
        return children
    first = children[0]
    for written, mark in TASKS.items():
        if first.content.startswith(written):
            indent = walk.indents[-1]
            ticked = (*indent.first[:-1], StyledSpan(mark, "marker"))
            walk.indents[-1] = Indent(ticked, (*indent.rest[:-1], StyledSpan(" " * len(mark))))
            rest = Token("text", "", 0, content=first.content[len(written) :])
            return [rest, *children[1:]]
    return children


def _container(tokens: list[Token], at: int, walk: _Walk) -> None:
    token = tokens[at]
    match token.type:
        case "heading_open":
            walk.base = "heading-1" if token.tag == "h1" else "heading"
        case "heading_close":
            walk.base = ""
        case "blockquote_open":
            _push(walk, (StyledSpan("▎ ", "quote-bar"),), (StyledSpan("▎ ", "quote-bar"),))
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


def _push(walk: _Walk, first: tuple[StyledSpan, ...], rest: tuple[StyledSpan, ...]) -> None:
    outer = walk.indents[-1]
    walk.indents.append(Indent((*outer.first, *first), (*outer.rest, *rest)))


def _open_item(walk: _Walk) -> None:
    current = walk.lists[-1]
    if current.number is None:
        marker = f"{BULLETS[(len(walk.lists) - 1) % len(BULLETS)]} "
    else:
        marker = f"{current.number}. "
        current.number += 1
    _push(walk, (StyledSpan(marker, "marker"),), (StyledSpan(" " * len(marker)),))
    walk.fresh_item = True
    walk.item_count += 1


def _is_tight(tokens: list[Token], at: int) -> bool:
    """Return whether the list that opens at `at` is tight: markdown-it hides its paragraphs."""
    level = tokens[at].level
    for token in tokens[at + 1 :]:
        if token.level <= level:
            return True
        if token.type == "paragraph_open" and token.level == level + 2:
            return token.hidden
    return True


def _code(token: Token, walk: _Walk) -> Iterator[Code]:
    language = next(iter(clean(token.info).split()), "")
    gap = walk.gap()
    chunks = list(code_chunks(token.content.removesuffix("\n")))
    for number, chunk in enumerate(chunks):
        first, last = number == 0, number == len(chunks) - 1
        yield Code(chunk, language, walk.indent(), gap and first, labelled=first, closed=last)


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


def _table(tokens: list[Token], walk: _Walk) -> MarkdownTable:
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
            rows[-1].append(tuple(inline_spans(token.children or (), "table-head" if head else "")))
    width = len(aligns)
    padded = tuple(tuple((row + [()] * width)[:width]) for row in rows)
    return MarkdownTable(padded, tuple(aligns), walk.indent(), walk.gap())


def continued(block: MarkdownBlock) -> MarkdownBlock:
    """Return `block` without the blank line before it, as a continuation."""
    if isinstance(block, Code):
        return replace(block, gap=False, labelled=False)
    return replace(block, gap=False) if isinstance(block, Flow | ThematicBreak | MarkdownTable) else block
