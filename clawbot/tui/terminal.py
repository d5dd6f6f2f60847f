"""The terminal before and after the screen: early keys are kept, and the original mode is restored."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

INPUT_FLAGS, LOCAL_FLAGS, CONTROL = 0, 3, 6  # their places in what tcgetattr returns
MARK_PASTES, PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"
AS_TYPED = bytes.maketrans(b"\n\0", b"\r\x04")


class SavedTerminal:
    """The terminal's state before the screen. `before` is its original mode, None without a terminal; `ended_by` is the
    signal that asked the program to end, 0 for none."""

    def __init__(self, descriptor: int = -1, before: list[Any] | None = None) -> None:
        self._descriptor = descriptor
        self.before = before
        self.ended_by = 0
        self._typed = b""
        self._lent = False

    def begin(self) -> None:
        """Switch to raw keys, like the screen will."""
        if self.before is None:
            return
        self._lent = True
        termios.tcsetattr(self._descriptor, termios.TCSANOW, _keys_alone(termios.tcgetattr(self._descriptor)))
        if self.before[LOCAL_FLAGS] & termios.ICANON:
            self._typed = _typed_in_lines(self._descriptor)
        # Not earlier: a paste that began unmarked would be read in two halves.
        _tell(MARK_PASTES)

    def take(self) -> bytes:
        """The keys typed before `begin`; once."""
        typed, self._typed = self._typed, b""
        return typed

    def give_back(self) -> None:
        """Restore the terminal; idempotent."""
        if self.before is None or not self._lent:
            return
        self._lent = False
        _tell(PLAIN_PASTES)
        # A terminal whose window was closed needs nothing back.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self.before)


@contextlib.contextmanager
def typing_kept() -> Iterator[SavedTerminal]:
    """Keep what is typed from now on until the end, when the terminal is as it was before.

    The screen takes the terminal only when its library is imported. Until then a terminal in line mode would drop a
    line that was begun, turn Enter into a line break and Ctrl+C into a signal. A polite end from outside comes out as
    SystemExit with the exit code of shells, so that the terminal is given back then, too; a loop that handles signals
    itself takes over, and looks at `ended_by` first: Python drops an exception that is raised within a weakref's
    callback or a finalizer, of which an import has many. Without a terminal nothing is done.
    """
    kept = _find_terminal()
    with _ends_come_out(kept):
        try:
            kept.begin()
            yield kept
        except Exception:
            # Python 3.11 makes a RuntimeError of what comes out of `__set_name__`.
            if kept.ended_by:
                raise SystemExit(128 + kept.ended_by) from None
            raise
        finally:
            kept.give_back()


def _find_terminal() -> SavedTerminal:
    try:
        descriptor = sys.stdin.fileno()
        return SavedTerminal(descriptor, termios.tcgetattr(descriptor))
    except (OSError, ValueError, termios.error):
        return SavedTerminal()


def _keys_alone(attributes: list[Any]) -> list[Any]:
    """The same terminal without lines, echo, signals and translated keys."""
    attributes[INPUT_FLAGS] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
    attributes[LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN | termios.ISIG)
    attributes[CONTROL][termios.VMIN] = 1
    attributes[CONTROL][termios.VTIME] = 0
    return attributes


def _typed_in_lines(descriptor: int) -> bytes:
    """Take what was typed in line mode, where Enter has become a line end, and Ctrl+D a NUL."""
    typed = b""
    while select.select([descriptor], [], [], 0)[0] and (data := os.read(descriptor, 4096)):
        typed += data
    return typed.translate(AS_TYPED)


def _tell(sequence: str) -> None:
    """Write to the terminal, where the screen does: stderr as the command line has it lets no sequence pass."""
    stream = sys.__stderr__ or sys.stderr
    with contextlib.suppress(OSError, ValueError):
        if stream.isatty():
            stream.write(sequence)
            stream.flush()


@contextlib.contextmanager
def _ends_come_out(kept: SavedTerminal) -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> NoReturn:
        kept.ended_by = number
        raise SystemExit(128 + number)

    usual = [number for number in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) is signal.SIG_DFL]
    for number in usual:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)
