"""Verifies the index of a place against its files, and repairs the difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clawbot.memory.chunking.pieces import pieces_of
from clawbot.memory.documents.walking import FileState, is_hidden
from clawbot.memory.embeddings.protocol import Embedder
from clawbot.memory.place import IndexPlace
from clawbot.memory.store.aside import set_aside
from clawbot.memory.store.errors import DamagedIndexError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.records import FileRecord, Piece
from clawbot.memory.store.verify import verify
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync.round import LOCK_SECONDS, effective_identity, needs_rebuild, wanted_identity
from clawbot.memory.values import Counts, VerifyReport

_NONE = Counts()


def check(place: IndexPlace, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    """Compare files, pieces, words and vectors. Blocks. Raises BusyIndexError, StoreError.

    With `fix` the difference is repaired; what only a new index can repair is set aside, and counts as fixed: the
    sync that the caller lets follow builds it.
    """
    if not place.db.exists():
        return _one("There is no memory index yet.", fixed=fix)
    lock = WriterLock(place.db)
    lock.acquire(LOCK_SECONDS)
    try:
        return _check(place, embedder, fix=fix)
    except DamagedIndexError as error:
        if fix:
            set_aside(place.db, error.reason, place.clock.now())
        return _one(error.message, fixed=fix)
    finally:
        lock.release()


def _check(place: IndexPlace, embedder: Embedder | None, *, fix: bool) -> VerifyReport:
    writer = IndexWriter.open(place.db)
    try:
        known = writer.identity
        wanted = effective_identity(known, wanted_identity(place.settings, place.library, embedder))
        if known is None or needs_rebuild(known, wanted):
            return _one("The index was built with other settings, or by another version.", fixed=fix)
        listing = place.library.list()
        if any(is_hidden(path, listing.hidden) for path in writer.known()):
            # Their pieces would pass for those of deleted files.
            problems = tuple(f"{issue.path}: {issue.text}" for issue in place.library.hidden)
            return VerifyReport(problems, (), _NONE, clean=False)
        return verify(writer, _documents(place, listing.files), fix=fix)
    finally:
        writer.close()


def _documents(place: IndexPlace, files: Sequence[FileState]) -> Iterator[tuple[FileRecord, Sequence[Piece]]]:
    for state in files:
        document = place.library.read(state)
        if document is not None:
            record = FileRecord(document.state, document.digest, document.date)
            yield record, pieces_of(document, place.settings)


def _one(problem: str, *, fixed: bool) -> VerifyReport:
    return VerifyReport((problem,), (problem,) if fixed else (), _NONE, clean=fixed)
