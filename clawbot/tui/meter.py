"""The one line under the prompt as a pure function: which parts, how wide, what goes when there is no room."""

from __future__ import annotations

from dataclasses import dataclass

from clawbot.tui.render.lines import Span, ellipsis, width_of

BAR = 18  # cells of the meter
SEPARATOR = " · "
ACTIVITY = 24  # cells for what runs, where half of the line has them
PLACE = 8  # cells that agent and session have at least
FULL_WIDTH = 80  # below, parts are dropped from the right


@dataclass(frozen=True)
class Gauge:
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


@dataclass(frozen=True)
class StatusState:
    """All that the status line shows. `place` is agent and session, `cost` in US dollars, `activity` what runs now,
    `seconds` for how long, `hint` the key that matters most at the moment; `indexing` stands in place of the count of
    notes while the memory is indexed."""

    place: str = ""
    gauge: Gauge = Gauge()
    cost: float | None = None
    notes: int = 0
    indexing: str = ""
    activity: str = ""
    seconds: int = 0
    hint: str = ""


def short(tokens: int) -> str:
    """Tokens in few characters: 950, 1.2k, 122k, 1.3M."""
    if tokens < 1000:
        return str(tokens)
    if tokens < 999_500:
        return f"{tokens / 1000:.1f}k" if tokens < 9950 else f"{tokens / 1000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"


def duration(seconds: int) -> str:
    """Seconds as people say them: 4 s, 2 min 05 s."""
    return f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60:02d} s"


def bar(gauge: Gauge, cells: int = BAR) -> list[Span]:
    """The meter: what is used, what is free, and where flush and compaction come."""
    used = min(cells, round(cells * gauge.tokens / gauge.window))
    if gauge.tokens and not used:
        used = 1
    marks = {min(cells - 1, cells * at // gauge.window) for at in (gauge.flush, gauge.compaction) if at}
    signs = ["┊" if place in marks else "█" if place < used else "░" for place in range(cells)]
    full, free = "".join(signs[:used]), "".join(signs[used:])
    return [Span("▕", "meter-edge"), Span(full, gauge.level), Span(free, "meter-free"), Span("▏", "meter-edge")]


def gauge_parts(gauge: Gauge) -> list[list[Span]]:
    """The forms of the meter, the longest first: with its figures, the bar and its percentage, the percentage alone.
    Nothing was counted where there are no tokens: then there is a bar at most."""
    about = "" if gauge.exact else "~"
    if not gauge.window:
        return [[Span(f"{about}{short(gauge.tokens)} tokens")]] if gauge.tokens else []
    if not gauge.tokens:
        return [bar(gauge)]
    percent = Span(f"{about}{round(100 * gauge.tokens / gauge.window)}%", gauge.level)
    medium = [*bar(gauge), percent._replace(text=f" {percent.text}")]
    return [[*medium, Span(f" {short(gauge.tokens)}/{short(gauge.window)}")], medium, [percent]]


def status_line(state: StatusState, width: int) -> list[Span]:
    """The spans of the line, exactly `width` cells: the facts left, what happens right."""
    right = _right(state, width)
    room = width - sum(width_of(span.text) for span in right) - 3
    left = [Span(" "), Span(ellipsis(state.place, max(PLACE, room // 2)), "place")]
    for forms in _parts(state):
        fitting = (form for form in forms if _cells(left) + len(SEPARATOR) + _cells(form) <= room)
        form = next(fitting, None)
        if form is None:
            break
        left += [Span(SEPARATOR), *form]
        if form is not forms[0]:
            break
    space = width - _cells(left) - _cells(right) - 1
    if space < 0:
        return [Span(ellipsis("".join(span.text for span in left), width))]
    return [*left, Span(" " * space), *right, Span(" ")]


def _parts(state: StatusState) -> list[list[list[Span]]]:
    """The facts in their order, each in its forms, the longest first."""
    parts = [gauge_parts(state.gauge)]
    if state.cost is not None:
        parts.append([[Span(f"${state.cost:.2f}" if state.cost >= 0.01 or not state.cost else "<$0.01")]])
    if state.indexing:
        parts.append([[Span(state.indexing)]])
    elif state.notes:
        parts.append([[Span(f"memory {state.notes:,} note{'s' if state.notes != 1 else ''}")]])
    return [forms for forms in parts if forms]


def _right(state: StatusState, width: int) -> list[Span]:
    """What runs and the key. What runs is cut where the percentage of the meter would have no room."""
    if not state.activity:
        return [Span(state.hint)] if state.hint else []
    hint = [Span(f"{SEPARATOR}{state.hint}")] if state.hint and width >= FULL_WIDTH // 2 else []
    time = f" {duration(state.seconds)}"
    kept = min(PLACE, width_of(state.place)) + sum(len(SEPARATOR) + _cells(form[-1]) for form in _parts(state)[:1])
    room = min(max(width // 3, min(ACTIVITY, width // 2)), width - kept - len(time) - _cells(hint) - 4)
    return [Span(f"{ellipsis(state.activity, max(10, room))}{time}", "activity"), *hint]


def _cells(spans: list[Span]) -> int:
    return sum(width_of(span.text) for span in spans)
