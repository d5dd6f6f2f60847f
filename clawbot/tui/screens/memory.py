"""The search in the memory: answers while one types, each with its place, and the note around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from clawbot.clock import Clock, SystemClock
from clawbot.errors import ClawbotError
from clawbot.memory.documents.memory_files import date_of
from clawbot.tui.indexing import TOLD_EVERY, IndexingWatch, indexing_text
from clawbot.tui.render.sanitize import clean, clean_line
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.screens.external import edit_external
from clawbot.tui.screens.marking import marks
from clawbot.tui.screens.note_row import NoteRow
from clawbot.tui.screens.parts import Key, KeyLine, plural
from clawbot.tui.screens.passages import WHOLE, marked, passage
from clawbot.tui.screens.picker import PickerScreen, Row, Styles
from clawbot.tui.transcript import took

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from clawbot.memory.values import Hit, Progress, SearchResult
    from clawbot.runtime import Runtime

# A search begins when the typing pauses for so long, in seconds; so does the reading of a note when the list rests.
SEARCH_DELAY = 0.12
PREVIEW_DELAY = 0.08
SLOW = 0.4  # seconds without an answer after which a word says that the search runs
RESULTS = 30
RECENT = 30
# The preview stands beside the list from so many columns on, else below it where there are so many lines.
BESIDE_WIDTH = 80
BELOW_HEIGHT = 24
ROW_MARGINS = 3  # columns of the list that no row has: its margins, and its scrollbar
LINES_ABOVE = 3  # of the note, in view over the place
NOTHING_YET = "Nothing is remembered yet. Notes are Markdown files: MEMORY.md, and one a day in memory/."
MODES = {"hybrid": "hybrid", "fts-only": "words only", "vector-only": "meaning only"}
# A best score below which a search without a word in common has found nothing much.
WEAK = 0.3
BY_MEANING = "no note holds these words: what is nearest in meaning"
SEARCH_ERRORS = (ClawbotError, OSError)


@dataclass(frozen=True)
class Answer:
    """What came of a question: rows, or a word on why there are none. `result` and the `seconds` it took are those of
    a search."""

    rows: list[Row]
    absence: str
    failed: bool = False
    result: SearchResult | None = None
    seconds: float = 0.0


class MemoryScreen(PickerScreen[str]):
    """Searches for what is typed, beginning with `query`. Enter opens a note in the editor, at its line.

    Gives back the id of a session when the place that was chosen was said in another conversation, else None.
    """

    CSS_PATH: ClassVar[Styles] = ["../styles/picker.tcss", "../styles/memory.tcss"]
    BINDINGS: ClassVar = [
        Binding("shift+up", "preview_up", "Preview up", show=False),
        Binding("shift+down", "preview_down", "Preview down", show=False),
    ]
    heading = "memory"
    nothing = NOTHING_YET
    keys = (
        Key("enter", "open at the line", "screen.choose"),
        Key("shift+↑ ↓", "read on", "screen.preview_down"),
        Key("esc", "back", "screen.back"),
    )

    def __init__(self, runtime: Runtime, query: str = "", *, clock: Clock | None = None) -> None:
        super().__init__()
        self.runtime = runtime
        self.first_query = query
        self.clock = clock or SystemClock()
        self.notes: dict[str, str] = {}  # the texts that were read for these results
        self.gone: set[str] = set()  # notes that were searched for anew because they are no more
        self.answer = Answer([], "")
        self.asked = 0  # questions so far: an answer to another one than the last is late
        self.answered: str | None = None
        self.pause: Timer | None = None
        self.resting: Timer | None = None
        self.watch_index = IndexingWatch(self, runtime, self._indexing)
        self.progress: Progress | None = None
        self.generation = 0  # of the memory, before it was searched last
        self.again: Timer | None = None
        self.fitted = 0  # the room that the rows were made for

    def compose(self) -> ComposeResult:
        """The picker, and over its keys a line for what the search has to say."""
        for widget in super().compose():
            if isinstance(widget, KeyLine):
                yield Static(id="told", markup=False)
            yield widget

    def beside(self) -> list[Widget]:
        """The preview: the place, and dimmer what stands around it."""
        parts = [Static(id=name, markup=False) for name in ("before", "place", "after")]
        return [VerticalScroll(*parts, id="preview", can_focus=False)]

    def on_mount(self) -> None:
        """Begin with the query that the screen was opened with; the picker's own start follows."""
        self.query_one("#filter", Input).value = self.first_query
        self.watch_index.start()

    def on_unmount(self) -> None:
        """The index may go on; nobody looks."""
        self.watch_index.stop()

    def on_resize(self, event: Resize) -> None:
        """The preview goes where there is room for it."""
        narrow = event.size.width < BESIDE_WIDTH
        self.set_class(narrow, "-narrow")
        self.set_class(narrow and event.size.height < BELOW_HEIGHT, "-low")
        self.call_after_refresh(self._refit)

    # Searching

    @property
    def typed(self) -> str:
        """What is typed. A blank at its end counts: the last word is whole then."""
        return self.query_one("#filter", Input).value.lstrip()

    @property
    def is_settled(self) -> bool:
        """Whether the rows answer what is typed."""
        return self.answered == self.typed

    def typing(self) -> None:
        """Search when the typing pauses."""
        if self.pause is not None:
            self.pause.stop()
        self.pause = None if self.is_settled and self.asked else self.set_timer(SEARCH_DELAY, self.fetch)

    def fetch(self, highlight: str | None = None, instead: str | None = None) -> None:
        """Search for what is typed; a search that still runs is given up. `instead` is highlighted when there is no
        `highlight` any more."""
        self.asked += 1
        self.generation = self.runtime.memory_generation
        self.run_worker(self._ask(self.typed, self.asked, (instead, highlight)), group="rows", exclusive=True)

    async def _ask(self, query: str, number: int, highlights: Sequence[str | None]) -> None:
        slow = self.set_timer(SLOW, lambda: self._say_slow(number))
        try:
            answer = await (self._search(query) if query else self._last_notes())
        except SEARCH_ERRORS as error:
            answer = Answer([], clean(f"{error}"), failed=True)
        finally:
            slow.stop()
        if number != self.asked or self.has_left:
            return
        if query != self.answered:
            self.gone.clear()
        self.answer, self.answered = answer, query
        self.rows, self.absence = answer.rows, answer.absence
        self.notes.clear()
        self.set_class(answer.failed, "-failed")
        self.refilter()
        for highlight in highlights:
            self.highlight(highlight)
        self._tell()
        self._look_again()

    def _say_slow(self, number: int) -> None:
        """The search runs longer than one likes; nothing is said of one that was given up."""
        if number == self.asked:
            self.query_one("#count", Static).update("searching …")

    async def _search(self, query: str) -> Answer:
        started = self.clock.monotonic()
        result = await self.runtime.search_memory(query, RESULTS)
        seconds = self.clock.monotonic() - started
        rows: list[Row] = [self._row(hit, query) for hit in result.hits]
        absence = f"Nothing is remembered about “{clean_line(query).strip()}”."
        return Answer(rows, absence, result=result, seconds=seconds)

    async def _last_notes(self) -> Answer:
        return Answer(await self.load(), self.nothing)

    async def load(self) -> list[Row]:
        """The notes to read in when nothing is typed: the last days first."""
        names = [name for name in await self.runtime.workspace_files() if is_note(name)]
        days = {name: date_of(name) or date.min for name in names}
        names.sort(key=lambda name: days[name], reverse=True)
        return [NoteRow(name, clean_line(name), self._day(name), path=name) for name in names[:RECENT]]

    def _row(self, hit: Hit, query: str) -> NoteRow:
        return NoteRow(
            id=f"{hit.path}:{hit.start_line}-{hit.end_line}",
            title=f"{clean_line(hit.path)}:{hit.start_line}",
            detail=self._day(hit.path),
            path=hit.path,
            first=hit.start_line,
            last=hit.end_line,
            snippet=hit.snippet,
            query=query,
            score=hit.score,
            is_session=hit.source == "sessions",
        )

    def _day(self, path: str) -> str:
        day = date_of(path)
        if day is None:
            return ""
        year = "" if day.year == self.clock.now().year else f" {day.year}"
        return f"{day:%a} {day.day} {day:%b}{year}"

    # What is shown

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        """All rows: the search has chosen them."""
        self.fitted = room = self.room
        return [(replace(row, room=room) if isinstance(row, NoteRow) else row, ()) for row in self.rows]

    @property
    def room(self) -> int:
        """The columns of a row, inside of the list's margins and beside its scrollbar; 0 before there is a list."""
        return max(0, self.list.outer_size.width - ROW_MARGINS)

    def _refit(self) -> None:
        """The screen has another size."""
        if self.room != self.fitted and self.shown:
            row = self.current
            self.refilter()
            self.highlight(row.id if row else None)
        self._show_place()

    def count(self, query: str, found: int) -> str:
        """How many, how fast, and how they were found."""
        if self.answer.result is None:
            return "the last notes"
        milliseconds = round(self.answer.seconds * 1000)
        return f"{plural(found, 'result')} · {took(milliseconds)} · {MODES[self.answer.result.mode]}"

    def _indexing(self, progress: Progress | None) -> None:
        """The index has come further, or rests."""
        self.progress = progress
        self._tell()
        self._look_again()

    def _look_again(self) -> None:
        """Search anew when there may be something else to find than this answer; after a while, since files that are
        written all the time would keep the list from resting."""
        if self.again is None and self.runtime.memory_generation != self.generation:
            self.again = self.set_timer(TOLD_EVERY, self._search_again)

    def _search_again(self) -> None:
        self.again = None
        if self.is_settled and self.runtime.memory_generation != self.generation:
            self.fetch(self.current.id if self.current else None)

    def _tell(self) -> None:
        parts = told(self.answer.result, self.progress)
        if is_by_meaning(self.answer.result, self.answered or ""):
            parts.append(BY_MEANING)
        self.query_one("#told", Static).update(" · ".join(parts))

    # The preview

    @on(OptionList.OptionHighlighted, "#rows")
    def show_preview(self) -> None:
        """Show the note of the highlighted row, as soon as the list rests there."""
        if self.resting is not None:
            self.resting.stop()
        row = self.current
        if not isinstance(row, NoteRow):
            return
        if row.path in self.notes:
            self._show(row)
        else:
            self.resting = self.set_timer(PREVIEW_DELAY, lambda: self._read_later(row))

    def _read_later(self, row: NoteRow) -> None:
        self.run_worker(self._read(row), group="preview", exclusive=True)

    async def _read(self, row: NoteRow) -> None:
        """Fetch the text of the note; a transcript is shown by its snippet alone, since its file is no prose."""
        failed = False
        try:
            text = "" if row.is_session else await self.runtime.read_memory(row.path)
        except SEARCH_ERRORS as error:
            text, failed = "", True
            self.notify(clean(f"{error}"), title="Not read", severity="warning", markup=False)
        if self.has_left:
            return
        self.notes[row.path] = text
        if not text and not failed and not row.is_session:
            self._lost(row)
        self._show(row)

    def _lost(self, row: NoteRow) -> None:
        """The note was deleted since it was found: search anew, once, and stay where the list is."""
        if row.path in self.gone or not row.last or not self.is_settled:
            return
        self.gone.add(row.path)
        kept = [each.id for each in self.shown if not each.id.startswith(f"{row.path}:")]
        above = sum(each.id in kept for each in self.shown[: self.list.highlighted])
        self.fetch(row.id, instead=kept[min(above, len(kept) - 1)] if kept else None)

    def _show(self, row: NoteRow) -> None:
        if self.current != row:
            return
        text = self.notes[row.path]
        shown = passage(text, row.first, row.last) if text else passage(row.snippet, 1, WHOLE)
        self.query_one("#before", Static).update(Content(shown.before))
        self.query_one("#place", Static).update(marked(row.query, shown.place, "$foreground"))
        self.query_one("#after", Static).update(Content(shown.after))
        for name, part in (("#before", shown.before), ("#place", shown.place), ("#after", shown.after)):
            self.query_one(name).display = bool(part)
        self.set_class(not row.last, "-whole")
        self.call_after_refresh(self._show_place)

    def _show_place(self) -> None:
        """Scroll to the place, with a few lines over it."""
        line = self.query_one("#place").virtual_region.y
        self.query_one("#preview").scroll_to(y=max(0, line - LINES_ABOVE), animate=False, force=True)

    def action_preview_up(self) -> None:
        """Look further up in the note."""
        self.query_one("#preview").scroll_page_up(animate=False)

    def action_preview_down(self) -> None:
        """Look further down in the note."""
        self.query_one("#preview").scroll_page_down(animate=False)

    # Choosing

    def chosen(self, row: Row) -> None:
        """Open the note in the editor at its line; what was said in a conversation is read there."""
        if isinstance(row, NoteRow) and row.is_session:
            session = session_of(row.path)
            self.dismiss(None if session == self.runtime.status.session_id else session)
        elif isinstance(row, NoteRow):
            self.run_worker(self._edit(row), group="edit", exclusive=True)

    async def _edit(self, row: NoteRow) -> None:
        """A note outside the workspace (an extra path of the settings) is for the user's own editor."""
        if is_outside(row.path):
            changed = await edit_external(self.app, self.runtime.status.workspace / row.path, row.first)
        else:
            changed = await self.app.push_screen_wait(EditorScreen(self.runtime, row.path, row.first)) or False
        if changed:
            self.fetch(row.id)


