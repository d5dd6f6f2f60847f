"""The terminal from the first moment on: what is typed before the screen is there is kept, and not echoed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

try:
    import termios
except ImportError:  # Windows has no such thing, and its console needs none of this.
    termios = None  # type: ignore[assignment]


@contextlib.contextmanager
def typing_kept() -> Iterator[None]:
    """Take lines apart into keys and stop the echo until the end, when the terminal is as it was before.

    The screen switches to raw mode only when its library is imported; a terminal that is still in line mode then may
    drop a line that was begun.
    """
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, AttributeError, termios.error):
        # No terminal: a pipe, or a stream without a descriptor.
        yield
        return
    early = termios.tcgetattr(descriptor)
    early[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(descriptor, termios.TCSANOW, early)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
