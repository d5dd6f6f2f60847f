"""What a search may know, above every backend: what is not asked of it, and which of its answers are dropped."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from clawbot.memory.documents.memory_files import DocumentSource, ForbiddenPathError, MemoryDocuments
from clawbot.memory.search.scope import is_under
from clawbot.memory.values import TRANSCRIPTS, Hit, SearchRequest, SearchResult, split_part
from clawbot.text.globs import GlobError
from clawbot.text.names import composed

log = logging.getLogger(__name__)

NOTHING = SearchResult((), "fts-only", "none", "", evidence="weak")
"""The answer to a request that may know nothing."""


def is_in_scope(request: SearchRequest, hit: Hit) -> bool:
    """Return whether `request` allows `hit`, by its source and path alone. Pure."""
    path = split_part(hit.path)[0]
    if hit.source not in request.sources or path == request.without:
        return False
    try:
        wanted = request.path or ""
        return is_under(path, wanted) or is_under(composed(path), composed(wanted))
    except GlobError:
        return False


class ScopeGuard:
    """The guard of one agent's memory.

    `documents` are its memory files and `sources` what it may search. A search brings at most `max_chars` characters,
    unless it asks for another number.
    """

    def __init__(
        self, documents: MemoryDocuments, sources: Sequence[DocumentSource], max_chars: int, *, has_others: bool = False
    ) -> None:
        """`has_others`: the backend also finds files of other machines, which need not be here."""
        self._documents = documents
        self._sources = {source.source: source for source in sources}
        self._max_chars = max_chars
        self._has_others = has_others

    def narrowed(self, request: SearchRequest) -> SearchRequest | None:
        """Return the part of a request that a backend may get; None for nothing."""
        allowed = tuple(source for source in request.sources if source in self._sources)
        if not allowed:
            log.info("a search was not asked: its session may know none of the indexed sources")
            return None
        return replace(request, sources=allowed)

    def checked(self, request: SearchRequest, result: SearchResult) -> SearchResult:
        """`result` without what the request or the agent may not know, cut to size. Blocks.

        Raises msgspec.ValidationError for an answer of wrong types.
        """
        sound = msgspec.convert(msgspec.to_builtins(result), SearchResult)
        transcripts = self._transcripts() if any(hit.source == "sessions" for hit in sound.hits) else frozenset()
        hits = tuple(hit for hit in map(_sound, sound.hits) if self._may_know(request, hit, transcripts))
        if len(hits) < len(sound.hits):
            log.warning("%d results of a memory backend were dropped: out of scope", len(sound.hits) - len(hits))
        most = request.max_results or len(hits)
        return replace(sound, hits=tuple(_cut(hits[:most], request.max_chars or self._max_chars)))

    def _transcripts(self) -> frozenset[str]:
        """Return the paths of the transcripts."""
        source = self._sources.get("sessions")
        return frozenset(split_part(state.path)[0] for state in source.list().files) if source else frozenset()

    def _may_know(self, request: SearchRequest, hit: Hit, transcripts: frozenset[str]) -> bool:
        if not is_in_scope(request, hit) or not 1 <= hit.start_line <= hit.end_line:
            return False
        if hit.source == "sessions":
            return hit.path.startswith(TRANSCRIPTS) if self._has_others else split_part(hit.path)[0] in transcripts
        try:
            self._documents.locate(hit.path)
        except ForbiddenPathError:
            return False
        return self._has_others or not self._documents.is_gone(hit.path)


def _sound(hit: Hit) -> Hit:
    score = hit.score if math.isfinite(hit.score) else 0.0
    return replace(hit, score=min(max(score, 0.0), 1.0))


def _cut(hits: Sequence[Hit], room: int) -> Iterator[Hit]:
    """Complete results until one does not fit; that one is cut, and the rest left out."""
    for hit in hits:
        if room <= 0:
            return
        yield hit if len(hit.snippet) <= room else replace(hit, snippet=hit.snippet[:room])
        room -= len(hit.snippet)
