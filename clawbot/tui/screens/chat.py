"""The conversation: the page, the prompt below it, and one status line."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key, Resize
from textual.screen import Screen

from clawbot.agent import events
from clawbot.clock import Clock
from clawbot.config.keys import KeyMap
from clawbot.text.interface import N_, _
from clawbot.tui.earlier import EarlierMessages
from clawbot.tui.event_view import THINKING, EventView
from clawbot.tui.input import Drafts
from clawbot.tui.page_search import FindBar, PageSearch
from clawbot.tui.questions import MODE_AFTER, Questions, UnsentQuestion, UnsentTexts
from clawbot.tui.render.items import attempt
from clawbot.tui.screens.side import SideLayout
from clawbot.tui.screens.welcome import welcome
from clawbot.tui.status_bar import StatusBar
from clawbot.tui.terminal import Attention
from clawbot.tui.turns import EventOrder, Turns
from clawbot.tui.widgets.approval import LOW, Approval
from clawbot.tui.widgets.composer import Composer
from clawbot.tui.widgets.fields import binding, typed_text
from clawbot.tui.widgets.status_line import HeaderLine, KeysLine, NewBelow, QueueLines, StatusLine
from clawbot.tui.widgets.transcript import TranscriptView
from clawbot.tui.writer import TranscriptWriter

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.tools.protocol import Decision


class ChatScreen(Screen[None]):
    """Shows one conversation; the app opens the runtime and the other screens."""

    AUTO_FOCUS = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        binding("stop", "stop", priority=False),
        binding("recall", "recall"),
        binding("unfold", "unfold"),
        binding("reasoning", "reasoning"),
        binding("page_up", "scroll_page(-1)"),
        binding("page_down", "scroll_page(1)"),
        binding("to_start", "to_start"),
        binding("to_end", "to_end"),
        Binding("ctrl+c", "app.copy_or_leave", N_("Copy, clear, leave"), show=False, priority=True),
        binding("leave", "app.leave_or_delete", priority=False),
        binding("models", "app.choose_model"),
        binding("sessions", "app.choose_session"),
        binding("memory", "app.search_memory"),
        binding("editor", "app.edit_prompt"),
        binding("local_model", "app.run_local_model"),
        binding("palette", "app.command_palette"),
        binding("help", "app.help"),
        binding("links", "switch_focus"),
        binding("mode", "next_mode"),
        binding("earlier_message", "message(-1)"),
        binding("later_message", "message(1)"),
        binding("stash", "stash"),
        binding("find", "find"),
        binding("panel", "toggle_panel"),
    ]

    page = getters.query_one(TranscriptView)
    composer = getters.query_one(Composer)
    approval = getters.query_one(Approval)
    question = getters.query_one(UnsentQuestion)
    status = getters.query_one(StatusLine)
    bar = getters.query_one(FindBar)
    queue = getters.query_one(QueueLines)
    header = getters.query_one(HeaderLine)

    def __init__(self, clock: Clock, attention: Attention) -> None:
        super().__init__()
        self.clock = clock
        self.attention = attention
        self.keys = KeyMap()
        self.drafts = Drafts()
        self._turn_began = 0.0
        self._plan: events.PlanReady | None = None  # with which the turn ends
        self.runtime: RuntimeApi | None = None
        # The order of events is that of clawbot.agent.events.
        self.order = EventOrder(self._show, lambda: self.writer.is_writing, self.call_later)
        self.turns = Turns(self._start, self.order.submitted, self._queue_changed, self._restore_text)
        self.stashes = False  # a text is being put aside or taken back
        self.recent: list[str] = []  # what was chosen in the palette, the last first
        self.skip_closing: Callable[[], bool] = lambda: False  # ends the wait for an agent that is left
        self.opens: Callable[[events.CommandOutput], bool] = lambda _: False  # shows an output on its own screen

    def compose(self) -> ComposeResult:
        yield HeaderLine()
        yield TranscriptView()
        with Vertical(id="bottom"):
            with Horizontal(id="gap"):
                yield NewBelow()
            yield Approval(self.clock)
            yield UnsentQuestion()
            yield Composer(self.clock)
            yield QueueLines()
            yield StatusLine(self.clock)
            yield KeysLine()
            yield FindBar()

    def on_mount(self) -> None:
        self.writer = TranscriptWriter(self.page, self.clock)
        self.earlier = EarlierMessages(self.page, self.clock)
        self.unsent = UnsentTexts(self.composer, self.turns, self._start)
        self.status_bar = StatusBar(self, self.header, self.status, self.turns, self.writer)
        self.questions = Questions(self, self.status_bar, self.unsent, self.writer, self._waits_for_answer)
        self.side = SideLayout(self, self.page, self.turns, self.clock)
        self.search = PageSearch(self.page, self.bar, self.earlier, self._finds)
        self.view = EventView(self.writer, self.status_bar)
        self.watch(self.approval, "editing", self.status_bar.edits, init=False)
        self.watch(self.composer, "shell", self.status_bar.types, init=False)
        self.watch(self.composer.prompt, "mode", lambda mode: self.status.show(editing=mode), init=False)
        self.watch(self.status, "state", lambda _: self.status_bar.show_on_page(self.page), init=False)
        self.watch(self.page, "scroll_y", lambda _: self.status_bar.reads(not self.page.at_end), init=False)

    def on_screen_resume(self) -> None:
        if self.runtime is not None:
            self.refresh_status()

    def on_unmount(self) -> None:
        self.attention.leave()

    def on_resize(self, event: Resize) -> None:
        """Give a question the room of the air around it on a low screen."""
        self.set_class(event.size.height < LOW, "-low")
        self.side.fit(event.size.width)

    @work(group="turns")
    async def _start(self, job: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        await job()

    # The runtime

    async def connect(self, runtime: RuntimeApi) -> None:
        """Show the messages of the runtime, and send what was typed in the meantime. It may replace another one."""
        if self.runtime is not None:
            self.order.leave(self.runtime)
        self.runtime = self.view.runtime = runtime
        self.keys = self.status_bar.keys = KeyMap(runtime.settings.tui.keys)
        self.app.set_keymap(self.keys.for_textual())
        self.page.take_unfold_key(self.keys.first("unfold"))
        runtime.agent.steers = runtime.settings.tui.queue == "steer"
        runtime.agent.runs_shell = True
        self.attention.notify = runtime.settings.tui.notify
        self.status_bar.connect(runtime)
        self.writer.motion.is_on = runtime.settings.tui.motion
        self.composer.connect(runtime)
        if runtime.settings.tui.vi:
            self.composer.prompt.edit_by_vi()
        await self._reload(runtime)
        self.side.connect(runtime)
        for notice in runtime.notices:
            self.writer.notice(notice)
        self.status_bar.watch(runtime)
        self.order.listen(runtime)
        self.turns.ready(runtime)
        self.unsent.connect(runtime)
        self.questions.offer_unsent()
        # After what was typed in the meantime, which need not wait for that.
        self.status_bar.measure()
        self.welcome()

    @work(group="start", exclusive=True)
    async def welcome(self, *, fresh: bool = False) -> None:
        """Show or update the first page, as long as there are no messages; `fresh`: of a session that begins."""
        if self.runtime is not None:
            await welcome(self.page, self.runtime, self.clock.now(), self.keys.first("local_model"), fresh=fresh)

    async def reload(self) -> None:
        if self.runtime is not None:
            await self._reload(self.runtime)
            self.unsent.connect(self.runtime)
            self.questions.offer_unsent()
            self.status_bar.measure()
            self.welcome()

    async def _reload(self, runtime: RuntimeApi) -> None:
        self.questions.drop_plan()
        await self.earlier.load(runtime)
        status = runtime.agent.status
        if status.answered_before:
            text = _("{before} answered so far · {model} answers from here on")
            self.writer.divider(text.format(before=status.answered_before, model=status.model.ref))
        self.status_bar.refresh()
        self.side.reloaded()
        self._show_title()

    @property
    def is_loading(self) -> bool:
        """Whether the next keys wait for the list that Tab completes from, or for a text that is put aside."""
        return self.composer.picks_first or self.stashes

    def hint(self, text: str, seconds: float) -> None:
        self.status.show(hint=text)
        self.set_timer(seconds, self._queue_changed)

    # Events

    def _show(self, event: events.Event) -> None:
        text = getattr(event, "text", "")
        attempt(
            lambda: self._take(event),
            lambda report: self.writer.notice(events.Notice(level="error", text=f"{text}\n{report}")),
        )
        self.side.take(event)
        if isinstance(event, events.ModelChanged | events.SessionChanged):
            # What the clock ended is reported by a permanent line.
            self.welcome(fresh=isinstance(event, events.SessionChanged) and event.reason.startswith("/"))

    def _take(self, event: events.Event) -> None:
        if isinstance(event, events.CommandOutput) and event.screen and self.opens(event):
            return
        if isinstance(event, events.TurnStarted):
            self.questions.drop_plan()
            self._turn_began = self.clock.monotonic()
            self.earlier.shorten()
        self.view.show(event)
        match event:
            case events.ApprovalRequested():
                # Whoever searches remains where he is, and what he types on is not lost.
                self.search.close(remain=True)
                self.questions.add(event)
            case events.PlanReady():
                self._plan = event
            case events.TurnEnded():
                self._turn_ended(event.status)
            case events.SessionTitled():
                self.refresh_status()

    def _turn_ended(self, status: str) -> None:
        plan, self._plan = self._plan, None
        self.questions.drop()
        if plan is not None and not self.turns.queued:
            self.search.close(remain=True)
            self.questions.add_plan(plan)
        self.attention.turn_ended(self.clock.monotonic() - self._turn_began, status)
        self._show_title()

    def refresh_status(self) -> None:
        """Show the state of the runtime below the page and in the title of the terminal."""
        self.status_bar.refresh()
        self._show_title()

    def _show_title(self) -> None:
        if self.runtime is not None:
            asking = self.approval.request is not None
            self.attention.show(self.runtime.agent.status.label, busy=self.turns.busy, asking=asking)

    def _queue_changed(self) -> None:
        # While memory takes what a session held that ends now, the words that opened the next one are on no page yet.
        self.queue.show(
            self.turns.queued, coming=self.turns.coming if self.status_bar.saving else "", key=self.keys.first("recall")
        )
        self.refresh_status()

    def _restore_text(self, text: str) -> None:
        """Put `text`, which was not stored, back into the prompt, or onto the page if the prompt is in use."""
        prompt = self.composer.prompt
        if self.composer.is_empty:
            prompt.take(prompt.shortened(text))
        else:
            self.writer.unsent(text)

    # Questions

    def _waits_for_answer(self) -> None:
        self.attention.call(_("A question waits for your answer."))
        self._show_title()

    @on(Approval.Answered)
    def _answered(self, event: Approval.Answered) -> None:
        if self.questions.asks_plan:
            self._answer_plan(event.decision)
            return
        if self.runtime is not None:
            self.runtime.agent.answer(event.request_id, event.decision, command=event.command, network=event.network)
        if call := self.questions.answered(event.request_id):
            self.writer.tool_is(call, "running")
        self.status_bar.runs(_(THINKING) if event.decision == "deny" else self.view.asked_by)
        self.questions.ask_next()
        self._show_title()

    @on(Approval.TypedOn)
    def _typed_on(self, event: Approval.TypedOn) -> None:
        if self.questions.asks_plan:
            self._answer_plan("deny")
        self.composer.prompt.insert(event.text)

    def _answer_plan(self, decision: Decision) -> None:
        """Carry the plan out in the mode that was chosen, or let the user write what should change."""
        text, mode = self.questions.drop_plan(), MODE_AFTER.get(decision)
        if mode is None:
            self.call_after_refresh(self.hint, _("say what should change"), 4.0)
        else:
            self.choose_mode(mode)
            self.page.go_to_end()
            self.turns.submit(text)
        self._show_title()

    @on(UnsentQuestion.Answered)
    def _unsent_answered(self, event: UnsentQuestion.Answered) -> None:
        self.questions.close_unsent()
        if event.choice == "later":
            self.composer.prompt.insert(event.typed)
            self.hint(_("/unsent asks again"), 4.0)
        else:
            self.unsent.answer(event.choice)

    # Keys

    def action_stop(self) -> None:
        """Close what is open, else stop the running turn."""
        if self.search.is_open:
            self.search.close()
            return
        if self.questions.asks_plan:
            self._answer_plan("deny")
            return
        if self.composer.close_completions():
            return
        if self._reads:
            self.composer.prompt.focus()
        elif self.skip_closing() or (self.runtime is not None and self.runtime.agent.interrupt()):
            return
        elif self.composer.is_empty and self.approval.request is None and not self.question.display:
            self.call_later(self.app.run_action, "go_back")

    @work(group="stash")
    async def action_stash(self) -> None:
        """Put what is being written aside; with an empty prompt, take back what was put aside last."""
        prompt = self.composer.prompt
        if self.runtime is None:
            return
        file = self.runtime.paths.drafts_file
        self.stashes = True
        if text := prompt.expanded(prompt.text):
            prompt.take("")
            await self.drafts.put(file, text)
            self.hint(_("put aside · {key} takes it back").format(key=self.keys.first("stash")), 3.0)
        elif text := await self.drafts.take(file):
            self._restore_text(text)
        else:
            self.hint(_("nothing was put aside"), 2.0)
        self.stashes = False

    def action_recall(self) -> None:
        text = self.turns.recall()
        if text is not None:
            prompt = self.composer.prompt
            shown = prompt.shortened(text)
            prompt.take(f"{shown}\n{prompt.text}" if prompt.text else shown)

    def action_unfold(self) -> None:
        self.page.fold_all()

    def action_reasoning(self) -> None:
        self.page.show_reasoning(not self.page.stack.page.show_reasoning)

    def action_scroll_page(self, step: int) -> None:
        if self.approval.scroll_page(step):
            return
        self.page.scroll_relative(y=step * max(1, self.page.size.height - 2), animate=False)

    @work(group="message", exclusive=True)
    async def action_message(self, step: int) -> None:
        """Go to the user's message above (-1) or below (1) what is in view; below the last one is the end."""
        if self.page.go_to_message(step) or self.runtime is None:
            return
        if step > 0:
            self.page.go_to_end()
        else:
            await self.earlier.reach(lambda: self.page.go_to_message(step))

    @work(group="message", exclusive=True)
    async def action_to_start(self) -> None:
        """Go to the beginning of the conversation once it is loaded, unless the user goes to the end first."""
        self.page.scroll_home(animate=False)
        if self.earlier.has_more:
            await self.earlier.reach(lambda: self.page.at_end)
            if not self.page.at_end:
                self.page.scroll_home(animate=False)

    def action_to_end(self) -> None:
        self.page.go_to_end()

    def action_switch_focus(self) -> None:
        if self.approval.request is not None or self.side.has_focus:
            self.composer.prompt.focus()
        elif self.focused is not self.page and self.page.enter():
            self.page.focus()
        elif not self.side.enter():
            self.composer.prompt.focus()

    @property
    def _reads(self) -> bool:
        return self.focused is self.page or self.side.has_focus

    def action_toggle_panel(self) -> None:
        self.hint(self.side.toggle(), 3.0)

    def action_next_mode(self) -> None:
        self.questions.drop_plan()
        self.choose_mode()

    def choose_mode(self, name: str = "") -> None:
        self.hint(self.status_bar.choose_mode(name), 4.0)

    def on_key(self, event: Key) -> None:
        if self._reads and (typed := typed_text(event)):
            event.stop()
            self.composer.prompt.focus()
            self.composer.prompt.insert(typed)

    # The page

    @on(TranscriptView.Moved)
    def _moved(self, event: TranscriptView.Moved) -> None:
        self.query_one(NewBelow).show(event.unseen, event.lines)

    @on(TranscriptView.TopReached)
    async def _top_reached(self) -> None:
        await self.earlier.more()
        self.side.reloaded()

    def action_find(self) -> None:
        """Search the page; the same key again closes the search at the match."""
        if self.bar.field.has_focus:
            self.search.close(remain=True)
        elif self.composer.display:
            self.search.open()

    def _finds(self, is_open: bool) -> None:
        self.set_class(is_open, "finding")
        self.status_bar.edits(is_open)
        if not is_open and self.composer.display:
            self.composer.prompt.focus()
