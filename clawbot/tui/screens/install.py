"""The question whether what a feature needs is installed, and the steps of the installation."""

from __future__ import annotations

from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
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
        self._is_busy = False

    def compose(self) -> ComposeResult:
        """What is missing, the last step, the keys."""
        yield Static(Content(_("A model on this machine")), id="title")
        yield Static(Content(self._problem))
        yield Static(id="step", markup=False)
        yield Static(id="wrong", markup=False)
        yield KeyLine([KeyHint("enter", N_("install"), "screen.install"), KeyHint("esc", N_("stop"), "screen.back")])

    @work
    async def action_install(self) -> None:
        """Install it, and show each step."""
        if self._is_busy:
            return
        self._is_busy = True
        self._show("wrong", "")
        self._show("step", _("installing ..."))
        try:
            await self._runtime.local_models.install(lambda step: self._show("step", step))
        except (ClawbotError, OSError) as error:
            self._show("step", "")
            self._show("wrong", str(error))
        else:
            self.dismiss(True)
        finally:
            self._is_busy = False

    def _show(self, name: str, text: str) -> None:
        if not self.has_left:
            self.query_one(f"#{name}", Static).update(text)

    def action_back(self) -> None:
        """Leave; an installation that runs is stopped."""
        self.workers.cancel_node(self)
        self.dismiss(False)
