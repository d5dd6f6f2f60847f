"""The conversation: the page, the prompt under it, and one quiet line. What an event does is decided in `show`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key
from textual.screen import Screen

from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    CompactionFinished,
    CompactionRunning,
    ContextUsed,
    Event,
    MemoryWritten,
    MessageFinished,
    ModelChanged,
    NoteKept,
    NotesQuoted,
    Notice,
    ReasoningDelta,
    SessionChanged,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from clawbot.clock import Clock
from clawbot.tui.activity import SUMMARISING, activity_of
from clawbot.tui.aside import Aside
from clawbot.tui.earlier import Earlier
from clawbot.tui.figures import Figures
from clawbot.tui.transcript import session_line
from clawbot.tui.turns import Turns
from clawbot.tui.widgets.approval import Approval
from clawbot.tui.widgets.bars import Header, NewBelow, QueueLines, StatusLine
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.transcript import Transcript
from clawbot.tui.writer import TranscriptWriter

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

TOLD_BY_A_LINE = ("/new", "/reset")  # commands that say no more than the divider that they cause


class ChatScreen(Screen[None]):
    """Shows one conversation; the app opens the runtime and the other screens."""

    AUTO_FOCUS = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop the running turn", show=False),
        Binding("alt+up", "recall", "Take back what is queued", show=False),
        Binding("ctrl+o", "unfold", "Unfold tool calls, notes and summaries", show=False, priority=True),
        Binding("ctrl+t", "reasoning", "Show the reasoning", show=False, priority=True),
        Binding("pageup,shift+up", "scroll_page(-1)", "Scroll up", show=False, priority=True),
        Binding("pagedown,shift+down", "scroll_page(1)", "Scroll down", show=False, priority=True),
        Binding("ctrl+home", "to_start", "Start of the conversation", show=False, priority=True),
        Binding("ctrl+end", "to_end", "End of the conversation", show=False, priority=True),
        Binding("ctrl+c", "app.copy_or_leave", "Copy, clear, leave", show=False, priority=True),
        Binding("ctrl+d", "app.leave_or_delete", "Leave", show=False),
        Binding("ctrl+l", "app.choose_model", "Choose a model", show=False, priority=True),
        Binding("ctrl+r", "app.choose_session", "Choose an earlier conversation", show=False, priority=True),
        Binding("ctrl+f", "app.search_memory", "Search the memory", show=False, priority=True),
        Binding("ctrl+g", "app.edit_prompt", "Write in your own editor", show=False, priority=True),
        Binding("f1", "app.help", "Keys and commands", show=False, priority=True),
        Binding("shift+tab", "switch_focus", "Go through links, tool calls and summaries", show=False, priority=True),
    ]

    page = getters.query_one(Transcript)
    composer = getters.query_one(Composer)
    approval = getters.query_one(Approval)
    status = getters.query_one(StatusLine)
    queue = getters.query_one(QueueLines)
    header = getters.query_one(Header)

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.runtime: Runtime | None = None
        self.turns = Turns(self._start, self.show, self._queue_changed, self._hand_back)
        self.aside = Aside(self._show, self.call_later)
        self.skip_closing: Callable[[], bool] = lambda: False  # ends the wait for an agent that is left
        self._questions: list[ApprovalRequested] = []
        self._reasoning_shown = False

    def compose(self) -> ComposeResult:
        """Header, page, prompt or question, status."""
        yield Header()
        yield Transcript()
        with Vertical(id="bottom"):
            with Horizontal(id="gap"):
                yield NewBelow()
            yield Approval(self.clock)
            yield Composer(self.clock)
            yield QueueLines()
            yield StatusLine(self.clock)

    def on_mount(self) -> None:
        """The first paint says that the rest is coming."""
        self.writer = TranscriptWriter(self.page, self.clock)
        self.earlier = Earlier(self.page, self.clock)
        self.figures = Figures(self, self.header, self.status, self.turns, self.writer.notice)

    @work(group="turns")
    async def _start(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await job()

    # The runtime

    async def connect(self, runtime: Runtime) -> None:
        """The runtime is there: show what was said before, send what was typed meanwhile. It may take the place of
        another one."""
        if self.runtime is not None:
            self.aside.leave(self.runtime)
        self.runtime = runtime
        self.figures.connect(runtime)
        self.composer.connect(runtime)
        await self._reload(runtime)
        for notice in runtime.notices:
            self.writer.notice(notice)
        self.figures.watch(runtime)
        self.aside.listen(runtime)
        self.turns.ready(runtime)
        # After what was typed meanwhile, which need not wait for that.
        self.figures.measure()

    async def reload(self) -> None:
        """Show the end of the session's conversation."""
        if self.runtime is not None:
            await self._reload(self.runtime)
            self.figures.measure()

    async def _reload(self, runtime: Runtime) -> None:
        await self.earlier.load(runtime)
        self.figures.refresh()

    def hint(self, text: str, seconds: float) -> None:
        """Say `text` at the end of the status line, for so long."""
        self.status.show(hint=text)
        self.set_timer(seconds, self._queue_changed)

    # Events

    def show(self, event: Event) -> None:
        """Show `event` of a submission. The order of events is that of clawbot.agent.events."""
        self.aside.before(event)
        if self.writer.is_writing and isinstance(event, Notice | NoteKept):
            self.aside.hold(event)
        else:
            self._show(event)
        if not self.writer.is_writing:
            self.aside.release()
        self.aside.after(event)

    def _show(self, event: Event) -> None:
        self._show_talk(event)
        self._show_beside(event)
        self._show_state(event)

    def _show_talk(self, event: Event) -> None:
        """What is said and done in a turn."""
        write = self.writer
        match event:
            case TurnStarted():
                write.user(event.text)
            case TextDelta():
                write.delta(event.text)
            case ReasoningDelta():
                write.reasoning(event.text)
            case ToolStarted():
                write.tool_started(event)
            case ToolFinished():
                write.tool_finished(event)
            case MessageFinished():
                write.message_finished(event)
            case TurnEnded():
                write.ended(event)

    def _show_beside(self, event: Event) -> None:
        """What stands on the page beside the talk."""
        match event:
            case MemoryWritten():
                self.writer.memory_written(event)
            case CompactionFinished():
                self.writer.compacted(event)
            case NoteKept():
                self.writer.note_kept(event)
            case NotesQuoted():
                self.writer.notes_quoted(event)
            case Notice():
                self.writer.notice(event)
            case CommandOutput() if event.command not in TOLD_BY_A_LINE:
                self.writer.output(event.command, event.text)

    def _show_state(self, event: Event) -> None:
        """What changes around the page, and who runs."""
        if activity := activity_of(event):
            self.figures.runs(activity)
        match event:
            case TurnStarted():
                self.page.go_to_end()
            case ApprovalRequested():
                self._questions.append(event)
                self._ask()
            case ModelChanged():
                self._model_changed(event)
            case CompactionRunning():
                self.figures.runs(SUMMARISING, f"{event.part}/{event.parts}" if event.parts > 1 else "")
            case ContextUsed() | CompactionFinished():
                self.figures.refresh()
            case SessionChanged():
                self._session_changed(event)
            case TurnEnded():
                self._turn_ended()

    def _model_changed(self, event: ModelChanged) -> None:
        if event.discard:
            self.writer.discard()
        self.writer.divider(" · ".join(part for part in (f"{event.model} answers", event.reason) if part))
        self.figures.refresh()
        self.figures.measure()

    def _session_changed(self, event: SessionChanged) -> None:
        self.writer.session_changed(session_line(event, self._idle_minutes))
        self.figures.refresh()
        self.figures.measure()

    @property
    def _idle_minutes(self) -> int | None:
        """The pause that ends a session by itself."""
        # Settings come in after the first paint.
        from clawbot.sessions.reset import policy_of

        return policy_of(self.runtime.settings.session.reset).idle_minutes if self.runtime is not None else None

    def _turn_ended(self) -> None:
        self._questions.clear()
        self._close_question()
        self.figures.runs("")
        self.figures.refresh()

    def _queue_changed(self) -> None:
        # While memory takes what a session held that ends now, the words that opened the next one are on no page yet.
        self.queue.show(self.turns.queued, coming=self.turns.coming if self.figures.saving else "")
        self.figures.show_hint()

    def _hand_back(self, text: str) -> None:
        """`text` was not stored: it goes back into the prompt, or onto the page when something else stands there."""
        prompt = self.composer.prompt
        if self.composer.is_empty:
            prompt.take(prompt.shortened(text))
        else:
            self.writer.unsent(text)

    # Approval

    def _ask(self) -> None:
        if self._questions and self.approval.request is None:
            self.composer.display = False
            self.approval.ask(self._questions[0], mid_typing=self.composer.is_mid_typing())
            self.figures.runs("waits for your answer")

    def _close_question(self) -> None:
        if self.approval.request is not None:
            self.approval.close()
        if not self.composer.display:
            self.composer.display = True
            self.composer.prompt.focus()

    @on(Approval.Answered)
    def _answered(self, event: Approval.Answered) -> None:
        if self.runtime is not None:
            self.runtime.answer(event.request_id, event.decision, command=event.command)
        self._questions = [request for request in self._questions if request.request_id != event.request_id]
        self._close_question()
        self._ask()

    @on(Approval.TypedOn)
    def _typed_on(self, event: Approval.TypedOn) -> None:
        self.composer.prompt.insert(event.text)

    # Keys

    def action_stop(self) -> None:
        """Close what is open, else stop the running turn."""
        if self.composer.close_completions():
            return
        if self.focused is self.page:
            self.composer.prompt.focus()
        elif not self.skip_closing() and self.runtime is not None:
            self.runtime.interrupt()

    def action_recall(self) -> None:
        """Take the last queued input back into the prompt."""
        text = self.turns.recall()
        if text is not None:
            prompt = self.composer.prompt
            shown = prompt.shortened(text)
            prompt.take(f"{shown}\n{prompt.text}" if prompt.text else shown)

    def action_unfold(self) -> None:
        """Unfold or fold all tool calls, quotes of notes and summaries."""
        self.page.fold_all()

    def action_reasoning(self) -> None:
        """Show or hide what the model thinks."""
        self._reasoning_shown = not self._reasoning_shown
        self.page.show_reasoning(self._reasoning_shown)

    def action_scroll_page(self, step: int) -> None:
        """Turn the page."""
        self.page.scroll_relative(y=step * max(1, self.page.size.height - 2), animate=False)

    def action_to_start(self) -> None:
        """Go to the first line that is loaded."""
        self.page.scroll_home(animate=False)

    @on(NewBelow.Pressed)
    def action_to_end(self) -> None:
        """Go to the end and follow what comes."""
        self.page.go_to_end()

    def action_switch_focus(self) -> None:
        """Between the prompt and the page."""
        if self.focused is self.page:
            self.composer.prompt.focus()
        elif self.approval.request is None and self.page.enter():
            self.page.focus()

    def on_key(self, event: Key) -> None:
        """What is typed while the page has the focus goes into the prompt."""
        if self.focused is self.page and event.is_printable and event.character:
            event.stop()
            self.composer.prompt.focus()
            self.composer.prompt.insert(event.character)

    # The page

    @on(Transcript.Moved)
    def _moved(self, event: Transcript.Moved) -> None:
        self.query_one(NewBelow).count = event.unseen

    @on(Transcript.TopReached)
    async def _top_reached(self) -> None:
        if self.runtime is not None:
            await self.earlier.more(self.runtime)
