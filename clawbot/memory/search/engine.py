"""The entry point of the search: ranks notes and transcripts for a request with its vectors, and joins them. Pure over
a reader of the index."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, get_args

import msgspec
from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.copies import token_set, without_repetition
from clawbot.memory.search.evidence import best_of
from clawbot.memory.search.features import Wording, with_nearest
from clawbot.memory.search.in_force import AskedTime
from clawbot.memory.search.outline import OutlineCache
from clawbot.memory.search.protocols import Budget, ChunkReader, Matrix, Ranked, Ranking, StopCheck, never
from clawbot.memory.search.question import Question, understand
from clawbot.memory.search.rank import TEXT_SHARE, VECTOR_SHARE, LineRanking, LineSource
from clawbot.memory.search.results import LineResults, read_lines
from clawbot.memory.search.scale import on_scale
from clawbot.memory.search.scope import FileScope, Sources, scope_of
from clawbot.memory.search.shortlist import WORTH_CHOOSING
from clawbot.memory.search.spelling import IndexWords, Spelling, WordCache
from clawbot.memory.search.vector_scores import AllVectors
from clawbot.memory.store.records import id_range_of
from clawbot.memory.translations import Thesaurus
from clawbot.memory.values import MAX_QUERIES, Hit, Mode, SearchRequest, Source, without_copies

if TYPE_CHECKING:
    from clawbot.config.schema_memory import HybridSettings, LineWeights, MemorySearchSettings, QuerySettings
    from clawbot.memory.store.records import IdRange


Describe = Callable[[Sequence[Hit]], Sequence[Hit]]
"""Adds speaker and time to hits of transcripts. May block."""

TRANSCRIPT_SHARE = 3
"""While enough notes match, one in this many results may come from a transcript."""

LINES = "lines"
"""The builtin profile."""

PROFILE_GROUP = "clawbot.rankings"
"""The entry point group for other profiles, each a `Profile`."""

VECTOR_WEIGHT, TEXT_WEIGHT = 0.7, 0.3
"""The weights of vectors and words; other settings count by how they differ from these."""

MIN_SCORE = 0.35
"""The minimum score of the profile classic."""

LINE_RESULTS, CLASSIC_RESULTS = 24, 6
"""Default number of results in each profile. Lines are short: their characters are the limit, and `query.max_results`
counts in proportion."""

# A transcript hit with this share of its words in one note is redundant: the session's note quotes it.
_SAME_WORDS = 0.8


class JoinedRanking:
    """A `Ranking` of notes and transcripts; the scores of transcripts are multiplied by `weight` (0 to 1)."""

    def __init__(
        self, notes: Ranking | None, transcripts: Ranking, weight: float, budget: Budget, describe: Describe = tuple
    ) -> None:
        self._notes = notes
        self._transcripts = transcripts
        self._weight = weight
        self._budget = budget
        self._describe = describe
        self._noted = 0

    def texts(self, count: int) -> list[str]:
        """Return the first texts of both, at most `count`."""
        spoken = self._transcripts.texts(count if self._notes is None else count // TRANSCRIPT_SHARE)
        noted = [] if self._notes is None else self._notes.texts(count - len(spoken))
        self._noted = len(noted)
        return [*noted, *spoken]

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """Return the best of both by score, within the budget. Blocks."""
        found = self._transcripts.results(self._part(order, of_notes=False))
        described = self._describe(found.hits)
        weighed = (msgspec.structs.replace(hit, score=round(hit.score * self._weight, 3)) for hit in described)
        spoken = [hit for hit in weighed if hit.score >= self._budget.score]
        if self._notes is None:
            return Ranked(tuple(_fitting(spoken, self._budget)), found.partial, found.warnings, found.evidence)
        notes = self._notes.results(self._part(order, of_notes=True))
        known = [token_set(hit.snippet) for hit in notes.hits]
        new = [hit for hit in without_copies(spoken) if not _is_known(token_set(hit.snippet), known)]
        results = self._budget.results
        room = max(results // TRANSCRIPT_SHARE, 1, results - len(notes.hits))
        parts = (notes.hits, new[:room])
        # By the highest score from each hit on: both lists keep their order where it is not that of the scores.
        ranked = [(max(hit.score for hit in part[at:]), hit) for part in parts for at, hit in enumerate(part)]
        joined = [hit for _, hit in sorted(ranked, key=lambda each: -each[0])]
        hits = tuple(_fitting(joined, self._budget)) if new else notes.hits
        warnings = tuple(dict.fromkeys((*notes.warnings, *found.warnings)))
        evidence = best_of((notes.evidence, found.evidence))
        return Ranked(hits, notes.partial or found.partial, warnings, evidence)

    def _part(self, order: Sequence[int] | None, *, of_notes: bool) -> Sequence[int] | None:
        if order is None:
            return None
        if of_notes:
            return [number for number in order if number < self._noted]
        return [number - self._noted for number in order if number >= self._noted]


def _is_known(tokens: frozenset[str], notes: Sequence[frozenset[str]]) -> bool:
    return any(len(tokens & note) >= _SAME_WORDS * len(tokens) for note in notes)


def _fitting(hits: Sequence[Hit], budget: Budget) -> Iterator[Hit]:
    """Yield the first hits that fit the budget together; at least one."""
    left = budget.chars or sys.maxsize
    count = 0
    for hit in hits:
        if count and (len(hit.snippet) > left or count >= budget.results):
            continue
        left -= len(hit.snippet)
        count += 1
        yield hit


SMALL_CHUNKS = 8_000
"""An index with at most this many chunks is read entirely for each search: 40 ms of CPU."""

_ENOUGH = 2 / 3
"""With a smaller share of different lines among the first ones, more lines are compared for repetition."""
_WIDER = 4
"""So many times the promising lines are compared where those are mostly repetition."""

_WORDS_COUNT = "There are no vectors for this search: words are used although text_weight is 0."


class Search(Struct, frozen=True):
    """One search of the index that `reader` reads.

    `vectors` are the unit vectors of the request's queries, float32 `(d,)`; None if missing: then only words count.
    `today` is the reference of "last week". With `matrix`, all vectors in memory, none are read from the index.
    `candidates` gives the lines to rank among the chunks of a range, where the index has too many to read them all.
    `offline`: the vectors are those of the offline model, on whose cosines `query.lines` was learned; those of others
    are brought on their scale.
    """

    reader: ChunkReader
    request: SearchRequest
    vectors: tuple[bytes | None, ...]
    settings: MemorySearchSettings
    today: date
    matrix: Matrix | None = None
    should_stop: StopCheck = never
    candidates: Callable[[IdRange], LineSource] | None = None
    offline: bool = True


Profile = Callable[[Search, FileScope, Budget, tuple[str, ...]], Ranking]
"""Ranks the chunks of a scope for a search, within a budget; what it warns of comes after the given warnings."""


def open_profile(name: str) -> Profile:
    """Import the profile `name`. Blocks. Raises ClawbotError if it can't be used."""
    # Deferred import: the builtin profile does without the list of installed packages.
    from clawbot.entry_points import BrokenExtension, find

    profile: Profile | BrokenExtension = find(PROFILE_GROUP, name).load()
    if isinstance(profile, BrokenExtension):
        raise ClawbotError(f"The profile {name} can't be used: {profile.problem}.")
    return profile


