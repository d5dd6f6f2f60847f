"""The files of all sources: their issues, their last indexed state, and the plan of a sync."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from clawbot.memory.documents.memory_files import UNSETTLED, Document, DocumentSource, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState, Listing, is_hidden
from clawbot.memory.values import Hit, Issue, Source


class Known(Protocol):
    """The indexed state of a file."""

    @property
    def source(self) -> Source: ...

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def mtime_ns(self) -> int:
        """The modification time when it was read; UNSETTLED if it was not reliable."""


class Plan(Struct, frozen=True):
    """A plan: read `added` and `changed`, delete `removed`. `unchanged` counts the rest."""

    added: tuple[FileState, ...] = ()
    changed: tuple[FileState, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the index is up to date."""
        return not (self.added or self.changed or self.removed)

    @property
    def to_read(self) -> tuple[FileState, ...]:
        """All files to read, changed ones first: somebody is working on them."""
        return (*self.changed, *self.added)


def make_plan(listed: Collection[FileState], known: Mapping[str, Known], hidden: Collection[str] = ()) -> Plan:
    """Compare a listing with the index, by size and time. Differing files may still have the same content.

    Files below `hidden` paths, which could not be read, remain indexed.
    """
    added: list[FileState] = []
    changed: list[FileState] = []
    unchanged = 0
    for state in listed:
        entry = known.get(state.path)
        if entry is None:
            added.append(state)
        elif entry.mtime_ns == state.mtime_ns and entry.size == state.size and entry.source == state.source:
            unchanged += 1
        else:
            changed.append(state)
    seen = {state.path for state in listed} if unchanged + len(changed) < len(known) else known
    missing = [path for path in known if path not in seen]
    removed = tuple(path for path in missing if not is_hidden(path, hidden))
    return Plan(tuple(added), tuple(changed), removed, unchanged + len(missing) - len(removed))


def is_stale(plan: Plan, known: Mapping[str, Known]) -> bool:
    """Return whether files have certainly changed; those read too soon after they were written don't count."""
    if plan.added or plan.removed:
        return True
    for state in plan.changed:
        entry = known[state.path]
        if entry.mtime_ns != UNSETTLED or entry.size != state.size:
            return True
    return False


def groups(states: Iterable[FileState], max_bytes: int, max_files: int) -> Iterator[list[FileState]]:
    """`states` in groups of limited size, or of one larger file."""
    group: list[FileState] = []
    size = 0
    for state in states:
        if group and (size + state.size > max_bytes or len(group) >= max_files):
            yield group
            group, size = [], 0
        group.append(state)
        size += state.size
    if group:
        yield group


def _joined(listings: Sequence[Listing]) -> Listing:
    """Return all of them as one; a single one is itself."""
    if len(listings) == 1:
        return listings[0]
    files, issues = ([each for listing in listings for each in getattr(listing, part)] for part in ("files", "issues"))
    hidden = {path: issue for listing in listings for path, issue in listing.hidden.items()}
    return Listing(tuple(files), tuple(issues), hidden)


class Library:
    """All sources combined. Every method blocks and is thread-safe.

    `hidden` are paths that the last listing could not read, though they may contain files.
    """

    def __init__(self, sources: Sequence[DocumentSource]) -> None:
        self.sources = tuple(sources)
        self._refused: dict[str, tuple[FileState, Issue]] = {}
        self._issues: tuple[Issue, ...] = ()
        self.hidden: tuple[Issue, ...] = ()
        self._known: Mapping[str, Known] | None = None
        self._planned: tuple[object, object, object, Plan] = (None, None, None, Plan())

    @property
    def names(self) -> tuple[Source, ...]:
        """The names of the sources."""
        return tuple(source.source for source in self.sources)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Why files are not indexed, from the last listing and reads since."""
        return (*self._issues, *(issue for _, issue in self._refused.values()))

    def list(self) -> Listing:
        listing = _joined([source.list() for source in self.sources])
        self._issues = listing.issues
        self.hidden = tuple(dict.fromkeys(listing.hidden.values()))
        if self._refused:
            now = {state.path: state for state in listing.files}
            left = {path: known for path, known in self._refused.items() if now.get(path) == known[0]}
            self._refused = left if len(left) < len(self._refused) else self._refused
        return listing

    def remember(self, known: Mapping[str, Known]) -> None:
        """Record the indexed state."""
        self._known = known

    def is_stale(self, *, surely: bool = False) -> bool | None:
        """Return whether files may have changed since the last sync; None if unknown.

        `surely`: have certainly changed. Unreadable files that did not change don't count.
        """
        known = self._known
        if known is None:
            return None
        plan = self._plan(known)
        return is_stale(plan, known) if surely else not plan.is_empty

    def review(self, most: int) -> None:
        """Read up to `most` files that are not in the index, to learn which of them can't be read.

        This is not stored: what the sync of an earlier process found is determined again.
        """
        if self._known is not None:
            for state in self._plan(self._known).added[:most]:
                self.read(state)

    def _plan(self, known: Mapping[str, Known]) -> Plan:
        listing = self.list()
        refused = self._refused
        listed, indexed, left_out, plan = self._planned
        if listed is not listing or indexed is not known or left_out is not refused:
            readable = [state for state in listing.files if state.path not in refused]
            plan = make_plan(readable, known, listing.hidden)
            self._planned = listing, known, refused, plan
        return plan

    def read(self, state: FileState) -> Document | None:
        """Return the document; None if it is gone or can't be read, which is recorded as an issue."""
        source = next(source for source in self.sources if source.source == state.source)
        try:
            return source.read(state)
        except UnreadableDocumentError as error:
            self.refuse(state, error.issue)
            return None

    def describe(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return `hits` as shown in results."""
        sources = {source.source: source for source in self.sources}
        return tuple(sources[hit.source].describe(hit) if hit.source in sources else hit for hit in hits)

    def gone(self, hits: Sequence[Hit]) -> frozenset[str]:
        """Return the paths of those `hits` whose file was deleted."""
        sources = {source.source: source for source in self.sources}
        found = {(hit.source, hit.path) for hit in hits if hit.source in sources}
        return frozenset(path for source, path in found if sources[source].is_gone(path))

    def refuse(self, state: FileState, issue: Issue) -> None:
        """Record why a file is left out."""
        self._refused = {**self._refused, state.path: (state, issue)}
