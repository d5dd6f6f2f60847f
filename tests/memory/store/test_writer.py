from __future__ import annotations

import datetime as dt
import stat
import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from clawbot.memory.documents.walking import FileState
from clawbot.memory.embeddings.protocol import Vectors
from clawbot.memory.store.errors import StoreError, TooManyChunksError, WrongDimensionsError
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.records import MAX_CHUNKS, ChunkRecord, Profile
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import chunks, embed_all, embedded, identity, kept_in, opened, put, record, vector

NOW = dt.datetime(2026, 11, 20, 9, tzinfo=dt.UTC)
DAY = "# 计划\n- call Anna about the 数据库\nBob: see you at the harbour\nlast line"


def fail_after(writer: IndexWriter, path: str, text: str) -> None:
    with writer.transaction():
        writer.replace_file(record(path, text), chunks(text))
        raise KeyError


def texts(reader: IndexReader) -> list[str]:
    return [row.text for row in reader.rows(range(1 << 20, (1 << 20) + 50))]


def test_a_new_index_is_private_and_knows_what_it_is(path: Path, writer: IndexWriter) -> None:
    put(writer, {"MEMORY.md": DAY})
    files = list(path.parent.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert writer.identity == structs.replace(identity(), dimensions=64)


def test_what_was_written_is_read(path: Path, writer: IndexWriter) -> None:
    with writer.transaction():
        written = writer.replace_file(record("memory/2026-11-20.md", DAY, dt.date(2026, 11, 20)), chunks(DAY))
    assert (written.written, written.kept, written.carried) == (4, 0, 0)
    reader = IndexReader(path)
    [file] = reader.files().values()
    assert (file.path, file.source, file.day, file.chunks) == (
        "memory/2026-11-20.md",
        "memory",
        dt.date(2026, 11, 20),
        4,
    )
    heading, item, said, last = reader.rows([4, *range(file.id << 20, (file.id << 20) + 9)])
    assert (heading.kind, heading.text, heading.heading) == ("heading", "# 计划", None)
    assert (item.kind, item.start_line, item.end_line, item.heading) == ("item", 2, 2, heading.id)
    assert reader.speakers()[said.speaker or 0] == "Bob"
    assert last.id == heading.id + 3
    totals = reader.totals()["memory"]
    assert (totals.files, totals.chunks, totals.vectors, totals.pending) == (1, 4, 0, 4)
    assert totals.chars == len(DAY) - 3
    reader.close()


def test_unchanged_leading_chunks_stay_and_an_appended_line_is_embedded_alone(path: Path, writer: IndexWriter) -> None:
    put(writer, {"MEMORY.md": DAY})
    with writer.transaction():
        written = writer.replace_file(record("MEMORY.md", f"{DAY}\nnew 一行"), chunks(f"{DAY}\nnew 一行"))
    assert (written.written, written.kept, written.carried) == (1, 4, 0)
    assert [chunk.text for chunk in writer.pending(0, 10)] == ["new 一行"]
    assert writer.pending_count() == 1


def test_a_line_that_moves_keeps_its_vector_unless_its_heading_is_another(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one\ntwo\n# top\nthree"})
    moved = "zero\none\ntwo\n# other\nthree"
    with writer.transaction():
        written = writer.replace_file(record("a.md", moved), chunks(moved))
    assert (written.written, written.kept, written.carried) == (5, 0, 2)
    assert [(chunk.text, chunk.above) for chunk in writer.pending(0, 10)] == [
        ("zero", ""),
        ("# other", ""),
        ("three", "# other"),
    ]
    embed_all(writer)
    with IndexReader(path).snapshot():
        [(best, cosine), *_] = IndexReader(path).nearest(vector("two").tobytes(), 1)
    assert best == (1 << 20) + 2
    assert cosine > 0.95


def test_words_of_lines_that_are_gone_are_not_found(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "harbour\n数据库", "b.md": "harbour"})
    put(writer, {"a.md": "lighthouse"})
    reader = IndexReader(path)
    assert reader.postings("harbour", 9).tolist() == [2 << 20]
    assert reader.postings('"数据"', 9).tolist() == []
    assert reader.postings("lighthouse", 9).tolist() == [1 << 20]
    with writer.transaction():
        assert writer.remove(["b.md", "unknown.md"]) == 1
    assert reader.postings("harbour", 9).tolist() == []
    assert list(writer.known()) == ["a.md"]
    assert [one for one, _ in reader.nearest(vector("harbour").tobytes(), 9)] == [1 << 20]


@pytest.mark.parametrize("profile", ["lines", "classic"])
def test_zeros_say_that_a_chunk_waits_for_nothing(path: Path, profile: Profile) -> None:
    writer = opened(path, profile)
    put(writer, {"a.md": "one\n...\ntwo"})
    assert writer.pending(0, 9) == []
    reader = IndexReader(path)
    assert reader.totals()["memory"].vectors == 2
    assert [row.flags for row in reader.rows(range(1 << 20, (1 << 20) + 3))] == [0, 0, 0]
    put(writer, {"a.md": "new\none\n...\ntwo"}, embed=False)
    assert [chunk.text for chunk in writer.pending(0, 9)] == ["new"]
    put(writer, {"a.md": "new\none\n...\ntwo\nmore"}, embed=False)
    assert writer.pending_count() == 2
    writer.close()


def test_vectors_of_a_text_that_changed_meanwhile_are_left_out(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one", "b.md": "two"}, embed=False)
    chunks = writer.pending(0, 9)
    put(writer, {"a.md": "something else"}, embed=False)
    with writer.transaction():
        assert writer.put_vectors(chunks, embedded(chunks)) == 1
    with writer.transaction():
        assert writer.put_vectors(chunks, embedded(chunks)) == 0
    assert [chunk.text for chunk in writer.pending(0, 9)] == ["something else"]
    assert writer.pending_count() == 1


def test_pending_chunks_come_in_parts(writer: IndexWriter) -> None:
    put(writer, {f"{number}.md": "a\nb\nc" for number in range(4)}, embed=False)
    found = []
    after = 0
    while part := writer.pending(after, 5):
        assert len(part) <= 5
        found += [chunk.id for chunk in part]
        after = part[-1].id
    assert found == sorted(set(found))
    assert len(found) == 12


def test_figures_that_are_none_count_as_zero(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"}, embed=False)
    row = vector("one")
    row[3] = float("nan")
    with writer.transaction():
        writer.put_vectors(writer.pending(0, 9), Vectors(64, row.tobytes()))
    [(_, cosine)] = IndexReader(path).nearest(vector("one").tobytes(), 1)
    assert cosine > 0.9


def test_vectors_of_another_size_are_refused_and_nothing_is_lost(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    put(writer, {"b.md": "two"}, embed=False)
    chunks = writer.pending(0, 9)
    with pytest.raises(WrongDimensionsError), writer.transaction():
        writer.put_vectors(chunks, embedded(chunks, 32))
    assert writer.identity is not None
    assert writer.identity.dimensions == 64
    assert embed_all(writer) == 1


def test_a_transaction_that_fails_leaves_nothing(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    before = reader.generation
    with pytest.raises(KeyError):
        fail_after(writer, "b.md", "Eve: two")
    assert list(writer.known()) == ["a.md"]
    assert reader.generation == before
    put(writer, {"b.md": "Eve: two"})
    assert set(reader.speakers().values()) == {"Eve"}


def test_generations_change_with_content_alone(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    reader = IndexReader(path)
    before = reader.generation
    with writer.transaction():
        writer.touch([FileState("a.md", "memory", 3, 99)])
    writer.finish(NOW)
    assert reader.generation == before
    assert writer.known()["a.md"].mtime_ns == 99
    assert reader.last_sync == NOW
    put(writer, {"a.md": "two"})
    assert reader.generation > before


def test_readers_learn_of_another_identity(path: Path, writer: IndexWriter) -> None:
    reader = IndexReader(path)
    assert reader.identity == identity()
    writer.set_identity(identity(model="other"))
    assert reader.identity == identity(model="other")


def test_the_log_is_emptied_when_all_is_done(path: Path, writer: IndexWriter) -> None:
    log = path.with_name(f"{path.name}-wal")
    reader = IndexReader(path)
    put(writer, {"a.md": DAY})
    with reader.snapshot():
        put(writer, {"b.md": DAY})
        writer.finish(NOW)
        assert log.stat().st_size > 0
    writer.finish(NOW)
    assert log.stat().st_size == 0
    assert len(reader.files()) == 2


def test_changes_need_a_transaction(writer: IndexWriter) -> None:
    with pytest.raises(RuntimeError):
        writer.replace_file(record("a.md", "one"), chunks("one"))
    assert writer.known() == {}


def test_a_file_of_countless_chunks_is_refused(writer: IndexWriter) -> None:
    many = [ChunkRecord(1, 1, "item", "a", "a")] * MAX_CHUNKS
    with pytest.raises(TooManyChunksError, match="memory/huge"), writer.transaction():
        writer.replace_file(record("memory/huge.md", "a"), many)


def test_half_characters_are_survived(path: Path, writer: IndexWriter) -> None:
    with writer.transaction():
        writer.replace_file(
            record("a.md", "x"), [ChunkRecord(1, 1, "prose", "torn \ud83d 数", "torn", speaker="\ud83d")]
        )
    reader = IndexReader(path)
    assert texts(reader) == ["torn ? 数"]
    assert list(reader.speakers().values()) == ["?"]
    put(writer, {"a.md": "NUL \0 inside"})
    assert texts(reader) == ["NUL \0 inside"]


def test_who_speaks_nowhere_any_more_is_forgotten(path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "Docker: runs on 99\n小明: 你好", "b.md": "小明: 再见\nEve: one"})
    reader = IndexReader(path)
    assert set(reader.speakers().values()) == {"Docker", "小明", "Eve"}
    put(writer, {"a.md": "bees"})
    assert set(reader.speakers().values()) == {"小明", "Eve"}
    with writer.transaction():
        writer.remove(["b.md"])
    assert reader.speakers() == {}
    put(writer, {"c.md": "Eve: back"})
    [row] = [row for row in reader.rows(range(1 << 20, 9 << 20, 1 << 20)) if row.speaker is not None]
    assert reader.speakers()[row.speaker or 0] == "Eve"


def test_a_folder_that_is_a_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("no folder")
    with pytest.raises(StoreError) as caught:
        IndexWriter.open(tmp_path / "memory" / "main.sqlite")
    assert caught.value.hint


def test_vectors_are_inherited_from_an_index_with_the_same_ones(
    path: Path, tmp_path: Path, writer: IndexWriter
) -> None:
    put(writer, {"a.md": "one\n...\n# h\ntwo", "b.md": "three"})
    writer.cache.put_many("openai/x", {b"k" * 16: vector("k").tobytes()})
    other = IndexWriter.open(tmp_path / "other.sqlite")
    other.set_identity(identity(chunker="2"))
    other.inherit(IndexReader(path))
    put(other, {"a.md": "new\none\n...\n# h\ntwo\nthree", "b.md": "three"}, embed=False)
    assert [chunk.text for chunk in other.pending(0, 9)] == ["new", "three"]
    assert kept_in(other) == 1
    [(best, _)] = IndexReader(tmp_path / "other.sqlite").nearest(vector("# h two").tobytes(), 1)
    assert best == (1 << 20) + 4
    other.close()


def test_vectors_of_another_model_are_not_inherited(path: Path, tmp_path: Path, writer: IndexWriter) -> None:
    put(writer, {"a.md": "one"})
    other = IndexWriter.open(tmp_path / "other.sqlite")
    other.set_identity(identity(vectors="openai/other"))
    other.inherit(IndexReader(path))
    put(other, {"a.md": "one"}, embed=False)
    assert other.pending_count() == 1
    other.close()


KEPT = "\n".join(f"- line {number} of what stays" for number in range(300))


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.is_file())


@pytest.mark.parametrize("size", [1, 400])
def test_nothing_is_left_of_deleted_lines(path: Path, writer: IndexWriter, size: int) -> None:
    gone = "\n".join(f"- Xylophonia {number} 花生酱" for number in range(size))
    put(writer, {"MEMORY.md": KEPT})
    put(writer, {"MEMORY.md": KEPT, "memory/gone.md": gone, "memory/half.md": f"{gone}\n- this stays"})
    embed_all(writer)
    writer.cache.put_many("provider", {b"1" * 16: b"\0" * 8})
    # From then on the words stand in one segment, of which none is written anew for its own sake.
    assert writer.scrub()
    with writer.transaction():
        writer.remove(["memory/gone.md"])
        writer.replace_file(record("memory/half.md", "- this stays"), chunks("- this stays"))
    assert b"ylophoni" in bytes_of(path)
    assert writer.scrub()
    assert b"ylophoni" not in bytes_of(path)
    assert "花".encode() not in bytes_of(path)
    assert kept_in(writer) == 0
    writer.close()
    again = IndexWriter.open(path)
    assert set(again.known()) == {"MEMORY.md", "memory/half.md"}
    again.close()


def key(number: int) -> bytes:
    return bytes([number]) * 16


def test_what_is_kept_comes_back_for_its_model_alone(path: Path, writer: IndexWriter) -> None:
    rows = {key(number): vector(str(number)).tobytes() for number in range(3)}
    writer.cache.put_many("openai/small", rows)
    found = writer.cache.get_many("openai/small", [key(0), key(2), key(9)])
    assert set(found) == {key(0), key(2)}
    assert np.allclose(np.frombuffer(found[key(2)], "<f4"), vector("2"), atol=1e-3)
    assert writer.cache.get_many("openai/large", [key(0)]) == {}
    assert IndexReader(path).cache_count() == 3


def test_those_unused_longest_go_first(writer: IndexWriter) -> None:
    for number in range(4):
        writer.cache.put_many("m", {key(number): vector("x").tobytes()})
    writer.cache.get_many("m", [key(0)])
    assert writer.cache.prune(2) == 2
    assert set(writer.cache.get_many("m", [key(number) for number in range(4)])) == {key(0), key(3)}
    assert writer.cache.prune(None) == 0
    assert kept_in(writer) == 2


def test_another_thread_waits_for_the_transaction_and_survives_its_failure(writer: IndexWriter) -> None:
    begun, over = threading.Event(), threading.Event()

    def store() -> None:
        begun.set()
        writer.cache.put_many("m", {key(1): vector("x").tobytes()})
        over.set()

    thread = threading.Thread(target=store)

    def fail() -> None:
        with writer.transaction():
            thread.start()
            begun.wait(100)
            writer.replace_file(record("a.md", "one"), chunks("one"))
            assert not over.is_set()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    thread.join(100)
    assert over.is_set()
    assert kept_in(writer) == 1
    put(writer, {"a.md": "one"})


def test_who_waited_while_the_writer_closed_finds_nothing_and_fails_at_nothing(writer: IndexWriter) -> None:
    writer.cache.put_many("m", {key(1): vector("x").tobytes()})
    writer.close()
    writer.cache.put_many("m", {key(2): vector("x").tobytes()})
    assert writer.cache.get_many("m", [key(1)]) == {}
