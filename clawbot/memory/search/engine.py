"""The one door to the search: a request and vectors go in, a ranking comes out. Pure over a reader of the index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

from clawbot.config.schema_lines import LineWeights
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.classic import LEAST_SCORE, ClassicSearch
from clawbot.memory.search.lines.meaning import AllVectors
from clawbot.memory.search.lines.outline import Outline
from clawbot.memory.search.lines.question import understand
from clawbot.memory.search.lines.rank import LineRanking, Lines, Variant
from clawbot.memory.search.lines.results import LineResults, read_lines
from clawbot.memory.search.lines.weights import TEXT_SHARE, VECTOR_SHARE
from clawbot.memory.search.ranking import Budget, Ranked, Ranking
from clawbot.memory.search.reading import Matrix, Reader, StopCheck, never
from clawbot.memory.search.scope import scope_of
from clawbot.memory.values import MAX_QUERIES, SearchRequest

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings, QuerySettings

SMALL_CHUNKS = 8_000
"""An index of up to so many chunks is read as a whole for one search: 40 ms of CPU."""

_WORDS_COUNT = "There are no vectors for this search: words count, although text_weight is 0."


class SearchEngine:
    """Searches the index in both profiles. May be used from several threads, each with its own reader."""

    def __init__(self) -> None:
        self._outline = Outline()
        self._was_asked = False

    def run(
        self,
        reader: Reader,
        request: SearchRequest,
        vectors: Sequence[bytes | None],
        settings: MemorySearchSettings,
        *,
        today: date,
        matrix: Matrix | None = None,
        should_stop: StopCheck = never,
    ) -> Ranked:
        """The results of `request`; see `rank`. Blocks."""
        ranking = self.rank(reader, request, vectors, settings, today=today, matrix=matrix, should_stop=should_stop)
        return ranking.results()

    def rank(
        self,
        reader: Reader,
        request: SearchRequest,
        vectors: Sequence[bytes | None],
        settings: MemorySearchSettings,
        *,
        today: date,
        matrix: Matrix | None = None,
        should_stop: StopCheck = never,
    ) -> Ranking:
        """What the index has for `request`, best first. Blocks; the same index and request give the same ranking.

        `vectors` are unit float32 vectors of the request's queries, None where there is none: words alone are looked
        for then. `today` is what "last week" counts from. With `matrix`, all vectors in memory, these are not read
        from the index.
        """
        queries, vectors = request.queries[:MAX_QUERIES], vectors[:MAX_QUERIES]
        budget = budget_of(request, settings)
        with reader.snapshot():
            scope, notes = scope_of(reader.files(), request)
            if settings.query.hybrid.text_weight == 0 and not any(vectors):
                notes = (*notes, _WORDS_COUNT)
            if settings.profile == "classic":
                classic = ClassicSearch(reader, scope, settings.query.hybrid, budget, today)
                return classic.rank(queries, vectors, should_stop, notes)
            weights = weighed(settings.query, has_vectors=any(vectors))
            lexicon, speakers = Lexicon.load(), reader.speakers()
            variants = [
                Variant(understand(text, speakers, today, lexicon, weights, prefix=request.prefix), vector)
                for text, vector in zip(queries, vectors, strict=True)
            ]
            source = self._source(reader, matrix, scope.chunks, has_vectors=any(vectors))
            ranked = LineRanking(source, scope, weights, should_stop).rank(variants)
            lines = read_lines(reader, ranked.ids, weights.gap)
            words = tuple(word for variant in variants for word in variant.question.words)
            return LineResults(ranked, lines, scope.files, budget, weights, words, notes)

    def _source(self, reader: Reader, matrix: Matrix | None, chunks: int, *, has_vectors: bool) -> Lines:
        """Where lines are read: all of them in memory where that pays, since whoever sees all of them ranks better."""
        pays = chunks <= SMALL_CHUNKS or self._was_asked
        self._was_asked = True
        if matrix is None and has_vectors and chunks <= SMALL_CHUNKS:
            matrix = AllVectors(*reader.all_vectors())
        has_all = matrix is not None or (pays and not has_vectors)
        return Lines(reader, matrix, self._outline.table(reader) if has_all else None)


def budget_of(request: SearchRequest, settings: MemorySearchSettings) -> Budget:
    """What a search may return: what the request says, else the settings, else what is usual in the profile."""
    query = settings.query
    is_classic = settings.profile == "classic"
    # The profile classic counts results, not characters, unless it is asked to.
    chars = request.max_chars or (None if is_classic else query.max_chars)
    scores = (request.min_score, query.min_score, LEAST_SCORE if is_classic else 0.0)
    score = next(each for each in scores if each is not None)
    return Budget(max(1, request.max_results or query.max_results), chars, score)


def weighed(query: QuerySettings, *, has_vectors: bool) -> LineWeights:
    """The weights of lines, the two legs as the settings want them; the shares 0.3 and 0.7 leave them as they are.

    Without vectors there is one leg, and nothing to share.
    """
    weights, hybrid = query.lines, query.hybrid
    if not has_vectors:
        return weights
    vector = VECTOR_SHARE if hybrid.vector_weight is None else hybrid.vector_weight
    text = TEXT_SHARE if hybrid.text_weight is None else hybrid.text_weight
    if not hybrid.enabled:
        vector, text = VECTOR_SHARE, 0.0
    total = vector + text
    by_meaning, by_words = vector / total / VECTOR_SHARE, text / total / TEXT_SHARE
    scaled = {
        "meaning": weights.meaning * by_meaning,
        "term": weights.term * by_words,
        "section": weights.section * by_words,
        "answer": weights.answer * by_words,
    }
    return weights.model_copy(update=scaled)
