"""Decides what a sync has to do: which files are new, which may have changed, and which are gone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from clawbot.memory.documents.reading import UNSETTLED
from clawbot.memory.documents.walking import FileState, is_hidden
from clawbot.memory.values import Source


class Known(Protocol):
    """What the index holds of a file."""

    @property
    def source(self) -> Source:
        """Where it came from."""
        ...

    @property
    def size(self) -> int:
        """Bytes."""
        ...

    @property
    def mtime_ns(self) -> int:
        """Its time when it was read; UNSETTLED when that said nothing."""
        ...


class Plan(Struct, frozen=True):
    """What to do: read `added` and `changed`, forget `removed`. `unchanged` counts the rest."""

    added: tuple[FileState, ...] = ()
    changed: tuple[FileState, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the index is as the files are."""
        return not (self.added or self.changed or self.removed)

    @property
    def to_read(self) -> tuple[FileState, ...]:
        """All files to read, changed ones first: somebody works on them."""
        return (*self.changed, *self.added)


def make_plan(listed: Iterable[FileState], known: Mapping[str, Known], hidden: Collection[str] = ()) -> Plan:
    """Compare a listing with what the index holds, by size and time. What differs may still have the same content.

    Files in `hidden` places, which could not be looked at, stay as they are.
    """
    added: list[FileState] = []
    changed: list[FileState] = []
    unchanged = 0
    seen: set[str] = set()
    for state in listed:
        seen.add(state.path)
        entry = known.get(state.path)
        if entry is None:
            added.append(state)
        elif (entry.size, entry.mtime_ns, entry.source) == (state.size, state.mtime_ns, state.source):
            unchanged += 1
        else:
            changed.append(state)
    missing = [path for path in known if path not in seen]
    removed = tuple(path for path in missing if not is_hidden(path, hidden))
    return Plan(tuple(added), tuple(changed), removed, unchanged + len(missing) - len(removed))


def is_stale(plan: Plan, known: Mapping[str, Known]) -> bool:
    """Whether files certainly changed: those that only were read too soon after they were written don't count."""
    if plan.added or plan.removed:
        return True
    for state in plan.changed:
        entry = known[state.path]
        if entry.mtime_ns != UNSETTLED or entry.size != state.size:
            return True
    return False
