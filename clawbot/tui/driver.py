"""Textual's terminal driver, extended to read early keys and to survive a terminal that disappears."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO, cast

from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from clawbot.tui.terminal import SavedTerminal

if TYPE_CHECKING:
    from textual.app import App

POLL = 0.1  # seconds between two checks whether input is still wanted
READ = 4096  # bytes
# Line breaks that Textual reads as Enter or not at all: Alt+Enter of terminals that send Esc before a key, and
# Shift+Enter of those that spell it as xterm's modifyOtherKeys.
LINE_BREAKS = {
    "\x1b\r": "alt+enter",
    "\x1b\n": "alt+enter",
    "\x1b[27;2;13~": "shift+enter",
    "\x1b[27;3;13~": "alt+enter",
}


class Writer:
    """The terminal as a file for one thread: writes after it has disappeared are dropped.

    An error would end that thread, and the screen would wait forever for room in its queue.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write `text`."""
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)

    def flush(self) -> None:
        """Send what was written."""
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()

    def fileno(self) -> int:
        """The descriptor below."""
        return self._file.fileno()


class KeyParser(XTermParser):
    """Textual's parser, which also knows `LINE_BREAKS`."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[Key]:
        if sequence in LINE_BREAKS:
            return [Key(LINE_BREAKS[sequence], None)]
        return super()._sequence_to_key_events(sequence, alt=alt)


class KeptDriver(LinuxDriver):
    """Reads the keys typed before it started, then those that follow, as long as there is a terminal."""

    kept = SavedTerminal()

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file = cast("Any", Writer(sys.__stderr__ or sys.stderr))

    def run_input_thread(self) -> None:
        """Read keys until input is no longer wanted. A terminal that disappeared is reported by SIGHUP."""
        self._parse(KeyParser(self._debug), self.kept.take())
        parser, decoder = KeyParser(self._debug), getincrementaldecoder("utf-8")("replace")
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(POLL):
                    data = self._read()
                    if not data:
                        # The system only signals the leader of a session.
                        os.kill(os.getpid(), signal.SIGHUP)
                        return
                    self._parse(parser, decoder.decode(data))
                for message in parser.tick():
                    self.process_message(message)

    def _parse(self, parser: XTermParser, typed: str) -> None:
        # Half a character is no text yet, and empty text would mean the end of input to a parser.
        for message in parser.feed(typed) if typed else ():
            self.process_message(message)

    def _read(self) -> bytes:
        """The typed bytes; empty if the terminal has disappeared: in raw mode there is no other end of input."""
        try:
            return os.read(self.fileno, READ)
        except OSError:
            return b""

    @property
    def _runs(self) -> bool:
        """Whether the terminal currently belongs to the screen."""
        return self._key_thread is not None and self._key_thread.is_alive()

    def stop_application_mode(self) -> None:
        """Give the terminal back in its original mode, not in the early mode that this class found."""
        if self.attrs_before is not None:
            self.attrs_before = self.kept.before
        super().stop_application_mode()

    def _sigtstp_application(self, *_: object) -> None:
        if self._runs:
            if os.getpgrp() == os.getsid(0):
                return  # no shell is there that could bring the leader of the session back
            self.suspend_application_mode()
            self._must_signal_resume = True
        # Not this process alone: `make`, or a script that started it, would keep the terminal, and no shell came.
        os.killpg(0, signal.SIGSTOP)

    def _sigcont_application(self, *_: object) -> None:
        if self._must_signal_resume:
            super()._sigcont_application()
        elif self._runs:
            self._loop.call_soon_threadsafe(self._restart)

    def _restart(self) -> None:
        """Take the terminal again: whoever stopped this program may have used it. Not if it has disappeared: the
        system sends SIGCONT with its SIGHUP, too."""
        if self._runs and os.isatty(self.fileno):
            self.suspend_application_mode()
            self._must_signal_resume = True
            self.resume_application_mode()


def driver_after(kept: SavedTerminal) -> type[Driver] | None:
    """The driver that continues after `kept`; None (the default) if there was no terminal."""
    if kept.before is None:
        return None
    return type("After", (KeptDriver,), {"kept": kept})
