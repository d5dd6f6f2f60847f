"""Text that came from a file or a tool, shown as data: quoted or fenced, never part of the reply's own words."""

from __future__ import annotations

import re

from clawbot.llm.offline.language import clean

QUOTE_CHARS = 300
SHOWN_LINES = 60
SHOWN_CHARS = 4_000

_MARKER = re.compile(r"\s{0,8}(?:[-*+]\s{1,4}(?:\[[ xX]\]\s{1,4})?|\d{1,3}[.)]\s{1,4}|#{1,6}\s{1,4}|>\s?)")
_BACKTICKS = re.compile(r"`{3,}")


def bare(line: str) -> str:
    """A line of a Markdown file without its list, heading or quote mark."""
    text = clean(line).replace("\n", " ")
    mark = _MARKER.match(text)
    return text[mark.end() if mark else 0 :].strip()


def one_line(text: str, limit: int = QUOTE_CHARS) -> str:
    """`text` on one line, cut to `limit` characters."""
    flat = " ".join(clean(text[: limit * 20]).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def quote(text: str, source: str = "") -> str:
    """A block quote of one line, with where it stands below it."""
    shown = f"> {one_line(text)}"
    return f"{shown}\n>\n> — `{source}`" if source else shown


def quoted_lines(text: str, limit: int = 6) -> str:
    """The first lines of a tool's words as a block quote."""
    lines = [one_line(line) for line in clean(text[:SHOWN_CHARS]).splitlines() if line.strip()]
    return "\n".join(f"> {line}" for line in lines[:limit]) or "> …"


class Block:
    """A fenced block of at most `SHOWN_LINES` lines and `SHOWN_CHARS` characters: `text`, `shown` of `total` lines, and
    whether anything was `cut`."""

    def __init__(self, text: str) -> None:
        lines = clean(text).rstrip("\n").split("\n")
        kept: list[str] = []
        room = SHOWN_CHARS
        for line in lines[:SHOWN_LINES]:
            if room <= 0:
                break
            kept.append(line if len(line) <= room else line[:room] + "…")
            room -= len(line) + 1
        self.shown = len(kept)
        self.total = len(lines)
        self.cut = self.shown < self.total or room < -1
        body = "\n".join(kept)
        longest = max((len(run) for run in _BACKTICKS.findall(body)), default=2)
        fence = "`" * (longest + 1)
        self.text = f"{fence}text\n{body}\n{fence}"
