"""The modes of a conversation as the user changes them on the screen: the next one, or one by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clawbot.text.interface import N_, _
from clawbot.tui.status_bar import StatusBar

if TYPE_CHECKING:
    from clawbot.api import RuntimeApi
    from clawbot.config.schema_agent import Mode
    from clawbot.tools.protocol import Decision

MODE_MEANS: dict[Mode, str] = {
    "plan": N_("plan: nothing is changed"),
    "ask": N_("ask: each change is asked about"),
    "edits": N_("edits: files change without asking"),
}
_MODES = tuple(MODE_MEANS)


MODE_AFTER: dict[Decision, Mode] = {"once": "ask", "always": "edits"}
"""The modes in which a plan is carried out, by the answer to the question about it; else planning goes on."""


class ModeSwitch:
    """Sets the mode of the runtime and shows it on `bar`; `say` tells in a few words what came of it."""

    def __init__(self, bar: StatusBar, say: Callable[[str], None]) -> None:
        self._bar = bar
        self._say = say
        self._runtime: RuntimeApi | None = None

    def connect(self, runtime: RuntimeApi) -> None:
        """It is the mode of `runtime` from now on."""
        self._runtime = runtime

    def choose(self, name: str = "") -> None:
        """Take the mode `name`; without one, the next of plan, ask and edits in turn."""
        chosen = next((mode for mode in _MODES if mode == name.lower()), None)
        if chosen is not None:
            self.take(chosen)
        elif name:
            self._say(_("modes: {modes}").format(modes=", ".join(_MODES)))
        elif self._runtime is not None:
            self.take(_MODES[(_MODES.index(self._runtime.agent.status.mode) + 1) % len(_MODES)])

    def take(self, mode: Mode) -> None:
        """`mode` decides what may be changed, from the next call of a tool on."""
        if self._runtime is not None:
            self._runtime.agent.set_mode(mode)
            self._bar.refresh()
            self._say(_(MODE_MEANS[mode]))
