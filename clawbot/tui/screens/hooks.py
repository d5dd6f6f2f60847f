"""The hooks on the screen: which are ready, what is missing, how each ran last."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList, Static

from clawbot.agent.views import HookStatus
from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.tui.render.sanitize import clean
from clawbot.tui.screens.hooks_view import hook_details, hooks_table
from clawbot.tui.screens.over import OverScreen
from clawbot.tui.screens.parts import Key, KeyLine, plural

if TYPE_CHECKING:
    from clawbot.runtime import Runtime

MARGIN = 6  # cells left and right of the table, the scroll bar included
LOOKING = "looking for hooks …"
NO_HOOKS = "There are no hooks. One is a folder with a HOOK.md and a handler.py, here:"


class HooksScreen(OverScreen[None]):
    """A table of the hooks; the highlighted one is told about below it."""

    CSS_PATH: ClassVar = "../styles/hooks.tcss"
    BINDINGS: ClassVar = [
        Binding("escape,q", "close", "Back"),
        Binding("r", "refresh", "Look again"),
        Binding("j", "move('cursor_down')", "Down", show=False),
        Binding("k", "move('cursor_up')", "Up", show=False),
    ]

    def __init__(self, runtime: Runtime, *, clock: Clock) -> None:
        super().__init__()
        self.runtime = runtime
        self.clock = clock
        self.hooks: list[HookStatus] = []
        self.chosen = ""  # the name of the highlighted hook

    def compose(self) -> ComposeResult:
        """The table, what is known about one hook, the keys."""
        yield Static("hooks", id="title")
        yield Static(id="head")
        yield OptionList(id="rows", markup=False)
        yield Static(Content.styled(LOOKING, "$foreground 60%"), id="details")
        yield KeyLine([Key("↑ ↓", "choose", "screen.move('cursor_down')"), *_KEYS])

    def on_mount(self) -> None:
        """Looking reads folders."""
        self.query_one("#rows").focus()
        self.action_refresh()

    def action_refresh(self) -> None:
        """Look for the hooks again."""
        self.run_worker(self._load(), group="hooks", exclusive=True)

    async def _load(self) -> None:
        try:
            hooks = await self.runtime.hooks()
        except (ClawbotError, OSError) as error:
            if not self.has_left:
                self.query_one("#details", Static).update(Content.styled(clean(f"{error}"), "$text-error"))
            return
        if not self.has_left:
            self.hooks = hooks
            self._show()
            self.query_one(KeyLine).status = plural(len(hooks), "hook") if hooks else ""

    def _show(self) -> None:
        """Show the table as wide as the screen is; what was highlighted stays so."""
        rows = self.query_one("#rows", OptionList)
        self.set_class(not self.hooks, "-empty")
        if not self.hooks:
            folder = f"{self.runtime.paths.hooks}"
            self.query_one("#details", Static).update(Content.assemble((NO_HOOKS, "$foreground 60%"), f"\n{folder}"))
            return
        table = hooks_table(self.hooks, max(30, self.size.width - MARGIN), self.clock.now())
        self.query_one("#head", Static).update(table.head)
        rows.set_options(table.rows)
        names = [hook.name for hook in self.hooks]
        rows.highlighted = names.index(self.chosen) if self.chosen in names else 0

    @on(OptionList.OptionHighlighted, "#rows")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        hook = self.hooks[event.option_index]
        self.chosen = hook.name
        self.query_one("#details", Static).update(hook_details(hook, self.clock.now().tzinfo))

    def on_resize(self, event: Resize) -> None:
        """The columns fit the screen."""
        if self.hooks:
            self._show()

    async def action_move(self, how: str) -> None:
        """Move in the table."""
        await self.query_one("#rows").run_action(how)

    def action_close(self) -> None:
        """Go back to the conversation."""
        self.dismiss(None)


_KEYS = (Key("r", "look again", "screen.refresh"), Key("esc", "back", "screen.close"))
