"""The quiet lines around the conversation: the header, the status line, what is queued, what is new below.

The text of the status line is a pure function, `status_line`: which parts, how wide, what goes when there is no room.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from textual.events import Click
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from clawbot.clock import Clock
from clawbot.text.interface import _, ngettext
from clawbot.text.sanitize import clean_line
from clawbot.tui.render.lines import StyledSpan, cells_of, duration, ellipsis, short, width_of
from clawbot.tui.widgets.line_view import Painted

BAR = 18  # cells of the meter
SEPARATOR = " · "
ACTIVITY = 24  # cells for what runs, where half of the line has them
MIN_LABEL = 8  # cells that agent and session have at least
MIN_WRITTEN = 60  # cells of a line that shows what the model wrote
FULL_WIDTH = 80  # below, parts are dropped from the right


class Gauge(Struct, frozen=True):
    """How full the context is, in tokens. `flush` and `compaction` are where those come, 0 when they don't."""

    tokens: int = 0
    window: int = 0
    exact: bool = True
    flush: int = 0
    compaction: int = 0

    @property
    def level(self) -> str:
        """The style of the bar: quiet, then warning from the flush on, then error from the compaction on."""
        warning = self.flush or round(self.window * 0.75)
        error = self.compaction or round(self.window * 0.9)
        if self.window and self.tokens >= error:
            return "meter-error"
        return "meter-warning" if self.window and self.tokens >= warning else "meter"


class Effort(Struct, frozen=True):
    """What a turn took: its `seconds`, and the `tokens` that the model wrote; `about`: nobody counted them all."""

    seconds: int = 0
    tokens: int = 0
    about: bool = False


class StatusState(Struct, frozen=True):
    """All that the status line shows. `label` is agent and session, `cost` in US dollars, `activity` what runs now,
    `seconds` how long the turn has taken so far (outside of one: the activity), `written` the tokens that the model
    has written in it, `took` what the last turn took, `hint` the key that matters most at the moment; `indexing` is
    in place of the count of notes while the memory is indexed; `editing` is the mode of vi; `on_page`: the last line of
    the page shows what runs."""

    label: str = ""
    gauge: Gauge = Gauge()
    cost: float | None = None
    notes: int = 0
    indexing: str = ""
    activity: str = ""
    seconds: int = 0
    written: int = 0
    took: Effort = Effort()
    hint: str = ""
    editing: str = ""
    on_page: bool = False


