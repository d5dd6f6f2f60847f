"""The only import of watchdog: reports which paths below some folders were written, moved or deleted."""

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

from clawbot.memory.documents.walking import file_identity

# Opening and reading cause events too: the indexer would trigger itself.
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
    """Calls `on_path` with each changed path, on a thread of its own."""

    def __init__(self, on_path: Callable[[Path], None]) -> None:
        # A harmless warning of watchdog about newly nested folders.
        warnings.filterwarnings("ignore", "Callback with id", RuntimeWarning)
        self._on_path = on_path
        self._observer = Observer()
        self._watches: dict[Path, tuple[object, ObservedWatch]] = {}
        self._observer.start()

    def watch(self, folders: Mapping[Path, bool]) -> None:
        """Watch exactly `folders`; the values are whether recursively. Blocks.

        A folder replaced by another of the same name is watched again. Raises OSError if the system has no watches
        left.
        """
        wanted = {path: (file_identity(path), deep) for path, deep in folders.items()}
        for path, (identity, watch) in list(self._watches.items()):
            if wanted.get(path) != identity:
                del self._watches[path]
                # The watch of a deleted folder may already have ended.
                with contextlib.suppress(KeyError, OSError):
                    self._observer.unschedule(watch)
        for path, identity in wanted.items():
            if path not in self._watches and identity[0] is not None:
                watch = self._observer.schedule(self, str(path), recursive=identity[1], event_filter=_WRITES)
                self._watches[path] = identity, watch

    def stop(self) -> None:
        """Stop all threads. Blocks briefly."""
        self._observer.stop()
        self._observer.join(_JOIN_SECONDS)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Report the paths of a write; watchdog prescribes the method's name."""
        # An atomic replacement is a move: the target matters.
        for path in (event.src_path, event.dest_path):
            if path:
                self._on_path(Path(os.fsdecode(path)))
