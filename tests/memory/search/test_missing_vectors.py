"""A vector that was not made yet puts no line behind others: rare words and identifiers are found first."""

from __future__ import annotations

import random
import shutil
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from clawbot.memory.embeddings.embedding_text import chunk_embedding_text
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.search import engine
from clawbot.memory.search.engine import Search, SearchEngine
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.values import SearchRequest
from tests.memory.search.notes import DIMENSIONS, LINES, TODAY, build

COUNT = 1_000
SHARES = (0.0, 0.1, 0.5, 1.0)
ASKED = 25
FILLER = ["port", "proxy", "token", "user", "error", "version", "file", "note", "meeting", "garden", "invoice", "river"]


def rare_things(number: int) -> list[str]:
    """A word and an identifier that only few notes have; their parts are in many."""
    first, second, third = (number % 10, number // 10 % 10, number // 100)
    word = "".join(("bo", "da", "fo", "ga", "lu", "mo", "na", "pu", "ro", "ta")[at] for at in (third, second, first))
    spelled = (f"token{number}", f"user_id_{number}", f"ERR-{number}", f"getFile{number}", f"notes/port{number}.md")
    return [f"{word}ndu", spelled[number % len(spelled)]]


@cache
def lookalike(text: str) -> bytes:
    """A unit vector in which words that look alike are near: what offline vectors make of identifiers."""
    padded = f" {text.lower()} "
    letters = [_letters(padded[at : at + 3]) for at in range(len(padded) - 2)]
    total = np.sum([np.zeros(DIMENSIONS, "<f4"), *letters], axis=0)
    length = float(np.linalg.norm(total)) or 1.0
    return bytes((total / length).astype("<f4").tobytes())


@cache
def _letters(letters: str) -> np.ndarray:
    seed = int.from_bytes(blake2b(letters.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4")


@pytest.fixture(scope="module")
def without_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    choose = random.Random(7)
    notes = {}
    for number in range(COUNT):
        lines = [f"- {' '.join(choose.sample(FILLER, 4))}" for _ in range(3)]
        for thing in rare_things(number):
            lines.insert(choose.randrange(len(lines) + 1), f"- {choose.choice(FILLER)} {thing} {choose.choice(FILLER)}")
        notes[f"memory/{number:04}.md"] = f"# Note {number:04}\n\n" + "\n".join(lines) + "\n"
    path = tmp_path_factory.mktemp("index") / "none.sqlite"
    build(path, notes, embed=False).close()
    return path


@pytest.fixture(params=["in memory", "from disk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(engine, "SMALL_CHUNKS", -1)
    return str(request.param)


def embed_some(path: Path, share: float, choose: random.Random) -> None:
    """Make the vectors of a `share` of the chunks, in any order, as if the program was ended after them."""
    writer = IndexWriter.open(path)
    chunks = writer.pending(0, 100_000)
    chosen = choose.sample(chunks, round(share * len(chunks)))
    for first in range(0, len(chosen), 1_000):
        some = chosen[first : first + 1_000]
        rows = [lookalike(chunk_embedding_text(each.text, each.kind, each.above, remote=False)) for each in some]
        with writer.transaction():
            writer.put_vectors(some, Vectors(DIMENSIONS, b"".join(rows)))
    writer.close()


@pytest.mark.long
@hypothesis(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("share", SHARES)
def test_rare_words_and_identifiers_are_found_first(
    tmp_path_factory: pytest.TempPathFactory, without_vectors: Path, way: str, share: float, seed: int
) -> None:
    choose = random.Random(seed)
    path = tmp_path_factory.mktemp("some") / "index.sqlite"
    shutil.copyfile(without_vectors, path)
    embed_some(path, share, choose)
    reader = IndexReader(path)
    matrix = VectorMatrix.load(reader) if way == "in memory" else None
    search = SearchEngine()
    for thing in (thing for number in choose.sample(range(COUNT), ASKED) for thing in rare_things(number)):
        request = SearchRequest(queries=(thing,))
        found = search.rank(Search(reader, request, (lookalike(thing),), LINES, TODAY, matrix)).results()
        first = found.hits[0].snippet if found.hits else ""
        assert thing in first, (thing, first)
    reader.close()
