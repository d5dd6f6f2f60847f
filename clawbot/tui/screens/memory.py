"""The search in the memory: answers while one types, each with its location, and the note around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding
from textual.events import Resize
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static

from clawbot.clock import Clock, SystemClock, and_more, weekday_of
from clawbot.errors import ClawbotError
from clawbot.memory.documents.days import date_of
from clawbot.memory.values import session_of
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.call_titles import speaker
from clawbot.tui.render.cards import took_words
from clawbot.tui.render.finding import marks
from clawbot.tui.screens.common import KeyHint, KeyLine
from clawbot.tui.screens.editor import EditorScreen, edit_external
from clawbot.tui.screens.passages import (
    END,
    NoteRow,
    PassagePicker,
    PassagePreview,
    SessionTarget,
    SpokenExcerpt,
    excerpt_at,
    passage,
)
from clawbot.tui.screens.picker import Row, Styles
from clawbot.tui.status_bar import REPORT_SECONDS, IndexingWatch, indexing_text

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from clawbot.api import RuntimeApi
    from clawbot.memory.values import Hit, Progress, SearchResult, Source

SLOW = 0.4  # seconds without an answer after which a word shows that the search runs
RESULTS = 30
RECENT = 30
# The preview is next to the list from so many columns on, else below it where there are so many lines.
SPLIT_WIDTH = 80
BELOW_HEIGHT = 24
ROW_MARGINS = 3  # columns of the list that no row has: its margins, and its scrollbar
NOTHING_YET = N_(
    "No notes yet.\n\nType “remember that …” in the conversation to write the first one,\n"
    "or /edit MEMORY.md to write it yourself."
)
MODES = {"hybrid": N_("hybrid"), "fts-only": N_("words only"), "vector-only": N_("meaning only")}
# A best score below which a search without a word in common has found nothing much.
WEAK = 0.62
BY_MEANING = N_("no note holds these words: what is nearest in meaning")
SEARCH_ERRORS = (ClawbotError, OSError)


@dataclass(frozen=True)
class SearchScope:
    """What is searched: its `name` ("" for everything), its `sources`, and the message when nothing fits."""

    name: str
    sources: tuple[Source, ...]
    absence: str


EVERYTHING = SearchScope("", ("memory", "sessions"), N_("Nothing is remembered about “{query}”."))
NOTES = SearchScope(N_("notes"), ("memory",), N_("No note says anything about “{query}”."))
CONVERSATIONS = SearchScope(N_("conversations"), ("sessions",), N_("Nothing was said about “{query}”."))
SCOPES = (EVERYTHING, NOTES, CONVERSATIONS)


@dataclass(frozen=True)
class SearchAnswer:
    """What came of a question: rows, or a word on why there are none. `result` and the `seconds` it took are those of
    a search."""

    rows: list[Row]
    absence: str
    failed: bool = False
    result: SearchResult | None = None
    seconds: float = 0.0


class MemoryScreen(PassagePicker):
    """Searches for what is typed, beginning with `query`. Enter opens a note in the editor, at its line.

    Dismisses with the target of the chosen hit if that was in a conversation, else with None.
    """

    CSS_PATH: ClassVar[Styles] = ["../styles/picker.tcss", "../styles/memory.tcss"]
    BINDINGS: ClassVar = [
        Binding("ctrl+t", "narrow", "Notes or conversations", show=False, priority=True),
        Binding("ctrl+b", "origin", "Its conversation", show=False, priority=True),
    ]
    heading = N_("memory")
    nothing = NOTHING_YET
    keys = (
        KeyHint("enter", N_("open at the line"), "screen.choose"),
        KeyHint("shift+↑ ↓", N_("read on"), "screen.preview_down"),
        KeyHint("ctrl+t", N_("notes, conversations"), "screen.narrow"),
        KeyHint("ctrl+b", N_("its conversation"), "screen.origin"),
        KeyHint("esc", N_("back"), "screen.back"),
    )

    def __init__(self, runtime: RuntimeApi, query: str = "", *, clock: Clock | None = None) -> None:
        super().__init__(runtime)
        self.first_query = query
        self.only = EVERYTHING
        self.excerpts: dict[str, SpokenExcerpt] = {}  # messages around hits
        self.clock = clock or SystemClock()
        self.notes: dict[str, str] = {}  # the texts that were read for these results
        self.gone: set[str] = set()  # deleted notes for which a new search was made
        self.answer = SearchAnswer([], "")
        self.asked = 0  # questions so far: an answer to another one than the last is late
        self.answered: str | None = None
        self.watch_index = IndexingWatch(self, runtime, self._indexing)
        self.progress: Progress | None = None
        self.generation = 0  # of the memory, before it was searched last
        self.again: Timer | None = None
        self.fitted = 0  # the room that the rows were made for

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if isinstance(widget, KeyLine):
                yield Static(id="status", markup=False)
            yield widget

    def on_mount(self) -> None:
        """Begin with the query that the screen was opened with; the picker's own start follows."""
        self.query_one("#filter", Input).value = self.first_query
        self.watch_index.start()

    def on_unmount(self) -> None:
        self.watch_index.stop()

    def on_resize(self, event: Resize) -> None:
        narrow = event.size.width < SPLIT_WIDTH
        self.set_class(narrow, "-narrow")
        self.set_class(narrow and event.size.height < BELOW_HEIGHT, "-low")
        self.call_after_refresh(self._refit)

    # Searching

    @property
    def typed(self) -> str:
        """The query. A blank at its end counts: the last word is complete then."""
        return self.query_one("#filter", Input).value.lstrip()

    @property
    def is_settled(self) -> bool:
        return self.answered == self.typed

    def typing(self) -> None:
        self.search_at_pause(None if self.is_settled and self.asked else self.fetch)

    def fetch(self, highlight: str | None = None, instead: str | None = None) -> None:
        """Search for what is typed; a search that still runs is given up. `instead` is highlighted when there is no
        `highlight` any more."""
        self.asked += 1
        self.generation = self.runtime.memory.generation
        self.run_worker(self._ask(self.typed, self.asked, (instead, highlight)), group="rows", exclusive=True)

    async def _ask(self, query: str, number: int, highlights: Sequence[str | None]) -> None:
        slow = self.set_timer(SLOW, lambda: self._show_slow(number))
        try:
            answer = await self._search(query) if query else SearchAnswer(await self.load(), self.nothing)
        except SEARCH_ERRORS as error:
            answer = SearchAnswer([], clean(f"{error}"), failed=True)
        finally:
            slow.stop()
        if number != self.asked or self.has_left:
            return
        if query != self.answered:
            self.gone.clear()
        self.answer, self.answered = answer, query
        self.rows, self.absence = answer.rows, answer.absence
        self.notes.clear()
        self.excerpts.clear()
        self.set_class(answer.failed, "-failed")
        self.refilter()
        for highlight in highlights:
            self.highlight(highlight)
        self._show_status()
        self._schedule_refresh()

    def _show_slow(self, number: int) -> None:
        if number == self.asked:
            self.query_one("#count", Static).update(_("searching …"))

    async def _search(self, query: str) -> SearchAnswer:
        started = self.clock.monotonic()
        result = await self.runtime.memory.search(query, RESULTS, self.only.sources)
        seconds = self.clock.monotonic() - started
        rows: list[Row] = [self._row(hit, query) for hit in result.hits]
        absence = _(self.only.absence).format(query=clean_line(query).strip())
        return SearchAnswer(rows, absence, result=result, seconds=seconds)

    async def load(self) -> list[Row]:
        """Return the notes to read in when nothing is typed: the last days first."""
        names = [name for name in await self.runtime.workspace.files() if is_note(name)]
        days = {name: date_of(name) or date.min for name in names}
        names.sort(key=lambda name: days[name], reverse=True)
        return [NoteRow(name, clean_line(name), self._day(name), path=name) for name in names[:RECENT]]

    def _row(self, hit: Hit, query: str) -> NoteRow:
        turn, ended = hit.said, _("ended {day}").format(day=hit.ended) if hit.ended else ""
        who = "" if turn is None else f"{speaker(turn.who, turn.by)}, {self._date(turn.at.date())} {turn.at:%H:%M}"
        return NoteRow(
            id=f"{hit.path}:{hit.start_line}-{hit.end_line}",
            title=who or f"{clean_line(hit.path)}:{hit.start_line}",
            detail="  ".join(filter(None, (self._day(hit.path), and_more(hit.more) if hit.more else "", ended))),
            entry=turn.entry if turn is not None else "",
            path=hit.path,
            first=hit.start_line,
            last=hit.end_line,
            line=hit.line or hit.start_line,
            snippet=hit.snippet,
            query=query,
            score=hit.score,
            is_session=hit.source == "sessions",
        )

    def _day(self, path: str) -> str:
        day = date_of(path)
        return "" if day is None else self._date(day)

    def _date(self, day: date) -> str:
        return weekday_of(day, with_year=day.year != self.clock.now().year)

    # What is shown

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        self.fitted = room = self.room
        return [(replace(row, room=room) if isinstance(row, NoteRow) else row, ()) for row in self.rows]

    @property
    def room(self) -> int:
        """Return the columns of a row, inside of the list's margins and its scrollbar; 0 before there is a list."""
        return max(0, self.list.outer_size.width - ROW_MARGINS)

    def _refit(self) -> None:
        if self.room != self.fitted and self.shown:
            row = self.current
            self.refilter()
            self.highlight(row.id if row else None)
        self.query_one(PassagePreview).reveal()

    def count(self, query: str, found: int) -> str:
        if self.answer.result is None:
            return _("the last notes")
        milliseconds = round(self.answer.seconds * 1000)
        only = f" · {_(self.only.name)}" if self.only.name else ""
        results = ngettext("{n:,} result", "{n:,} results", found).format(n=found)
        return f"{results} · {took_words(milliseconds)} · {_(MODES[self.answer.result.mode])}{only}"

    def _indexing(self, progress: Progress | None) -> None:
        self.progress = progress
        self._show_status()
        self._schedule_refresh()

    def _schedule_refresh(self) -> None:
        """Search again when there may be something else to find than this answer; after a while, since files that are
        written all the time would change the list all the time."""
        if self.again is None and self.runtime.memory.generation != self.generation:
            self.again = self.set_timer(REPORT_SECONDS, self._search_again)

    def _search_again(self) -> None:
        self.again = None
        if self.is_settled and self.runtime.memory.generation != self.generation:
            self.fetch(self.current.id if self.current else None)

    def _show_status(self) -> None:
        parts = status_parts(self.answer.result, self.progress)
        if is_by_meaning(self.answer.result, self.answered or ""):
            parts.append(BY_MEANING)
        self.query_one("#status", Static).update(" · ".join(parts))

    # The preview

    @on(OptionList.OptionHighlighted, "#rows")
    def show_preview(self) -> None:
        row = self.current
        if isinstance(row, NoteRow) and _key(row) not in self.notes:
            self.read_at_rest(lambda: self._read(row))
            return
        self.read_at_rest(None)
        if isinstance(row, NoteRow):
            self._show(row)

    @work(group="preview", exclusive=True)
    async def _read(self, row: NoteRow) -> None:
        failed = False
        try:
            text = await self._excerpt(row) if row.is_session else await self.runtime.memory.text(row.path)
        except SEARCH_ERRORS as error:
            text, failed = "", True
            self.notify(clean(f"{error}"), title=_("Not read"), severity="warning")
        if self.has_left:
            return
        self.notes[_key(row)] = text
        if not text and not failed and not row.is_session:
            self._lost(row)
        self._show(row)

    async def _excerpt(self, row: NoteRow) -> str:
        """Return the messages around the hit of `row`, each with its speaker; "" if they can't be found. Raises
        OSError."""
        found = excerpt_at(await self.runtime.sessions.around(row.path, row.entry), row.entry) if row.entry else None
        if found is None:
            return ""
        self.excerpts[row.id] = found
        return found.text

    def _lost(self, row: NoteRow) -> None:
        """Search again, once, for a note that was deleted since, and keep the position in the list."""
        if row.path in self.gone or not row.last or not self.is_settled:
            return
        self.gone.add(row.path)
        kept = [each.id for each in self.shown if not each.id.startswith(f"{row.path}:")]
        above = sum(each.id in kept for each in self.shown[: self.list.highlighted])
        self.fetch(row.id, instead=kept[min(above, len(kept) - 1)] if kept else None)

    def _show(self, row: NoteRow) -> None:
        if self.current != row:
            return
        text, first, last = self.excerpts.get(row.id, (self.notes[_key(row)], row.first, row.last))
        shown = passage(text, first, last) if text else passage(row.snippet, 1, END)
        self.query_one(PassagePreview).show_passage(shown, row.query)
        self.set_class(not row.last, "-full")

    def action_narrow(self) -> None:
        self.only = SCOPES[(SCOPES.index(self.only) + 1) % len(SCOPES)]
        self.heading = self.only.name or type(self).heading
        self.answered = None
        self.typing()

    # Choosing

    def chosen(self, row: Row) -> None:
        """Open the note in the editor at its line, or the conversation at its message."""
        if isinstance(row, NoteRow) and row.is_session:
            target = SessionTarget(session_of(row.path), row.entry, row.query)
            self.dismiss(target if row.entry or target.session != self.runtime.agent.status.session_id else None)
        elif isinstance(row, NoteRow):
            self._edit(row)

    def action_origin(self) -> None:
        if isinstance(row := self.current, NoteRow) and not row.is_session:
            self._go_to_origin(row)

    @work(group="origin", exclusive=True)
    async def _go_to_origin(self, row: NoteRow) -> None:
        """Open the conversation in which a line of a note was made, at its message."""
        try:
            author = await self.runtime.sessions.author(row.path, row.line)
        except SEARCH_ERRORS as error:
            self.notify(clean(f"{error}"), title=_("Not read"), severity="warning")
            return
        if self.has_left:
            return
        if author is None or not author.session:
            known = author is not None and author.by == "user"
            self.notify(_("You wrote this line.") if known else _("No conversation is known to have made this line."))
            return
        if author.guess:
            self.notify(_("A guess: no record names the conversation of this line."))
        self.dismiss(SessionTarget(author.session, author.entry, row.query))

    @work(group="edit", exclusive=True)
    async def _edit(self, row: NoteRow) -> None:
        """Open a note outside the workspace (an extra path of the settings) in the user's own editor."""
        if row.path.startswith(("../", "/")):
            changed = await edit_external(self.app, self.runtime.agent.status.workspace / row.path, row.first)
        else:
            changed = await self.app.push_screen_wait(EditorScreen(self.runtime, row.path, row.first)) or False
        if changed:
            self.fetch(row.id)


