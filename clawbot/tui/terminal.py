"""The terminal from the first moment on: what is typed before the screen is there is kept, and not echoed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

if sys.platform != "win32":
    import termios

LOCAL_FLAGS = 3  # their place in what tcgetattr returns


@contextlib.contextmanager
def typing_kept() -> Iterator[None]:
    """Take lines apart into keys and stop the echo until the end, when the terminal is as it was before.

    The screen switches to raw mode only when its library is imported; a terminal that is still in line mode then may
    drop a line that was begun. Without a terminal, and on Windows, nothing is done.
    """
    if sys.platform == "win32":
        yield
        return
    try:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (OSError, ValueError, termios.error):
        yield
        return
    early = termios.tcgetattr(descriptor)
    early[LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(descriptor, termios.TCSANOW, early)
    try:
        yield
    finally:
        # A terminal whose window was closed needs nothing back.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
