"""Spans of styled text and how they break into lines of cells: words in Latin text, characters in Chinese, Japanese
and Korean, with no closing punctuation at the start of a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

_WIDE = (
    "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
)
_CLOSING = ")\\]}、。，．：；？！）」』】》〉〕”’…·～％"
_OPENING = "(\\[{（「『【《〈〔“‘"
# A unit that stays together: white space, a wide character with its punctuation, a word.
_UNIT = re.compile(
    f"[^\\S\n]+|[{_OPENING}]*[{_WIDE}](?:[\ufe0f\u200d\u0300-\u036f]|[{_CLOSING}])*|[^\\s{_WIDE}]+(?:[{_CLOSING}])*"
)


class Span(NamedTuple):
    """Text in one style. `style` is a blank-separated list of names that the page's palette knows; `link` is a target
    that a click or Enter opens (a URL, `note:PATH:LINE`, `fold:`)."""

    text: str
    style: str = ""
    link: str = ""


class Line(NamedTuple):
    """One line of the page. `fill` names the style of the cells right of the text."""

    spans: tuple[Span, ...] = ()
    fill: str = ""

    @property
    def text(self) -> str:
        """The characters of the line."""
        return "".join(span.text for span in self.spans)


BLANK = Line()


def width_of(text: str) -> int:
    """The width of `text` in cells."""
    return len(text) if text.isascii() else cell_len(text)


def wrap(spans: Sequence[Span], width: int) -> list[tuple[Span, ...]]:
    """Break `spans` into lines of at most `width` cells. A line break in the text always breaks; a unit that is wider
    than a line is cut."""
    text = "".join(span.text for span in spans)
    if "\n" not in text and width_of(text) <= width:
        return [tuple(spans)]
    return slice_spans(spans, _ranges(text, max(2, width)))


def _ranges(text: str, width: int) -> list[tuple[int, int]]:
    """Where each line begins and ends in `text`."""
    found: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if width_of(line) <= width:
            found.append((start, end))
        else:
            found.extend(_fold(text, start, end, width))
        start = end + 1
    return found


def _fold(text: str, start: int, end: int, width: int) -> Iterable[tuple[int, int]]:
    """The lines of `text[start:end]`, a stretch without line breaks that is wider than `width`."""
    line_start, line_end, used = start, start, 0
    for unit in _UNIT.finditer(text, start, end):
        word = unit.group()
        cells = width_of(word)
        if word.isspace():
            used += cells
            continue
        if used + cells > width and line_end > line_start:
            yield line_start, line_end
            line_start, used = unit.start(), 0
        at = unit.start()
        if used >= width and line_end <= line_start:
            line_start, used = at, 0
        while used + cells > width:
            piece = chop_cells(text[at : unit.end()], max(2, width - used))[0]
            at += len(piece)
            yield line_start, at
            line_start, used, cells = at, 0, width_of(text[at : unit.end()])
        used += cells
        line_end = unit.end()
    if line_end > line_start or line_start == start:
        yield line_start, line_end


def slice_spans(spans: Sequence[Span], ranges: Iterable[tuple[int, int]]) -> list[tuple[Span, ...]]:
    """Cut `spans` at character ranges that go upwards."""
    lines: list[tuple[Span, ...]] = []
    index, offset = 0, 0
    for start, end in ranges:
        while index < len(spans) and offset + len(spans[index].text) <= start:
            offset += len(spans[index].text)
            index += 1
        line: list[Span] = []
        at, position = index, offset
        while at < len(spans) and position < end:
            span = spans[at]
            piece = span.text[max(0, start - position) : end - position]
            if piece:
                line.append(span._replace(text=piece))
            position += len(span.text)
            at += 1
        lines.append(tuple(line))
    return lines


def ellipsis(text: str, width: int) -> str:
    """`text` cut to `width` cells, with an ellipsis when something is missing."""
    if width_of(text) <= width:
        return text
    if width < 2:
        return ""
    return chop_cells(text, width - 1)[0] + "…"


def middle(text: str, width: int) -> str:
    """`text` cut to `width` cells where it matters least: in the middle, with more left of its end."""
    if width_of(text) <= width:
        return text
    if width < 3:
        return ellipsis(text, width)
    end = width * 2 // 3
    return chop_cells(text, width - 1 - end)[0] + "…" + chop_cells(text[::-1], end)[0][::-1]
