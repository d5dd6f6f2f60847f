"""A list to choose from: a line to filter it by (every word must occur, or else its letters in order), the rows below,
the keys at the bottom."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Key as KeyPress
from textual.events import Resize
from textual.fuzzy import FuzzySearch
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean
from clawbot.tui.render.lines import ellipsis, width_of
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen
from clawbot.tui.widgets.fields import Line, typed_text

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

# The fuzzy search tries every way to match the letters with the text; beyond this many it is left out, so that a key
# press never waits for it.
MAX_WAYS = 5_000


def match(search: FuzzySearch, query: str, text: str) -> tuple[float, Sequence[int]] | None:
    """Return how well `text` answers `query`, and where its letters are; None: a word of the query is not in it.

    A higher score is better. An empty query matches everything alike.
    """
    score, offsets = 0.0, set[int]()
    folded = text.lower()
    for word in query.lower().split():
        # At most so many ways to lay the letters of the word into the text.
        if word not in folded and math.prod(map(folded.count, word)) > MAX_WAYS:
            return None
        found, at = search.match(word, text)
        if not found:
            return None
        score += found
        offsets.update(at)
    return score, sorted(offsets)


ResultT = TypeVar("ResultT")
Styles = str | PurePath | list[str | PurePath] | None

# A list is rendered row by row on every key press: more than a person reads through would make typing wait.
MAX_ROWS = 300
ROW_MARGINS = 3  # cells around a row: two of air, the scroll bar


@dataclass(frozen=True)
class Row:
    """One thing to choose: `id` is what it is, the filter checks `title` and `more`, `detail` is the dim line, and
    `right` ends the first one. Rows of one `group` are under its name while nothing is typed."""

    id: str
    title: str
    detail: str = ""
    mark: str = " "
    more: str = ""
    warning: str = ""
    right: str = ""
    group: str = ""

    @property
    def searched(self) -> str:
        return f"{self.title} {self.more}" if self.more else self.title

    def prompt(self, found: Sequence[int] = (), width: int = 0) -> Content:
        """Return the row as shown in `width` cells; `found` are the characters of the title that the filter met."""
        room = width - width_of(self.right) - len(self.mark) - 3
        title = Content(ellipsis(self.title, room) if self.right and room > 0 else self.title)
        for index in found:
            if index < len(title.plain):
                title = title.stylize("$text-accent underline", index, index + 1)
        gap = " " * max(2, width - width_of(title.plain) - width_of(self.right) - len(self.mark) - 1)
        right = (gap + self.right, "$foreground 70%") if self.right else ""
        lines = [Content.assemble((f"{self.mark} ", "$text-accent"), title, right)]
        if self.detail or self.warning:
            between = " · " if self.detail and self.warning else ""
            lines.append(
                Content.assemble("  ", (self.warning, "$text-warning"), (between + self.detail, "$foreground 70%"))
            )
        return Content("\n").join(lines)


@dataclass(frozen=True)
class Heading(Row):
    """The name of a group, which can't be chosen."""

    def prompt(self, found: Sequence[int] = (), width: int = 0) -> Content:
        return Content.styled(self.title, "$text-accent")


def grouped(rows: Sequence[Row]) -> list[Row]:
    """Return `rows` with a heading before each group."""
    found: list[Row] = []
    for index, row in enumerate(rows):
        if row.group and (index == 0 or rows[index - 1].group != row.group):
            found.append(Heading("", _(row.group)))
        found.append(row)
    return found


