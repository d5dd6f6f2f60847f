"""Finds what a command has put in place of the workspace's own files and folders, and sets it aside."""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.context.workspace import OLD_RECORD, TEMPLATES
from clawbot.guarded import GuardedFolder, RefusedFileError, guarded_bytes
from clawbot.text.interface import _

FOLDERS = (str(OLD_RECORD.parent), "attachments", "exports", "hooks", "memory", "skills")
FILES = (*TEMPLATES, "BOOT.md")
LINKABLE = ("hooks", "skills")  # what is there is off until the user trusts it, by its real path


class BentPath(Struct, frozen=True):
    """A file or folder that is of no use to the program: where, and why. `mend` is what puts it right: to open it for
    the user again, to set it aside, or nothing that the program may do."""

    path: Path
    why: str
    mend: Literal["open", "aside", ""] = ""

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def bent_paths(workspace: Path) -> list[BentPath]:
    """What is in the way of the program in `workspace`; empty where nothing is. Blocks."""
    folders = list(_bent_folders(workspace))
    is_usable = all(bent.path != workspace for bent in folders)
    return [*folders, *_bent_files(workspace)] if is_usable else folders[:1]


def mend_workspace(workspace: Path) -> list[str]:
    """Put right what can be without losing anything; returns a line for each. Blocks; raises OSError."""
    files, lines = GuardedFolder(workspace), list[str]()
    for _round in range(2):  # the first one may open the workspace itself
        for bent in bent_paths(workspace):
            name = bent.path.relative_to(workspace)
            if bent.mend == "open":
                files.unshut(name)
                lines.append(f"{bent.path} is open for you again")
            elif bent.mend:
                aside = next(
                    each for number in itertools.count(1) if files.rename(name, each := f"{name}.bent-{number}")
                )
                lines.append(f"{bent.path} is now {aside}: it {bent.why}")
    return lines


def _bent_folders(workspace: Path) -> Iterator[BentPath]:
    files = GuardedFolder(workspace)
    for name in ("", *FOLDERS):
        path = workspace / name
        try:
            with files.folder(name) as folder:
                is_shut = not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder)
        except FileNotFoundError:
            continue
        except PermissionError:
            is_shut = True
        except OSError:
            if not (name in LINKABLE and path.is_symlink() and path.is_dir()):
                yield BentPath(path, _("is a link or a file, not a folder"), "aside" if name else "")
            continue
        if is_shut:
            yield BentPath(path, _("is shut: you may not read or change it"), "open")


def _bent_files(workspace: Path) -> Iterator[BentPath]:
    files = GuardedFolder(workspace)
    for name in FILES:
        try:
            guarded_bytes(workspace, name)
        except RefusedFileError as problem:
            found = files.state(name)
            is_file = found is not None and stat.S_ISREG(found.st_mode)
            yield BentPath(workspace / name, str(problem), "" if is_file else "aside")
