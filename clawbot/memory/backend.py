"""The memory interface of the program: the Protocol, and the base class for backends of packages.

An installed package offers a backend by an entry point of the group `clawbot.memory_backends`; its name is the value of
`memory.backend`, its object a `BackendFactory`:

    [project.entry-points."clawbot.memory_backends"]
    mine = "my_package:open_memory"

    def open_memory(context: BackendContext) -> MemoryBackend: ...

The factory is called once for each agent when the program starts. It must return at once, without touching files or the
network; slow work begins with `start` or the first call. The module should be cheap to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.errors import ClawbotError
from clawbot.memory.chunking.chunks import document_lines
from clawbot.memory.documents.memory_files import DocumentSource, MemoryDocuments
from clawbot.memory.values import (
    Counts,
    Excerpt,
    IndexStatus,
    Progress,
    ReportProgress,
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

if TYPE_CHECKING:
    from clawbot.config.paths import Paths
    from clawbot.config.schema import MemorySettings
    from clawbot.config.schema_agent import AgentSettings
    from clawbot.config.schema_memory import MemorySearchSettings
    from clawbot.memory.documents.library import Library
    from clawbot.memory.embeddings.cache import CurrentCache
    from clawbot.memory.values import Reranker


DEFAULT_LINES = 120
"""Default number of lines of an excerpt."""

MAX_CHARS = 12_000
"""Maximum characters of an excerpt: complete lines, at least one."""


class IndexUnavailableError(ClawbotError):
    """The memory can't be searched now."""


class BackendContext(Struct, frozen=True, kw_only=True):
    """The input of a backend: the memory of the agent `agent_id`.

    `agent.memory_search` are the search settings. `sources` are the documents to search: the memory files
    (`documents`), and the transcripts if the settings include them; both exclude what belongs to other agents. The
    backend's own files belong below `paths.home / "memory"` (mode 0600), and may be deleted at any time. `long_lived`:
    more than one search is expected, by a user who should not wait. `rerank` orders results with a model; None unless
    enabled. `memory` are the settings of memory in general, with those of each backend.
    """

    agent_id: str
    agent: AgentSettings
    memory: MemorySettings
    paths: Paths
    clock: Clock
    documents: MemoryDocuments
    sources: tuple[DocumentSource, ...]
    long_lived: bool = False
    rerank: Reranker | None = None


class IndexContext(Struct, frozen=True):
    """What all work on a builtin index shares: its database `db`, and the `library` of indexed files, of which
    `documents` are the memory files.

    `cache` is the table of cached embeddings for the embedder.
    """

    db: Path
    workspace: Path
    documents: MemoryDocuments
    library: Library
    settings: MemorySearchSettings
    clock: Clock
    cache: CurrentCache


class MemoryBackend(Protocol):
    """The memory of one agent. Belongs to one event loop; no method blocks it on disk or network.

    Methods raise only ClawbotError. The owner sets `on_progress`; it is called on the loop while files are indexed,
    with None at the end, and whenever `generation` has grown.
    """

    on_progress: Callable[[Progress | None], None] | None

    @property
    def generation(self) -> int:
        """Grows when the same search may have other results than before."""

    @property
    def location(self) -> Path | None:
        """The local database derived from the files, which may be deleted; None if there is none."""

    @property
    def built(self) -> bool:
        """Whether the index exists; otherwise the first search or sync builds it. Costs one stat."""

    @property
    def problem(self) -> str:
        """Why it finds less than configured, if known; empty if all is well."""

    async def probe(self, *, deep: bool = True) -> str:
        """Check whether everything configured is available; returns `problem`. `deep` may ask a server."""

    async def search(self, request: SearchRequest, building: ReportProgress | None = None) -> SearchResult:
        """Return the best results; `building` is called with the progress of an index that must be built first.

        Any text is a valid query; one without meaningful words has no results. Raises IndexUnavailableError.
        """

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Return lines of a memory file as on disk; `found` is False for a missing file.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """

    async def text(self, path: str) -> str:
        """Return the complete text of a memory file as on disk; empty for a missing file.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:
        """Synchronise the index with the files; `force` rebuilds it. Raises ClawbotError."""

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Return the content and condition; `deep` may ask a server. Raises ClawbotError."""

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Compare the index with the files; `fix` repairs the differences. Raises ClawbotError."""

    async def scrub(self) -> bool:
        """Erase remains of deleted text; False if that is not possible now. Raises ClawbotError."""

    def start(self) -> None:
        """Start watching the files and indexing in the background. Needs a running loop."""

    async def close(self) -> None:
        """Stop within a second. Never fails."""


BackendFactory = Callable[[BackendContext], MemoryBackend]


class FileBackend(MemoryBackend):
    """A base class that reads files from disk and has nothing to index, watch or repair.

    Subclasses implement at least `search` and `status`.
    """

    def __init__(self, documents: MemoryDocuments) -> None:
        self.on_progress: Callable[[Progress | None], None] | None = None
        self.documents = documents

    @property
    def generation(self) -> int:
        return 0

    @property
    def location(self) -> Path | None:
        return None

    @property
    def built(self) -> bool:
        return True

    @property
    def problem(self) -> str:
        return ""

    async def probe(self, *, deep: bool = True) -> str:
        return self.problem

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        return await asyncio.to_thread(read_excerpt, self.documents, path, from_line, lines)

    async def text(self, path: str) -> str:
        document = await asyncio.to_thread(self.documents.read_path, path)
        return "" if document is None else document.text

    async def sync(self, *, force: bool = False, progress: ReportProgress | None = None) -> SyncReport:
        return SyncReport()

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        return VerifyReport((), (), Counts(), clean=True)

    async def scrub(self) -> bool:
        return True

    def start(self) -> None:
        """There is nothing to watch."""

    async def close(self) -> None:
        """There is nothing to stop."""


def read_excerpt(
    documents: MemoryDocuments, path: str, from_line: int | None = None, lines: int | None = None
) -> Excerpt:
    """Return lines of the memory file `path` from `from_line` (from 1), as on disk. Blocks.

    For a missing file `found` is False. Raises ForbiddenPathError, UnreadableDocumentError.
    """
    document = documents.read_path(path)
    if document is None:
        return Excerpt(path, "", 0, 0, 0, found=False)
    all_lines = document_lines(document.text)
    first = max(1, from_line or 1)
    wanted = all_lines[first - 1 : first - 1 + max(1, lines or DEFAULT_LINES)]
    taken = wanted[: _fitting(wanted)]
    shown = document.state.path
    if not taken:
        return Excerpt(shown, "", 0, 0, len(all_lines))
    last = first + len(taken) - 1
    more = last < len(all_lines)
    following = last + 1 if more else None
    digest = document.digest.hex() if document.line_numbers is None else ""
    return Excerpt(shown, "\n".join(taken), first, last, len(all_lines), more, following, digest=digest)


def _fitting(lines: list[str]) -> int:
    """Return the number of leading lines within MAX_CHARS; at least one."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if number and size > MAX_CHARS:
            return number
    return len(lines)
