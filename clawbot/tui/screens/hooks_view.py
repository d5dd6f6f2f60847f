"""The look of `/hooks`: a table of the hooks, and what is known about one of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from textual.content import Content

from clawbot.agent.hooks_text import MISSING, NEVER, OFF, READY, result_of, state_of
from clawbot.agent.views import HookStatus
from clawbot.tui.render.lines import ellipsis, width_of
from clawbot.tui.render.sanitize import clean, clean_line
from clawbot.tui.screens.parts import age

HEADS = ("Status", "Hook", "Events", "Last run", "Source")
GAP = 2  # cells between two columns
# The columns that are left out first where there is no room, and those that are made narrower before that.
LEFT_OUT = ("Source", "Events", "Last run")
NARROWED = {"Events": 14, "Hook": 16, "Last run": 16}
MARKS = {READY: ("●", "$text-success"), OFF: ("○", "$foreground 60%"), MISSING: ("○", "$text-warning")}
BROKEN_MARK = ("✕", "$text-error")
QUIET = "$foreground 60%"


@dataclass(frozen=True)
class Table:
    """The head line and a line for each hook, in columns."""

    head: Content
    rows: list[Content]


def hooks_table(hooks: Sequence[HookStatus], width: int, now: datetime) -> Table:
    """The table of `hooks` in `width` cells; `now` is in the user's zone."""
    heads = {head: head for head in HEADS}
    cells = [_cells(hook, now) for hook in hooks]
    widths = fitted({head: max(width_of(row[head]) for row in (heads, *cells)) for head in HEADS}, width)
    rows = [_row(hook, row, widths) for hook, row in zip(hooks, cells, strict=True)]
    return Table(_joined(heads, widths, dict.fromkeys(HEADS, QUIET)), rows)


def fitted(widths: dict[str, int], width: int) -> dict[str, int]:
    """The widths of the columns, wide by their texts, so that all of them fit into `width` cells."""
    widths = dict(widths)
    for head, least in NARROWED.items():
        widths[head] -= max(0, min(widths[head] - least, _over(widths, width)))
    for head in LEFT_OUT:
        if _over(widths, width) > 0:
            del widths[head]
    return widths


def _over(widths: dict[str, int], width: int) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1) - width


def _cells(hook: HookStatus, now: datetime) -> dict[str, str]:
    state = state_of(hook)
    last = result_of(hook) if hook.at is None else f"{result_of(hook)} · {age(hook.at, now)}"
    texts = (f"{_mark(state)[0]} {state}", clean_line(hook.name), clean_line(", ".join(hook.events)), last, hook.source)
    return dict(zip(HEADS, texts, strict=True))


def _mark(state: str) -> tuple[str, str]:
    return MARKS.get(state, BROKEN_MARK)


def _row(hook: HookStatus, cells: dict[str, str], widths: dict[str, int]) -> Content:
    state = state_of(hook)
    styles = dict.fromkeys(HEADS, "" if state == READY else QUIET)
    styles["Status"] = _mark(state)[1]
    if hook.status not in ("", "ok"):
        styles["Last run"] = "$text-warning"
    return _joined(cells, widths, styles)


def _joined(cells: dict[str, str], widths: dict[str, int], styles: dict[str, str]) -> Content:
    parts = []
    for head, room in widths.items():
        text = ellipsis(cells[head], room)
        parts.append(Content.styled(text + " " * (room - width_of(text)), styles[head]))
    return Content(" " * GAP).join(parts)


def hook_details(hook: HookStatus, zone: tzinfo | None) -> Content:
    """What one hook is for, where it is, what keeps it from running, what its last run said; times are in `zone`."""
    lines = [Content.styled(clean_line(hook.description) or "(no description)", "$foreground 90%")]
    facts = [
        ("folder", clean_line(hook.folder), ""),
        ("events", clean_line(", ".join(hook.events)), ""),
        ("problem", clean_line(hook.problem), "$text-error"),
        ("missing", clean_line(", ".join(hook.missing)), "$text-warning"),
        ("last run", _last_run(hook, zone), ""),
        ("error", clean(hook.error).strip(), "$text-error"),
    ]
    for name, text, style in facts:
        if text:
            lines.append(Content.assemble((f"{name:<10}", QUIET), (text, style)))
    return Content("\n").join(lines)


def _last_run(hook: HookStatus, zone: tzinfo | None) -> str:
    if hook.at is None:
        return NEVER
    return f"{clean_line(hook.topic)}: {result_of(hook)}, {hook.at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
