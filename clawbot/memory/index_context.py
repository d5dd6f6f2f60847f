"""The shared context of all work on an index: database, files, settings, clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.memory.embeddings.cache import CurrentCache

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


class IndexContext(Struct, frozen=True):
    """One index: its database `db`, and the `library` of indexed files, of which `documents` are the memory files.

    `cache` is the table of cached embeddings for the embedder.
    """

    db: Path
    workspace: Path
    documents: MemoryDocuments
    library: Library
    settings: MemorySearchSettings
    clock: Clock
    cache: CurrentCache
