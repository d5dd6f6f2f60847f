"""A real terminal for tests: a program on a pty, its screen kept by pyte, waits that end on a predicate."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyte

KEYS = {
    "enter": "\r",
    "esc": "\x1b",
    "ctrl+c": "\x03",
    "ctrl+d": "\x04",
    "ctrl+f": "\x06",
    "ctrl+j": "\n",
    "ctrl+o": "\x0f",
    "ctrl+r": "\x12",
    "ctrl+t": "\x14",
    "tab": "\t",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "pagedown": "\x1b[6~",
}

# What a login does: the terminal is the one of the session, so that the program is told when its window closes.
LOGIN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
TOLD = 6_000  # characters of the output, and of the log, that a failure shows


class Terminal:
    """`argv` running on a terminal of `columns` x `rows`. Use it as a context manager: it never outlives the test.

    `log` is the file that is shown when the program ends as it should not. `login`: the program leads the session of
    the terminal, like one that was started by the window itself; else the system tells it nothing of the window's end.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 100,
        rows: int = 30,
        log: Path | None = None,
        login: bool = True,
    ) -> None:
        self._log = log
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        self._is_open = True
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.raw = bytearray()  # bytes would be copied by each read of a long run
        self.process = subprocess.Popen(
            [sys.executable, "-ISc", LOGIN, *argv] if login else argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._is_open:
            os.close(self._master)

    @property
    def modes(self) -> list[Any]:
        """How the terminal is set, as tcgetattr tells it."""
        return termios.tcgetattr(self._master)

    @property
    def text(self) -> str:
        """What the screen shows now, a line a row, without trailing blanks."""
        # Not `display` of pyte, which fails on the half of a wide character that something was written over.
        rows = (self._screen.buffer[row] for row in range(self._screen.lines))
        cells = range(self._screen.columns)
        return "\n".join("".join(row[column].data for column in cells).rstrip() for row in rows)

    def send(self, *pieces: str | bytes) -> None:
        """Type: key names of KEYS are keys, everything else is text, each in a write of its own."""
        for piece in pieces:
            os.write(self._master, KEYS.get(piece, piece).encode() if isinstance(piece, str) else piece)

    def close_window(self) -> None:
        """Take the terminal away, as who closes its window does."""
        self._is_open = False
        os.close(self._master)

    def wait_for(self, wanted: str | Callable[[str], bool], *, seconds: float = 150) -> str:
        """Read until the screen shows `wanted` (a text or a predicate); returns the screen. Fails with the screen."""
        met = wanted if callable(wanted) else lambda text: wanted in text
        deadline = time.monotonic() + seconds
        while not met(self.text):
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"never saw {wanted!r}; {self._last_words()}")
        return self.text

    def press_until(self, key: str, wanted: str) -> str:
        """Press `key` until the screen shows `wanted`: one that comes too soon after a question counts for nothing."""
        for _ in range(20):
            self.send(key)
            self.feed_until(wanted, seconds=3)
            if wanted in self.text:
                return self.text
        raise AssertionError(f"never saw {wanted!r}; {self._last_words()}")

    def feed_until(self, wanted: str, *, seconds: float) -> None:
        """Take in what the program writes until the screen shows `wanted`, for so many seconds at most."""
        deadline = time.monotonic() + seconds
        while wanted not in self.text and (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass

    def feed(self, seconds: float) -> None:
        """Take in what the program writes within so many seconds, whatever it is."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass

    def wait_end(self, expected: int | None = 0, *, seconds: float = 150) -> int:
        """Read until the program has ended; returns its exit code.

        Fails with the end of the output and of the log when it is not the `expected` one (None: any).
        """
        deadline = time.monotonic() + seconds
        while self._is_open and (left := deadline - time.monotonic()) > 0 and self._read(left):
            pass
        try:
            code = self.process.wait(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program never ended; {self._last_words()}") from None
        if expected is not None and code != expected:
            raise AssertionError(f"the program ended with {code}, not {expected}; {self._last_words()}")
        return code

    def _last_words(self) -> str:
        """What tells why the program ended so: its screen, the end of its raw output, the end of its log."""
        log = self._log.read_text("utf-8", "replace") if self._log is not None and self._log.exists() else "none"
        output = self.raw[-TOLD:].decode("utf-8", "replace")
        return f"the screen:\n{self.text}\n\nthe output:\n{output!r}\n\nthe log:\n{log[-TOLD:]}"

    def kill(self) -> None:
        """kill -9 for the program and everything it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _read(self, seconds: float) -> bool:
        """Feed what comes within `seconds` to the screen; False at the end of the program's output."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)
