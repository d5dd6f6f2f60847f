"""Finds memory files that changed without this program: by size and time first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from clawbot.guarded import MAX_RECORDED_BYTES, GuardedFolder
from clawbot.history.contents import Contents
from clawbot.history.values import FOLDER, ROOT_FILES, UNKNOWN, Known, is_memory
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.memory.documents.walking import change_time, is_hidden

_RECENT_DAYS = 90
_RECENT_FILES = 1_000
"""Of so many files the contents are stored before they change for the first time."""


_CHANGED = Known(-1, -1, UNKNOWN)


class Found(Struct, frozen=True):
    """A file that changed at `changed_ns`: it was `before` (a digest) and is `known` now, None if it is gone."""

    path: str
    before: str
    known: Known | None
    changed_ns: int


class Scan:
    """Compares the memory files of `workspace` with what is known of them. Blocks; raises OSError."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._documents = MemoryDocuments(workspace, (), watch=True)
        self._hidden: Collection[str] = ()

    def baseline(self, contents: Contents, now: datetime, since: float = 0.0) -> dict[str, Known]:
        """Return all files, and store the contents of those of the last days. Of those that changed after `since`, if
        that is given, nothing is known."""
        found = self._listed()
        first = (now - timedelta(days=_RECENT_DAYS)).date().isoformat()
        dated = sorted(((_day(path, state.changed_ns), path) for path, state in found.items()), reverse=True)
        recent = [path for day, path in dated if day >= first or path in ROOT_FILES][:_RECENT_FILES]
        for path in recent:
            if (known := self._read(path, contents)) is not None:
                found[path] = known
        changed = [path for path, state in found.items() if since and state.changed_ns >= since * 1e9]
        return found | dict.fromkeys(changed, _CHANGED)

    def found(self, known: Mapping[str, Known], paths: Collection[str], contents: Contents) -> Iterator[Found]:
        """Yield the files that differ from what is `known`, among `paths` or all; stores their contents."""
        if paths:
            now = {path: known_state(self._workspace, path, UNKNOWN) for path in paths if is_memory(path)}
            listed = {path: state for path, state in now.items() if state is not None}
            gone = {path for path, state in now.items() if state is None and path in known}
        else:
            listed = self._listed()
            gone = {path for path in known.keys() - listed.keys() if not is_hidden(path, self._hidden)}
        for path, state in listed.items():
            before = known.get(path)
            if _is_same(before, state) or _is_same(before, known_state(self._workspace, path, UNKNOWN)):
                # A listing gives some notes another time.
                continue
            if (after := self._read(path, contents)) is not None:
                yield Found(path, before.digest if before is not None else "", after, after.changed_ns)
        for path in sorted(gone):
            if known_state(self._workspace, path, UNKNOWN) is None and self._workspace.is_dir():
                yield Found(path, known[path].digest, None, change_time(self._nearest(path).stat()))

    def _listed(self) -> dict[str, Known]:
        """All memory files, with unknown contents."""
        listing = self._documents.list()
        self._hidden = listing.hidden
        found = {each.path: Known(each.size, each.mtime_ns, UNKNOWN) for each in listing.files if is_memory(each.path)}
        if (user := known_state(self._workspace, "USER.md", UNKNOWN)) is not None:
            found["USER.md"] = user
        return found

    def _read(self, path: str, contents: Contents) -> Known | None:
        """The state of a file whose content is stored now; None if it can't be read."""
        files = GuardedFolder(self._workspace)
        try:
            found = files.state(path)
            data = files.read(path, MAX_RECORDED_BYTES)
        except OSError:
            return None
        return Known(len(data), change_time(found), contents.add(data)) if found is not None else None

    def _nearest(self, path: str) -> Path:
        """The nearest folder above `path` that exists."""
        return next(folder for folder in (self._workspace / path).parents if folder.is_dir())


def _is_same(before: Known | None, now: Known | None) -> bool:
    return before is not None and now is not None and (before.size, before.changed_ns) == (now.size, now.changed_ns)


def known_state(workspace: Path, path: str, digest: str) -> Known | None:
    """Return the state of a file with the content `digest`; None if there is none."""
    try:
        found = GuardedFolder(workspace).state(path)
    except OSError:
        return None
    return Known(found.st_size, change_time(found), digest) if found is not None else None


def _day(path: str, changed_ns: int) -> str:
    """The day of a note by its name, else by its time, as YYYY-MM-DD."""
    name = path.removeprefix(FOLDER)[:10]
    is_dated = name[:4].isdigit() and name[4:5] == "-"
    return name if is_dated else datetime.fromtimestamp(changed_ns / 1e9, UTC).date().isoformat()
