"""A hit of a search: as a row of the list, and in the preview with the lines around it, its words set off."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from clawbot.text.interface import _
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.call_titles import speaker
from clawbot.tui.render.finding import marks
from clawbot.tui.render.lines import location_text, middle, width_of
from clawbot.tui.screens.picker import PickerScreen, Row

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from clawbot.api import RuntimeApi
    from clawbot.sessions.text import Spoken


# Of a long file the lines around a hit are shown, each cut: it is a preview, the editor has the rest, and to render
# more would make the next key wait.
LINES_AROUND = 40
MAX_LINES = 120
LINE_CHARS = 2_000
SNIPPET_LEAD = 16  # cells before the first word that was meant
END = 10**9  # a last line that no text has
_MARKER = re.compile(r"(?:[-*+>]|#+) ")  # of a list, a quote, a heading


def marked(query: str, text: str, style: str) -> Content:
    """Return `text` in `style`, the words that `query` meant set off."""
    content = Content.styled(text, style)
    for start, end in marks(query, text):
        content = content.stylize("$text-accent bold", start, end)
    return content


def snippet_start(snippet: str, query: str) -> str:
    """Return the snippet on one line, from shortly before the first word that `query` meant."""
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
    """A text in three parts: what is before a match, the match, what is after it."""

    before: str
    match: str
    after: str


def passage(text: str, first: int, last: int) -> Passage:
    """Return lines `first` to `last` (from 1) of `text`, and some lines around them. `last` 0: no match, the start.

    Lines end with a line feed alone, as the index counts them.
    """
    lines = text.split("\n")
    if not last:
        return Passage("", "", _shown(lines[: 2 * LINES_AROUND]))
    start = min(max(1, first), len(lines)) - 1
    end = min(max(last, first), start + MAX_LINES)
    before, after = lines[max(0, start - LINES_AROUND) : start], lines[end : end + LINES_AROUND]
    return Passage(_shown(before), _shown(lines[start:end]), _shown(after))


def _shown(lines: Sequence[str]) -> str:
    return "\n".join(clean(line[:LINE_CHARS].rstrip("\r")).expandtabs(4) for line in lines)


@dataclass(frozen=True)
class NoteRow(Row):
    """A location in the memory: lines `first` to `last` (from 1) of `path`, as the search for `query` found it; `line`
    is the best one.

    A message of a conversation has the `entry` of its transcript. A note that nobody searched for has no `snippet`
    and no `score`. `room` are the columns there are for a row; a path that is too long for them is cut in its middle,
    so that its line can still be read. 0: as many as it takes.
    """

    path: str = ""
    first: int = 1
    last: int = 0
    snippet: str = ""
    query: str = ""
    score: float | None = None
    is_session: bool = False
    entry: str = ""
    line: int = 1
    room: int = field(default=0, compare=False)

    def prompt(self, found: Sequence[int] = (), width: int = 0) -> Content:
        # Rounded down: as a minimum score it keeps the row.
        score = "" if self.score is None else f"{int(self.score * 100 + 1e-6) / 100:.2f}  "
        lines = [Content.assemble((score, "$foreground 70%"), self._location(self.room - width_of(score)))]
        if self.detail or self.snippet:
            day = f"{self.detail}  " if self.detail and self.snippet else self.detail
            start = marked(self.query, snippet_start(self.snippet, self.query), "$foreground 75%")
            lines.append(Content.assemble(" " * len(score), (day, "$foreground 70%"), start))
        return Content("\n").join(lines)

    def _location(self, width: int) -> str:
        path = self.title.removesuffix(f":{self.first}")
        if self.room <= 0:
            return self.title
        return location_text(path, self.first, width) if self.last and not self.entry else middle(self.title, width)


# Seconds: a search begins when the typing pauses for so long, the reading for a preview when the cursor does.
SEARCH_DELAY = 0.12
PREVIEW_DELAY = 0.08
_LINES_ABOVE = 3  # in view over the match


class SessionTarget(NamedTuple):
    """The session to go on in. With an `entry`: the message that the user searched for, by `query`."""

    session: str
    entry: str = ""
    query: str = ""


class SpokenExcerpt(NamedTuple):
    """The messages around a hit: lines `first` to `last` (from 1) of `text`."""

    text: str
    first: int
    last: int


def excerpt_at(spoken: Sequence[Spoken], entry: str) -> SpokenExcerpt | None:
    """Return the text of `spoken` with speakers, around the entry `entry`; None if that is not among it."""
    numbers = [number for number, one in enumerate(spoken, start=1) if one.entry == entry]
    text = "\n".join(_("{speaker}: {text}").format(speaker=speaker(one.who, one.by), text=one.text) for one in spoken)
    return SpokenExcerpt(text, numbers[0], numbers[-1]) if numbers else None


class PassagePreview(VerticalScroll, can_focus=False):
    """Shows a match with the text around it, or a text that has none."""

    def compose(self) -> ComposeResult:
        for name in ("before", "match", "after"):
            yield Static(id=name, markup=False)

    def show_passage(self, shown: Passage, query: str) -> None:
        self._show(Content(shown.before), marked(query, shown.match, "$foreground"), Content(shown.after))
        # Asked of the part that was changed last: the screen can get there before it is notified of the new layout,
        # and would scroll by what was shown before.
        self.query_one("#after").call_after_refresh(self.reveal)

    def show_end(self, text: Content) -> None:
        self._show(text, Content(), Content())
        self.scroll_end(animate=False)

    def _show(self, *parts: Content) -> None:
        for widget, part in zip(self.query(Static), parts, strict=True):
            widget.update(part)
            widget.display = bool(part.plain)

    def reveal(self) -> None:
        # A screen that closes may have removed it already.
        for match in self.query("#match") if self.is_attached else ():
            self.scroll_to(y=max(0, match.virtual_region.y - _LINES_ABOVE), animate=False, force=True)


class PassagePicker(PickerScreen[SessionTarget]):
    """A list of hits with the preview of the highlighted one, which is read as soon as the cursor pauses."""

    BINDINGS: ClassVar = [
        Binding("shift+up", "preview_up", "Preview up", show=False),
        Binding("shift+down", "preview_down", "Preview down", show=False),
    ]

    fills = True

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__(runtime)
        self._pause: Timer | None = None
        self._rest: Timer | None = None

    def side_widgets(self) -> list[Widget]:
        return [PassagePreview(id="preview")]

    def search_at_pause(self, search: Callable[[], object] | None) -> None:
        """Search when the typing pauses; None: there is nothing to search for."""
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(SEARCH_DELAY, search) if search else None

    def read_at_rest(self, read: Callable[[], object] | None) -> None:
        """Read for the preview when the cursor pauses: not while a held key moves it. None: what is to
        be shown is there."""
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(PREVIEW_DELAY, read) if read else None

    def action_preview_up(self) -> None:
        self.query_one("#preview").scroll_page_up(animate=False)

    def action_preview_down(self) -> None:
        self.query_one("#preview").scroll_page_down(animate=False)
