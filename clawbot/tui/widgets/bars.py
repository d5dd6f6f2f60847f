"""The quiet lines around the conversation: the header, the status line, what is queued, what is new below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from clawbot.clock import Clock
from clawbot.tui.meter import StatusState, status_line
from clawbot.tui.render.lines import ellipsis, width_of
from clawbot.tui.render.sanitize import clean_line
from clawbot.tui.widgets.palette import Palette

STATUS_STYLES = ("meter", "meter-warning", "meter-error", "meter-edge", "meter-free", "place", "activity")


class Header(Widget):
    """Who and where at the left, the model and the date at the right."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"header--name", "header--rest"}
    name_text: reactive[str] = reactive("clawbot")
    right_text: reactive[str] = reactive("")

    def __init__(self) -> None:
        super().__init__()
        self.palette = Palette(self, "header--")

    def notify_style_update(self) -> None:
        """The theme has changed."""
        super().notify_style_update()
        self.palette.forget()

    def render_line(self, y: int) -> Strip:
        """The one line."""
        width = self.size.width
        name = clean_line(self.name_text)
        right = ellipsis(clean_line(self.right_text), max(0, width - width_of(name) - 4))
        space = max(1, width - width_of(name) - width_of(right) - 2)
        bold, rest = self.palette.named("name"), self.palette.named("rest")
        segments = [Segment(" " + name, bold), Segment(" " * space + right + " ", rest)]
        return Strip(segments).crop_extend(0, width, rest)


class StatusLine(Widget):
    """One line of facts. Its clock ticks only while something runs."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"status--{name}" for name in STATUS_STYLES}
    state: reactive[StatusState] = reactive(StatusState())

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.palette = Palette(self, "status--")
        self._activity = ""
        self._started: float | None = None
        self._ticker: Timer | None = None

    def notify_style_update(self) -> None:
        """The theme has changed."""
        super().notify_style_update()
        self.palette.forget()

    def run_clock(self, activity: str, detail: str = "") -> None:
        """`activity` runs from now on; an empty one stops the clock. The same activity goes on counting, also when its
        `detail` (2/5) is another one."""
        shown = f"{activity} {detail}".rstrip()
        if activity and activity == self._activity:
            self.show(activity=shown)
            return
        self._activity = activity
        self._started = self.clock.monotonic() if activity else None
        self.show(activity=shown, seconds=0)
        if activity and self._ticker is None:
            self._ticker = self.set_interval(1.0, self._tick)
        elif not activity and self._ticker is not None:
            self._ticker.stop()
            self._ticker = None

    def show(self, **changes: object) -> None:
        """Change fields of the state."""
        values = {name: getattr(self.state, name) for name in self.state.__dataclass_fields__}
        self.state = StatusState(**{**values, **changes})

    def _tick(self) -> None:
        if self._started is not None:
            self.show(seconds=int(self.clock.monotonic() - self._started))

    def render_line(self, y: int) -> Strip:
        """The one line."""
        spans = status_line(self.state, self.size.width)
        segments = [Segment(span.text, self.palette.style(span)) for span in spans]
        return Strip(segments).crop_extend(0, self.size.width, self.rich_style)


class QueueLines(Widget):
    """What was typed during a turn and waits: one quiet line each."""

    SHOWN = 4
    texts: reactive[tuple[str, ...]] = reactive((), layout=True)
    coming: reactive[str] = reactive("", layout=True)

    def show(self, texts: Sequence[str], *, coming: str = "") -> None:
        """These wait, in this order; `coming` is taken up, and can't be taken back."""
        self.texts = tuple(texts)
        self.coming = coming
        self.display = bool(texts or coming)

    def render_line(self, y: int) -> Strip:
        """Line `y`."""
        if self.coming:
            if not y:
                text = ellipsis(clean_line(self.coming[:500]), max(10, self.size.width - 14))
                return self._line(f"   sending: {text}")
            y -= 1
        more = len(self.texts) - self.SHOWN
        if y >= self.SHOWN and more > 0:
            text = f"   and {more} more"
        else:
            hint = "   alt+up takes it back" if y == len(self.texts) - 1 else ""
            line = clean_line(self.texts[y][:500]) if y < len(self.texts) else ""
            text = f"   queued: {ellipsis(line, max(10, self.size.width - 14 - len(hint)))}{hint}"
        return self._line(text)

    def _line(self, text: str) -> Strip:
        return Strip([Segment(text, self.rich_style)]).crop_extend(0, self.size.width, self.rich_style)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """A line for each, up to a limit."""
        return bool(self.coming) + min(len(self.texts), self.SHOWN + 1)


class NewBelow(Widget):
    """`↓ 3 new`: the reader has scrolled up, and the talk goes on. A click goes there."""

    class Pressed(Message):
        """The reader wants to see it."""

    count: reactive[int] = reactive(0)

    def watch_count(self, count: int) -> None:
        """Hidden while there is nothing new."""
        self.display = count > 0

    def render(self) -> str:
        """The count and the key."""
        return f"↓ {self.count} new · end"

    def get_content_width(self, container: object, viewport: object) -> int:
        """As wide as its text."""
        return len(self.render())

    def on_click(self, event: Click) -> None:
        """Go there."""
        event.stop()
        self.post_message(self.Pressed())
