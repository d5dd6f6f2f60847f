"""Textual's terminal driver with the time before it: it reads what was typed then, and gives back what was there."""

from __future__ import annotations

import sys

from textual._xterm_parser import XTermParser
from textual.driver import Driver

from clawbot.tui.terminal import Kept

if sys.platform != "win32":
    from textual.drivers.linux_driver import LinuxDriver


def driver_after(kept: Kept) -> type[Driver] | None:
    """The driver that follows on `kept`; None, which means the usual one, where there was no terminal."""
    if sys.platform == "win32" or kept.before is None:
        return None

    class After(LinuxDriver):
        """Reads what was typed before it started, and then what comes."""

        def run_input_thread(self) -> None:
            if typed := kept.take():
                for message in XTermParser(self._debug).feed(typed):
                    self.process_message(message)
            super().run_input_thread()

        def stop_application_mode(self) -> None:
            # What this class found is the early mode; a shell or an editor that follows wants the one before.
            if self.attrs_before is not None:
                self.attrs_before = kept.before
            super().stop_application_mode()

    return After
