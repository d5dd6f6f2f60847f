"""Styled text: spans made from running text, with links for URLs and notes, and their wrapping into lines of cells:
between words in Latin text, between characters in CJK, with no closing punctuation at the start of a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, chop_cells

from clawbot.text.interface import _
from clawbot.text.patterns import lazy_re
from clawbot.text.sanitize import clean, isolate
from clawbot.text.visible import split_spans, visible

if TYPE_CHECKING:
    from markdown_it.token import Token

WIDE = (
    "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
)
_CLOSING = ")\\]}、。，．：；？！）」』】》〉〕”’…·～％,.;:?!"
_OPENING = "(\\[{（「『【《〈〔“‘"
# A unit that is never split: white space, a wide character with its punctuation, a word.
_UNIT = lazy_re(
    f"[^\\S\n]+|[{_OPENING}]*[{WIDE}](?:[\ufe0f\u200d\u0300-\u036f]|[{_CLOSING}])*|[^\\s{WIDE}]+(?:[{_CLOSING}])*"
)
# The same in ASCII: the sets of wide characters take 4 ms to compile.
_ASCII_UNIT = lazy_re(r"[^\S\n]+|\S+")
_CHARS_PER_CELL = 4  # of a long word; more of them have marks enough to be cut anywhere


class StyledSpan(NamedTuple):
    """Text in one style. `style` is a space-separated list of names in the page's palette; `link` is the target opened
    by a click or Enter (a URL, `note:PATH:LINE`, `fold:`)."""

    text: str
    style: str = ""
    link: str = ""


class StyledLine(NamedTuple):
    """One line of the page. `fill` is the style of the cells to the right of the text."""

    spans: tuple[StyledSpan, ...] = ()
    fill: str = ""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


BLANK = StyledLine()
_TEXT = itemgetter(0)  # of a span


def width_of(text: str) -> int:
    """Return the width of `text` in cells."""
    return len(text) if text.isascii() else cell_len(text)


def cells_of(spans: Iterable[StyledSpan]) -> int:
    """Return the width of `spans` in cells."""
    text = "".join(map(_TEXT, spans))
    return len(text) if text.isascii() else cell_len(text)


def wrap(spans: Sequence[StyledSpan], width: int) -> list[tuple[StyledSpan, ...]]:
    """Wrap `spans` into lines of at most `width` cells. Line breaks in the text are kept; a wider unit is split."""
    text = "".join(span.text for span in spans)
    if "\n" not in text and width_of(text) <= width:
        return [tuple(spans)]
    return slice_spans(spans, _ranges(text, max(2, width)))


def _ranges(text: str, width: int) -> list[tuple[int, int]]:
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
    """Return the lines of `text[start:end]`, a stretch without line breaks that is wider than `width`."""
    line_start, line_end, used = start, start, 0
    units = _ASCII_UNIT if text.isascii() else _UNIT
    for unit in units.finditer(text, start, end):
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
            # Check the next few characters only: a word may be megabytes long.
            part = chop_cells(text[at : min(unit.end(), at + _CHARS_PER_CELL * width)], max(2, width - used))[0]
            at += len(part)
            yield line_start, at
            line_start, used, cells = at, 0, cells - width_of(part)
        used += cells
        line_end = unit.end()
    if line_end > line_start or line_start == start:
        yield line_start, line_end


def slice_spans(spans: Sequence[StyledSpan], ranges: Iterable[tuple[int, int]]) -> list[tuple[StyledSpan, ...]]:
    """Cut `spans` at ascending character ranges."""
    lines: list[tuple[StyledSpan, ...]] = []
    index, offset = 0, 0
    for start, end in ranges:
        while index < len(spans) and offset + len(spans[index].text) <= start:
            offset += len(spans[index].text)
            index += 1
        line: list[StyledSpan] = []
        at, position = index, offset
        while at < len(spans) and position < end:
            span = spans[at]
            part = span.text[max(0, start - position) : end - position]
            if part:
                line.append(span._replace(text=part))
            position += len(span.text)
            at += 1
        lines.append(tuple(line))
    return lines


def cut_spans(spans: Sequence[StyledSpan], width: int) -> list[StyledSpan]:
    """Return `spans` truncated to `width` cells, with an ellipsis in the last style."""
    text = "".join(span.text for span in spans)
    cut = ellipsis(text, width)
    if cut == text:
        return list(spans)
    (kept,) = slice_spans(spans, [(0, len(cut) - 1)])
    return [*kept, StyledSpan("…", kept[-1].style, kept[-1].link)] if kept else []


def ellipsis(text: str, width: int) -> str:
    """Return `text` truncated to `width` cells, with an ellipsis."""
    if width_of(text) <= width:
        return text
    if width < 2:
        return ""
    return chop_cells(text, width - 1)[0] + "…"


def middle(text: str, width: int) -> str:
    """Return `text` truncated to `width` cells in the middle, keeping more of its end."""
    if width_of(text) <= width:
        return text
    if width < 3:
        return ellipsis(text, width)
    end = width * 2 // 3
    return chop_cells(text, width - 1 - end)[0] + "…" + chop_cells(text[::-1], end)[0][::-1]


def location_text(path: str, line: int, width: int) -> str:
    """Return `PATH:LINE` in at most `width` cells: the middle of the path is cut, never the line."""
    end = f":{line}"
    return f"{middle(path, max(3, width - len(end)))}{end}"


def short(tokens: int) -> str:
    """Format tokens in few characters: 950, 1.2k, 122k, 1.3M."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1000:.1f}k" if tokens < 9950 else f"{tokens / 1000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Pad `text` to `width` cells with spaces, at its left if it is at the `right`."""
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def short_model(ref: str) -> str:
    """Return the name of a model without the folders of the file it comes from: `openai//opt/m/qwen3-Q4.gguf` is
    `openai/qwen3-Q4`."""
    provider, _, name = ref.partition("/")
    if name.startswith(("/", "~", "\\")) or name.endswith(".gguf") or name[1:3] == ":\\":
        file = name.replace("\\", "/").rstrip("/").rpartition("/")[2].removesuffix(".gguf")
        return f"{provider}/{file}" if provider and file else ref
    return ref


