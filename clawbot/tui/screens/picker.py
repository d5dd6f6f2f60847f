"""A list to choose from: a line to filter it by (every word must occur, or else its letters in order), the rows below,
the keys at the bottom."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Key as KeyPress
from textual.fuzzy import FuzzySearch
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from clawbot.errors import ClawbotError
from clawbot.text.sanitize import clean
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

# The fuzzy search tries every way to lay the letters into the text; beyond this many it is left out, so that a key
# press never waits for it.
MAX_WAYS = 5_000


def match(search: FuzzySearch, query: str, text: str) -> tuple[float, Sequence[int]] | None:
    """How well `text` answers `query`, and where its letters are; None: a word of the query is not in it.

    A higher score is better. An empty query matches everything alike.
    """
    score, offsets = 0.0, set[int]()
    folded = text.lower()
    for word in query.lower().split():
        if word not in folded and _ways(word, folded) > MAX_WAYS:
            return None
        found, at = search.match(word, text)
        if not found:
            return None
        score += found
        offsets.update(at)
    return score, sorted(offsets)


def _ways(word: str, text: str) -> int:
    """An upper bound of the ways in which the letters of `word` can be laid into `text`."""
    return math.prod(text.count(letter) for letter in word)


ResultT = TypeVar("ResultT")
Styles = str | PurePath | list[str | PurePath] | None

# A list is laid out row by row on every key press: more than a person looks through would make typing wait.
MAX_ROWS = 300


@dataclass(frozen=True)
class Row:
    """One thing to choose: `id` is what it is, the filter looks at `title` and `more`, `detail` is the dim line."""

    id: str
    title: str
    detail: str = ""
    mark: str = " "
    more: str = ""
    warning: str = ""

    @property
    def searched(self) -> str:
        """What the filter looks at."""
        return f"{self.title} {self.more}" if self.more else self.title

    def prompt(self, found: Sequence[int] = ()) -> Content:
        """The row as it is shown; `found` are the places of the title that the filter met."""
        title = Content(self.title)
        for place in found:
            if place < len(self.title):
                title = title.stylize("$text-accent underline", place, place + 1)
        lines = [Content.assemble((f"{self.mark} ", "$text-accent"), title)]
        if self.detail or self.warning:
            between = " · " if self.detail and self.warning else ""
            lines.append(
                Content.assemble("  ", (self.warning, "$text-warning"), (between + self.detail, "$foreground 60%"))
            )
        return Content("\n").join(lines)


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
    heading: ClassVar[str]
    nothing: ClassVar[str] = "Nothing here yet."
    keys: ClassVar[tuple[KeyHint, ...]]
    letter_keys: ClassVar[dict[str, str]] = {}

    def __init__(self, runtime: RuntimeApi) -> None:
        super().__init__()
        self.runtime = runtime
        self.rows: list[Row] = []
        self.absence = "…"
        self.shown: list[Row] = []
        self.search = FuzzySearch()

    @abstractmethod
    async def load(self) -> list[Row]:
        """Bring the rows. Called in a worker; a ClawbotError or OSError is shown in place of the list."""

    @abstractmethod
    def chosen(self, row: Row) -> None:
        """Do what choosing `row` means."""

    def fixed_rows(self, query: str) -> list[Row]:
        """Rows that stand below the list whatever is typed."""
        return []

    def first_choice(self, query: str) -> int:
        """Which of `shown` is highlighted after the list has changed."""
        return 0

    def beside(self) -> list[Widget]:
        """What stands to the right of the list."""
        return []

    def compose(self) -> ComposeResult:
        """The filter, the list and what is beside it, the keys."""
        with Horizontal(id="head"):
            yield Static(f"{self.heading} ❯ ", id="title")
            yield Input(id="filter", compact=True)
            yield Static(id="count")
        with Horizontal(id="body"):
            yield OptionList(id="rows", markup=False)
            yield Static(id="note", markup=False)
            yield from self.beside()
        yield KeyLine(self.keys)

    def on_mount(self) -> None:
        """Fetch the rows without holding up what is typed."""
        self.query_one("#filter").focus()
        self.refilter()
        self.fetch()

    def fetch(self, highlight: str | None = None) -> None:
        """Bring the rows anew, and highlight the one with this id."""
        self.run_worker(self._fetch(highlight), group="rows", exclusive=True)

    async def _fetch(self, highlight: str | None) -> None:
        try:
            self.rows = await self.load()
            self.absence = self.nothing
        except (ClawbotError, OSError) as error:
            self.absence = clean(f"{error}")
            self.add_class("-failed")
            self.notify(self.absence, severity="error", markup=False)
        if self.has_left:
            return
        self.refilter()
        self.highlight(highlight)

    def highlight(self, row_id: str | None) -> None:
        """Highlight the row with this id, when it is there."""
        for index, row in enumerate(self.shown):
            if row.id == row_id:
                self.list.highlighted = index

    @property
    def list(self) -> OptionList:
        """The list."""
        return self.query_one("#rows", OptionList)

    @property
    def typed(self) -> str:
        """What stands in the line to type in."""
        return self.query_one("#filter", Input).value.strip()

    @property
    def current(self) -> Row | None:
        """The highlighted row."""
        at = self.list.highlighted
        return self.shown[at] if at is not None and at < len(self.shown) else None

    @property
    def is_settled(self) -> bool:
        """Whether the list answers what is typed: Enter chooses nothing else."""
        return True

    @on(Input.Changed, "#filter")
    def _changed(self) -> None:
        self.typing()

    def typing(self) -> None:
        """Something was typed: the list follows."""
        self.refilter()

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        """The rows that answer `query`, the best first, and the places of their titles that it met."""
        found = [(hit, row) for row in self.rows if (hit := match(self.search, query, row.searched))]
        if query:
            found.sort(key=lambda pair: -pair[0][0])
        return [(row, places) for (_, places), row in found]

    def count(self, query: str, found: int) -> str:
        """What stands at the right of the line to type in, when `found` rows answer `query`."""
        return f"{found:,} of {len(self.rows):,}" if query else f"{len(self.rows):,}"

    def refilter(self) -> None:
        """Show the rows that answer what is typed."""
        query = self.typed
        found = self.matching(query)
        fixed = self.fixed_rows(query)
        self.shown = [row for row, _ in found[:MAX_ROWS]] + fixed
        prompts = [row.prompt(places) for row, places in found[:MAX_ROWS]] + [row.prompt() for row in fixed]
        self.list.set_options(prompts)
        self.set_class(not self.shown, "-empty")
        if self.shown:
            self.list.highlighted = min(self.first_choice(query), len(self.shown) - 1)
        else:
            self.query_one("#note", Static).update(
                f"Nothing matches “{query}”." if query and self.rows else self.absence
            )
        self.query_one("#count", Static).update(self.count(query, len(found)) if self.rows else "")

    def on_key(self, event: KeyPress) -> None:
        """In the list: run the keys of one letter, and bring any other back to the line to type in."""
        if not self.list.has_focus or not event.is_printable or event.character is None:
            return
        event.stop()
        if action := self.letter_keys.get(event.character):
            self.call_later(self.run_action, action)
        elif event.character != " ":
            line = self.query_one("#filter", Input)
            line.focus()
            line.insert_text_at_cursor(event.character)

    @on(Input.Submitted, "#filter")
    def action_choose(self) -> None:
        """Choose the highlighted row."""
        if self.current is not None and self.is_settled:
            self.chosen(self.current)

    @on(OptionList.OptionSelected, "#rows")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.chosen(self.shown[event.option_index])

    async def action_move(self, how: str) -> None:
        """Move in the list while the focus is in the line to type in."""
        await self.list.run_action(how)

    def action_back(self) -> None:
        """Leave without a choice."""
        self.dismiss(None)
