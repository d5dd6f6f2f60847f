from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import apsw
import numpy as np
import pytest

from clawbot.config.schema_memory import MemorySearchSettings, QuerySettings
from clawbot.memory.chunking.chunks import Chunk, chunk
from clawbot.memory.documents.days import date_of
from clawbot.memory.embeddings.embedding_text import chunk_embedding_text, query_embedding_text
from clawbot.memory.search import engine
from clawbot.memory.search.copies import token_set
from clawbot.memory.search.engine import CLASSIC_RESULTS
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.values import SearchRequest
from clawbot.plugins.classic import all_words, similarity, single_words, text_score
from clawbot.text.tokens import FTS5_TOKENIZER, index_text
from tests.memory.search.notes import CLASSIC, TODAY, Searcher, build, vector
from tests.tables import load_table

ENGLISH = load_table(__file__, "ENGLISH")
CHINESE = load_table(__file__, "CHINESE")


def notes(rng: random.Random) -> dict[str, str]:
    names = [f"memory/2026-{month:02}-{day:02}.md" for month in (1, 5, 9, 11) for day in (2, 11, 20)]
    files = {}
    for name in [*names, "MEMORY.md", "memory/topic.md", "memory/work/2026-10-05-slug.md"]:
        lines = []
        for _ in range(rng.randint(5, 120)):
            words = rng.choices(ENGLISH, k=rng.randint(3, 12))
            lines.append("".join(rng.choices(CHINESE, k=4)) + "。" if rng.random() < 0.3 else " ".join(words) + ".")
        files[name] = "\n".join(lines) + "\n"
    return files


def queries(rng: random.Random) -> Iterator[str]:
    for _ in range(200):
        kind = rng.random()
        if kind < 0.6:
            yield " ".join(rng.choices([*ENGLISH, "unheard", "physician"], k=rng.randint(1, 4)))
        elif kind < 0.9:
            yield "".join(rng.choices(CHINESE, k=rng.randint(1, 2)))
        else:
            yield f"{rng.choice(ENGLISH)}, {rng.choice(CHINESE)}?"


class Transcription:
    """The formula as it is written down, over nothing but the chunks."""

    def __init__(self, files: dict[str, str], settings: MemorySearchSettings) -> None:
        self.query = settings.query
        self.chunks: list[tuple[str, Chunk]] = [(name, one) for name in files for one in chunk(files[name], settings)]
        self.tokens = [token_set(one.text[:700]) for _, one in self.chunks]
        self.rows = np.array(
            [
                np.frombuffer(vector(chunk_embedding_text(c.text, c.kind, "", remote=False)), "<f4")
                for _, c in self.chunks
            ]
        )
        self.db = apsw.Connection(":memory:")
        self.db.execute(f"create virtual table f using fts5(t, tokenize='{FTS5_TOKENIZER}')")
        self.db.executemany("insert into f values (?)", [(index_text(one.text),) for _, one in self.chunks])

    def order(self, query: str) -> list[str]:
        hybrid = self.query.hybrid
        candidates = min(200, max(1, math.floor(CLASSIC_RESULTS * hybrid.candidate_multiplier)))
        tokens = [self.quoted(token) for token in re.findall(r"\w+", query)]
        sql = f"select rowid - 1, bm25(f) from f where f match ? order by 2, 1 limit {candidates}"
        words: dict[int, float] = {}
        for match in (" AND ".join(tokens), " OR ".join(single_words(query))):
            words = words or {row: -rank / (1 - rank) for row, rank in self.db.execute(sql, (match,))}
        cosines = self.rows @ np.frombuffer(vector(query_embedding_text(query, remote=False)), "<f4")
        near = {int(row): float(cosines[row]) for row in np.argsort(-cosines, kind="stable")[:candidates]}
        scores = {
            row: (0.7 * near.get(row, 0) + 0.3 * words.get(row, 0)) * self.decay(self.chunks[row][0])
            for row in words.keys() | near.keys()
        }
        ranked = sorted(scores, key=lambda row: (-scores[row], self.chunks[row][0], self.chunks[row][1].start_line))
        if hybrid.mmr.enabled:
            ranked = self.mmr(ranked, scores, hybrid.mmr.lambda_)
        strict = [row for row in ranked if scores[row] >= 0.35]
        kept = strict if strict or not words else [row for row in ranked if row in words]
        return [f"{self.chunks[row][0]}:{self.chunks[row][1].start_line}" for row in kept[:CLASSIC_RESULTS]]

    @staticmethod
    def quoted(token: str) -> str:
        spread = " ".join(index_text(token).split())
        return f'"{spread}"'

    def decay(self, name: str) -> float:
        settings, day = self.query.hybrid.temporal_decay, date_of(name)
        if not settings.enabled or day is None:
            return 1.0
        return math.exp(-math.log(2) / settings.half_life_days * (TODAY - day).days)

    def mmr(self, ranked: list[int], scores: dict[int, float], balance: float) -> list[int]:
        values = [scores[row] for row in ranked]
        low, high = min(values, default=0), max(values, default=0)
        relevance = {row: (scores[row] - low) / (high - low) if high > low else 1.0 for row in ranked}
        chosen: list[int] = []
        left = dict.fromkeys(ranked, 0.0)
        while left:
            best = max(left, key=lambda row: balance * relevance[row] - (1 - balance) * left[row])
            del left[best]
            chosen.append(best)
            left = {row: max(alike, self.jaccard(row, best)) for row, alike in left.items()}
        return chosen

    def jaccard(self, one: int, other: int) -> float:
        first, second = self.tokens[one], self.tokens[other]
        return len(first & second) / len(first | second)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "hybrid",
    [
        {},
        {"mmr": {"enabled": False}},
        {"mmr": {"lambda": 0.3}},
        {"temporal_decay": {"enabled": True, "half_life_days": 30}, "mmr": {"enabled": False}},
    ],
)
def test_the_order_is_that_of_a_direct_transcription(tmp_path: Path, hybrid: dict[str, object]) -> None:
    rng = random.Random(11)
    files = notes(rng)
    settings = MemorySearchSettings.model_validate(
        {"profile": "classic", "chunking": {"tokens": 60, "overlap": 12}, "query": {"hybrid": hybrid}}
    )
    searcher = Searcher(build(tmp_path / "i", files, settings), settings)
    written = Transcription(files, settings)
    asked = list(queries(rng))
    found = [[f"{hit.path}:{hit.start_line}" for hit in searcher.ask(query).hits] for query in asked]
    assert found == [written.order(query) for query in asked]
    assert sum(map(bool, found)) > 150


