"""Finds accesses of the program to files below a workspace that did not go through the one door there is for them.

Python reports each call that opens, lists, creates, renames or removes something. The door (`clawbot/guarded.py`) opens
the workspace itself, and from there on each name relative to a descriptor: so an absolute path below a workspace is one
that the system resolved by following links. What tests do is theirs.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType

_PACKAGE = f"{Path(__file__).parents[1] / 'clawbot'}{os.sep}"
_HOOKS = f"{Path(__file__).parents[1] / 'hooks'}{os.sep}"
_TESTS = f"{Path(__file__).parent}{os.sep}"
# The events of the standard library that name paths, and how many of their first arguments are paths.
EVENTS = {
    "open": 1,
    "os.chmod": 1,
    "os.link": 2,
    "os.listdir": 1,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.scandir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
    "shutil.rmtree": 1,
}
WORKSPACE = re.compile(r"/workspace(-[^/]+)?/.")
found: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    count = EVENTS.get(event)
    if count is None:
        return
    for path in arguments[:count]:
        text = os.fsdecode(path) if isinstance(path, bytes | os.PathLike) else path
        if isinstance(text, str) and "/workspace" in text and WORKSPACE.search(text):
            who = _caller(sys._getframe(1))
            if who:
                found.append(f"{event} {text} {who}")
                if log := os.environ.get("PYTEST_WATCH_LOG"):
                    fd = _os_open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                    os.write(fd, f"{event} {who}\n".encode())
                    os.close(fd)


_os_open = os.open


def _caller(frame: FrameType | None) -> str:
    """The line of the program that asked for it; "" where that is a test."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((_PACKAGE, _HOOKS)):
            return f"{file}:{frame.f_lineno} {frame.f_code.co_name}"
        if file.startswith(_TESTS):
            return ""
        frame = frame.f_back
    return ""


sys.addaudithook(_watch)
