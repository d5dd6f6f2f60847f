"""What a search shows of a text: the place with the lines around it, its beginning on one line, the words set off."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from clawbot.tui.render.lines import width_of
from clawbot.tui.render.sanitize import clean, clean_line
from clawbot.tui.screens.marking import marks

# Of a long file the lines around a place are shown, each cut: it is a look, the editor has the rest, and to lay out
# more would make the next key wait.
LINES_AROUND = 40
PLACE_LINES = 120
LINE_CHARS = 2_000
SNIPPET_LEAD = 16  # cells before the first word that was meant
WHOLE = 10**9  # a last line that no text has
_MARKER = re.compile(r"(?:[-*+>]|#+) ")  # of a list, a quote, a heading


def marked(query: str, text: str, style: str) -> Content:
    """`text` in `style`, the words that `query` meant set off."""
    content = Content.styled(text, style)
    for start, end in marks(query, text):
        content = content.stylize("$text-accent bold", start, end)
    return content


def snippet_start(snippet: str, query: str) -> str:
    """The snippet on one line, from shortly before the first word that `query` meant."""
    text = clean_line(snippet[:LINE_CHARS])
    text = text[marker.end() :] if (marker := _MARKER.match(text)) else text
    first = next(iter(marks(query, text)), (0, 0))[0]
    if width_of(text[:first]) <= SNIPPET_LEAD:
        return text
    lead = text[max(0, first - SNIPPET_LEAD) : first]
    while width_of(lead) > SNIPPET_LEAD:
        lead = lead[1:]
    return f"… {lead[lead.find(' ') + 1 :]}{text[first:]}"


@dataclass(frozen=True)
class Passage:
    """A text in three parts: what stands before a place, the place, what stands after it."""

    before: str
    place: str
    after: str


def passage(text: str, first: int, last: int) -> Passage:
    """Lines `first` to `last` (from 1) of `text`, and some lines around them. `last` 0: no place, the text's start.

    Lines end with a line feed alone, as the index counts them.
    """
    lines = text.split("\n")
    if not last:
        return Passage("", "", _shown(lines[: 2 * LINES_AROUND]))
    start = min(max(1, first), len(lines)) - 1
    end = min(max(last, first), start + PLACE_LINES)
    before, after = lines[max(0, start - LINES_AROUND) : start], lines[end : end + LINES_AROUND]
    return Passage(_shown(before), _shown(lines[start:end]), _shown(after))


def _shown(lines: Sequence[str]) -> str:
    return "\n".join(clean(line[:LINE_CHARS].rstrip("\r")).expandtabs(4) for line in lines)
