"""The inside of a Markdown paragraph as spans: emphasis, code, links, and notes named with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from clawbot.tui.render.lines import Span
from clawbot.tui.render.sanitize import isolate

if TYPE_CHECKING:
    from markdown_it.token import Token

# `memory/2026-10-02.md:14`, `MEMORY.md#L3` or an address that nobody marked as a link.
_TARGET = re.compile(
    r"(?P<note>(?:[\w.-]+/)*[\w.-]+\.md(?::|#L)(?P<line>\d+)\b)|(?P<url>https?://[^\s<>()\[\]\"'`]+[^\s<>()\[\]\"'`.,;:!?])"
)
_MARKS = {"strong": "strong", "em": "em", "s": "strike"}
_NOTE_END = re.compile(r"(?::|#L)(?=\d+$)")


def note_link(path: str, line: int | None) -> str:
    """The target of a span that opens a workspace file at a line."""
    return f"note:{path}:{line or 1}"


def inline_spans(tokens: Iterable[Token], base: str = "") -> list[Span]:
    """The spans of an inline token's children; `base` holds the style names of the paragraph."""
    spans: list[Span] = []
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
            spans.extend(_leaf(token, " ".join(marks), link))
    return spans


def plain_spans(text: str, style: str = "") -> Iterator[Span]:
    """`text` with its addresses and notes as links."""
    at = 0
    for found in _TARGET.finditer(text) if ".md" in text or "://" in text else ():
        if found.start() > at:
            yield Span(isolate(text[at : found.start()]), style)
        if found["note"]:
            path = _NOTE_END.split(found["note"])[0]
            yield Span(found["note"], f"{style} note".lstrip(), note_link(path, int(found["line"])))
        else:
            yield Span(found["url"], f"{style} link".lstrip(), found["url"])
        at = found.end()
    if at < len(text):
        yield Span(isolate(text[at:]), style)


def _leaf(token: Token, style: str, link: str) -> Iterable[Span]:
    if token.type in ("softbreak", "hardbreak"):
        return [Span("\n" if token.type == "hardbreak" else " ", style)]
    if token.type == "image":
        source = _web(str(token.attrs.get("src", "")))
        return [Span(f"[image: {token.content or source or 'no name'}]", f"{style} link".lstrip(), source)]
    if link:
        return [Span(isolate(token.content), f"{style} link".lstrip(), link)]
    if token.type == "code_inline":
        return [span._replace(style=f"{style} {span.style}") for span in plain_spans(token.content, "code-inline")]
    return plain_spans(token.content, style)


def _web(target: str) -> str:
    """`target` when it is safe to hand to a browser."""
    return target if target.startswith(("https://", "http://", "mailto:")) else ""
