"""The blocks of rendered Markdown: each knows how it fills lines of a given width, code in its colours.

A block is made once and wrapped as often as the width changes. `indent` precedes its lines (list
markers, quote bars): the first line gets `first`, the others `rest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Protocol

from msgspec import Struct

from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean_line
from clawbot.tui.render.lines import StyledLine, StyledSpan, cells_of, ellipsis, slice_spans, width_of, wrap

# Token types of pygments, from the special to the general, and the style each gets.
STYLES = (
    ("Token.Comment", "code-comment"),
    ("Token.Literal.String", "code-string"),
    ("Token.Literal.Number", "code-number"),
    ("Token.Keyword.Constant", "code-number"),
    ("Token.Keyword", "code-keyword"),
    ("Token.Operator.Word", "code-keyword"),
    ("Token.Name.Function", "code-name"),
    ("Token.Name.Class", "code-name"),
    ("Token.Name.Builtin", "code-name"),
    ("Token.Name.Decorator", "code-name"),
    ("Token.Name.Attribute", "code-name"),
    ("Token.Name.Tag", "code-keyword"),
    ("Token.Generic.Inserted", "code-string"),
    ("Token.Generic.Deleted", "code-deleted"),
    ("Token.Generic.Heading", "code-name"),
)
HANGING = 2  # cells by which the folded rest of a line of code is indented
PLAIN = ("", "text", "txt", "plain", "plaintext", "output", "console-output")


class Lexer(Protocol):
    """What is used of a lexer of pygments."""

    def get_tokens(self, text: str) -> Iterable[tuple[object, str]]:
        """Return the token types and texts of `text`."""
        ...


class Lexers:
    """The languages that are loaded, and those that somebody asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Lexer | None] = {}
        self.wanted: set[str] = set()

    def spans(self, code: str, language: str) -> list[StyledSpan]:
        """Return `code` in colours if its language is loaded; else plain, and the language is noted in `wanted`."""
        language = language.lower()
        if language in PLAIN:
            return [StyledSpan(code, "code")]
        if language not in self._loaded:
            self.wanted.add(language)
            return [StyledSpan(code, "code")]
        lexer = self._loaded[language]
        if lexer is None:
            return [StyledSpan(code, "code")]
        return [StyledSpan(text, style_of(str(kind))) for kind, text in lexer.get_tokens(code)]

    def load(self) -> bool:
        """Load what is wanted: imports, so it belongs in a thread. True when something new can be coloured."""
        found = False
        for language in list(self.wanted):
            self._loaded[language] = lexer = _find(language)
            self.wanted.discard(language)
            found = found or lexer is not None
        return found


@lru_cache(maxsize=512)
def style_of(token: str) -> str:
    """Return the style names of a pygments token type."""
    return next((f"code {style}" for prefix, style in STYLES if token.startswith(prefix)), "code")


def _find(language: str) -> Lexer | None:
    # Here and not above: pygments is no part of the first paint.
    lexers = import_module("pygments.lexers")
    try:
        lexer: Lexer = lexers.get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except lexers.ClassNotFound:
        return None
    # The tables of a lexer are compiled at its first use.
    list(lexer.get_tokens("x"))
    return lexer


class Indent(Struct, frozen=True):
    """What is left of a block."""

    first: tuple[StyledSpan, ...] = ()
    rest: tuple[StyledSpan, ...] = ()
    air: tuple[StyledSpan, ...] = ()  # of the blank line above: the bar of a quote goes through

    @property
    def width(self) -> int:
        return cells_of(self.rest)

    def apply(self, lines: list[tuple[StyledSpan, ...]], fill: str = "") -> list[StyledLine]:
        return [StyledLine((*(self.rest if number else self.first), *line), fill) for number, line in enumerate(lines)]


class MarkdownBlock(Protocol):
    """A paragraph, a heading, some lines of code, a table, a rule."""

    @property
    def gap(self) -> bool: ...

    @property
    def indent(self) -> Indent:
        """Return what is left of it."""
        ...

    def lines(self, width: int, lexers: Lexers) -> list[StyledLine]:
        """Return its lines, at most `width` cells wide."""
        ...


class Flow(Struct, frozen=True):
    """Running text: a paragraph, a heading, the text of a list item."""

    spans: tuple[StyledSpan, ...]
    indent: Indent = Indent()
    gap: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[StyledLine]:
        return self.indent.apply(wrap(self.spans, max(8, width - self.indent.width)))


class Code(Struct, frozen=True):
    """Lines of code on a ground of their own, padded above and below; the name of the language is in the row above.
    `gap` and `labelled` are false for a part that continues another one, `closed` for a part that is continued."""

    text: str
    language: str = ""
    indent: Indent = Indent()
    gap: bool = True
    labelled: bool = True
    closed: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[StyledLine]:
        """Return the code; the rest of a long line hangs under its text."""
        room = max(8, width - self.indent.width - 2)
        spans = lexers.spans(self.text, self.language)
        ends = _line_ranges(self.text)
        lines: list[tuple[StyledSpan, ...]] = []
        if self.labelled:
            name = "" if self.language.lower() in PLAIN else ellipsis(clean_line(self.language), room)
            lines.append((StyledSpan(" " * (room + 1 - width_of(name)), "code"), StyledSpan(name, "code-language")))
        for line in slice_spans(spans, ends) if self.text or self.labelled else ():
            lines.extend(_hanging(line, room))
        if self.closed:
            lines.append((StyledSpan(" ", "code"),))
        return self.indent.apply(lines, "code")