class SearchEngine:
    """Searches the index in both profiles. Thread-safe if each thread has its own reader."""

    def __init__(self) -> None:
        self._outlines = OutlineCache()
        self._sources = Sources()
        self._spelling = Spelling(Lexicon.load())
        self._words = WordCache()
        self._was_asked = False

    def prepare(self, reader: ChunkReader) -> None:
        """Read what searches with all vectors in memory need. Blocks: half a second for a million lines."""
        for source in get_args(Source):
            self._outlines.outline(reader, id_range_of(source))

    def rank(self, search: Search, describe: Describe = tuple) -> Ranking:
        """Return the results of a search, best first. Blocks; deterministic for the same index and search.

        Notes and transcripts are ranked separately and then joined; `describe` adds speaker and time to hits of
        transcripts.
        """
        request = search.request
        budget = budget_of(request, search.settings)
        with search.reader.snapshot():
            in_sessions = self._sources.part(search.reader.files(), "sessions")[0]
            has_transcripts = "sessions" in request.sources and bool(in_sessions)
            notes = self._rank_source(search, "memory", budget) if "memory" in request.sources else None
            if notes is None or has_transcripts:
                weight = self._transcript_weight(search) if notes else 1.0
                transcripts = self._rank_source(search, "sessions", budget)
                notes = JoinedRanking(notes, transcripts, weight, budget, describe)
            self._was_asked = True
            return notes

    def _transcript_weight(self, search: Search) -> float:
        """Return the factor on the scores of transcripts, on the scale of the profile."""
        query = search.settings.query
        if search.settings.profile == "classic":
            return query.transcript_weight
        return on_scale(query.transcript_weight, mode_of(query.hybrid, has_vectors=any(search.vectors)))

    def _rank_source(self, search: Search, source: Source, budget: Budget) -> Ranking:
        """Return the ranking of one source. Blocks."""
        reader, request, settings = search.reader, search.request, search.settings
        queries, vectors = request.queries[:MAX_QUERIES], search.vectors[:MAX_QUERIES]
        scope, warnings = scope_of(reader.files(), source, request, self._sources)
        if settings.query.hybrid.text_weight == 0 and not any(vectors):
            warnings = (*warnings, _WORDS_COUNT)
        if settings.profile != LINES:
            return open_profile(settings.profile)(search, scope, budget, warnings)
        weights = weighed(settings.query, has_vectors=any(vectors))
        thesaurus, speakers = Thesaurus(Lexicon.load(), IndexWords(reader, self._words)), reader.speakers()
        finished = not request.prefix
        corrected = [self._spelling.correct(text, reader, speakers.values(), finished=finished) for text in queries]
        misspelt = {typed: meant for each in corrected for typed, meant in each.words.items()}

        def understood(text: str) -> Question:
            guessed = {word for meant in misspelt.values() for word in meant}
            prefix = request.prefix
            found = understand(text, speakers, search.today, thesaurus, weights, prefix=prefix, guessed=guessed)
            days = with_nearest(found.days, scope.files.values())
            return msgspec.structs.replace(found, days=days)

        wordings = [Wording(understood(each.text), vector) for each, vector in zip(corrected, vectors, strict=True)]
        lines = msgspec.structs.replace(self._lines(search, scope), offline=search.offline)
        words = tuple(word for each in wordings for word in each.question.words)
        found = LineRanking(lines, scope, weights, search.should_stop).rank(wordings)
        days = [day for each in wordings for day in each.question.days]
        fold = functools.partial(without_repetition, reader, files=scope.files, words=frozenset(words), days=days)
        ranked = fold(found.first(weights.ranked))
        if len(ranked.ids) < _ENOUGH * weights.ranked < len(found.ids):
            if len(found.ids) > weights.promising // 2:
                wider = weights.model_copy(update={"promising": _WIDER * weights.promising})
                found = LineRanking(lines, scope, wider, search.should_stop).rank(wordings)
            ranked = fold(found).first(weights.ranked)
        around = read_lines(reader, ranked.ids, weights.gap)
        mode = mode_of(settings.query.hybrid, has_vectors=any(vectors))
        asks_order = any(each.question.asks_order for each in wordings)
        shown = ranked.in_time(scope.files) if asks_order else ranked
        asked = None if asks_order else AskedTime.of([each.text for each in corrected], search.today)
        return LineResults(shown, around, scope.files, budget, weights, words, warnings, mode, misspelt, asked)

    def _lines(self, search: Search, scope: FileScope) -> LineSource:
        """Return the source of the lines: with all of them in memory, if that pays, the ranking is better."""
        reader, matrix, has_vectors = search.reader, search.matrix, any(search.vectors)
        if search.candidates is not None:
            return search.candidates(scope.id_range)
        pays = scope.chunks <= SMALL_CHUNKS or self._was_asked
        if matrix is None and has_vectors and scope.chunks <= SMALL_CHUNKS:
            matrix = AllVectors(*reader.all_vectors(scope.id_range))
        has_all = matrix is not None or (pays and not has_vectors)
        outline = self._outlines.outline(reader, scope.id_range) if has_all else None
        if outline is None or len(outline) > WORTH_CHOOSING:
            return LineSource(reader, matrix if outline is not None else None, outline=outline)
        return LineSource(reader, matrix, outline.table)


