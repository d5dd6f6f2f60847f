"""The profile `classic`: the documented formula of older systems, for users who tuned one of them.

Three faults of the original are fixed: a better bm25 gives a better score, keyword hits are kept if nothing reaches
the minimum score, and single words count if no chunk has them all. Equal scores are ordered by path and line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.search.copies import CJK_RUN, folded_hits, token_set
from clawbot.memory.search.engine import Search, weights_of
from clawbot.memory.search.protocols import Budget, ChunkReader, Ranked, StopCheck, reordered
from clawbot.memory.search.scope import FileScope
from clawbot.memory.store.records import ChunkRow, FileRow, file_of, origin_of
from clawbot.memory.values import MAX_QUERIES, Hit
from clawbot.text.patterns import lazy_re
from clawbot.text.query import parse_query
from clawbot.text.tokens import fts_quote, spread_text

if TYPE_CHECKING:
    from clawbot.config.schema_memory import HybridSettings, TemporalDecaySettings

MAX_CANDIDATES = 200
BY_WORDS = "No result has a score of {score:g}: these contain words of the question."
SNIPPET_UNITS = 700
"""What of a chunk is compared for diversity, in UTF-16 code units: the snippet of the systems that this ranks as."""

_TOKEN = lazy_re(r"\w+")
_SHORTEST_KEYWORD = 3


class ClassicEntry(Struct, frozen=True):
    """A chunk with its scores by words (None: not found that way) and by words and vector together."""

    row: ChunkRow
    path: str
    text: float | None
    score: float


class ClassicResults(Struct, frozen=True):
    """A `Ranking` of chunks: `entries` in order."""

    entries: Sequence[ClassicEntry]
    files: Mapping[int, FileRow]
    budget: Budget
    partial: bool
    warnings: tuple[str, ...]

    def texts(self, count: int) -> list[str]:
        return [entry.row.text for entry in self.entries[:count]]

    def results(self, order: Sequence[int] | None = None) -> Ranked:
        """Return the entries with at least the minimum score; if there are none, those that contain the words, with a
        warning if a score was stated."""
        entries = [self.entries[number] for number in reordered(len(self.entries), order)]
        kept = [entry for entry in entries if entry.score >= self.budget.score]
        warnings = self.warnings
        if not kept:
            kept = [entry for entry in entries if entry.text is not None and entry.score > 0]
            warnings += (BY_WORDS.format(score=self.budget.score),) if kept and self.budget.states_score else ()
        hits = folded_hits([self._hit(entry) for entry in kept])[: self.budget.results]
        spent = accumulate(len(hit.snippet) for hit in hits)
        # Without a limit of characters all of them; at least one in any case.
        fitting = sum(self.budget.chars is None or chars <= self.budget.chars for chars in spent)
        return Ranked(hits[: max(1, fitting)], self.partial, warnings)

    def _hit(self, entry: ClassicEntry) -> Hit:
        row = entry.row
        snippet = row.text[: self.budget.chars]
        source = self.files[file_of(row.id)].source
        return Hit(
            entry.path,
            row.start_line,
            row.end_line,
            max(0.0, min(entry.score, 1.0)),
            snippet,
            source,
            row.start_line,
            origin=origin_of(row.flags),
        )


def rank_classic(search: Search, scope: FileScope, budget: Budget, warnings: tuple[str, ...]) -> ClassicResults:
    """Implements `Profile`."""
    queries, vectors = search.request.queries[:MAX_QUERIES], search.vectors[:MAX_QUERIES]
    classic = ClassicSearch(search.reader, scope, search.settings.query.hybrid, budget, search.today)
    return classic.rank(queries, vectors, search.should_stop, warnings)


class ClassicSearch(Struct, frozen=True):
    """Searches one index by the formula. `today` is the reference for the age of notes. Everything blocks."""

    reader: ChunkReader
    scope: FileScope
    hybrid: HybridSettings
    budget: Budget
    today: date

    def rank(
        self, queries: Sequence[str], vectors: Sequence[bytes | None], should_stop: StopCheck, warnings: tuple[str, ...]
    ) -> ClassicResults:
        """Return the chunks for any of `queries`, each with its best score over the queries, in the final order."""
        vector_weight, text_weight = weights_of(self.hybrid)
        best: dict[int, tuple[float | None, float]] = {}
        partial = False
        for query, vector in zip(queries, vectors, strict=False):
            if should_stop():
                partial = True
                break
            words = self._by_words(query, has_vector=vector is not None)
            nearest = () if vector is None else self.reader.nearest(vector, self._candidates, self._files)
            meaning = dict(nearest)
            for number in words.keys() | meaning.keys():
                near, text = meaning.get(number, 0.0), words.get(number)
                score = near if not self.hybrid.enabled and vector is not None else text or 0.0
                if self.hybrid.enabled and vector is not None:
                    score = vector_weight * near + text_weight * (text or 0.0)
                if number not in best or best[number][1] < score:
                    best[number] = (text, score)
        entries = self._entries(best)
        if self.hybrid.mmr.enabled:
            entries = diversified(entries, self.hybrid.mmr.lambda_)
        return ClassicResults(entries, self.scope.files, self.budget, partial, warnings)

    def _entries(self, found: Mapping[int, tuple[float | None, float]]) -> list[ClassicEntry]:
        entries = []
        ids = numpy().array(list(found), "int64")
        for row in self.reader.rows(ids[self.scope.holds(ids)].tolist()):
            file = self.scope.files[file_of(row.id)]
            text, score = found[row.id]
            fresh = freshness(file.day, self.today, self.hybrid.temporal_decay)
            entries.append(ClassicEntry(row, file.path, text, score * fresh))
        return sorted(entries, key=lambda entry: (-entry.score, entry.path, entry.row.start_line))

    @property
    def _candidates(self) -> int:
        return min(MAX_CANDIDATES, max(1, self.budget.results * self.hybrid.candidate_multiplier))

    @property
    def _files(self) -> Sequence[int] | None:
        narrowed = self.scope.narrowed
        return None if narrowed is None else list(narrowed)

    def _by_words(self, query: str, *, has_vector: bool) -> dict[int, float]:
        """Scores of the chunks with all words; if there are none, with any meaningful word. Without vectors each such
        word counts by itself."""
        if not has_vector:
            return self._best(single_words(query))
        if not self.hybrid.enabled:
            return {}
        return self._best([all_words(query)]) or self._best([" OR ".join(single_words(query))])

    def _best(self, matches: Sequence[str]) -> dict[int, float]:
        """For each chunk that any of `matches` finds, the score of the one that fits it best."""
        best: dict[int, float] = {}
        for match in filter(None, matches):
            for number, rank in self.reader.best_keywords(match, self._candidates, self._files):
                best[number] = max(best.get(number, 0.0), text_score(rank))
        return best


def text_score(rank: float) -> float:
    """Return the score of a bm25 value, which is negative for a hit and lower for a better one."""
    relevance = max(0.0, -rank)
    return relevance / (1 + relevance)


def all_words(query: str) -> str:
    """Return the MATCH expression for chunks with all words of `query`; empty if it has none."""
    return " AND ".join(fts_quote(spread_text(token).strip()) for token in _TOKEN.findall(query) if token.strip("_"))


def single_words(query: str) -> list[str]:
    """Return a MATCH expression for each meaningful word of `query`; for all words if none is meaningful."""
    words = [word for word in parse_query(query).content_words if not word.isdigit()]
    words = [word for word in words if len(word) >= _SHORTEST_KEYWORD or not (word.isascii() and word.isalpha())]
    found: dict[str, None] = {}
    for word in words:
        for part in spread_text(word).split() if CJK_RUN.search(word) else [word]:
            found.setdefault(fts_quote(part))
    return list(found) or [all_words(query)]


def freshness(day: date | None, today: date, decay: TemporalDecaySettings) -> float:
    """Return the factor for a note's age: one half after the half-life. Notes without a date don't age."""
    if not decay.enabled or day is None:
        return 1.0
    return math.exp(-math.log(2) / decay.half_life_days * max(0, (today - day).days))


def diversified(entries: Sequence[ClassicEntry], balance: float) -> list[ClassicEntry]:
    """`entries` (best first) reordered for diversity (MMR): `balance` 1 uses the score only, 0 the difference only."""
    if balance >= 1 or len(entries) < 2:
        return list(entries)
    highest, lowest = entries[0].score, entries[-1].score
    spread = highest - lowest
    scores = [(entry.score - lowest) / spread if spread else 1.0 for entry in entries]
    tokens = [token_set(_cut(entry.row.text, SNIPPET_UNITS)) for entry in entries]
    nearest = [0.0] * len(entries)
    left = list(range(len(entries)))
    order: list[int] = []
    while left:
        best = max(left, key=lambda number: (balance * scores[number] - (1 - balance) * nearest[number], -number))
        left.remove(best)
        order.append(best)
        for number in left:
            nearest[number] = max(nearest[number], similarity(tokens[number], tokens[best]))
    return [entries[number] for number in order]


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard similarity of two token sets; 0 if both are empty."""
    return len(one & other) / len(one | other) if one and other else 0.0


def _cut(text: str, units: int) -> str:
    """Return the first `units` UTF-16 code units of `text`, without splitting a surrogate pair."""
    if text.isascii() or 2 * len(text) <= units:
        return text[:units]
    return text.encode("utf-16-le", "surrogatepass")[: 2 * units].decode("utf-16-le", "ignore")