def _hanging(line: Sequence[StyledSpan], room: int) -> Iterator[tuple[StyledSpan, ...]]:
    """Fold `line` of code to `room` cells; what is folded is indented deeper than its beginning."""
    text = "".join(span.text for span in line)
    deep = min(len(text) - len(text.lstrip(" ")) + HANGING, room // 2)
    first, *rest = wrap(line, room)
    yield (StyledSpan(" ", "code"), *first)
    if rest:
        taken = sum(len(span.text) for span in first)
        (behind,) = slice_spans(line, [(taken, len(text))])
        for folded in wrap(_without_lead(behind), room - deep):
            yield (StyledSpan(" " * (deep + 1), "code"), *folded)


def _without_lead(spans: Sequence[StyledSpan]) -> list[StyledSpan]:
    """Return `spans` without the blanks at which a line was folded."""
    kept = list(spans)
    while kept and not kept[0].text.strip():
        kept.pop(0)
    return [kept[0]._replace(text=kept[0].text.lstrip()), *kept[1:]] if kept else [StyledSpan("", "code")]


class ThematicBreak(Struct, frozen=True):
    """A thematic break."""

    indent: Indent = Indent()
    gap: bool = True

    def lines(self, width: int, lexers: Lexers) -> list[StyledLine]:
        return self.indent.apply([(StyledSpan("─" * max(4, width - self.indent.width), "rule"),)])


Cell = tuple[StyledSpan, ...]
BETWEEN = "  "  # two columns of a table
LONG_WORD = 24  # cells of a word in a cell that is never split
TALL = 3  # lines of a row from which on a rule separates it from others
_WORDS = lazy_re(f"[{HAN}]|[^\\s{HAN}]+")


class MarkdownTable(Struct, frozen=True):
    """A table: the first row is the head. `aligns` holds `left`, `right` or `center` for each column.

    A part of a long table goes on without a head (`head` false), in the columns of the part above it (`columns`: their
    natural widths), unless a cell needs more.
    """

    rows: tuple[tuple[Cell, ...], ...]
    aligns: tuple[str, ...]
    indent: Indent = Indent()
    gap: bool = True
    head: bool = True
    columns: tuple[int, ...] = ()

    def lines(self, width: int, lexers: Lexers) -> list[StyledLine]:
        """Return head, rule and rows; columns shrink, and cells wrap. Where words would break, each row is a list."""
        room = max(8, width - self.indent.width)
        widths, fits = self._widths(room - len(BETWEEN) * (len(self.aligns) - 1))
        if not fits and self.head and len(self.rows) > 1:
            return self.indent.apply(self._lists(room))
        rows = [self._row(row, widths) for row in self.rows]
        rule = (StyledSpan(BETWEEN.join("─" * cells for cells in widths), "rule"),)
        lines: list[tuple[StyledSpan, ...]] = []
        for number, row in enumerate(rows):
            is_apart = number > self.head and max(len(row), len(rows[number - 1])) >= TALL
            lines += [rule, *row] if is_apart else row
            lines += [rule] if number == 0 and self.head else []
        return self.indent.apply(lines)

    def _widths(self, room: int) -> tuple[list[int], bool]:
        """Return the cells of each column, and whether they hold complete words: its natural width if it fits, else the
        wide ones give way."""
        natural, count = self.natural(), len(self.aligns)
        # A word above LONG_WORD may break, and Chinese breaks anywhere.
        cells = [[max(map(width_of, _WORDS.findall(_text(cell))), default=1) for cell in row] for row in self.rows]
        words = [min(natural[at], LONG_WORD, max(row[at] for row in cells)) for at in range(count)]
        room = max(room, 3 * count)
        fits = sum(words) <= room
        shares = words if fits else [0] * count
        waiting = sorted(range(count), key=lambda at: natural[at] - shares[at])
        for index, column in enumerate(waiting):
            shares[column] += min(natural[column] - shares[column], (room - sum(shares)) // (count - index))
        return shares, fits

    def _lists(self, room: int) -> list[tuple[StyledSpan, ...]]:
        """Return each row as a list of its cells, behind the heads of their columns."""
        head, *rows = self.rows
        lines: list[tuple[StyledSpan, ...]] = []
        for row in rows:
            lines += [(StyledSpan("─" * room, "rule"),)] if lines else []
            for name, cell in zip(head, row, strict=True):
                lines += wrap([*name, StyledSpan("  "), *cell], room) if cell else []
        return lines

    def natural(self) -> tuple[int, ...]:
        least = self.columns or (1,) * len(self.aligns)
        return tuple(
            max(least[column], *(max(map(width_of, _text(row[column]).split("\n"))) for row in self.rows))
            for column in range(len(self.aligns))
        )

    def _row(self, row: tuple[Cell, ...], widths: list[int]) -> list[tuple[StyledSpan, ...]]:
        cells = [wrap(cell, cells) for cell, cells in zip(row, widths, strict=True)]
        lines = []
        for number in range(max(len(cell) for cell in cells)):
            line: list[StyledSpan] = []
            for column, cell in enumerate(cells):
                spans = cell[number] if number < len(cell) else ()
                space = widths[column] - width_of(_text(spans))
                left = {"right": space, "center": space // 2}.get(self.aligns[column], 0)
                line += [StyledSpan(" " * left), *spans, StyledSpan(" " * (space - left)), StyledSpan(BETWEEN)]
            lines.append(tuple(span for span in line[:-1] if span.text))
        return lines


def _text(spans: Cell) -> str:
    return "".join(span.text for span in spans)


def _line_ranges(text: str) -> list[tuple[int, int]]:
    ranges = []
    start = 0
    for line in text.split("\n"):
        ranges.append((start, start + len(line)))
        start += len(line) + 1
    return ranges