def budget_of(request: SearchRequest, settings: MemorySearchSettings) -> Budget:
    """Return the limits of a search: from the request, else from the settings, else the profile's default."""
    query = settings.query
    is_classic = settings.profile == "classic"
    # The profile classic limits results, not characters, unless requested.
    chars = request.max_chars or (None if is_classic else query.max_chars)
    stated = query.min_score if request.min_score is None else request.min_score
    score = stated if stated is not None else MIN_SCORE if is_classic else 0.0
    usual = query.max_results or CLASSIC_RESULTS
    usual = usual if is_classic else usual * LINE_RESULTS // CLASSIC_RESULTS
    most, stated_most = max(1, usual), max(1, request.max_results or usual)
    return Budget(stated_most, chars, score, (most, query.max_chars), states_score=stated is not None)


def weights_of(hybrid: HybridSettings) -> tuple[float, float]:
    """Return the weights of vectors and words, which sum to 1."""
    vector = VECTOR_WEIGHT if hybrid.vector_weight is None else hybrid.vector_weight
    text = TEXT_WEIGHT if hybrid.text_weight is None else hybrid.text_weight
    total = vector + text
    return (vector / total, text / total) if total else (VECTOR_WEIGHT, TEXT_WEIGHT)


def mode_of(hybrid: HybridSettings, *, has_vectors: bool) -> Mode:
    """Return the method by which lines are ranked."""
    if not has_vectors:
        return "fts-only"
    return "hybrid" if hybrid.enabled and hybrid.text_weight != 0 else "vector-only"


_BY_MEANING = ("meaning", "note_meaning", "echo")
_BY_WORDS = ("term", "exact", "section", "note", "together", "answer")


def weighed(query: QuerySettings, *, has_vectors: bool) -> LineWeights:
    """Return the line weights, scaled by the configured weights of vectors and words; 0.7 and 0.3 leave them unchanged.

    Without vectors there is nothing to balance.
    """
    weights, hybrid = query.lines, query.hybrid
    if not has_vectors:
        # `exact` balances the vector score, and has no counterpart without it.
        return weights.model_copy(update={"exact": 0.0})
    vector, text = weights_of(hybrid) if hybrid.enabled else (1.0, 0.0)
    vector, text = vector * VECTOR_SHARE / VECTOR_WEIGHT, text * TEXT_SHARE / TEXT_WEIGHT
    total = vector + text
    by_meaning, by_words = vector / total / VECTOR_SHARE, text / total / TEXT_SHARE
    scaled = {
        **{name: getattr(weights, name) * by_meaning for name in _BY_MEANING},
        **{name: getattr(weights, name) * by_words for name in _BY_WORDS},
    }
    return weights.model_copy(update=scaled)
