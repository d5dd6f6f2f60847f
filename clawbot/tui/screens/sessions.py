"""The earlier conversations: which there are, how each ended, its last messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import Input, OptionList, Static

from clawbot.clock import Clock, SystemClock, age
from clawbot.errors import ClawbotError
from clawbot.memory.values import session_of
from clawbot.messages import AssistantMessage, BashExecutionMessage, UserMessage
from clawbot.sessions.summary import MAX_TITLE_CHARS, ended_words
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.finding import marks
from clawbot.tui.render.lines import short
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen, day_group, turns
from clawbot.tui.screens.passages import (
    PassagePicker,
    PassagePreview,
    SessionTarget,
    SpokenExcerpt,
    excerpt_at,
    passage,
    snippet_start,
)
from clawbot.tui.screens.picker import Row, Styles
from clawbot.tui.widgets.fields import Line

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.memory.values import Hit
    from clawbot.sessions.conversation import HistoryItem
    from clawbot.sessions.summary import SessionSummary

# A preview shows the drift of the conversation, not all of it.
PREVIEW_MESSAGES = 20
PREVIEW_CHARS = 600
# Below this many columns the list needs them all.
PREVIEW_WIDTH = 70
RESULTS = 30
QUIET = "$foreground 70%"
WIDTH = 60  # cells of a preview that is not laid out yet
# What of the page's palette a preview shows.
STYLES = {
    "strong": "bold",
    "em": "italic",
    "strike": "strike",
    "heading": "bold",
    "code": "$foreground 80%",
    "code-inline": "$text-accent",
    "link": "underline",
    "note": "$text-accent",
}


class TitleScreen(OverScreen[str]):
    """Asks for the title of a session, which is `title` now. Dismisses with it, "" to remove it, or None."""

    CSS_PATH = "../styles/models.tcss"
    BINDINGS: ClassVar = [Binding("escape", "back", "Back", priority=True)]

    def __init__(self, title: str) -> None:
        super().__init__()
        self.now = title

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = _("Title")
            yield Static(_("Title"), id="title")
            yield Line(self.now, compact=True, max_length=MAX_TITLE_CHARS, id="key")
            yield KeyLine([KeyHint("enter", N_("save"), "screen.take"), KeyHint("esc", N_("back"), "screen.back")])

    @on(Input.Submitted, "#key")
    def action_take(self) -> None:
        self.dismiss(self.query_one("#key", Input).value.strip())


class SessionsScreen(PassagePicker):
    """Dismisses with the session to go on with and the entry in it that answers the query, or None."""

    CSS_PATH: ClassVar[Styles] = ["../styles/picker.tcss", "../styles/sessions.tcss"]
    BINDINGS: ClassVar = [
        Binding("ctrl+x", "export", "Export", priority=True),
        Binding("ctrl+t", "rename", "Rename", priority=True),
        Binding("ctrl+b", "fork", "Fork", priority=True),
        Binding("ctrl+d", "delete", "Delete", priority=True),
    ]
    heading = N_("conversations")
    nothing = N_("No earlier conversation yet.\n\n/new ends this one and lists it here.")
    keys = (
        KeyHint("enter", N_("resume"), "screen.choose"),
        KeyHint("ctrl+t", N_("title"), "screen.rename"),
        KeyHint("ctrl+b", N_("fork"), "screen.fork"),
        KeyHint("ctrl+d", N_("delete"), "screen.delete"),
        KeyHint("esc", N_("back"), "screen.back"),
        KeyHint("ctrl+x", N_("export"), "screen.export"),
        KeyHint("shift+↑ ↓", N_("read"), "screen.preview_up"),
    )
    letter_keys: ClassVar = {
        "x": "screen.export",
        "t": "screen.rename",
        "f": "screen.fork",
        "d": "screen.delete",
        "u": "screen.restore",
    }

    def __init__(self, runtime: RuntimeApi, *, clock: Clock | None = None) -> None:
        super().__init__(runtime)
        self.clock = clock or SystemClock()
        self.previews: dict[tuple[str, str], Content | SpokenExcerpt] = {}  # by session, and entry of the hit
        self.deleted: list[str] = []  # ids of the sessions that were deleted here, the last one last
        self.hits: tuple[str, dict[str, Hit]] = ("", {})  # a query, and by session its best hit

    async def load(self) -> list[Row]:
        found = sorted(await self.runtime.sessions.all(), key=lambda summary: summary.updated_at, reverse=True)
        return [self._row(summary) for summary in found]

    def _row(self, summary: SessionSummary) -> Row:
        here = summary.session_id == self.runtime.agent.status.session_id
        details = [
            age(summary.updated_at, self.clock.now()),
            _("this conversation") if here else ended_words(summary.ended),
            turns(summary.turns),
            *([_("{n} tokens").format(n=short(summary.tokens))] if summary.tokens else []),
        ]
        return Row(
            id=summary.session_id,
            title=clean_line(summary.title) or _("(nothing said)"),
            detail=" · ".join(details),
            mark="●" if here else "○",
            more=f"{summary.key} {summary.session_id}",
            warning=_("open elsewhere") if summary.locked and not here else "",
            group=day_group(summary.updated_at, self.clock.now()),
        )

    # Finding

    def typing(self) -> None:
        self.refilter()
        self.search_at_pause(self._search_messages if self.typed else None)

    @work(group="messages", exclusive=True)
    async def _search_messages(self) -> None:
        query = self.typed
        try:
            result = await self.runtime.memory.search(query, RESULTS, ("sessions",))
        except (ClawbotError, OSError):
            # Without an index the titles have to do; the memory itself reports what is wrong with it.
            return
        if self.has_left or query != self.typed:
            return
        best: dict[str, Hit] = {}
        for hit in result.hits:
            # A list that is filtered holds what was typed; what only means something like it is for `/memory`.
            if marks(query, hit.snippet):
                best.setdefault(session_of(hit.path), hit)
        self.hits = query, best
        row = self.current
        self.refilter()
        self.highlight(row.id if row else None)
        self.show_preview()

    def _entry(self, row: Row) -> str:
        """Return the entry that holds the query; "" if nothing was found."""
        query, hits = self.hits
        hit = hits.get(row.id) if query == self.typed else None
        return hit.said.entry if hit is not None and hit.said is not None else ""

    def matching(self, query: str) -> Sequence[tuple[Row, Sequence[int]]]:
        """Return the sessions with all words of `query` in their title or name, then those with such a message."""
        if not query:
            return [(row, ()) for row in self.rows]
        words = query.casefold().split()
        titled = [row for row in self.rows if all(word in row.searched.casefold() for word in words)]
        known = {row.id for row in titled}
        searched, hits = self.hits
        rows = {row.id: row for row in self.rows if row.id not in known}
        others = [rows[session] for session in hits if session in rows] if searched == query else []
        found = [(row, positions_of(words, row.title)) for row in titled]
        return [*found, *((replace(row, detail=quoted(hits[row.id], query)), ()) for row in others)]

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < PREVIEW_WIDTH, "-narrow")

    def chosen(self, row: Row) -> None:
        """Dismiss with the session; nothing changes for the open one, unless a message in it was found."""
        target = SessionTarget(row.id, self._entry(row), self.typed)
        self.dismiss(target if target.entry or row.id != self.runtime.agent.status.session_id else None)

    @on(OptionList.OptionHighlighted, "#rows")
    def show_preview(self) -> None:
        """Show of the highlighted session what was found in it, else its last words, as soon as the cursor pauses
        on it."""
        row = self.current
        key = (row.id, self._entry(row)) if row is not None else None
        if key is not None and key not in self.previews:
            self.read_at_rest(lambda: self._preview(key))
            return
        self.read_at_rest(None)
        if key is not None:
            self._show(key)

    @work(group="preview", exclusive=True)
    async def _preview(self, key: tuple[str, str]) -> None:
        try:
            self.previews[key] = await self._read(*key)
        except (ClawbotError, OSError) as error:
            self.previews[key] = Content.styled(clean(f"{error}"), "$text-error")
        if not self.has_left:
            self._show(key)

    async def _read(self, session_id: str, entry: str) -> Content | SpokenExcerpt:
        """Return what is to be shown of a session. Raises ClawbotError, OSError."""
        hit = self.hits[1].get(session_id)
        if entry and hit is not None:
            excerpt = excerpt_at(await self.runtime.sessions.around(hit.path, entry), entry)
            if excerpt is not None:
                return excerpt
        width = self.query_one("#preview").scrollable_content_region.width
        items = await self.runtime.sessions.preview(session_id, PREVIEW_MESSAGES)
        # Markdown comes in after the first paint, and takes its time.
        return await asyncio.to_thread(last_words, items, width)

    def _show(self, key: tuple[str, str]) -> None:
        row = self.current
        if row is None or (row.id, self._entry(row)) != key:
            return
        shown, preview = self.previews[key], self.query_one(PassagePreview)
        if isinstance(shown, SpokenExcerpt):
            preview.show_passage(passage(*shown), self.typed)
        else:
            preview.show_end(shown)
        self.set_class(not isinstance(shown, SpokenExcerpt), "-full")

    @work(group="change")
    async def action_rename(self) -> None:
        row = self.current
        if row is None:
            return
        title = await self.app.push_screen_wait(TitleScreen(row.title))
        if title is not None:
            await self._change(self.runtime.sessions.rename(row.id, title), _("Not renamed"), row.id)

    @work(group="change")
    async def action_fork(self) -> None:
        """Go on in a new session that begins with the highlighted one, which is unchanged."""
        row = self.current
        if row is None:
            return
        now = self.runtime.agent.status
        if now.busy and row.id == now.session_id:
            # The fork would begin after the screen was left.
            self.notify(_("A turn is running: stop it first, then fork."), severity="warning")
            return
        try:
            forked = await self.runtime.sessions.fork(row.id)
        except (ClawbotError, OSError) as error:
            self.notify(clean(f"{error}"), title=_("Not forked"), severity="error")
            return
        if not self.has_left:
            self.dismiss(SessionTarget(forked))

    @work(group="change")
    async def action_delete(self) -> None:
        row = self.current
        if row is None:
            return
        if row.id == self.runtime.agent.status.session_id:
            self.notify(_("This conversation is open. After /new it can be deleted."), severity="warning")
        elif await self._change(self.runtime.sessions.delete(row.id), _("Not deleted"), None):
            self.deleted.append(row.id)
            self.list.focus()
            self.query_one(KeyLine).status = _("deleted · u brings it back")

    @work(group="change")
    async def action_restore(self) -> None:
        if self.deleted:
            last = self.deleted.pop()
            await self._change(self.runtime.sessions.restore(last), _("Not brought back"), last)
            self.query_one(KeyLine).status = ""

    async def _change(self, change: Awaitable[object], failure: str, highlight: str | None) -> bool:
        """Do `change`, and show the list as it is then; return whether it was done."""
        try:
            await change
        except (ClawbotError, OSError) as error:
            self.notify(clean(f"{error}"), title=failure, severity="error")
            return False
        if not self.has_left:
            self.fetch(highlight=highlight)
        return not self.has_left

    @work(group="export")
    async def action_export(self) -> None:
        if self.current is None:
            return
        try:
            path = await self.runtime.sessions.export("md", None, session=self.current.id)
        except (ClawbotError, OSError) as error:
            self.notify(clean(f"{error}"), title=_("Not exported"), severity="error")
        else:
            self.notify(f"{path}", title=_("Exported"))


def positions_of(words: Sequence[str], title: str) -> list[int]:
    """Return the positions of `words`, which are in small letters, in `title`."""
    folded = title.lower()
    found = ((folded.find(word), len(word)) for word in words) if len(folded) == len(title) else ()
    return sorted({start + at for start, size in found if start >= 0 for at in range(size)})


def quoted(hit: Hit, query: str) -> str:
    """Return the hit on one line: speaker, time, and the text from the first word of `query` on."""
    line = next((each for each in hit.snippet.split("\n") if marks(query, each)), hit.snippet)
    when = f"{hit.said.at:%Y-%m-%d %H:%M}  " if hit.said is not None else ""
    return f"{when}{snippet_start(line, query)}"


def last_words(items: Sequence[HistoryItem], width: int = WIDTH) -> Content:
    """Return the messages of a preview in `width` cells: the speaker, and the beginning of the text, as on the page.
    Blocks."""
    blocks = [block for item in items if (block := _block(item, width)) is not None]
    return Content("\n\n").join(blocks) if blocks else Content.styled(_("Nothing said yet."), QUIET)


def _block(item: HistoryItem, width: int) -> Content | None:
    message = item.message
    if isinstance(message, UserMessage):
        speaker = _("You")
    elif isinstance(message, AssistantMessage):
        speaker = clean_line(message.speaker)
    elif isinstance(message, BashExecutionMessage):
        speaker = _("Shell")
    else:
        return None
    text = clean((message.shown if isinstance(message, UserMessage) else message.text).strip())
    if not text:
        return None
    if len(text) > PREVIEW_CHARS:
        text = text[:PREVIEW_CHARS].rstrip() + " …"
    body = rendered(text, width) if isinstance(message, AssistantMessage) else Content(text)
    return Content.assemble((f"{speaker}\n", QUIET), body)


def rendered(text: str, width: int) -> Content:
    """Markdown as the page shows it, in `width` cells, in the few styles that a preview has."""
    from clawbot.tui.render.markdown import markdown_blocks
    from clawbot.tui.render.markdown_blocks import Lexers

    lexers, lines = Lexers(), list[Content]()
    for block in markdown_blocks(text):
        lines += [Content("")] if block.gap and lines else []
        for line in block.lines(max(width, 20), lexers):
            spans = [(span.text, _styled(span.style)) for span in line.spans]
            lines.append(Content.assemble(*spans))
    return Content("\n").join(lines)


def _styled(names: str) -> str:
    return " ".join(dict.fromkeys(STYLES[name] for name in names.split() if name in STYLES))
