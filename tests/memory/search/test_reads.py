"""How much of the index one search reads: a share that does not depend on the question."""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clawbot.config.schema_memory import LineWeights
from clawbot.memory.search import engine
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import EVERYWHERE, ChunkRow, IdRange, LineRow
from tests.memory.search.notes import Searcher, build

if TYPE_CHECKING:
    from clawbot.memory.arrays import Ids

LINES = 6_000
SHARE = 2 / 3
WEIGHTS = LineWeights(by_words=20, by_meaning=20, by_day=20, promising=40, postings=100, ranked=20)
SECOND = ("ma", "nt", "rok", "ssy", "lop", "dap", "vil", "ck")
NOTED = [f"{first}{second}" for first in ("bra", "cli", "dro", "fen", "gul", "hop", "jat") for second in SECOND]
QUESTIONS = {
    "in no note": ["what is the money for bramt, clirok and fenma"],
    "several such words": ["money film car bramt drossy gulnt fenrok"],
    "frequent words": [" ".join(NOTED)],
    "misspelt": [" ".join(f"{word[:-1]}x{word[-1]}" for word in NOTED)],
    "one frequent word": ["euro"],
    "small words": ["what is it that was on the"],
    "Chinese": ["项目会议和数据接口" * 9],
    "sixty words": [" ".join([*NOTED[:40], "money", "film", "euro", "项目", "the", "movie", *"abcdefghijklmn"])],
    "a long period": ["what happened in 2026", "bramt in 2026"],
    "several queries": ["money", " ".join(NOTED), "项目会议", "film"],
}


class CountingReader(IndexReader):
    """Counts the postings and the lines that are read."""

    postings_read = lines_read = 0

    def postings(self, match: str, limit: int, id_range: IdRange = EVERYWHERE) -> Ids:
        found = super().postings(match, limit, id_range)
        self.postings_read += len(found)
        return found

    def lines(self, ids: Collection[int]) -> list[LineRow]:
        found = super().lines(ids)
        self.lines_read += len(found)
        return found

    def rows(self, ids: Collection[int]) -> list[ChunkRow]:
        found = super().rows(ids)
        self.lines_read += len(found)
        return found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes in which money is called euro, and films movies; a third of them are transcripts."""
    choose = random.Random(3)
    things = ("euro", "euro", "movie", "vehicle", "项目会议", "数据接口")
    files = {}
    for number in range(LINES // 20):
        folder = "sessions" if number % 3 == 0 else "memory"
        lines = [f"- {' '.join(choose.sample(NOTED, 6))} {choose.choice(things)} {number}" for _ in range(20)]
        files[f"{folder}/2026-{number % 12 + 1:02}-{number % 28 + 1:02}-{number}.md"] = "\n".join(lines)
    path = tmp_path_factory.mktemp("reads") / "i"
    build(path, files).close()
    return path


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_no_question_reads_more_than_a_share_of_the_index(
    index: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, warm: bool, prefix: bool
) -> None:
    monkeypatch.setattr(engine, "SMALL_CHUNKS", 0)
    monkeypatch.setattr(engine, "WORTH_CHOOSING", 0)
    with_counts = CountingReader(index)
    searcher = Searcher(with_counts, weights=WEIGHTS)
    if warm:
        searcher.load().ask("euro")
        with_counts.postings_read = with_counts.lines_read = 0
    found = searcher.ask(*QUESTIONS[kind], prefix=prefix, sources=("memory", "sessions"))
    assert found.hits or kind in {"small words", "misspelt"}
    assert with_counts.postings_read <= LINES * SHARE
    assert with_counts.lines_read <= LINES * SHARE
