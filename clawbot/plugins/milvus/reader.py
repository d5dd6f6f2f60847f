"""What a search reads of Milvus: the files of some agents, and the passages near its candidates, as a `ChunkReader`.

Milvus finds candidates by words and vectors; the ranking of the builtin index then sees them with their neighbours,
headings and days as if it read its own index. Rows never change, so those read before are kept.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.memory.arrays import numpy
from clawbot.memory.lexicon import Lexicon
from clawbot.memory.search.engine import weighed
from clawbot.memory.search.features import chunks_of_days
from clawbot.memory.search.question import Question, understand
from clawbot.memory.search.rank import LineSource
from clawbot.memory.search.scope import FileScope, scope_of
from clawbot.memory.search.table import Columns, LineTable
from clawbot.memory.search.vector_scores import AllVectors
from clawbot.memory.store.records import (
    EVERYWHERE,
    FIRST_TRANSCRIPT,
    ChunkRow,
    FileRow,
    IdRange,
    LineRow,
    file_of,
    id_of,
)
from clawbot.memory.values import MAX_QUERIES, SearchRequest, Source
from clawbot.plugins.milvus.collections import Candidates, Collections
from clawbot.plugins.milvus.passages import (
    BLOCK,
    BLOCK_BITS,
    Claim,
    StoredPassage,
    block_of,
    one_of,
    passage_id,
    terms_of,
    word_of,
)
from clawbot.text.tokens import FTS5_TOKENIZER, index_text

if TYPE_CHECKING:
    import apsw

    from clawbot.config.schema_memory import MemorySearchSettings
    from clawbot.memory.arrays import Floats, Ids

CANDIDATES = 300
"""Candidates of one wording, by words and by vector each."""

WITH_TERM = 60
"""Candidates with each single term: all of a rare one."""

MAX_TERMS = 64
"""Terms of one search that are looked up: those of the question first."""

AROUND = 3
"""Neighbours of a candidate on either side that are read with it."""

MAX_NAMED_BLOCKS = 1_000
"""A search of fewer blocks than this names them to Milvus; of more, the results are cut here."""

KEPT_ROWS = 20_000
"""Rows kept between searches: 30 MB."""


class Holding(Struct, frozen=True):
    """One file in a search: who holds it, and its blocks."""

    claim: Claim
    blocks: tuple[int, ...]


class Snapshot:
    """The files of some agents at one moment, with the ids of a search. Immutable.

    Of equal versions on several machines one is a file of the search, that of `owner` before others.
    """

    def __init__(self, claims: Iterable[Claim], owner: str) -> None:
        self.files: dict[int, FileRow] = {}
        self.holdings: dict[int, Holding] = {}
        self._positions: dict[int, tuple[int, int]] = {}
        seen: set[tuple[str, str, bytes]] = set()
        for claim in sorted(claims, key=lambda each: (each.path, each.agent, each.owner != owner, each.owner)):
            version = claim.version
            if version is None or (claim.agent, claim.path, version.digest) in seen:
                continue
            seen.add((claim.agent, claim.path, version.digest))
            number = (FIRST_TRANSCRIPT if version.source == "sessions" else 1) + len(self.files)
            self.files[number] = FileRow(number, claim.path, version.source, version.day, version.chunks, version.days)
            self.holdings[number] = Holding(claim, version.blocks)
            for number_of_block, block in enumerate(version.blocks):
                self._positions.setdefault(block, (number, number_of_block * BLOCK))
        versions = [each.claim.version for each in self.holdings.values()]
        names = sorted({name for each in versions if each is not None for name in each.speakers})
        self.speakers: dict[int, str] = dict(enumerate(names, start=1))
        self.numbers = {name: number for number, name in self.speakers.items()}

    def chunk_of(self, passage: int) -> int | None:
        """The chunk of a search that the passage is; None if no file holds it (any more)."""
        found = self._positions.get(block_of(passage))
        return None if found is None else id_of(found[0], found[1] + (passage & BLOCK - 1))

    def passage_of(self, chunk: int) -> int | None:
        """The passage of a chunk, which need not exist; None for one outside all files."""
        file, ordinal = self.holdings.get(file_of(chunk)), chunk - id_of(file_of(chunk), 0)
        if file is None or ordinal >> BLOCK_BITS >= len(file.blocks) or ordinal >= self.files[file_of(chunk)].chunks:
            return None
        block = file.blocks[ordinal >> BLOCK_BITS]
        # Two versions of a file share blocks: each passage is in the search once.
        return passage_id(block, ordinal & BLOCK - 1) if self._positions[block][0] == file_of(chunk) else None


class KeptRows:
    """Rows read before, the least used dropped first. Thread-safe."""

    def __init__(self, most: int = KEPT_ROWS) -> None:
        self._most = most
        self._rows: OrderedDict[int, StoredPassage] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ids: Iterable[int]) -> dict[int, StoredPassage]:
        with self._lock:
            found = {one: row for one in ids if (row := self._rows.get(one)) is not None}
            for one in found:
                self._rows.move_to_end(one)
            return found

    def put(self, rows: Iterable[StoredPassage]) -> None:
        with self._lock:
            for row in rows:
                self._rows[row.id] = row
            while len(self._rows) > self._most:
                self._rows.popitem(last=False)


class PassageReader:
    """A `ChunkReader` over the candidates of one search. For one thread; everything blocks and raises MilvusError."""

    def __init__(
        self, collections: Collections, snapshot: Snapshot, agents: Collection[str], kept: KeptRows, *, strong: bool
    ) -> None:
        self._collections = collections
        self._snapshot = snapshot
        self._agents = agents
        self._kept = kept
        self._strong = strong
        self._rows: dict[int, StoredPassage] = {}
        self._missing: set[int] = set()
        self._rarities: dict[str, float] = {}
        self._totals: dict[Source, int] = {}
        self._words: apsw.Connection | None = None
        self._counts: dict[str, int] = {}

    def prepare(
        self, request: SearchRequest, vectors: Sequence[bytes | None], settings: MemorySearchSettings, today: date
    ) -> None:
        """Read the candidates for `request`, with their neighbours."""
        weights, lexicon = weighed(settings.query, has_vectors=any(vectors)), Lexicon.load()
        queries = request.queries[:MAX_QUERIES]
        questions = [
            understand(text, self._snapshot.speakers, today, lexicon, weights, prefix=request.prefix)
            for text in queries
        ]
        seeds: set[int] = set()
        for source in request.sources:
            scope, _ = scope_of(self._snapshot.files, source, request)
            if scope.files:
                self._totals[source] = scope.chunks
                seeds |= self._candidates(source, scope, questions, vectors)
                seeds |= set(scope.few_chunks().tolist())
                days = [day for question in questions for day in question.days]
                for span in chunks_of_days(scope.files.values(), days):
                    seeds |= set(range(span.first, min(span.last + 1, span.first + weights.by_day)))
        self._load({seed + distance for seed in seeds for distance in range(-AROUND, AROUND + 1)})
        self._load({row.heading for row in self.lines(tuple(self._rows)) if row.heading is not None})
        self._index()

    def _candidates(
        self, source: Source, scope: FileScope, questions: Sequence[Question], vectors: Sequence[bytes | None]
    ) -> set[int]:
        conditions = self._conditions(scope)
        terms = _terms(questions)
        found = self._collections.rarities(self._agents, source, terms, WITH_TERM, strong=self._strong)
        chunks: set[int] = set()
        for term, (rarity, passages) in zip(terms, found, strict=True):
            self._rarities[term] = rarity
            chunks |= self._chunks(passages, scope)
        for question, vector in zip(questions, vectors, strict=True):
            words = " ".join(dict.fromkeys(term for each in question.wanted for term in _terms_of_match(each.match)))
            asked = numpy().frombuffer(vector, "<f4").tolist() if vector is not None else None
            wanted = Candidates(source, words, asked, CANDIDATES, conditions)
            chunks |= self._chunks(self._collections.hybrid(self._agents, wanted, strong=self._strong), scope)
        return chunks

    def _chunks(self, passages: Iterable[int], scope: FileScope) -> set[int]:
        """The chunks of `passages` that are in `scope`."""
        chunks = (chunk for passage in passages if (chunk := self._snapshot.chunk_of(passage)) is not None)
        return {chunk for chunk in chunks if file_of(chunk) in scope.files}

    def _conditions(self, scope: FileScope) -> tuple[str, ...]:
        """Return the conditions of a narrowed scope."""
        if scope.is_complete:
            return ()
        blocks = [block for number in scope.files for block in self._snapshot.holdings[number].blocks]
        return (one_of("block", blocks),) if len(blocks) <= MAX_NAMED_BLOCKS else ()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nothing changes here anyway."""
        yield

    @property
    def generation(self) -> int:
        """Always 0: a reader serves one search."""
        return 0

    def files(self) -> Mapping[int, FileRow]:
        return self._snapshot.files

    def speakers(self) -> Mapping[int, str]:
        return self._snapshot.speakers

    def changed_since(self, generation: int) -> Collection[int] | None:
        """None: a reader serves one search."""
        return None

    def postings(self, match: str, limit: int, id_range: IdRange = EVERYWHERE) -> list[int]:
        sql = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid LIMIT ?"
        return [int(one) for (one,) in self._found(sql, (match, *id_range, limit))]

    def frequency(self, match: str, found: int) -> int:
        """Return `found` among the candidates, scaled by how rare the rarest term of `match` is in the collection."""
        terms = [term for term in _terms_of_match(match) if self._rarities.get(term)]
        if not found or not terms or "*" in match:
            return found
        rarest = max(terms, key=lambda term: self._rarities[term])
        total = sum(self._totals.values())
        everywhere = (total + 1) * math.exp(-self._rarities[rarest]) - 0.5
        here = self._counts.get(rarest, 0) or found
        return min(total, max(found, round(found * everywhere / here)))

    def stems(self, shortest: int, beginning: str) -> Sequence[str]:
        """None: the candidates do not show which other words exist."""
        return ()

    def stems_between(self, first: str, end: str, limit: int) -> Sequence[str]:
        """None, for the same reason."""
        return ()

    def best_keywords(self, match: str, limit: int, file_ids: Collection[int] | None = None) -> list[tuple[int, float]]:
        sql = "SELECT rowid, bm25(words) AS score FROM words WHERE words MATCH ? ORDER BY score, rowid"
        found = ((int(one), float(score)) for one, score in self._found(sql, (match,)))
        return [each for each in found if file_ids is None or file_of(each[0]) in file_ids][:limit]

    def nearest(self, vector: bytes, limit: int, file_ids: Collection[int] | None = None) -> list[tuple[int, float]]:
        np = numpy()
        ids, rows = self.vectors([one for one in self._rows if file_ids is None or file_of(one) in file_ids])
        query = np.frombuffer(vector, "<f4")
        if not len(ids) or rows.shape[1] != len(query):
            return []
        cosines = rows @ query
        order = np.lexsort((ids, -cosines))[:limit]
        return list(zip(ids[order].tolist(), cosines[order].tolist(), strict=True))

    def candidates(self, id_range: IdRange) -> LineSource:
        """The passages in `id_range` that were read, as if they were all of the index."""
        known = [one for one in self._rows if id_range[0] <= one < id_range[1]]
        matrix = AllVectors(*self.vectors(known)) if self._collections.has_vectors else None
        return LineSource(self, matrix, LineTable(Columns.of(self.lines(known))))

    def rows(self, ids: Collection[int]) -> list[ChunkRow]:
        self._load(ids)
        return [self._row(one) for one in sorted(set(ids)) if one in self._rows]

    def lines(self, ids: Collection[int]) -> list[LineRow]:
        return [LineRow(row.id, row.kind, row.heading, row.speaker, row.flags) for row in self.rows(ids)]

    def columns(self, id_range: IdRange) -> tuple[list[int], ...]:
        return [], [], [], [], []

    def vectors(self, ids: Collection[int]) -> tuple[Ids, Floats]:
        np = numpy()
        self._load(ids)
        known = [one for one in sorted(set(ids)) if one in self._rows and any(self._rows[one].vector)]
        data = b"".join(self._rows[one].vector for one in known)
        found: Ids = np.array(known, np.int64)
        rows: Floats = np.frombuffer(data, "<f4").reshape(len(known), -1 if known else 0)
        return found, rows

    def all_vectors(self, id_range: IdRange = EVERYWHERE) -> tuple[Ids, Floats]:
        return self.vectors([one for one in self._rows if id_range[0] <= one < id_range[1]])

    def _row(self, chunk: int) -> ChunkRow:
        passage = self._rows[chunk]
        return passage.row(chunk, self._snapshot.numbers.get(passage.speaker))

    def _load(self, chunks: Collection[int]) -> None:
        """Read those of `chunks` that exist and are not here yet."""
        wanted = {
            passage: chunk
            for chunk in chunks
            if chunk not in self._rows
            and chunk not in self._missing
            and (passage := self._snapshot.passage_of(chunk)) is not None
        }
        found = self._kept.get(wanted)
        left = [passage for passage in wanted if passage not in found]
        if left:
            read = self._collections.read(self._agents, left, strong=self._strong)
            self._kept.put(read)
            found |= {row.id: row for row in read if row.id in wanted}
        for passage, chunk in wanted.items():
            row = found.get(passage)
            if row is None or row.ordinal != chunk - id_of(file_of(chunk), 0):
                self._missing.add(chunk)
            else:
                self._rows[chunk] = row

    def _index(self) -> None:
        """Make the words of what was read searchable, as the builtin index does."""
        # Deferred: only a search needs SQLite here.
        import apsw

        self._words = apsw.Connection(":memory:")
        self._words.execute(f"CREATE VIRTUAL TABLE words USING fts5(text, tokenize='{FTS5_TOKENIZER}')")
        with self._words:
            self._words.executemany(
                "INSERT INTO words (rowid, text) VALUES (?, ?)",
                [(chunk, _indexed(row)) for chunk, row in self._rows.items()],
            )
        for row in self._rows.values():
            for term in row.words.split():
                self._counts[term] = self._counts.get(term, 0) + 1

    def _found(self, sql: str, values: Sequence[object]) -> Iterator[tuple[int | float, ...]]:
        if self._words is not None:
            yield from self._words.execute(sql, tuple(values))


def _indexed(row: StoredPassage) -> str:
    """The text for the keyword index: that of the passage, and the terms it has from its heading."""
    own = set(terms_of(row.text))
    more = [word_of(term) for term in row.words.split() if term not in own]
    return "\n".join((index_text(row.text), *more))


def _terms(questions: Sequence[Question]) -> list[str]:
    """Return the terms of all wordings: first those of the questions themselves, then those of other words for them."""
    own = [each.match for question in questions for each in question.wanted]
    others = [other.match for question in questions for each in question.wanted for other in each.others]
    found = (term for match in (*own, *others) if "*" not in match for term in _terms_of_match(match))
    return list(dict.fromkeys(found))[:MAX_TERMS]


def _terms_of_match(match: str) -> list[str]:
    return terms_of(match.replace('"', " "))
