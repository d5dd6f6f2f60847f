"""The review of proposals on the screen: one at a time as a diff with its reason and its sources, each key a decision
that is written at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec import structs
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList, Static

from clawbot.clock import Clock
from clawbot.history import history_in
from clawbot.plugins.dreaming.applying import Applied, ShownProposal, is_current, show
from clawbot.plugins.dreaming.dream import accept, context_of
from clawbot.plugins.dreaming.proposals import Decision, Proposal, SourceLine
from clawbot.text.interface import N_, _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.text.secrets import find_secrets
from clawbot.tui.render.lines import StyledSpan, ellipsis, location_text, padded, width_of, wrap
from clawbot.tui.screens.common import WAYS_OUT, AskScreen, KeyHint, KeyLine, OverScreen
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.widgets.fields import Area

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi

REST = 0.5  # seconds on the screen before a key decides: an earlier one was meant for the prompt
LOW = 18  # rows below which there is no room for air
GAP = 2  # cells between the position of a source and its text
MAX_PATH = 40  # cells of the position of a source
QUIET = "$foreground 70%"
STYLES = {"+": "$foreground on $success 20%", "-": "$foreground on $error 20%"}
KINDS = {
    "add": N_("add to {file}"),
    "merge": N_("merge in {file}"),
    "supersede": N_("replace in {file}, keep the old line"),
    "move": N_("move from {file} to {target}"),
    "drop": N_("drop from {file}"),
}
KEYS = (
    KeyHint("y", N_("accept"), "screen.accept"),
    KeyHint("n", N_("decline"), "screen.decide('declined')"),
    KeyHint("e", N_("edit"), "screen.edit"),
    KeyHint("l", N_("later"), "screen.decide('later')"),
    KeyHint("x", N_("never again"), "screen.decide('never')"),
    KeyHint("a", N_("accept all"), "screen.accept_all"),
    KeyHint("enter", N_("open the source"), "screen.open"),
    KeyHint("← →", N_("go through"), "screen.go(1)"),
    KeyHint("esc", N_("close"), "screen.back"),
)
EDITING = (
    KeyHint("enter", N_("write it"), "screen.end_edit(True)"),
    KeyHint("esc", N_("back"), "screen.end_edit(False)"),
)
DONE: dict[Decision, str] = {
    "declined": N_("declined"),
    "later": N_("later"),
    "never": N_("nothing like it is proposed again"),
}
WRITTEN = N_("written · /undo takes it back")
DONE_ALREADY = N_("The files hold this already: to accept it changes nothing.")
CHANGED = N_("{file} was changed since: this is the diff now")


def change_text(shown: ShownProposal, width: int) -> Content:
    """Return the reason, and the change as a diff, in lines of at most `width` cells."""
    lines = [Content.styled(row, QUIET) for row in _wrapped(clean_line(shown.proposal.reason), width)]
    note, style = "" if shown.diffs else _(DONE_ALREADY), QUIET
    if shown.problem:
        note, style = _("It can't be written: {problem}.").format(problem=clean_line(shown.problem)), "$text-warning"
    if note:
        lines += [Content(), *(Content.styled(row, style) for row in _wrapped(note, width))]
    for path, rows in shown.diffs.items():
        title = [Content.styled(clean_line(path), "$text-accent")] if len(shown.diffs) > 1 else []
        lines += [Content(), *title, *(line for row in rows for line in _diff_lines(row, width))]
    return Content("\n").join(lines)


def _diff_lines(row: str, width: int) -> list[Content]:
    style, mark = STYLES.get(row[0], QUIET), row[0]
    lines = _wrapped(clean_line(row[1:]), width - 2) or [""]
    return [Content.styled(padded(f"{' ' if at else mark} {text}", width), style) for at, text in enumerate(lines)]


def _wrapped(text: str, width: int) -> list[str]:
    return ["".join(span.text for span in line) for line in wrap([StyledSpan(text)], width)] if text else []


def source_rows(sources: Sequence[SourceLine], width: int) -> list[Content]:
    """Return a row of at most `width` cells for each of `sources`."""
    room = min(MAX_PATH, width // 2)
    positions = [location_text(clean_line(each.path), each.number, room) for each in sources]
    column = max(map(width_of, positions), default=0)
    rows = []
    for position, source in zip(positions, sources, strict=True):
        text = clean_line(source.text) or _("(the line is there no more)")
        space = " " * (column - width_of(position) + GAP)
        rows.append(Content.assemble(position, space, (ellipsis(text, width - column - GAP), QUIET)))
    return rows


def decided_text(counts: Counter[str]) -> str:
    """Return one line for the conversation on how many proposals were decided in which way, "" if none was."""
    written, declined, gone = (counts[each] for each in ("written", "declined", "refused"))
    parts = (
        (written, ngettext("{n} proposal written", "{n} proposals written", written)),
        (declined, ngettext("{n} declined", "{n} declined", declined)),
        (gone, ngettext("{n} no longer possible", "{n} no longer possible", gone)),
    )
    undo = _(" · /undo takes the last one back") if written else ""
    return f"{_(', ').join(text.format(n=count) for count, text in parts if count)}{undo}"


class LineEditor(Area):
    """The text of a proposal, in one line that is folded."""

    BINDINGS: ClassVar = [
        Binding("enter", "screen.end_edit(True)", "Write", show=False, priority=True),
        Binding("escape", "screen.end_edit(False)", "Back", show=False),
    ]


class ReviewScreen(OverScreen[str]):
    """Shows the proposals that wait, one after the other. Dismisses with a line on what was decided, or None."""

    CSS_PATH: ClassVar = "review.tcss"
    BINDINGS: ClassVar = [
        *(Binding(key.name, key.action.removeprefix("screen."), key.label) for key in KEYS if len(key.name) == 1),
        Binding("left", "go(-1)", "Previous", show=False),
        Binding("right", "go(1)", "Next", show=False),
        Binding("pageup", "scroll('page_up')", "Page up", show=False),
        Binding("pagedown,space", "scroll('page_down')", "Page down", show=False),
        Binding("escape,q", "back", "Close"),
    ]

    def __init__(self, runtime: RuntimeApi, *, clock: Clock) -> None:
        super().__init__()
        status = runtime.agent.status
        self.runtime = runtime
        self.clock = clock
        context = context_of(runtime.settings, runtime.paths, status.agent_id, clock)
        self.context = structs.replace(context, workspace=status.workspace)
        limits = runtime.settings.memory.history
        self.history = history_in(status.workspace, runtime.paths, status.agent_id, clock, limits)
        self.waiting: list[Proposal] = []
        self.at = 0
        self.shown: ShownProposal | None = None
        self.decided = Counter[str]()
        self.opened = clock.monotonic()
        self.is_loading = True

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = _("Review")
            yield Static(id="head", markup=False)
            with VerticalScroll(id="page", can_focus=False):
                yield Static(id="change", markup=False)
            yield OptionList(id="sources", markup=False)
            yield KeyLine(KEYS)

    def on_mount(self) -> None:
        self.query_one("#sources").focus()
        self._load()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height < LOW, "-low")
        self._draw()

    # What is shown

    @work(group="review", exclusive=True)
    async def _load(self) -> None:
        """Read the proposals that wait. Raises nothing."""
        try:
            self.waiting = await asyncio.to_thread(self.context.store.pending)
        except OSError as error:
            self.notify(clean_line(f"{error}"), severity="error")
        await self._show_current()

    async def _show_current(self, message: str = "") -> None:
        """Show the proposal at the cursor as it would be written now; close when none is left."""
        self.is_loading = True
        if self.waiting:
            self.at %= len(self.waiting)
            proposal = self.waiting[self.at]
            shown = await asyncio.to_thread(show, self.context.workspace, proposal)
        if self.has_left:
            return
        self.is_loading = False
        if not self.waiting:
            self.dismiss(decided_text(self.decided) or _("No proposal waits for a decision."))
            return
        self.shown = shown
        self.query_one(KeyLine).status = message
        self.query_one("#page").scroll_home(animate=False)
        self._draw()

    def _draw(self) -> None:
        if (shown := self.shown) is None:
            return
        proposal, count = shown.proposal, len(self.waiting)
        what = _(KINDS[proposal.kind]).format(file=clean_line(proposal.file), target=clean_line(proposal.target))
        number = _("{n:,} of {count:,}").format(n=self.at + 1, count=count)
        self.query_one("#frame").border_title = f"{_('Review')} · {number}"
        head = what if self.is_framed else f"{number} · {what}"
        self.query_one("#head", Static).update(Content.styled(ellipsis(head, self.inner_width), "$text-accent"))
        self.query_one("#change", Static).update(change_text(shown, self.inner_width))
        sources = self.query_one("#sources", OptionList)
        chosen = sources.highlighted or 0
        sources.set_options(source_rows(shown.sources, self.inner_width))
        sources.highlighted = min(chosen, len(shown.sources) - 1) if shown.sources else None

    @work(group="review", exclusive=True)
    async def action_go(self, step: int) -> None:
        """Show the next proposal, or the one before; nothing is decided."""
        self.at += step
        await self._show_current()

    async def action_scroll(self, how: str) -> None:
        await self.query_one("#page").run_action(how)

    @on(OptionList.OptionSelected, "#sources")
    @work(group="open", exclusive=True)
    async def action_open(self) -> None:
        """Open the note of the highlighted source at its line; what is changed there is shown afterwards."""
        at = self.query_one("#sources", OptionList).highlighted
        if self.shown is not None and at is not None:
            source = self.shown.sources[at]
            await self.app.push_screen_wait(EditorScreen(self.runtime, source.path, source.number))
            if not self.has_left:
                await self._show_current()

    # Decisions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key may do what it does now: decide not before the screen was there for a moment, nor while
        a text is edited; and nothing while something is read or written."""
        if self.is_loading and action not in WAYS_OUT:
            return False
        decides = action in ("accept", "decide", "edit", "accept_all")
        if decides and (self.clock.monotonic() - self.opened < REST or self.query(LineEditor)):
            return False
        return super().check_action(action, parameters)

    @work(group="review", exclusive=True)
    async def action_accept(self, text: str = "") -> None:
        """Write the proposal, with `text` in place of its own if there is one."""
        if self.shown is None:
            return
        self.is_loading = True
        proposal = structs.replace(self.shown.proposal, text=text) if text else self.shown.proposal
        if not await asyncio.to_thread(is_current, self.context.workspace, self.shown):
            await self._show_current(_(CHANGED).format(file=clean_line(proposal.file)))
            return
        [applied] = await asyncio.to_thread(accept, self.context, self.history, [proposal])
        await self._settle([applied])

    async def _settle(self, done: Sequence[Applied]) -> None:
        """Count what was written, and show what is left."""
        ended = {each.id for each in done if each.status != "failed"}
        self.waiting = [each for each in self.waiting if each.id not in ended]
        self.decided.update(each.status for each in done)
        problem = next((each.reason for each in done if each.status in ("refused", "failed")), "")
        if problem:
            self.notify(_("Not written: {problem}.").format(problem=clean_line(problem)), severity="warning")
        await self._show_current("" if problem else _(WRITTEN))

    @work(group="review", exclusive=True)
    async def action_decide(self, decision: Decision) -> None:
        """Record `decision`, and show the next proposal."""
        if self.shown is None:
            return
        self.is_loading = True
        ident = self.shown.proposal.id
        try:
            await asyncio.to_thread(self.context.store.decide, ident, decision)
        except OSError as error:
            self.notify(clean_line(f"{error}"), title=_("Not recorded"), severity="error")
            await self._show_current()
            return
        self.waiting = [each for each in self.waiting if each.id != ident]
        self.decided["declined"] += decision != "later"
        await self._show_current(_(DONE[decision]))

    @work(group="review", exclusive=True)
    async def action_accept_all(self) -> None:
        """Write all proposals that are left, after a question if there are several."""
        count = len(self.waiting)
        if count > 1:
            question = ngettext("Write {n} proposal?", "Write all {n} proposals?", count).format(n=count)
            if await self.app.push_screen_wait(AskScreen(question, [("y", _("write them"))], _("go on"))) != "y":
                return
        self.is_loading = True
        self.query_one(KeyLine).status = _("writing …")
        done = await asyncio.to_thread(accept, self.context, self.history, list(self.waiting))
        if not self.has_left:
            await self._settle(done)

    # Editing

    async def action_edit(self) -> None:
        """Let the text be edited before it is written."""
        if self.shown is None or self.shown.proposal.kind in ("move", "drop"):
            self.notify(_("This proposal has no text to edit."))
            return
        editor = LineEditor(self.shown.proposal.text, compact=True, soft_wrap=True, highlight_cursor_line=False)
        await self.query_one("#page").mount(editor)
        editor.move_cursor(editor.document.end)
        editor.focus()
        editor.scroll_visible(animate=False)
        self._show_keys(EDITING)

    async def action_end_edit(self, write: bool) -> None:
        """Close the editor, and write the proposal with the edited text if that is meant."""
        text = " ".join(self.query_one(LineEditor).text.split("\n")).rstrip()
        if write and not text:
            return
        if write and find_secrets(text):
            self.notify(_("Secrets are not written into the memory."), severity="warning")
            return
        await self.query(LineEditor).remove()
        self.query_one("#sources").focus()
        self._show_keys(KEYS)
        if write:
            self.action_accept(text)

    def _show_keys(self, keys: Sequence[KeyHint]) -> None:
        line = self.query_one(KeyLine)
        line.keys, line.status = tuple(keys), ""
        line.refresh()

    def action_back(self) -> None:
        self.dismiss(decided_text(self.decided) or None)
