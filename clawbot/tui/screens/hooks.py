"""The hooks on the screen: a table of which are ready, what is missing and how each ran last, and one in detail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList, Static

from clawbot.agent.status import MISSING, NEVER, OFF, READY, HookStatus, result_of, state_of
from clawbot.clock import Clock, age
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _
from clawbot.text.sanitize import clean, clean_line
from clawbot.tui.render.lines import ellipsis, padded, width_of
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi


HEADS = (N_("Status"), N_("Hook"), N_("Events"), N_("Last run"), N_("Source"))
GAP = 2  # cells between two columns
LOW = 18  # rows below which there is no room for air
# The columns that are left out first where there is no room, and those that are made narrower before that.
LEFT_OUT = ("Source", "Events", "Last run")
NARROWED = {"Events": 14, "Hook": 16, "Last run": 16}
MARKS = {READY: ("●", "$text-success"), OFF: ("○", "$foreground 70%"), MISSING: ("○", "$text-warning")}
BROKEN_MARK = ("✕", "$text-error")
QUIET = "$foreground 70%"


def hooks_table(hooks: Sequence[HookStatus], width: int, now: datetime) -> tuple[Content, list[Content]]:
    """Return the head of the table of `hooks` in `width` cells, and a line for each; `now` is in the user's zone."""
    heads = {head: _(head) for head in HEADS}
    cells = [_cells(hook, now) for hook in hooks]
    widths = fitted({head: max(width_of(row[head]) for row in (heads, *cells)) for head in HEADS}, width)
    rows = [_row(hook, row, widths) for hook, row in zip(hooks, cells, strict=True)]
    return _joined(heads, widths, dict.fromkeys(HEADS, QUIET)), rows


def fitted(widths: dict[str, int], width: int) -> dict[str, int]:
    """Return the widths of the columns, wide by their texts, so that all of them fit into `width` cells."""
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
    texts = (
        f"{_mark(state)[0]} {_(state)}",
        clean_line(hook.name),
        clean_line(", ".join(hook.events)),
        last,
        hook.source,
    )
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
    """Return what one hook is for, its path, what keeps it from running, the result of its last run, in `zone`."""
    lines = [Content.styled(clean_line(hook.description) or _("(no description)"), "$foreground 90%")]
    facts = [
        (_("folder"), clean_line(hook.folder), ""),
        (_("events"), clean_line(", ".join(hook.events)), ""),
        (_("problem"), clean_line(hook.problem), "$text-error"),
        (_("off"), clean_line(_(hook.off_because)), "$text-warning"),
        (_("missing"), clean_line(", ".join(hook.missing)), "$text-warning"),
        (_("last run"), _last_run(hook, zone), ""),
        (_("error"), clean(hook.error).strip(), "$text-error"),
    ]
    for name, text, style in facts:
        if text:
            lines.append(Content.assemble((padded(name, 10), QUIET), (text, style)))
    return Content("\n").join(lines)


def _last_run(hook: HookStatus, zone: tzinfo | None) -> str:
    if hook.at is None:
        return _(NEVER)
    template = _("{event}: {result}, {time:%Y-%m-%d %H:%M:%S}")
    return template.format(event=clean_line(hook.topic), result=result_of(hook), time=hook.at.astimezone(zone))


LOADING = N_("looking for hooks …")
NO_HOOKS = N_("No hooks yet.\n\nPut a folder with a HOOK.md and a handler.py here, then press r:")


class HooksScreen(OverScreen[None]):
    """A table of the hooks; the highlighted one is described below it."""

    CSS_PATH: ClassVar = "../styles/hooks.tcss"
    BINDINGS: ClassVar = [
        Binding("escape,q", "back", "Back"),
        Binding("r", "refresh", "Refresh"),
        Binding("j", "move('cursor_down')", "Down", show=False),
        Binding("k", "move('cursor_up')", "Up", show=False),
    ]

    def __init__(self, runtime: RuntimeApi, *, clock: Clock) -> None:
        super().__init__()
        self.runtime = runtime
        self.clock = clock
        self.hooks: list[HookStatus] = []
        self.chosen = ""  # the name of the highlighted hook

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = _("Hooks")
            yield Static(id="head")
            yield OptionList(id="rows", markup=False)
            yield Static(Content.styled(LOADING, "$foreground 70%"), id="details")
            yield KeyLine([KeyHint("↑ ↓", "choose", "screen.move('cursor_down')"), *_KEYS])

    def on_mount(self) -> None:
        self.query_one("#rows").focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        self.run_worker(self._load(), group="hooks", exclusive=True)

    async def _load(self) -> None:
        try:
            hooks = await self.runtime.agent.hooks.status()
        except (ClawbotError, OSError) as error:
            if not self.has_left:
                self.query_one("#details", Static).update(Content.styled(clean(f"{error}"), "$text-error"))
            return
        if not self.has_left:
            self.hooks = hooks
            self._show()
            self.query_one("#frame").border_title = f"{_('Hooks')} · {len(hooks)}"

    def _show(self) -> None:
        rows = self.query_one("#rows", OptionList)
        self.set_class(not self.hooks, "-empty")
        if not self.hooks:
            folder = f"{self.runtime.paths.hooks}"
            self.query_one("#details", Static).update(Content.assemble((_(NO_HOOKS), "$foreground 70%"), f"\n{folder}"))
            return
        head, lines = hooks_table(self.hooks, self.inner_width, self.clock.now())
        self.query_one("#head", Static).update(head)
        rows.set_options(lines)
        names = [hook.name for hook in self.hooks]
        rows.highlighted = names.index(self.chosen) if self.chosen in names else 0

    @on(OptionList.OptionHighlighted, "#rows")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        hook = self.hooks[event.option_index]
        self.chosen = hook.name
        self.query_one("#details", Static).update(hook_details(hook, self.clock.now().tzinfo))

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height < LOW, "-low")
        if self.hooks:
            self._show()

    async def action_move(self, how: str) -> None:
        await self.query_one("#rows").run_action(how)


_KEYS = (KeyHint("r", N_("look again"), "screen.refresh"), KeyHint("esc", N_("back"), "screen.back"))
