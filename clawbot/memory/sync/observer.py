"""The door to watchdog: tells which paths below some folders were written, moved or deleted."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import ObservedWatch

# Opening and reading raise events as well: an indexer that took them would feed itself.
_WRITES: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileClosedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]
_JOIN_SECONDS = 2.0


class FolderObserver(FileSystemEventHandler):
    """Calls `on_path` with each path that changed, in a thread of its own."""

    def __init__(self, on_path: Callable[[Path], None]) -> None:
        # Folders that are made one in another are reported so by watchdog itself, with no harm done.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        self._on_path = on_path
        self._observer = Observer()
        self._watches: dict[Path, tuple[object, ObservedWatch]] = {}
        self._observer.start()

    def watch(self, folders: Mapping[Path, bool]) -> None:
        """Watch exactly `folders`; the value says whether with all that is below. Blocks.

        A folder that was replaced by another one of the same name is watched anew. Raises OSError when the system has
        no more watches to give.
        """
        wanted = {path: (_identity(path), deep) for path, deep in folders.items()}
        for path, (identity, watch) in list(self._watches.items()):
            if wanted.get(path) != identity:
                del self._watches[path]
                # The watch of a folder that is gone may have ended by itself.
                with contextlib.suppress(KeyError, OSError):
                    self._observer.unschedule(watch)
        for path, identity in wanted.items():
            if path not in self._watches and identity[0] is not None:
                watch = self._observer.schedule(self, str(path), recursive=identity[1], event_filter=_WRITES)
                self._watches[path] = identity, watch

    def stop(self) -> None:
        """End, with all threads. Blocks for a moment."""
        self._observer.stop()
        self._observer.join(_JOIN_SECONDS)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Pass on the paths of a write; the name is watchdog's."""
        # An atomic replace is a move: what matters is where to.
        for path in (event.src_path, event.dest_path):
            if path:
                self._on_path(Path(os.fsdecode(path)))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
