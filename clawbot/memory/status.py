"""Describes an index for people: what it holds, what it was built with, how large it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.memory.documents.library import Library
from clawbot.memory.embeddings.supply import Supply
from clawbot.memory.place import IndexPlace
from clawbot.memory.store.identity import Identity
from clawbot.memory.store.publish import SIDE_FILES, building_path
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import Totals
from clawbot.memory.sync.round import known_files
from clawbot.memory.values import CacheStatus, IndexStatus, Issue, Mode, Part, Source, SourceCount

REVIEWED_FILES = 500
"""So many files that are not in the index are read at most to say why: a tenth of a second."""


class Holdings(Struct, frozen=True):
    """What an index holds, and what it was built with. Nothing, for one that is not there yet."""

    totals: Mapping[Source, Totals] = {}
    identity: Identity | None = None
    last_sync: dt.datetime | None = None
    cached: int = 0

    @classmethod
    def of(cls, reader: IndexReader) -> Holdings:
        """Those of an index. Blocks."""
        with reader.snapshot():
            return cls(reader.totals(), reader.identity, reader.last_sync, reader.cache_count())

    @property
    def total(self) -> Totals:
        """All sources together."""
        counts = [msgspec.structs.astuple(total) for total in self.totals.values()]
        return Totals(*(sum(figures) for figures in zip(*counts, strict=True)))


class Scan(Struct, frozen=True):
    """The files on disk: how many of each source, whether the index is behind them, what is wrong with some."""

    files: Mapping[Source, int]
    dirty: bool
    disk_bytes: int
    building: bool
    issues: tuple[Issue, ...]

    @classmethod
    def of(cls, place: IndexPlace) -> Scan:
        """As it is now. Blocks."""
        library: Library = place.library
        counts: dict[Source, int] = dict.fromkeys(library.names, 0)
        for state in library.list().files:
            counts[state.source] += 1
        building = building_path(place.db)
        if library.is_stale() is None:
            library.remember(known_files(place.db))
        if place.db.exists():
            library.review(REVIEWED_FILES)
        stale = library.is_stale(surely=True)
        return cls(counts, stale is not False, _disk_bytes(place.db), building.exists(), library.issues)


def describe(place: IndexPlace, supply: Supply, holdings: Holdings, scan: Scan) -> IndexStatus:
    """The status of an index, without what only the running process knows."""
    settings, total, identity = place.settings, holdings.total, holdings.identity
    embedder = supply.embedder
    return IndexStatus(
        provider=supply.provider,
        requested_provider=supply.requested,
        model=supply.model,
        remote=supply.remote,
        mode=search_mode(with_vectors=embedder is not None and total.vectors > 0, hybrid=settings.query.hybrid.enabled),
        profile=settings.profile,
        files=total.files,
        total_files=sum(scan.files.values()),
        chunks=total.chunks,
        vectors=total.vectors,
        tokens=total.tokens,
        text_bytes=total.bytes,
        disk_bytes=scan.disk_bytes,
        db_path=str(place.db),
        workspace_dir=str(place.workspace),
        identity=_in_words(identity),
        dimensions=identity.dimensions if identity else 0,
        dirty=scan.dirty,
        rebuilding=scan.building,
        pending_vectors=total.pending if supply.wanted else 0,
        last_sync=holdings.last_sync,
        sources=place.library.names,
        extra_paths=tuple(str(extra.path) for extra in settings.extra_paths),
        source_counts=tuple(_count(name, holdings, scan) for name in place.library.names),
        vector=Part(available=not supply.problem, error=supply.problem or None),
        cache=_cache(place, holdings) if supply.remote else None,
        fallback=supply.fallback,
        issues=scan.issues,
    )


def search_mode(*, with_vectors: bool, hybrid: bool) -> Mode:
    """How a search looks."""
    if not with_vectors:
        return "fts-only"
    return "hybrid" if hybrid else "vector-only"


def _cache(place: IndexPlace, holdings: Holdings) -> CacheStatus:
    settings = place.settings.cache
    return CacheStatus(settings.enabled, holdings.cached, settings.max_entries)


def _count(name: Source, holdings: Holdings, scan: Scan) -> SourceCount:
    total = holdings.totals.get(name, Totals())
    return SourceCount(name, total.files, scan.files[name], total.chunks)


def _in_words(identity: Identity | None) -> str:
    if identity is None:
        return "not built yet"
    vectors = f"{identity.provider} {identity.model}" if identity.vectors else "no vectors"
    size = f", {identity.dimensions} dimensions" if identity.dimensions else ""
    sources = " and ".join(identity.sources)
    return f"{identity.profile} {identity.chunker}, tokenizer {identity.tokenizer}, {vectors}{size}, {sources}"


def _disk_bytes(db: Path) -> int:
    total = 0
    for path in (db, building_path(db)):
        for suffix in ("", *SIDE_FILES):
            try:
                total += path.with_name(f"{path.name}{suffix}").stat().st_size
            except OSError:
                continue
    return total