def is_note(name: str) -> bool:
    """Whether a workspace file is one that the agent keeps notes in."""
    return name.endswith(".md") and (name.startswith("memory/") or name.lower() == "memory.md")


def is_outside(path: str) -> bool:
    """Whether a path of the index leads out of the workspace."""
    return path.startswith(("../", "/"))


def session_of(path: str) -> str:
    """The id of the session whose transcript is at `path`."""
    return PurePosixPath(path).name.partition(".")[0]


def is_by_meaning(result: SearchResult | None, query: str) -> bool:
    """Whether a search found no word of `query`, and nothing else that speaks for a place, such as its day."""
    if result is None or not result.hits or result.mode == "fts-only" or result.hits[0].score >= WEAK:
        return False
    return not any(marks(query, hit.snippet) for hit in result.hits)


def told(result: SearchResult | None, progress: Progress | None) -> list[str]:
    """What the search has to say about itself: what it could not use, what is missing, how far the index is."""
    parts = [indexing_text(progress)] if progress is not None else []
    if result is not None:
        if result.fallback is not None:
            words = "words only" if result.mode == "fts-only" else f"{result.fallback.from_} is not used"
            parts.append(f"{words}: {result.fallback.reason}")
        if result.partial:
            parts.append("time was up before everything was searched")
        parts += result.notes
    return list(dict.fromkeys(clean_line(part) for part in parts))
