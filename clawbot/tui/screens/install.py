"""The question whether what a feature needs is installed, and the steps of the installation."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from clawbot.api import RuntimeApi
from clawbot.errors import ClawbotError
from clawbot.text.interface import N_, _
from clawbot.tui.screens.common import KeyHint, KeyLine, OverScreen


class InstallScreen(OverScreen[bool]):
    """Installs what runs a model on this machine, after Enter. Dismisses with whether it is installed."""

    CSS_PATH = "../styles/models.tcss"
    BINDINGS: ClassVar = [
        Binding("enter", "install", "Install", priority=True),
        Binding("escape", "back", "Back", priority=True),
    ]

    def __init__(self, runtime: RuntimeApi, problem: str) -> None:
        super().__init__()
        self._runtime = runtime
        self._problem = problem

    def compose(self) -> ComposeResult:
        """What is missing, in its place the steps; the keys."""
        title = Content(_("A model on this machine"))
        with Vertical(id="frame") as frame:
            frame.border_title = title
            yield Static(title, id="title")
            yield Static(self._problem, id="step", markup=False)
            yield KeyLine(
                [KeyHint("enter", N_("install"), "screen.install"), KeyHint("esc", N_("stop"), "screen.back")]
            )

    @work
    async def action_install(self) -> None:
        """Install it, and show each step."""
        if self._problem:
            self._problem = ""
            self._show(_("installing ..."))
            try:
                await self._runtime.local_models.install(self._show)
            except (ClawbotError, OSError) as error:
                self._problem = str(error)
                self._show(self._problem)
            else:
                self.dismiss(True)

    def _show(self, step: str) -> None:
        if not self.has_left:
            self.query_one("#step", Static).update(step)

    def action_back(self) -> None:
        """Leave; an installation that runs is stopped."""
        self.workers.cancel_node(self)
        self.dismiss(False)