def bar(gauge: Gauge, cells: int = BAR) -> list[StyledSpan]:
    """Return the meter: what is used, what is free, and where flush and compaction come."""
    used = min(cells, round(cells * gauge.tokens / gauge.window))
    if gauge.tokens and not used:
        used = 1
    marks = {min(cells - 1, cells * at // gauge.window) for at in (gauge.flush, gauge.compaction) if at}
    signs = ["┊" if label in marks else "█" if label < used else "░" for label in range(cells)]
    full, free = "".join(signs[:used]), "".join(signs[used:])
    return [
        StyledSpan("▕", "meter-edge"),
        StyledSpan(full, gauge.level),
        StyledSpan(free, "meter-free"),
        StyledSpan("▏", "meter-edge"),
    ]


@lru_cache(maxsize=4)
def gauge_parts(gauge: Gauge) -> list[list[StyledSpan]]:
    """Return the forms of the meter, the longest first: with its figures, the bar and its percentage, the percentage
    alone. Nothing was counted where there are no tokens: then there is a bar at most."""
    about = "" if gauge.exact else "~"
    if not gauge.window:
        return [[StyledSpan(_("{n} tokens").format(n=f"{about}{short(gauge.tokens)}"))]] if gauge.tokens else []
    if not gauge.tokens:
        return [bar(gauge)]
    percent = StyledSpan(f"{about}{round(100 * gauge.tokens / gauge.window)}%", gauge.level)
    medium = [*bar(gauge), percent._replace(text=f" {percent.text}")]
    return [[*medium, StyledSpan(f" {short(gauge.tokens)}/{short(gauge.window)}")], medium, [percent]]


def status_line(state: StatusState, width: int) -> list[StyledSpan]:
    """Return the spans of the line, exactly `width` cells: the facts left, what happens right."""
    parts = _parts(state)
    right = _right(state, width, parts)
    taken = cells_of(right) + 1
    room = width - taken - 2
    mode = [StyledSpan(f"{state.editing.upper()} ", "activity")] if state.editing else []
    left = [StyledSpan(" "), *mode, StyledSpan(ellipsis(state.label, max(MIN_LABEL, room // 2)), "label")]
    used = cells_of(left)
    for forms in parts:
        for form in forms:
            cells = len(SEPARATOR) + cells_of(form)
            if used + cells <= room:
                left += [StyledSpan(SEPARATOR), *form]
                used += cells
                break
        else:
            break
        if form is not forms[0]:
            break
    space = width - used - taken
    if space < 0:
        return [StyledSpan(ellipsis("".join(span.text for span in left), width))]
    return [*left, StyledSpan(" " * space), *right, StyledSpan(" ")]


def _parts(state: StatusState) -> list[list[list[StyledSpan]]]:
    """Return the facts in their order, each in its forms, the longest first."""
    parts = [gauge_parts(state.gauge)]
    if state.cost:
        parts.append([[StyledSpan(f"${state.cost:.2f}" if state.cost >= 0.01 else "<$0.01")]])
    if state.indexing:
        parts.append([[StyledSpan(state.indexing)]])
    elif state.notes:
        notes = ngettext("memory {n:,} note", "memory {n:,} notes", state.notes).format(n=state.notes)
        parts.append([[StyledSpan(notes)]])
    return [forms for forms in parts if forms]


def _right(state: StatusState, width: int, parts: list[list[list[StyledSpan]]]) -> list[StyledSpan]:
    """Return what runs and the key. What runs is cut where the percentage of the meter would have no room."""
    if state.activity and state.on_page:
        return []
    if not state.activity:
        return [StyledSpan(state.hint)] if state.hint else []
    hint = [StyledSpan(f"{SEPARATOR}{state.hint}")] if state.hint and width >= FULL_WIDTH // 2 else []
    time = f" {duration(state.seconds)}{_written(state.written, width)}"
    kept = min(MIN_LABEL, width_of(state.label)) + sum(len(SEPARATOR) + cells_of(form[-1]) for form in parts[:1])
    room = min(max(width // 3, min(ACTIVITY, width // 2)), width - kept - len(time) - cells_of(hint) - 4)
    return [StyledSpan(f"{ellipsis(state.activity, max(10, room))}{time}", "activity"), *hint]


def figures(state: StatusState, width: int) -> str:
    """Return what follows the activity in the last line of the page, or what the last turn took; "" if nothing."""
    if state.activity:
        hint = f"{SEPARATOR}{state.hint}" if state.hint else ""
        return f" {duration(state.seconds)}{_written(state.written, width)}{hint}"
    took = state.took
    return f"{duration(took.seconds)}{_written(took.tokens, width, about=took.about)}" if took.seconds else ""


def _written(tokens: int, width: int, *, about: bool = False) -> str:
    """Return what the model wrote, in as many characters as there is room for."""
    if not tokens or width < MIN_WRITTEN:
        return ""
    count = f"{'~' if about else ''}{short(tokens)}"
    return f"{SEPARATOR}↓ {_('{n} tokens').format(n=count) if width >= FULL_WIDTH else count}"


STATUS_STYLES = ("meter", "meter-warning", "meter-error", "meter-edge", "meter-free", "label", "activity")


class HeaderLine(Painted):
    """Who and where at the left, the model and the date at the right."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"header--name", "header--rest"}
    prefix = "header--"
    name_text: reactive[str] = reactive("clawbot")
    right_text: reactive[str] = reactive("")

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        name = clean_line(self.name_text)
        right = ellipsis(clean_line(self.right_text), max(0, width - width_of(name) - 4))
        space = max(1, width - width_of(name) - width_of(right) - 2)
        spans = (StyledSpan(f" {name}", "name"), StyledSpan(f"{' ' * space}{right} ", "rest"))
        return Strip(self.segments(spans)).crop_extend(0, width, self.named("rest"))


class StatusLine(Painted):
    """One line of facts. Its clock ticks only while something runs."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"status--{name}" for name in STATUS_STYLES}
    prefix = "status--"
    state: reactive[StatusState] = reactive(StatusState())

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self._activity = ""
        self._started: float | None = None
        self._turn: float | None = None  # when the turn began
        self._ticker: Timer | None = None

    def begin_turn(self, activity: str, *, on_page: bool) -> None:
        self._turn = self.clock.monotonic()
        self.show(activity=activity, on_page=on_page, seconds=0, written=0, took=Effort())

    def end_turn(self, tokens: int, *, about: bool) -> None:
        """End the turn, in which the model wrote so many `tokens`, or `about` so many. What it took is shown there
        until the next one begins."""
        if self._turn is not None:
            self.show(written=0, took=Effort(int(self.clock.monotonic() - self._turn), tokens, about))
        self._turn = None

    @property
    def in_turn(self) -> bool:
        return self._turn is not None

    def run_clock(self, activity: str, detail: str = "") -> None:
        """Run `activity` from now on; an empty one stops the clock. The same activity goes on counting, also when its
        `detail` (2/5) is another one."""
        shown = f"{activity} {detail}".rstrip()
        if activity and activity == self._activity:
            self.show(activity=shown)
            return
        self._activity = activity
        self._started = self.clock.monotonic() if activity else None
        self.show(activity=shown, seconds=self.state.seconds if self._turn is not None else 0)
        if activity and self._ticker is None:
            self._ticker = self.set_interval(1.0, self._tick)
        elif not activity and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def show(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    def _tick(self) -> None:
        began = self._started if self._turn is None else self._turn
        if began is not None:
            self.show(seconds=int(self.clock.monotonic() - began))

    def render_line(self, y: int) -> Strip:
        segments = self.segments(status_line(self.state, self.size.width))
        return Strip(segments).crop_extend(0, self.size.width, self.rich_style)


Keys = Sequence[tuple[str, str]]
"""Keys, each with what it does, the most important one first."""


def keys_line(keys: Keys, width: int) -> list[StyledSpan]:
    """Return the spans of the footer: as many of `keys` as fit into `width` cells, none of them cut."""
    spans: list[StyledSpan] = []
    room = width - 2
    for key, text in keys:
        shown = [StyledSpan(SEPARATOR if spans else " "), StyledSpan(key, "key"), StyledSpan(f" {text}")]
        room -= cells_of(shown)
        if room < 0:
            break
        spans += shown
    return spans


class KeysLine(Painted):
    """The footer: the keys that mean something now."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key"}
    prefix = "keys--"
    keys: reactive[Keys] = reactive(())

    def render_line(self, y: int) -> Strip:
        strip = Strip(self.segments(keys_line(self.keys, self.size.width)))
        return strip.crop_extend(0, self.size.width, self.rich_style)


class QueueLines(Widget):
    """What was typed during a turn and waits: one quiet line each."""

    SHOWN = 4
    texts: reactive[tuple[str, ...]] = reactive((), layout=True)
    coming: reactive[str] = reactive("", layout=True)
    key = ""

    def show(self, texts: Sequence[str], *, coming: str = "", key: str = "") -> None:
        """Show what waits, in this order; `key` takes the last one back; `coming` is being sent, and remains."""
        self.texts = tuple(texts)
        self.key = key
        self.coming = coming
        self.display = bool(texts or coming)

    def render_line(self, y: int) -> Strip:
        rows = [self._filled(_("sending: {text}"), self.coming)] if self.coming else []
        rows += [self._filled(_("queued: {text}"), text) for text in self.texts[: self.SHOWN]]
        if (more := len(self.texts) - self.SHOWN) > 0:
            rows.append(f"   {ngettext('and {n} more', 'and {n} more', more).format(n=more)}")
        elif self.texts and self.key:
            hint = f"   {_('{key} takes it back').format(key=self.key)}"
            rows[-1] = self._filled(_("queued: {text}"), self.texts[-1], hint)
        strip = Strip([Segment(rows[y] if y < len(rows) else "", self.rich_style)])
        return strip.crop_extend(0, self.size.width, self.rich_style)

    def _filled(self, template: str, text: str, hint: str = "") -> str:
        room = self.size.width - width_of(template) + len("{text}") - width_of(hint) - 6
        return f"   {template.format(text=ellipsis(clean_line(text[:500]), max(10, room)))}{hint}"

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return bool(self.coming) + min(len(self.texts), self.SHOWN + 1)


class NewBelow(Static):
    """`↓ 3 new`, or `↓ 12 more lines` of what began in sight: the reader has scrolled up, and new text comes. A
    click goes there."""

    def show(self, count: int, lines: int) -> None:
        """Show so many new things, else so many new lines; hidden while there is nothing new."""
        more = ngettext("↓ {n:,} more line · end", "↓ {n:,} more lines · end", lines).format(n=lines) if lines else ""
        text = _("↓ {n} new · end").format(n=count) if count else more
        self.update(text)
        self.display = bool(text)

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.run_action("screen.to_end")
