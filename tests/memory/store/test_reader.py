"""A reader of the index: what it finds, and that it stops when it is told to or when there is no index."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from clawbot.memory.store.database import open_for_reading
from clawbot.memory.store.errors import InterruptedSearchError, MissingIndexError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import EVERYWHERE, FileRow, Profile, id_of
from clawbot.memory.store.vectors import decode, encode
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import DIMENSIONS, embed_all, opened, put, vector

WORDS = [f"word{number} 词{number}" for number in range(300)]


@pytest.fixture(params=["lines", "classic"])
def filled(path: Path, request: pytest.FixtureRequest) -> Path:
    profile: Profile = request.param
    writer = opened(path, profile)
    put(writer, {f"memory/{number}.md": "\n".join(WORDS[number * 30 : number * 30 + 30]) for number in range(10)})
    writer.close()
    return path


def test_no_index_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError):
        IndexReader(tmp_path / "no" / "main.sqlite")
    (tmp_path / "main.sqlite").touch()
    with pytest.raises(MissingIndexError):
        IndexReader(tmp_path / "main.sqlite")


def test_the_nearest_are_those_of_exact_cosines(filled: Path) -> None:
    reader = IndexReader(filled)
    query = vector("word77 词77")
    exact = sorted(((float(vector(word) @ query), word) for word in WORDS), reverse=True)
    found = reader.nearest(query.tobytes(), 20)
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0]))
    texts = {row.id: row.text for row in reader.rows([one for one, _ in found])}
    assert texts[found[0][0]] == "word77 词77"
    assert len({texts[one] for one, _ in found} & {word for _, word in exact[:20]}) >= 14
    assert found[5][1] == pytest.approx(exact[5][0], abs=0.1)


@pytest.mark.long
def test_what_was_read_does_not_pile_up_in_memory(path: Path, writer: IndexWriter) -> None:
    put(writer, {f"memory/{number}.md": f"{number} {'词' * 8000}" for number in range(200)}, embed=False)
    connection = open_for_reading(path)
    read = connection.execute("SELECT sum(length(text)) FROM chunks").get
    used, _ = connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
    connection.close()
    assert read > 1_600_000
    assert 1_000_000 < used < 3_000_000


def test_only_given_files_are_looked_at(filled: Path) -> None:
    reader = IndexReader(filled)
    found = reader.nearest(vector(WORDS[0]).tobytes(), 40, {3, 5})
    assert len(found) == 40
    assert {one >> 20 for one, _ in found} == {3, 5}
    assert reader.nearest(vector(WORDS[0]).tobytes(), 40, set()) == []
    assert [one >> 20 for one, _ in reader.best_keywords("word1 OR word100", 9, [4])] == [4]


def test_a_query_of_another_size_finds_nothing(filled: Path) -> None:
    assert IndexReader(filled).nearest(vector("x", 32).tobytes(), 5) == []


def test_vectors_come_by_id_for_those_that_have_one(filled: Path) -> None:
    reader = IndexReader(filled)
    wanted = [(2 << 20) + 4, (1 << 20) + 7, 99]
    ids, rows = reader.vectors(wanted)
    assert ids.tolist() == [(1 << 20) + 7, (2 << 20) + 4]
    assert float(rows[0] @ vector(WORDS[7])) > 0.95
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    everything, matrix = reader.all_vectors()
    assert len(everything) == 300
    assert np.all(np.diff(everything) > 0)
    assert np.allclose(matrix[7], rows[0])


def test_codes_come_by_id_and_exact_vectors_have_none(filled: Path) -> None:
    reader = IndexReader(filled)
    if reader.identity is not None and reader.identity.profile == "classic":
        assert reader.codes(EVERYWHERE) is None
        return
    assert [one for one, _ in reader.codes((id_of(2, 0), id_of(3, 0))) or []] == [
        (2 << 20) + number for number in range(30)
    ]
    assert [one for one, _ in reader.codes(EVERYWHERE) or []] == reader.all_vectors()[0].tolist()
    assert reader.codes((id_of(77, 0), id_of(78, 0))) == []


def test_keywords_are_found_in_the_order_of_ids_and_best_first(filled: Path) -> None:
    reader = IndexReader(filled)
    assert reader.postings("word1 OR word200", 9).tolist() == [(1 << 20) + 1, (7 << 20) + 20]
    assert reader.postings("word1 OR word200", 1).tolist() == [(1 << 20) + 1]
    scores = reader.best_keywords("词 OR word2", 400)
    assert scores[0][0] == (1 << 20) + 2
    assert all(score < 0 for _, score in scores)
    assert scores == sorted(scores, key=lambda hit: (hit[1], hit[0]))


def test_a_snapshot_does_not_change(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    with reader.snapshot():
        before = reader.generation
        put(writer, {"a.md": "zero\none", "b.md": "two"})
        assert [row.text for row in reader.rows([1 << 20])] == ["one"]
        assert len(reader.files()) == 1
        assert reader.generation == before
    assert [row.text for row in reader.rows([1 << 20])] == ["zero"]
    assert len(reader.files()) == 2


def search_for_ever(reader: IndexReader) -> None:
    while True:
        reader.best_keywords("a OR b OR c OR d OR e OR f", 100)


def test_a_query_is_stopped_from_another_thread(path: Path, writer: IndexWriter) -> None:
    put(writer, {f"{number}.md": "\n".join(["a b c d e f"] * 500) for number in range(40)}, embed=False)
    reader = IndexReader(path)
    over = threading.Event()

    def stop() -> None:
        while not over.is_set():
            reader.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(InterruptedSearchError):
            search_for_ever(reader)
    finally:
        over.set()
        thread.join(100)
    assert len(reader.postings("a", 10)) == 10
    reader.close()


class Unlucky:
    """A connection that is interrupted by `reader` at the worst moments: when it is closed, when its snapshot ends."""

    def __init__(self, reader: IndexReader) -> None:
        self._reader = reader
        self._inner = reader._connection
        self.stopped = 0

    @property
    def in_transaction(self) -> bool:
        return self._inner.in_transaction

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._inner.close()
        self._reader.interrupt()

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> apsw.Cursor:
        if statement == "COMMIT" and not self.stopped:
            self.stopped += 1
            raise apsw.InterruptError("interrupted")
        return self._inner.execute(statement, values)


def test_a_search_is_stopped_while_the_file_is_opened_anew(
    path: Path, writer: IndexWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    monkeypatch.setattr(reader, "_connection", Unlucky(reader))
    reader._mark = ()
    assert len(reader.files()) == 1
    reader.close()
    reader.interrupt()


def test_an_interrupt_at_the_very_end_of_a_snapshot_does_not_keep_it_open(
    path: Path, writer: IndexWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    unlucky = Unlucky(reader)
    monkeypatch.setattr(reader, "_connection", unlucky)
    assert len(reader.files()) == 1
    assert unlucky.stopped == 1
    put(writer, {"b.md": "two"})
    assert len(reader.files()) == 2


def test_a_closed_index_that_was_deleted_and_made_again_is_read_again(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    before = reader.generation
    writer.close()
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(MissingIndexError):
        reader.files()
    again = opened(path)
    put(again, {"b.md": "one"})
    assert [file.path for file in reader.files().values()] == ["b.md"]
    assert reader.generation != before
    again.close()


@pytest.mark.parametrize("dimensions", [1, 7, 8, 100, 256, 1536])
def test_codes_are_near_what_they_stand_for(dimensions: int) -> None:
    rows = np.array([vector(f"text {number}", dimensions) for number in range(50)], np.float32)
    codes = encode(rows)
    assert {len(code) for code in codes} == {(dimensions + 7) // 8 * 3}
    near = np.einsum("ij,ij->i", decode(codes, dimensions), rows)
    assert near.min() > 0.94
    assert near.mean() > 0.97


def test_codes_of_nothing_are_nothing() -> None:
    assert encode(np.zeros((0, DIMENSIONS), np.float32)) == []
    assert decode([], DIMENSIONS).shape == (0, DIMENSIONS)


class CountingReader(IndexReader):
    """Counts the files that are read."""

    files_read = 0

    def _file(self, row: Sequence[Any]) -> FileRow:
        self.files_read += 1
        return super()._file(row)


def test_after_any_changes_the_files_are_as_if_read_anew(path: Path, writer: IndexWriter) -> None:
    choose = random.Random(3)
    put(writer, {f"{number}.md": "one" for number in range(9)})
    reader = IndexReader(path)
    for step in range(40):
        before = dict(reader.files())
        kept, generation = reader.files(), reader.generation
        names = [f"{name}.md" for name in choose.sample(range(12), choose.choice((1, 2)))]
        if step % 3 == 2:
            with writer.transaction():
                writer.remove(names)
        else:
            put(writer, dict.fromkeys(names, "\n".join(["line"] * (step + 1))), embed=step % 2 == 0)
        anew = IndexReader(path)
        assert list(reader.files().items()) == list(anew.files().items())
        assert writer.known().keys() == {file.path for file in reader.files().values()}
        # A ranking that began before keeps its files.
        assert kept == before
        changed = reader.changed_since(generation)
        assert changed is not None
        assert {one for one in {*before, *kept} if before.get(one) != reader.files().get(one)} <= changed
        anew.close()


def test_one_changed_file_is_read_alone(path: Path, writer: IndexWriter) -> None:
    put(writer, {f"{number}.md": "one" for number in range(50)})
    reader = CountingReader(path)
    reader.files()
    assert reader.files_read == 50
    put(writer, {"7.md": "one\ntwo"})
    assert [file.chunks for file in reader.files().values() if file.path == "7.md"] == [2]
    assert reader.files_read == 51


def test_what_changed_long_ago_or_elsewhere_is_unknown(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    first = reader.generation
    assert reader.changed_since(first) == set()
    assert reader.changed_since(first + 1) is None
    assert reader.changed_since(-1) is None
    for number in range(300):
        put(writer, {"a.md": f"{number}"}, embed=False)
    assert reader.changed_since(first) is None
    assert reader.changed_since(reader.generation - 9) == set(reader.files())
    kept = writer.connection.execute("SELECT count(*) FROM changes").get
    assert kept <= 257


def test_another_size_of_vectors_changes_every_file(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"}, embed=False)
    reader = IndexReader(path)
    before = reader.generation
    embed_all(writer)
    assert reader.changed_since(before) is None
