"""What the program asks of a memory, whichever searches it: the Protocol, and what a backend of a package starts from.

An installed package offers a backend by an entry point of the group `clawbot.memory_backends`; its name is what
`memory.backend` says, its object a `BackendFactory`:

    [project.entry-points."clawbot.memory_backends"]
    mine = "my_package:open_memory"

    def open_memory(context: BackendContext) -> MemoryBackend: ...

The factory is called once for each agent when the program starts. It touches no file, asks no network and returns at
once; what takes long begins with `start` or the first call. The module should be cheap to import.
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
    SearchRequest,
    SearchResult,
    SyncReport,
    VerifyReport,
)

if TYPE_CHECKING:
    from clawbot.config.paths import Paths
    from clawbot.config.schema_agent import AgentSettings
    from clawbot.memory.values import Reranker

DEFAULT_LINES = 120
"""Lines of an excerpt when none are asked for; see reference 14.2."""

MAX_CHARS = 12_000
"""Characters of an excerpt: whole lines up to this, and at least one."""


class IndexUnavailableError(ClawbotError):
    """There is no way to search now."""


class BackendContext(Struct, frozen=True, kw_only=True):
    """What a backend is made for and from: the memory of the agent `agent_id`.

    `agent.memory_search` are the settings of search. `sources` are what is to be searched: the memory files
    (`documents`), and the transcripts where the settings name them; both leave out what belongs to another agent.
    Files of its own belong below `paths.home / "memory"` (mode 0600), and can be deleted at any time. `long_lived`
    says that more than one search is to be expected, by somebody who does not want to wait for one. `rerank` orders
    results by a model; it is None unless the settings ask for that.
    """

    agent_id: str
    agent: AgentSettings
    paths: Paths
    clock: Clock
    documents: MemoryDocuments
    sources: tuple[DocumentSource, ...]
    long_lived: bool = False
    rerank: Reranker | None = None


class MemoryBackend(Protocol):
    """The memory of one agent. Belongs to one event loop; no method makes it wait for a disk or a network.

    Methods raise ClawbotError and nothing else. `on_progress` is set by the owner, and called on the loop while files
    are indexed, with None when that is over, and whenever `generation` has grown.
    """

    on_progress: Callable[[Progress | None], None] | None

    @property
    def generation(self) -> int:
        """Grows when the same search may find something else than before."""
        ...

    @property
    def location(self) -> Path | None:
        """The database on this machine that is made from the files, and can be deleted; None where there is none."""
        ...

    @property
    def built(self) -> bool:
        """Whether there is an index already; where not, the first search or sync builds it. One look at the disk."""
        ...

    @property
    def problem(self) -> str:
        """Why it finds less than the settings ask for, as far as that is known; empty while all is well."""
        ...

    async def probe(self, *, deep: bool = True) -> str:
        """Look whether it can do what the settings ask for: `problem`, as it is then. `deep` may ask a server."""
        ...

    async def search(self, request: SearchRequest, building: Callable[[Progress], None] | None = None) -> SearchResult:
        """The places that fit best; `building` is told how far an index is that must be built first.

        Any text is a query; one that says nothing has no results. Raises IndexUnavailableError.
        """
        ...

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a memory file as they are on disk; `found` is False for a file that is not there.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        ...

    async def text(self, path: str) -> str:
        """The whole text of a memory file as it is on disk; empty for one that is not there.

        Raises ForbiddenPathError, UnreadableDocumentError.
        """
        ...

    async def sync(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> SyncReport:
        """Bring the index up to date with the files; `force` builds it anew. Raises ClawbotError."""
        ...

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """What it holds and how well it is; `deep` may ask a server. Raises ClawbotError."""
        ...

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Compare the files with what was made of them; `fix` repairs the difference. Raises ClawbotError."""
        ...

    async def scrub(self) -> bool:
        """Remove for good what is still kept of deleted text; False when that can't be done now. Raises
        ClawbotError."""
        ...

    def start(self) -> None:
        """Follow the files from now on, and index in the background. Needs a running loop."""
        ...

    async def close(self) -> None:
        """End what runs, within a second. Never fails."""
        ...


BackendFactory = Callable[[BackendContext], MemoryBackend]


class FileBackend(MemoryBackend):
    """What backends share: the files are read from disk, and there is nothing to index, to follow and to repair.

    One that derives from it has at least `search` and `status`.
    """

    def __init__(self, documents: MemoryDocuments) -> None:
        self.on_progress: Callable[[Progress | None], None] | None = None
        self.documents = documents

    @property
    def generation(self) -> int:
        """Always 0."""
        return 0

    @property
    def location(self) -> Path | None:
        """None."""
        return None

    @property
    def built(self) -> bool:
        """Always true."""
        return True

    @property
    def problem(self) -> str:
        """Always empty."""
        return ""

    async def probe(self, *, deep: bool = True) -> str:
        """`problem`."""
        return self.problem

    async def read(self, path: str, from_line: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a memory file as they are on disk. Raises ForbiddenPathError, UnreadableDocumentError."""
        return await asyncio.to_thread(read_excerpt, self.documents, path, from_line, lines)

    async def text(self, path: str) -> str:
        """The whole text of a memory file as it is on disk. Raises ForbiddenPathError, UnreadableDocumentError."""
        document = await asyncio.to_thread(self.documents.read_path, path)
        return "" if document is None else document.text

    async def sync(self, *, force: bool = False, progress: Callable[[Progress], None] | None = None) -> SyncReport:
        """Nothing to do."""
        return SyncReport()

    async def verify(self, *, fix: bool = False) -> VerifyReport:
        """Nothing can differ."""
        return VerifyReport((), (), Counts(), clean=True)

    async def scrub(self) -> bool:
        """Nothing is kept."""
        return True

    def start(self) -> None:
        """Nothing to follow."""

    async def close(self) -> None:
        """Nothing to end."""


def read_excerpt(
    documents: MemoryDocuments, path: str, from_line: int | None = None, lines: int | None = None
) -> Excerpt:
    """Lines `from_line` (from 1) and following of the memory file `path`, as they are on disk now. Blocks.

    A file that is not there is an excerpt with `found` False. Raises ForbiddenPathError, UnreadableDocumentError.
    """
    document = documents.read_path(path)
    if document is None:
        return Excerpt(path, "", 0, 0, 0, found=False)
    whole = document_lines(document.text)
    first = max(1, from_line or 1)
    wanted = whole[first - 1 : first - 1 + max(1, lines or DEFAULT_LINES)]
    taken = wanted[: _fitting(wanted)]
    shown = document.state.path
    if not taken:
        return Excerpt(shown, "", 0, 0, len(whole))
    last = first + len(taken) - 1
    more = last < len(whole)
    return Excerpt(shown, "\n".join(taken), first, last, len(whole), more, last + 1 if more else None)


def _fitting(lines: list[str]) -> int:
    """How many of the first lines stay within MAX_CHARS; a first line that is longer by itself counts."""
    size = 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if number and size > MAX_CHARS:
            return number
    return len(lines)