class PickerScreen(OverScreen[ResultT]):
    """Shows what `load` brings, filters it by what is typed, and calls `chosen` with a row.

    The line to type in has the focus; the arrow keys move in the list nevertheless. Tab goes over to the list, where
    the keys of one letter work (`letter_keys`), and any other letter comes back to the line.
    """

    CSS_PATH: ClassVar[Styles] = "../styles/picker.tcss"
    BINDINGS: ClassVar = [
        Binding("escape", "back", "Back", priority=True),
        Binding("up", "move('cursor_up')", "Up", show=False),
        Binding("down", "move('cursor_down')", "Down", show=False),
        Binding("pageup", "move('page_up')", "Page up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", show=False),
    ]
    around = 9
    heading: str
    fills: ClassVar[bool] = False  # the frame is as high as the screen, whatever is in it
    nothing: ClassVar[str] = N_("Nothing here yet.")
    keys: ClassVar[tuple[KeyHint, ...]]
    letter_keys: ClassVar[dict[str, str]] = {}

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__()
        self.runtime = runtime
        self.rows: list[Row] = []
        self.absence = "…"
        self.shown: list[Row] = []
        self._drawn_width = 0
        self.moved = False  # the user went through the list since something was typed
        self.search = FuzzySearch()

    @abstractmethod
    async def load(self) -> list[Row]:
        """Bring the rows. Called in a worker; a ClawbotError or OSError is shown in place of the list."""

    def chosen(self, row: Row) -> None:
        """Dismiss with what choosing `row` means: by default its id."""
        self.dismiss(cast("ResultT", row.id))

    def fixed_rows(self, query: str) -> list[Row]:
        """Return rows that are below the list whatever is typed."""
        return []

    def first_choice(self, query: str) -> int:
        """Return which of `shown` is highlighted after the list has changed."""
        return 0

    def side_widgets(self) -> list[Widget]:
        return []

    def compose(self) -> ComposeResult:
        with Vertical(id="frame"):
            with Horizontal(id="head"):
                yield Static("❯ ", id="title")
                yield Line(id="filter", compact=True, select_on_focus=False)
                yield Static(id="count")
            with Horizontal(id="body", classes="" if self.fills else "body"):
                yield OptionList(id="rows", markup=False)
                yield Static(id="note", markup=False)
                yield from self.side_widgets()
            yield KeyLine(self.keys)

    def on_mount(self) -> None:
        self.query_one("#filter", Line).changed = self._changed
        self.refilter()
        self.fetch()

    def on_resize(self, event: Resize) -> None:
        """Fit the rows to the screen; without a frame the heading is before the input."""
        self.set_class(self.fills, "-fills")
        self._entitle()
        self.call_after_refresh(self._redraw)

    def _redraw(self) -> None:
        """Align the right ends of the rows once the frame is rendered."""
        if not self.has_left and self._row_width != self._drawn_width and any(row.right for row in self.shown):
            current = self.current
            self.refilter()
            self.highlight(current.id if current else None)

    @property
    def _row_width(self) -> int:
        """Cells for a row. Of the body: a list that is empty is not laid out."""
        return self.query_one("#body").size.width - ROW_MARGINS

    def fetch(self, highlight: str | None = None) -> None:
        """Load the rows again, and highlight the one with this id."""
        self.run_worker(self._fetch(highlight), group="rows", exclusive=True)

    async def _fetch(self, highlight: str | None) -> None:
        try:
            self.rows = await self.load()
            self.absence = self.nothing
        except (ClawbotError, OSError) as error:
            self.absence = clean(f"{error}")
            self.add_class("-failed")
            self.notify(self.absence, severity="error")
        if self.has_left:
            return
        moved = self.current if self.moved else None
        self.refilter()
        self.highlight(highlight or (moved.id if moved else None))
        self.call_after_refresh(self._redraw)

    def highlight(self, row_id: str | None) -> None:
        for index, row in enumerate(self.shown):
            if row_id and row.id == row_id:
                self.list.highlighted = index

    @property
    def list(self) -> OptionList:
        return self.query_one("#rows", OptionList)

    @property
    def typed(self) -> str:
        return self.query_one("#filter", Input).value.strip()

    @property
    def current(self) -> Row | None:
        at = self.list.highlighted
        row = self.shown[at] if at is not None and at < len(self.shown) else None
        return None if isinstance(row, Heading) else row

    @property
    def is_settled(self) -> bool:
        """Whether the list answers what is typed: Enter chooses nothing else."""
        return True

    def _changed(self) -> None:
        self.moved = False
        self.typing()

    def typing(self) -> None:
        self.refilter()

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        """Return the rows that answer `query`, the best first, and the characters of their titles that it met."""
        found = [(hit, row) for row in self.rows if (hit := match(self.search, query, row.searched))]
        if query:
            found.sort(key=lambda pair: -pair[0][0])
        return [(row, positions) for (_, positions), row in found]

    def count(self, query: str, found: int) -> str:
        """Return the text at the right of the input when `found` rows answer `query`."""
        return _("{n:,} of {all:,}").format(n=found, all=len(self.rows)) if query else ""

    def refilter(self) -> None:
        query = self.typed
        found = self.matching(query)
        fixed = self.fixed_rows(query)
        width = self._drawn_width = self._row_width
        hits = {id(row): at for row, at in found}
        rows = [row for row, _ in found[:MAX_ROWS]]
        self.shown = [*(rows if query else grouped(rows)), *fixed]
        self.list.set_options(
            Option(row.prompt(hits.get(id(row), ()), width), disabled=isinstance(row, Heading)) for row in self.shown
        )
        self.set_class(not self.shown, "-empty")
        if self.shown:
            first = min(self.first_choice(query), len(self.shown) - 1)
            self.list.highlighted = first + isinstance(self.shown[first], Heading)
        else:
            self.query_one("#note", Static).update(
                _("Nothing matches “{query}”.").format(query=query) if query and self.rows else _(self.absence)
            )
        self.query_one("#count", Static).update(self.count(query, len(found)) if self.rows else "")
        total = f" · {len(self.rows):,}" if self.rows else ""
        self.query_one("#frame").border_title = f"{_(self.heading).capitalize()}{total}"
        self._entitle()

    def _entitle(self) -> None:
        self.query_one("#title", Static).update("❯ " if self.is_framed else f"{_(self.heading)} ❯ ")

    def on_key(self, event: KeyPress) -> None:
        """In the list: run the keys of one letter, and bring any other back to the line to type in."""
        typed = typed_text(event)
        if not self.list.has_focus or not typed:
            return
        event.stop()
        if action := self.letter_keys.get(typed):
            self.call_later(self.run_action, action)
        elif typed != " ":
            line = self.query_one("#filter", Line)
            line.focus()
            line.insert_text_at_cursor(typed)

    @on(Input.Submitted, "#filter")
    def action_choose(self) -> None:
        if self.current is not None and self.is_settled:
            self.chosen(self.current)

    @on(OptionList.OptionSelected, "#rows")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.chosen(self.shown[event.option_index])

    def action_type(self) -> None:
        self.query_one("#filter").focus()

    async def action_move(self, how: str) -> None:
        self.moved = True
        await self.list.run_action(how)
