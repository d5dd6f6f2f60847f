"""The terminal around the screen: early keys are kept, its mode is restored; its title, progress and notices."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Literal, NoReturn

from clawbot.text.interface import _
from clawbot.text.sanitize import clean_line

INPUT_FLAGS, LOCAL_FLAGS, CONTROL = 0, 3, 6  # their indexes in what tcgetattr returns
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
        if self.before is None:
            return
        self._lent = True
        termios.tcsetattr(self._descriptor, termios.TCSANOW, _keys_alone(termios.tcgetattr(self._descriptor)))
        if self.before[LOCAL_FLAGS] & termios.ICANON:
            self._typed = _typed_in_lines(self._descriptor)
        # Not earlier: a paste that began unmarked would be read in two halves.
        _send(MARK_PASTES)

    def take(self) -> bytes:
        """Return the keys typed before `begin`; once."""
        typed, self._typed = self._typed, b""
        return typed

    def restore(self) -> None:
        """Restore the terminal; idempotent."""
        if self.before is None or not self._lent:
            return
        self._lent = False
        _send(PLAIN_PASTES)
        # A terminal whose window was closed needs nothing back.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self.before)


@contextlib.contextmanager
def typing_kept() -> Iterator[SavedTerminal]:
    """Keep what is typed from now on until the end, when the terminal is as it was before.

    The screen takes the terminal only when its library is imported. Until then a terminal in line mode would drop a
    line that was begun, turn Enter into a line break and Ctrl+C into a signal. A polite end from outside comes out as
    SystemExit with the exit code of shells, so that the terminal is restored then, too; a loop that handles signals
    itself replaces this, and checks `ended_by` first: Python drops an exception that is raised within a weakref's
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
            kept.restore()


def _find_terminal() -> SavedTerminal:
    try:
        descriptor = sys.stdin.fileno()
        return SavedTerminal(descriptor, termios.tcgetattr(descriptor))
    except (OSError, ValueError, termios.error):
        return SavedTerminal()


def _keys_alone(attributes: list[Any]) -> list[Any]:
    """Return the same terminal without lines, echo, signals and translated keys."""
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


def _send(sequence: str) -> None:
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


Notify = Literal["off", "unfocused", "always"]

LONG_TURN = 15.0  # seconds after which nobody is expected to have watched
TITLE_CHARS = 80
BELL = "\a"
KEEP_TITLE, GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b[23;2t"
BUSY, IDLE = "\x1b]9;4;3\a", "\x1b]9;4;0\a"


def notice_of(text: str, environ: Mapping[str, str]) -> str:
    """Return the sequences that call for attention with `text`: a bell, and where the terminal has them a notice of OSC
    9 or OSC 777. Inside tmux the bell alone arrives."""
    text = clean_line(text)[:TITLE_CHARS]
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ:
        return BELL
    if program in ("iTerm.app", "ghostty", "WezTerm") or term == "xterm-kitty":
        return f"{BELL}\x1b]9;{text}\a"
    if "VTE_VERSION" in environ or term.startswith(("rxvt", "foot")):
        return f"{BELL}\x1b]777;notify;clawbot;{text.replace(';', ',')}\a"
    return BELL


def shows_progress(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal has the progress of OSC 9;4; others may take it for a notice with the text `4;3`."""
    known = environ.get("TERM_PROGRAM", "") in ("ghostty", "WezTerm") or environ.get("ConEmuANSI") == "ON"
    return "TMUX" not in environ and (known or "WT_SESSION" in environ)


class Attention:
    """Notifies the terminal by `write`, None if there is none. `focused` returns whether the user is there, as
    far as the terminal reports that. `notify` is the setting, off until it is read."""

    def __init__(
        self, write: Callable[[str], None] | None, environ: Mapping[str, str], focused: Callable[[], bool]
    ) -> None:
        self._write = write if environ.get("TERM", "") not in ("", "dumb") else None
        self._environ = environ
        self._focused = focused
        self._title = ""
        self._busy = False
        self.notify: Notify = "off"

    def show(self, label: str, *, busy: bool, asking: bool) -> None:
        """Show `label`, the conversation, and its state: in the title, and as progress."""
        if self._write is None:
            return
        mark = "? " if asking else "● " if busy else ""
        title = clean_line(f"{mark}clawbot · {label}")[:TITLE_CHARS]
        if title != self._title:
            self._write(f"{'' if self._title else KEEP_TITLE}\x1b]2;{title}\a")
            self._title = title
        if busy != self._busy:
            self._busy = busy
            if shows_progress(self._environ):
                self._write(BUSY if busy else IDLE)

    def call(self, text: str) -> None:
        if self._write is not None and (
            self.notify == "always" or (self.notify == "unfocused" and not self._focused())
        ):
            self._write(notice_of(text, self._environ))

    def turn_ended(self, seconds: float, status: str) -> None:
        """Call who waited for a turn of so many `seconds` if it was long."""
        if seconds >= LONG_TURN and status != "interrupted":
            self.call(_("The answer is there.") if status == "done" else _("The turn failed."))

    def leave(self) -> None:
        if self._write is not None and self._title:
            self._write(f"{IDLE if self._busy and shows_progress(self._environ) else ''}{GIVE_TITLE_BACK}")
            self._title = ""