def notes_of(*texts: str) -> dict[str, str]:
    return {f"memory/2026-11-{day:02}.md": text for day, text in enumerate(texts, 1)}


def test_a_better_match_has_a_better_score() -> None:
    assert text_score(-4.0) == 0.8
    assert text_score(-0.5) < text_score(-4.0) < 1
    assert text_score(0.5) == 0


def test_words_of_a_question_are_joined_by_and() -> None:
    assert all_words('the "red" proxy_port') == '"the" AND "red" AND "proxy_port"'
    assert all_words("数据库") == '"数 数据 据 据库 库"'
    assert all_words("?!") == ""


def test_without_vectors_each_word_counts_by_itself(tmp_path: Path) -> None:
    searcher = Searcher(build(tmp_path / "i", notes_of("roses here", "tulips", "nothing"), CLASSIC), CLASSIC)
    found = {hit.snippet for hit in searcher.ask("where are the roses and tulips", vectors=False, min_score=0.0).hits}
    assert found == {"roses here", "tulips"}
    assert single_words("the 42 of") == ['"the" AND "42" AND "of"']
    assert '"玫瑰"' in single_words("玫瑰在哪里")


def test_single_words_count_when_no_note_has_them_all(tmp_path: Path) -> None:
    texts = ["the roses by the harbour", "tulips", "花园里有玫瑰", "a ledger", *["filler"] * 30]
    settings = MemorySearchSettings.model_validate(
        {"profile": "classic", "query": {"hybrid": {"vector_weight": 0.0, "text_weight": 1.0}}}
    )
    searcher = Searcher(build(tmp_path / "i", notes_of(*texts[:30]), settings), settings)
    found = [hit.snippet for hit in searcher.ask("which roses grow beside the lantern").hits]
    assert found == ["the roses by the harbour"]
    assert [hit.snippet for hit in searcher.ask("玫瑰几月剪枝").hits] == ["花园里有玫瑰"]
    assert [hit.snippet for hit in searcher.ask("roses harbour").hits] == ["the roses by the harbour"]


