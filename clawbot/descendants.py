"""Ends what a process started, whatever that did to get away: on Linux the full tree, elsewhere nothing of its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

_PARENT_DEATH_SIGNAL, _CHILD_SUBREAPER = 1, 36  # of prctl(2)
_SECONDS = 2.0  # for the end of all; what the kernel holds up can't be killed
_POLL = 0.001
_libc = ctypes.CDLL(None)


def adopt_descendants() -> None:
    """From now on make each process below this one whose parent ends a child of this one."""
    if sys.platform == "linux":
        _libc.prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_adopted(own: int) -> None:
    """Collect the children that have ended but `own`, which somebody else waits for. Once that one has ended, kill the
    others in a thread: they may hold the pipes open by which its end is seen. Elsewhere than on Linux do nothing."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid != own:
            os.waitpid(ended.si_pid, 0)
    if _has_ended(own):
        threading.Thread(target=kill_descendants, args=(os.getpid(),)).start()


def die_with_parent() -> None:
    """Let the kernel kill this process, not what it starts, when its parent is gone. For a child before it runs."""
    if sys.platform == "linux":
        _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def kill_descendants(pid: int) -> None:
    """Kill what is below the process `pid`, and what that starts during it, until nothing is left. Blocks for at most
    2 s. What left an ancestor behind is found if `pid` adopts it."""
    ends = time.monotonic() + _SECONDS
    while (found := _descendants(pid)) and time.monotonic() < ends:
        for each in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_POLL)


def _descendants(pid: int) -> list[int]:
    """Return the processes below `pid` that have not ended, by Linux's /proc."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (thread / "children").read_bytes().split())
    return [each for each in found[1:] if not _has_ended(each)]


def _has_ended(pid: int) -> bool:
    try:
        # "7 (name) Z 1 …": a name may hold parentheses.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith((b"Z", b"X"))
    except OSError:
        return True
