"""Sets aside what stands where the index should and is none that can be used, and opens a new one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from msgspec import Struct

from clawbot.files import PRIVATE_FILE, sync_dir
from clawbot.memory.store.errors import DamagedIndexError, file_errors
from clawbot.memory.store.locks import replacing
from clawbot.memory.store.publish import SIDE_FILES, recover
from clawbot.memory.store.writer import IndexWriter

KEPT = 2
"""So many that were set aside stay; older ones are removed."""

_MARK = ".set-aside-"


class SetAside(Struct, frozen=True):
    """Where a file is now, and why it was moved there: the end of a sentence about it."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"The memory index {self.reason}. It was set aside as {self.path.name} and is built anew."


def open_index(path: Path, now: dt.datetime) -> tuple[IndexWriter, SetAside | None]:
    """A writer for the index at `path`, and what was set aside for it. Blocks. Raises StoreError.

    The caller holds the writer's lock.
    """
    recover(path)
    try:
        return IndexWriter.open(path), None
    except DamagedIndexError as error:
        moved = set_aside(path, error.reason, now)
    return IndexWriter.open(path), moved


def set_aside(path: Path, reason: str, now: dt.datetime) -> SetAside:
    """Move the database at `path` out of the way, with what is beside it. Blocks. Raises StoreError.

    The caller holds the writer's lock and has closed its own connections.
    """
    stamp = now.astimezone(dt.UTC).strftime("%Y%m%dT%H%M%S%fZ")
    target = path.with_name(f"{path.name}{_MARK}{stamp}")
    with replacing(path), file_errors(path):
        path.replace(target)
        target.chmod(PRIVATE_FILE)
        for suffix in SIDE_FILES:
            side = path.with_name(f"{path.name}{suffix}")
            if side.exists():
                side.replace(target.with_name(f"{target.name}{suffix}"))
        sync_dir(path.parent)
        _remove_older(path)
    return SetAside(target, reason)


def _remove_older(path: Path) -> None:
    found = sorted(path.parent.glob(f"{path.name}{_MARK}*Z"), reverse=True)
    for old in found[KEPT:]:
        for suffix in ("", *SIDE_FILES):
            old.with_name(f"{old.name}{suffix}").unlink(missing_ok=True)
