"""Finds every access of the program to files below a workspace that did not go through `clawbot/guarded.py`.

Python reports each call that opens, lists, creates, renames or removes something. The guarded folder opens the
workspace itself, and from there on each name by descriptor: so an absolute path below a workspace is one that the
system resolved, links and all. Accesses of tests are theirs; those of the program are noted with their line.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from types import FrameType

_TOP = Path(__file__).parents[1]
_PROGRAM = (f"{_TOP / 'clawbot'}{os.sep}", f"{_TOP / 'hooks'}{os.sep}")
_TESTS = f"{_TOP / 'tests'}{os.sep}"
_WORKSPACE = re.compile(r"/workspace(?:-[^/]+)?/.")
# Each with the number of its first arguments that are paths.
EVENTS = {
    **dict.fromkeys(
        ("open", "os.chmod", "os.chown", "os.listdir", "os.mkdir", "os.remove", "os.rmdir", "os.scandir"), 1
    ),
    **dict.fromkeys(("os.truncate", "os.utime", "os.walk", "glob.glob", "shutil.rmtree"), 1),
    **dict.fromkeys(("os.link", "os.rename", "os.symlink", "shutil.copyfile", "shutil.move"), 2),
}
# What may resolve a path below a workspace, and why. Nothing here writes.
ALLOWED = {
    "text/names.py": "finds out what a file is called: it lists names, and what is found is opened guarded",
    "extensions/manifest.py": "hooks and skills are off until they are trusted, by their real path and their content",
    "skills/discovery.py": "the same, for all files of a skill",
    "hooks/loading.py": "runs the code of hooks that are trusted: no command can write there",
    "hooks/runners.py": "watches the code of hooks that are trusted",
    "../hooks/bootstrap-extra-files/": "lists names for the public interface; what it adds is read guarded",
    "config/": "a settings file that the user keeps in a workspace and names",
    "memory/documents/kept_listing.py": "watches the folders that hold what the settings name; reads no file",
    "memory/sync/observer.py": "asks the system to report changes, and reads no file",
    "tools/sandbox/": "binds what is there for a command, and puts back what that replaced (its own journal)",
    "tools/shell_policy.py": "finds the names that a pattern of a command stands for; the command reads them, not it",
    "tools/paths.py": "looks for other names of files that are shut, by identity",
}
noted: list[str] = []


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if (count := EVENTS.get(event)) is None:
        return
    for path in arguments[:count]:
        text = os.fsdecode(path) if isinstance(path, bytes | os.PathLike) else path
        if isinstance(text, str) and "/workspace" in text and _WORKSPACE.search(text):
            line = _line_of(sys._getframe(1))
            if line and not line.startswith(tuple(ALLOWED)):
                noted.append(f"clawbot/{line}: {event} {text}")


def _line_of(frame: FrameType | None) -> str:
    """The line of the program that asked for it, below `clawbot/`; "" where that was a test. The guarded folder itself
    is no answer: whoever gives it a folder below a workspace has followed what led there."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_TESTS):
            return ""
        if file.startswith(_PROGRAM) and not file.endswith("/clawbot/guarded.py"):
            return f"{os.path.relpath(file, _TOP / 'clawbot')}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def start() -> None:
    """Watch this process from now on; there is no end."""
    sys.addaudithook(_watch)