def _key(row: NoteRow) -> str:
    """Return the key of the text of a row's preview: all hits in a note share one."""
    return row.id if row.is_session else row.path


def is_note(name: str) -> bool:
    """Return whether a workspace file is one that the agent keeps notes in."""
    return name.endswith(".md") and (name.startswith("memory/") or name.lower() == "memory.md")


def is_by_meaning(result: SearchResult | None, query: str) -> bool:
    """Return whether a search found no word of `query`, and nothing else that speaks for a hit, such as its day."""
    if result is None or not result.hits or result.mode == "fts-only" or result.hits[0].score >= WEAK:
        return False
    return not any(marks(query, hit.snippet) for hit in result.hits)


def status_parts(result: SearchResult | None, progress: Progress | None) -> list[str]:
    """Return the status of the search: what it could not use, what is missing, how far the index is."""
    parts = [indexing_text(progress)] if progress is not None else []
    if result is not None:
        if result.fallback is not None:
            words = _("words only")
            if result.mode != "fts-only":
                words = _("{backend} is not used").format(backend=result.fallback.from_)
            away = result.fallback.since is not None
            parts.append(result.fallback.in_words if away else f"{words}: {_(result.fallback.reason)}")
        if result.partial:
            parts.append(_("not everything was searched"))
        parts += result.warnings
    return list(dict.fromkeys(clean_line(_(part)) for part in parts))
