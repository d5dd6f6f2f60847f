"""The files that are indexed, of all sources, with what is wrong with them and what the index knew of them last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clawbot.memory.documents.memory_files import Document, DocumentSource, UnreadableDocumentError
from clawbot.memory.documents.walking import FileState, Listing
from clawbot.memory.sync.plan import Known, Plan, is_stale, make_plan
from clawbot.memory.values import Issue, Source


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

    def refuse(self, state: FileState, issue: Issue) -> None:
        """Note why a file is left out."""
        self._refused[state.path] = state, issue
