"""The files that are indexed, of all sources: what is wrong with them, what the index knew of them last, and what a
sync has to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from clawbot.memory.documents.memory_files import UNSETTLED, Document, DocumentSource, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState, Listing, is_hidden
from clawbot.memory.values import Hit, Issue, Source


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


class Library:
    """All sources as one. Every method blocks, and may be called from any thread."""

    def __init__(self, sources: Sequence[DocumentSource]) -> None:
        self.sources = tuple(sources)
        self._refused: dict[str, tuple[FileState, Issue]] = {}
        self._issues: tuple[Issue, ...] = ()
        self._hidden: tuple[Issue, ...] = ()
        self._known: Mapping[str, Known] | None = None

    @property
    def names(self) -> tuple[Source, ...]:
        """What the sources are marked with."""
        return tuple(source.source for source in self.sources)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """What kept files from being indexed, by the last listing and the reading since."""
        return (*self._issues, *(issue for _, issue in self._refused.values()))

    @property
    def hidden(self) -> tuple[Issue, ...]:
        """What kept the last listing from looking at files that may be there all the same."""
        return self._hidden

    def list(self) -> Listing:
        """All files now."""
        files: list[FileState] = []
        issues: list[Issue] = []
        hidden: dict[str, Issue] = {}
        for source in self.sources:
            listing = source.list()
            files += listing.files
            issues += listing.issues
            hidden |= listing.hidden
        self._issues = tuple(issues)
        self._hidden = tuple(dict.fromkeys(hidden.values()))
        if self._refused:
            now = {state.path: state for state in files}
            self._refused = {path: known for path, known in self._refused.items() if now.get(path) == known[0]}
        return Listing(tuple(files), self._issues, hidden)

    def remember(self, known: Mapping[str, Known]) -> None:
        """Note what the index holds now."""
        self._known = known

    def is_stale(self, *, surely: bool = False) -> bool | None:
        """Whether files may have changed since the index was brought up to date; None when that is not known yet.

        `surely`: have changed. Files that could not be read, and are as they were then, don't count.
        """
        known = self._known
        if known is None:
            return None
        plan = self._plan(known)
        return is_stale(plan, known) if surely else not plan.is_empty

    def review(self, most: int) -> None:
        """Read up to `most` of the files that the index does not hold, to learn which of them can't be read.

        Which these are is not stored: what a sync of an earlier process found is found once more.
        """
        if self._known is not None:
            for state in self._plan(self._known).added[:most]:
                self.read(state)

    def _plan(self, known: Mapping[str, Known]) -> Plan:
        listing = self.list()
        readable = [state for state in listing.files if state.path not in self._refused]
        return make_plan(readable, known, listing.hidden)

    def read(self, state: FileState) -> Document | None:
        """The document; None when it is gone or can't be read, which is an issue then."""
        source = next(source for source in self.sources if source.source == state.source)
        try:
            return source.read(state)
        except UnreadableDocumentError as error:
            self.refuse(state, error.issue)
            return None

    def describe(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """`hits` as results show them."""
        sources = {source.source: source for source in self.sources}
        return tuple(sources[hit.source].describe(hit) if hit.source in sources else hit for hit in hits)

    def gone(self, hits: Sequence[Hit]) -> frozenset[str]:
        """The paths of those of `hits`, as results show them, whose file was deleted."""
        sources = {source.source: source for source in self.sources}
        places = {(hit.source, hit.path) for hit in hits if hit.source in sources}
        return frozenset(path for source, path in places if sources[source].is_gone(path))

    def refuse(self, state: FileState, issue: Issue) -> None:
        """Note why a file is left out."""
        self._refused[state.path] = state, issue