def test_hits_by_word_are_kept_when_nothing_reaches_the_least_score(tmp_path: Path) -> None:
    texts = ["roses " + " ".join(f"filler{n}" for n in range(60)), "unrelated words", "others"]
    searcher = Searcher(build(tmp_path / "i", notes_of(*texts), CLASSIC), CLASSIC)
    (hit,) = searcher.ask("roses").hits
    assert hit.snippet.startswith("roses")
    assert hit.score < 0.35


@pytest.mark.parametrize("in_settings", [False, True])
def test_the_least_score_counts(tmp_path: Path, in_settings: bool) -> None:
    reader = build(tmp_path / "i", notes_of("red roses", "white roses and tulips and ledgers"), CLASSIC)
    first, second = Searcher(reader, CLASSIC).ask("red roses", min_score=0.0).hits
    score = (first.score + second.score) / 2
    settings = MemorySearchSettings(profile="classic", query=QuerySettings(min_score=score if in_settings else None))
    found = Searcher(reader, settings).ask("red roses", min_score=None if in_settings else score)
    assert (found.hits, found.warnings) == ((first,), ())


def test_old_notes_sink_with_decay_also_when_their_name_goes_on(tmp_path: Path) -> None:
    settings = MemorySearchSettings.model_validate(
        {"profile": "classic", "query": {"hybrid": {"temporal_decay": {"enabled": True}, "mmr": {"enabled": False}}}}
    )
    files = dict.fromkeys(["memory/work/2026-09-22-slug.md", "memory/2026-10-22.md", "MEMORY.md"], "red roses\n")
    searcher = Searcher(build(tmp_path / "i", files, settings), settings)
    hits = searcher.ask("red roses", min_score=0.0).hits
    assert [hit.path for hit in hits] == ["MEMORY.md", "memory/2026-10-22.md", "memory/work/2026-09-22-slug.md"]
    assert hits[1].score == pytest.approx(hits[0].score / 2)
    assert hits[2].score == pytest.approx(hits[0].score / 4)


def test_two_chinese_texts_are_not_the_same_for_being_chinese() -> None:
    assert similarity(token_set("玫瑰花园"), token_set("港口船长")) == 0
    assert similarity(token_set("玫瑰花园"), token_set("玫瑰花园")) == 1
    assert 0 < similarity(token_set("玫瑰花园"), token_set("玫瑰市场")) < 1
    assert similarity(token_set("。。"), token_set("。。")) == 0


def test_bounds_variants_and_budget(tmp_path: Path) -> None:
    reader = build(tmp_path / "i", notes_of("red roses", "white tulips", "red tulips"), CLASSIC)
    searcher = Searcher(reader, CLASSIC)
    assert {hit.path for hit in searcher.ask("red tulips", after=date(2026, 11, 3)).hits} == {"memory/2026-11-03.md"}
    both = {hit.snippet for hit in searcher.ask("red roses", "white tulips").hits}
    assert {"red roses", "white tulips"} <= both
    assert len(searcher.ask("red tulips", max_results=1).hits) == 1
    assert len(searcher.ask("red tulips", max_chars=12).hits) == 1
    assert [len(hit.snippet) for hit in searcher.ask("red tulips", max_chars=5).hits] == [5]
    assert searcher.ask("red roses", should_stop=lambda: True).partial


def test_by_meaning_alone_where_hybrid_is_off(tmp_path: Path) -> None:
    settings = MemorySearchSettings.model_validate({"profile": "classic", "query": {"hybrid": {"enabled": False}}})
    searcher = Searcher(build(tmp_path / "i", notes_of("the automobile", "carpet"), settings), settings)
    assert [hit.snippet for hit in searcher.ask("car").hits] == ["the automobile"]


def test_a_reranker_decides_the_order(tmp_path: Path) -> None:
    reader: IndexReader = build(tmp_path / "i", notes_of("red roses", "red tulips"), CLASSIC)
    request = SearchRequest(queries=("red",), min_score=0.0)
    ranking = Searcher(reader, CLASSIC).engine.rank(engine.Search(reader, request, (vector("red"),), CLASSIC, TODAY))
    assert ranking.results([1]).hits[0].snippet == ranking.texts(2)[1]


def test_chunks_are_shown_whole_within_the_budget(tmp_path: Path) -> None:
    text = "red " + "😀" * 399
    searcher = Searcher(build(tmp_path / "i", notes_of(text), CLASSIC), CLASSIC)
    assert [hit.snippet for hit in searcher.ask("red", min_score=0.0).hits] == [text]
    assert [hit.snippet for hit in searcher.ask("red", min_score=0.0, max_chars=9).hits] == [text[:9]]
