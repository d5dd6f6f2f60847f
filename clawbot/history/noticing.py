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
    """Compares the memory files of `workspace` with what is known of them, and stores their `contents`. Blocks; raises
    OSError."""

    def __init__(self, workspace: Path, contents: Contents) -> None:
        self._files = GuardedFolder(workspace)
        self._contents = contents
        self._documents = MemoryDocuments(workspace, (), watch=True)

    def baseline(self, now: datetime, since: float = 0.0) -> dict[str, Known]:
        """Return all files, and store the contents of those of the last days. Of those that changed after `since`, if
        that is given, nothing is known."""
        found, _hidden = self._listed()
        first = (now - timedelta(days=_RECENT_DAYS)).date().isoformat()
        dated = sorted(((_day(path, state.changed_ns), path) for path, state in found.items()), reverse=True)
        recent = [path for day, path in dated if day >= first or path in ROOT_FILES][:_RECENT_FILES]
        found |= {path: known for path in recent if (known := self._read(path)) is not None}
        changed = [path for path, state in found.items() if since and state.changed_ns >= since * 1e9]
        return found | dict.fromkeys(changed, _CHANGED)

    def found(self, known: Mapping[str, Known]) -> Iterator[Found]:
        """Yield the files that differ from what is `known`."""
        listed, hidden = self._listed()
        for path, state in listed.items():
            before = known.get(path)
            # A listing gives some notes another time.
            if before is not None and (_is_same(before, state) or _is_same(before, self.state(path))):
                continue
            if (after := self._read(path)) is not None:
                yield Found(path, before.digest if before is not None else "", after, after.changed_ns)
        for path in sorted(known.keys() - listed.keys()):
            if not is_hidden(path, hidden) and self.state(path) is None and self._files.root.is_dir():
                folder = next(each for each in (self._files.root / path).parents if each.is_dir())
                yield Found(path, known[path].digest, None, change_time(folder.stat()))

    def state(self, path: str, digest: str = UNKNOWN) -> Known | None:
        """Return the state of a file with the content `digest`; None if there is none."""
        try:
            found = self._files.state(path)
        except OSError:
            return None
        return Known(found.st_size, change_time(found), digest) if found is not None else None

    def _listed(self) -> tuple[dict[str, Known], Collection[str]]:
        """Return all memory files, with unknown contents, and the folders that can't be read."""
        listing = self._documents.list()
        found = {each.path: Known(each.size, each.mtime_ns, UNKNOWN) for each in listing.files if is_memory(each.path)}
        if (user := self.state("USER.md")) is not None:
            found["USER.md"] = user
        return found, listing.hidden

    def _read(self, path: str) -> Known | None:
        """The state of a file whose content is stored now; None if it can't be read."""
        try:
            found = self._files.state(path)
            data = self._files.read(path, MAX_RECORDED_BYTES)
        except OSError:
            return None
        return Known(len(data), change_time(found), self._contents.add(data)) if found is not None else None


def _is_same(before: Known, now: Known | None) -> bool:
    return now is not None and (before.size, before.changed_ns) == (now.size, now.changed_ns)


def _day(path: str, changed_ns: int) -> str:
    """The day of a note by its name, else by its time, as YYYY-MM-DD."""
    name = path.removeprefix(FOLDER)[:10]
    is_dated = name[:4].isdigit() and name[4:5] == "-"
    return name if is_dated else datetime.fromtimestamp(changed_ns / 1e9, UTC).date().isoformat()
