"""What all work on an index shares: the database, the files, the settings, the clock."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import DocumentSource, MemoryDocuments
from clawbot.memory.documents.walking import Closed
from clawbot.memory.embeddings.current_cache import CurrentCache

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


class IndexPlace(Struct, frozen=True):
    """One index: its database `db`, and the `library` of what is indexed, of which `documents` are the memory files.

    `cache` is the table of kept embeddings, for the embedder that uses it.
    """

    db: Path
    workspace: Path
    documents: MemoryDocuments
    library: Library
    settings: MemorySearchSettings
    clock: Clock
    cache: CurrentCache

    @classmethod
    def of(
        cls,
        db: Path,
        workspace: Path,
        settings: MemorySearchSettings,
        clock: Clock,
        more_sources: tuple[DocumentSource, ...] = (),
        *,
        closed: Callable[[], Closed] | None = None,
    ) -> IndexPlace:
        """The index of `workspace`, and of `more_sources` where the settings name them, without what is `closed` (see
        MemoryDocuments). Touches no file."""
        documents = MemoryDocuments(workspace, settings.extra_paths, closed)
        named: tuple[DocumentSource, ...] = (documents, *more_sources)
        library = Library([source for source in named if source.source in settings.sources])
        return cls(db, workspace, documents, library, settings, clock, CurrentCache())
