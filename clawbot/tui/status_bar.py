"""The texts of the header and the status line: the figures of the runtime, what runs, the state of the memory index,
the words for it and when they are worth showing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from clawbot.agent.events import Event, ModelLoading, Notice, PromptRead
from clawbot.clock import weekday_of
from clawbot.config.keys import BY_NAME, KeyMap
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _
from clawbot.tui.input import ShellMode
from clawbot.tui.render.lines import duration, short_model
from clawbot.tui.turns import Turns
from clawbot.tui.widgets.status_line import Effort, Gauge, HeaderLine, Keys, KeysLine, StatusLine, figures

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.timer import Timer
    from textual.widget import Widget
    from textual.worker import WorkType

    from clawbot.agent.status import RuntimeStatus
    from clawbot.api import RuntimeApi
    from clawbot.config.schema import Settings
    from clawbot.config.schema_agent import Mode
    from clawbot.memory.values import Progress
    from clawbot.messages import Usage
    from clawbot.tui.widgets.transcript import TranscriptView
    from clawbot.tui.writer import TranscriptWriter

log = logging.getLogger(__name__)

# A sync that is over sooner is not worth a word; a longer one is shown this often, and so is what the model writes. In
# seconds.
REPORT_SECONDS = 0.5
BYTES_PER_TOKEN = 4


def indexing_text(progress: Progress) -> str:
    """Return the full sentence: `indexing 420 of 1,000 files, 12 s left`."""
    if progress.phase == "scan" or not progress.total:
        return _("looking for changed notes")
    if progress.phase == "publish":
        return _("the new index is nearly ready")
    chunks = progress.unit == "pieces"
    if progress.phase == "text":
        template = _("indexing {done:,} of {total:,} pieces") if chunks else _("indexing {done:,} of {total:,} files")
    elif chunks:
        template = _("indexing the meaning of {done:,} of {total:,} pieces")
    else:
        template = _("indexing the meaning of {done:,} of {total:,} files")
    text = template.format(done=progress.done, total=progress.total)
    seconds = round(progress.seconds_left or 0)
    return _("{told}, {time} left").format(told=text, time=duration(seconds)) if seconds else text


def indexing_share(progress: Progress) -> str:
    """Return the same in few characters: `indexing 42%`."""
    if progress.phase in ("scan", "publish") or not progress.total:
        return _("indexing")
    return _("indexing {share}%").format(share=100 * progress.done // progress.total)


class IndexingWatch:
    """Passes the state of the index to `show`, and None when it is idle, at most every REPORT_SECONDS seconds.

    The runtime has one listener: a watch that starts while another one runs passes on to it, and restores it
    when it stops. Watches stop in the opposite order of their starts.
    """

    def __init__(self, widget: Widget, runtime: RuntimeApi, show: Callable[[Progress | None], None]) -> None:
        self._widget = widget
        self._runtime = runtime
        self._show = show
        self._before: Callable[[], None] | None = None
        self._timer: Timer | None = None
        self._due = False
        self._listening = False

    def start(self) -> None:
        self._listening = True
        self._before = self._runtime.memory.on_progress
        self._runtime.memory.on_progress = self._changed
        if self._runtime.memory.progress is not None:
            self._show(self._runtime.memory.progress)

    def stop(self) -> None:
        """Stop listening; no-op if it never started."""
        if not self._listening:
            return
        self._listening = False
        self._runtime.memory.on_progress = self._before
        if self._timer is not None:
            self._timer.stop()

    def _changed(self) -> None:
        if self._before is not None:
            self._before()
        if not self._due:
            # Through the widget's own queue: the index calls from tasks of its own, in which a timer would not belong
            # to the app.
            self._due = self._widget.call_later(self._wait)

    def _wait(self) -> None:
        self._timer = self._widget.set_timer(REPORT_SECONDS, self._report)

    def _report(self) -> None:
        self._due = False
        self._show(self._runtime.memory.progress)


STARTING = N_("starting")
SAVING = N_("saving to memory")
MODE_NAMES: dict[Mode, str] = {"plan": N_("plan"), "ask": N_("ask"), "edits": N_("edits")}
MODE_MEANS: dict[Mode, str] = {
    "plan": N_("plan: nothing is changed"),
    "ask": N_("ask: each change is asked about"),
    "edits": N_("edits: files change without asking"),
}
IDLE_KEYS = (
    ("mode", N_("mode: {mode}")), ("/", N_("commands")), ("@", N_("files")), ("sessions", N_("conversations")),
    ("memory", N_("memory")), ("palette", N_("all")), ("help", N_("help")), ("find", N_("find")),
)  # fmt: skip
BUSY_KEYS = (
    ("enter", N_("queues")), ("recall", N_("takes it back")), ("unfold", N_("unfolds")), ("reasoning", N_("reasoning")),
)  # fmt: skip
READING_KEYS = (
    ("to_end", N_("↓ the end")), ("page_up page_down", N_("scroll")), ("find", N_("find")), ("unfold", N_("unfolds")),
)  # fmt: skip
SHELL_HINTS = {"kept": N_("shell"), "shared": N_("shell, shared")}
SHELL_KEYS: dict[ShellMode, Keys] = {
    "kept": ((N_("shell:"), N_("the model does not see it")), ("!!", N_("shares it")), ("\\!", N_("says it"))),
    "shared": ((N_("shell:"), N_("the model sees the output")), ("!", N_("keeps it"))),
}


@lru_cache(maxsize=8)
def keys_of(keys: KeyMap, mode: Mode, *, asking: bool, reading: bool, busy: bool, typing: ShellMode = "") -> Keys:
    """Return the keys of the footer, without those that are not set: none below a question, which names its own; and
    what the prompt does where it runs a command in the shell."""
    if asking:
        return ()
    if typing:
        return tuple((_(key), _(text)) for key, text in SHELL_KEYS[typing])
    lines = READING_KEYS if reading else BUSY_KEYS if busy else IDLE_KEYS
    found: list[tuple[str, str]] = []
    for names, text in lines:
        key = " ".join([keys.first(name) if name in BY_NAME else name for name in names.split()])
        if key.strip():
            found.append((key, _(text).format(mode=_(MODE_NAMES[mode]))))
    return tuple(found)


def gauge_of(settings: Settings, status: RuntimeStatus) -> Gauge:
    """Return the meter for `status`; no marks while the budget is unknown, and when compaction is off."""
    exact = status.exact and not status.stale
    if status.budget is None or not settings.agent(status.agent_id).compaction.enabled:
        return Gauge(status.tokens, status.window, exact)
    return Gauge(status.tokens, status.window, exact, flush=status.budget.flush, compaction=status.budget.limit)


def window_note(status: RuntimeStatus) -> str:
    """Return what the user should know of the window; empty if its size is known."""
    from clawbot.context.window import ASSUMED  # after the first paint

    if status.window_source != ASSUMED:
        return ""
    template = _(
        "Context size of {model} unknown; assuming {tokens:,} tokens. context_tokens in the settings changes that."
    )
    return template.format(model=status.model.ref, tokens=status.window)


def reading(event: Event) -> tuple[str, str]:
    """Return the activity, and how far it is, of a model of this machine that gets ready."""
    if isinstance(event, ModelLoading) and not event.done:
        return _("loading {model}").format(model=event.model), ""
    share = event.share if isinstance(event, PromptRead) else None
    return _("reading the prompt"), "" if share is None else f"{share} %"


class Written:
    """How many tokens the model has written in a turn: as the provider reports it for each answer, and until then by
    the bytes that came: four make a token, three of which are a Chinese character."""

    def __init__(self) -> None:
        self._tokens = self._bytes = 0
        self._unreported = False

    def streamed(self, text: str) -> None:
        self._bytes += len(text) if text.isascii() else len(text.encode())

    def finished(self, usage: Usage | None) -> None:
        reported = usage.output if usage is not None else 0
        self._unreported = self._unreported or not reported
        self._tokens += reported or self._estimate
        self._bytes = 0

    @property
    def _estimate(self) -> int:
        return -(-self._bytes // BYTES_PER_TOKEN)

    @property
    def tokens(self) -> int:
        return self._tokens + self._estimate

    @property
    def about(self) -> bool:
        return self._unreported or bool(self._bytes)


class StatusBar:
    """Shows the state of the runtime on `header` and `line`, and the keys of the moment below, with `turns` or without.

    `writer` puts a notice on the page. What waits or works in the background does so as a part of `screen`.
    """

    def __init__(
        self, screen: Screen[Any], header: HeaderLine, line: StatusLine, turns: Turns, writer: TranscriptWriter
    ) -> None:
        self._screen = screen
        self._header = header
        self._line = line
        self._footer = screen.query_one(KeysLine)
        self._turns = turns
        self._writer = writer
        self._runtime: RuntimeApi | None = None
        self._watch: IndexingWatch | None = None
        self._noted = ""  # the last notice about the window
        self._activity = ("", "")  # what runs by the events, and its detail
        self._ahead = ("", "")  # the same, of what the model reads before a message comes
        self._asking = self._editing = self._reading = False
        self._mode: Mode = "edits"
        self.keys = KeyMap()
        self._shell: ShellMode = ""
        self._written = Written()
        self._reported_at = 0.0  # by the monotonic clock: when the line had the figure
        line.show(label=_(STARTING))

    def connect(self, runtime: RuntimeApi) -> None:
        self._runtime = runtime

    def watch(self, runtime: RuntimeApi) -> None:
        """Show from now on what `runtime` indexes and saves outside of the turns, and no other one."""
        if self._watch is not None:
            self._watch.stop()
            self._indexing(None)
        self._watch = IndexingWatch(self._screen, runtime, self._indexing)
        self._watch.start()
        runtime.agent.on_saving = self._saving_later
        self.runs("")
        self._saving_changed()

    # The figures

    def refresh(self) -> None:
        if self._runtime is not None:
            self._show_figures(self._runtime.agent.status, self._runtime.settings)
        self.show_hint()

    def _show_figures(self, status: RuntimeStatus, settings: Settings) -> None:
        self._header.name_text = f"clawbot · {status.agent_id}"
        self._header.right_text = f"{short_model(status.model.ref)} · {weekday_of(self._line.clock.now().date())}"
        self._line.show(
            label=status.label
            if status.mode == "edits"
            else _("{session} · {mode} mode").format(session=status.label, mode=_(MODE_NAMES[status.mode])),
            gauge=gauge_of(settings, status),
            cost=status.cost,
            notes=status.notes,
        )
        note = window_note(status)
        if note and note != self._noted:
            self._writer.notice(Notice(level="info", text=note))
        self._noted = note
        self._mode = status.mode

    def choose_mode(self, name: str = "") -> str:
        """Take the mode `name`; without one, the next of plan, ask and edits in turn. Return the result in a few
        words."""
        modes = list(MODE_MEANS)
        chosen = next((mode for mode in modes if mode == name.lower()), None)
        if name and chosen is None:
            return _("modes: {modes}").format(modes=", ".join(modes))
        if self._runtime is None:
            return ""
        mode = chosen or modes[(modes.index(self._runtime.agent.status.mode) + 1) % len(modes)]
        self._runtime.agent.set_mode(mode)
        self.refresh()
        return _(MODE_MEANS[mode])

    def measure(self) -> None:
        """Show how full the context is before a model has reported it, once nothing runs."""
        if self._runtime is not None:
            work: WorkType[None] = partial(self._measure, self._runtime)
            self._screen.run_worker(work, group="measure", exclusive=True)

    async def _measure(self, runtime: RuntimeApi) -> None:
        try:
            await runtime.agent.measure()
        except (ClawbotError, OSError):
            log.exception("What is in the context could not be counted.")
        else:
            self.refresh()
            await runtime.agent.read_ahead(self._reads_ahead)
            self.refresh()
        finally:
            self._reads_ahead(None)

    def _reads_ahead(self, event: Event | None) -> None:
        self._ahead = ("", "") if event is None else reading(event)
        self._show_activity()

    def changed(self) -> None:
        self._line.show(took=Effort())
        self.refresh()
        self.measure()

    def _indexing(self, progress: Progress | None) -> None:
        self._line.show(indexing=indexing_share(progress) if progress else "")

    # What runs

    def runs(self, activity: str, detail: str = "") -> None:
        """Show that `activity` runs from now on, as far as `detail` (2/5); an empty one: nothing runs."""
        self._activity = (activity, detail)
        self._show_activity()

    def begins(self, activity: str) -> None:
        """Begin a turn, in which `activity` runs at first."""
        self._written = Written()
        self._reported_at = self._line.clock.monotonic()
        self._line.begin_turn(activity, on_page=not (self._reading or self._asking))
        self.runs(activity)

    def streamed(self, text: str) -> None:
        self._written.streamed(text)
        now = self._line.clock.monotonic()
        if now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._line.show(written=self._written.tokens)

    def answered(self, usage: Usage | None) -> None:
        self._written.finished(usage)
        self._line.show(written=self._written.tokens)

    def ends(self) -> None:
        self._line.end_turn(self._written.tokens, about=self._written.about)
        self._update_on_page()
        self.runs("")
        self.refresh()

    def show_hint(self) -> None:
        busy, saving, key = self._turns.busy, self.saving, self.keys.first("stop")
        hint = _(SHELL_HINTS[self._shell]) if self._shell and not busy else ""
        if (busy or saving) and key and not self._editing:
            hint = (_("{key} skips") if saving else _("{key} stops")).format(key=key)
        self._line.show(hint=hint)
        self._footer.keys = keys_of(
            self.keys, self._mode, asking=self._asking, reading=self._reading, busy=busy, typing=self._shell
        )

    def asks(self, asking: bool) -> None:
        self._asking = asking
        self._update_on_page()
        self.show_hint()

    def types(self, shell: ShellMode) -> None:
        self._shell = shell
        self.show_hint()

    def edits(self, editing: bool) -> None:
        """Whether Esc goes back: to the question of a command that is edited, from the search in the page."""
        self._editing = editing
        self.show_hint()

    def reads(self, reading: bool) -> None:
        if reading != self._reading:
            self._reading = reading
            self._update_on_page()
            self.show_hint()

    def _update_on_page(self) -> None:
        """Show what runs where it can be seen: on the page, or here if the user has scrolled up or is asked."""
        self._line.show(on_page=self._line.in_turn and not (self._reading or self._asking))

    def show_on_page(self, page: TranscriptView) -> None:
        """Show what runs and its figures, or what the last turn took, in the last line of `page`."""
        state = self._line.state
        shown = not state.activity or (self._line.in_turn and not self._asking)
        self._writer.motion.wait(state.activity, figures(state, page.page_width) if shown else "")

    @property
    def saving(self) -> bool:
        return self._runtime is not None and self._runtime.agent.saving

    def _saving_later(self) -> None:
        # Through the screen's own queue: memory is saved by a task in which a timer would not belong to the app.
        self._screen.call_later(self._saving_changed)

    def _saving_changed(self) -> None:
        self._show_activity()
        self._turns.changed()

    def _show_activity(self) -> None:
        """Show what runs; while memory is saved, that is all that does."""
        activity, detail = (_(SAVING), "") if self.saving else self._activity if self._activity[0] else self._ahead
        self._line.run_clock(activity, detail)