def duration(seconds: int) -> str:
    """Return seconds as people write them: 4 s, 2 min 05 s."""
    if seconds < 60:
        return _("{seconds} s").format(seconds=seconds)
    return _("{minutes} min {seconds:02d} s").format(minutes=seconds // 60, seconds=seconds % 60)


# `memory/2026-10-02.md:14`, `MEMORY.md#L3` or an address that nobody marked as a link. The counts bound the time that a
# long word takes.
_TARGET = re.compile(
    r"(?P<note>(?:[\w.-]{1,255}/){0,40}[\w.-]{1,255}\.md(?::|#L)(?P<line>\d{1,9})\b)|(?P<url>https?://[^\s<>()\[\]\"'`]+[^\s<>()\[\]\"'`.,;:!?])"
)
_MARKS = {"strong": "strong", "em": "em", "s": "strike"}
_NOTE_END = re.compile(r"(?::|#L)(?=\d+$)")


def note_link(path: str, line: int | None) -> str:
    """Return the target of a span that opens a workspace file at a line."""
    return f"note:{path}:{line or 1}"


def inline_spans(tokens: Iterable[Token], base: str = "") -> list[StyledSpan]:
    """Return the spans of an inline token's children; `base` holds the style names of the paragraph."""
    spans: list[StyledSpan] = []
    marks: list[str] = [base] if base else []
    link = ""
    for token in tokens:
        name, _, end = token.type.rpartition("_")
        if token.type == "link_open":
            link = _web(str(token.attrs.get("href", "")))
        elif token.type == "link_close":
            link = ""
        elif name in _MARKS and end == "open":
            marks.append(_MARKS[name])
        elif name in _MARKS and end == "close":
            marks.remove(_MARKS[name])
        else:
            spans.extend(_leaf(token, " ".join(dict.fromkeys(marks)), link))
    return spans


def plain_spans(text: str, style: str = "") -> Iterator[StyledSpan]:
    """Yield `text` with its addresses and notes as links."""
    at = 0
    for found in _TARGET.finditer(text) if ".md" in text or "://" in text else ():
        if found.start() > at:
            yield StyledSpan(isolate(text[at : found.start()]), style)
        if found["note"]:
            path = _NOTE_END.split(found["note"])[0]
            yield StyledSpan(found["note"], f"{style} note".lstrip(), note_link(path, int(found["line"])))
        else:
            yield StyledSpan(found["url"], f"{style} link".lstrip(), found["url"])
        at = found.end()
    if at < len(text):
        yield StyledSpan(isolate(text[at:]), style)


def code_spans(text: str, style: str = "", link: str = "") -> list[StyledSpan]:
    """Return `text` with code between backticks on the ground of code, without them; a single one is kept."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return [StyledSpan(text, style, link)]
    styles = style, f"{style} code-inline".lstrip()
    return [StyledSpan(part, styles[at % 2], link) for at, part in enumerate(parts) if part]


def shown_spans(shown: str, style: str = "", link: str = "", *, one_line: bool = True) -> list[StyledSpan]:
    """Return the output of `clawbot.text.visible` with its signs in colour. Other text is made visible here, on
    `one_line` if set."""
    spans: list[StyledSpan] = []
    for text, kind in split_spans(shown):
        if kind:
            spans.append(StyledSpan(text, f"{style} sign-{kind}".lstrip(), link))
        else:
            spans.append(StyledSpan(isolate(visible(text, one_line=one_line, blanks=False), words=True), style, link))
    return spans


def _leaf(token: Token, style: str, link: str) -> Iterable[StyledSpan]:
    content = clean(token.content)  # once more: `&#x202E;` has become a character
    if token.type in ("softbreak", "hardbreak"):
        return [StyledSpan("\n" if token.type == "hardbreak" else " ", style)]
    if token.type == "image":
        source = _web(str(token.attrs.get("src", "")))
        return [
            StyledSpan(
                _("[image: {name}]").format(name=content or source or _("no name")),
                f"{style} link".lstrip(),
                source,
            )
        ]
    if link:
        return [StyledSpan(isolate(content), f"{style} link".lstrip(), link)]
    if token.type == "code_inline":
        return [span._replace(style=f"{style} {span.style}") for span in plain_spans(content, "code-inline")]
    return plain_spans(content, style)


def _web(target: str) -> str:
    return target if target.startswith(("https://", "http://", "mailto:")) else ""
