"""The changes of a file for the eye: a unified diff as numbered lines on the colour of what came and what went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from clawbot.text.sanitize import clean, isolate
from clawbot.tui.render.lines import StyledLine, StyledSpan, wrap

_HUNK = re.compile(r"@@ -(?P<old>\d{1,9})(?:,\d+)? \+(?P<new>\d{1,9})(?:,\d+)? @@")
_STYLES = {"+": "diff-added", "-": "diff-removed", " ": "diff-same"}


class DiffRow(NamedTuple):
    """A line of a diff: its number in the new file (in the old one for what went), `+`, `-` or a blank, and its text.
    The number 0 stands for lines that are left out."""

    number: int
    sign: str
    text: str


def diff_rows(diff: str) -> Iterator[DiffRow]:
    """The rows of a unified `diff`. The head, which names the file, is on the card already."""
    old = new = 0
    for row in diff.splitlines():
        if hunk := _HUNK.match(row):
            if new:
                yield DiffRow(0, " ", "")
            old, new = int(hunk["old"]), int(hunk["new"])
        elif new or old:
            sign = row[:1] if row[:1] in ("+", "-") else " "
            if row.startswith("\\"):  # that a file ends without a line break
                continue
            yield DiffRow(old if sign == "-" else new, sign, row[1:])
            old += sign != "+"
            new += sign != "-"


def diff_lines(diff: str, room: int, most: int) -> list[StyledLine]:
    """About the first `most` lines of `diff`, at most `room` cells wide."""
    rows = list(islice(diff_rows(clean(diff[: most * max(room, 80)]).expandtabs(4)), most))
    digits = max((len(str(row.number)) for row in rows), default=1)
    lines: list[StyledLine] = []
    for row in rows:
        if not row.number:
            lines.append(StyledLine((StyledSpan(f"{'⋮':>{digits}}", "tool"),)))
            continue
        style = _STYLES[row.sign]
        margin = StyledSpan(f"{row.number:>{digits}} ", "tool")
        text = wrap([StyledSpan(isolate(row.text), style)], max(8, room - digits - 3))
        for part in text:
            lines.append(
                StyledLine((margin, StyledSpan(f"{row.sign} ", style), *part), style if row.sign != " " else "")
            )
            margin = StyledSpan(" " * (digits + 1))
    return lines
