"""The index as its users see it: searching what was written a moment ago, reading, status, verification, following."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
import unicodedata
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.config.paths import shipped
from clawbot.errors import ClawbotError
from clawbot.memory.backend import IndexUnavailableError
from clawbot.memory.chunking import document_chunks
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import ForbiddenPathError
from clawbot.memory.embeddings.protocol import EmbeddingError
from clawbot.memory.search import searcher
from clawbot.memory.search.engine import Search, SearchEngine
from clawbot.memory.store.errors import StoreError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.matrix import VectorMatrix
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync import round as round_
from clawbot.memory.values import MAX_QUERIES, Hit, Progress, SearchRequest

from .index_host import DIMENSIONS, House, WordEmbedder, find, paths, until

# -- search ------------------------------------------------------------------------------------------------------------


async def test_a_search_finds_what_was_written_before_it(house: House) -> None:
    async with house.opened(WordEmbedder()) as index:
        for number in range(5):
            house.write("memory/2026-11-21.md", f"- the word of round {number} is otter{number}\n")
            found = await find(index, f"otter{number}")
            assert [hit.snippet for hit in found.hits] == [f"- the word of round {number} is otter{number}"]
            assert (found.mode, found.provider, found.model, found.warnings) == ("hybrid", "words", "one", ())


async def test_a_second_write_of_the_same_size_in_the_same_moment_is_found(house: House) -> None:
    async with house.opened(WordEmbedder()) as index:
        for word in ("alpha", "gamma", "delta", "otter"):
            house.write("memory/a.md", word)
            assert [hit.snippet for hit in (await find(index, word)).hits] == [word]


async def test_a_change_under_an_old_time_is_found(house: House) -> None:
    def write(text: str) -> None:
        os.utime(house.write("memory/a.md", text), (1_577_836_800, 1_577_836_800))

    write("port 8443")
    async with house.opened() as index:
        # Once more, when the file has rested: its time is settled then.
        await until(lambda: time.time_ns() - (house.workspace / "memory/a.md").stat().st_ctime_ns > 10**8)
        await index.sync()
        assert not (await index.status()).dirty
        write("port 9443")
        assert (await index.status()).dirty
        assert (await find(index, "9443")).hits
        assert not (await find(index, "8443")).hits
        write("端口943")
        assert (await index.sync()).changed == 1


async def test_a_search_that_can_t_wait_says_what_is_missing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder(), query={"wait_for_writes": "50ms"}) as index:
        await index.sync()
        go_on = threading.Event()
        replace = IndexWriter.replace_file

        def slowly(self: IndexWriter, *values: Any) -> object:
            go_on.wait(100)
            return replace(self, *values)

        monkeypatch.setattr(IndexWriter, "replace_file", slowly)
        try:
            house.write("memory/b.md", "beta")
            found = await find(index, "alpha")
        finally:
            go_on.set()
        assert paths(found) == ["memory/a.md"]
        assert any("may be missing" in note for note in found.warnings)
        await index.sync()
        assert (await find(index, "beta")).warnings == ()


async def test_a_search_before_the_first_index_is_done_answers_with_what_there_is(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.notes(3)
    go_on = threading.Event()
    opened = IndexWriter.open

    def slowly(path: Path) -> IndexWriter:
        go_on.wait(100)
        return opened(path)

    monkeypatch.setattr(IndexWriter, "open", slowly)
    async with house.opened(WordEmbedder(), long_lived=True, query={"wait_for_writes": "20ms"}) as index:
        try:
            found = await find(index, "fact")
        finally:
            go_on.set()
        assert (found.hits, found.partial) == ((), True)
        assert found.warnings
        await index.sync()
        assert (await find(index, "fact")).hits


async def test_on_the_command_line_the_first_index_is_built_before_the_answer(house: House) -> None:
    house.notes(300)
    told: list[Progress] = []
    patient = {"wait_for_writes": "0ms", "wait_for_vectors": "1m"}
    async with house.opened(WordEmbedder(), query=patient) as index:
        found = await index.search(SearchRequest(queries=("word1799",)), told.append)
    assert paths(found)[0] == "memory/0299.md"
    assert (found.partial, found.mode) == (False, "hybrid")
    assert told[-1].done == told[-1].total
    assert len(house.stored()) == 300


async def test_a_build_that_was_cut_short_is_no_old_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder(), sync={"on_search": False}) as index:
        with monkeypatch.context() as killed:
            killed.setattr(round_.Round, "finish", lambda self: False)
            with pytest.raises(ClawbotError):
                await index.sync()
    assert list(house.stored()) == ["memory/a.md"]
    house.write("memory/b.md", "beta")
    async with house.opened(WordEmbedder(), sync={"on_search": False}) as index:
        found = await find(index, "beta")
    assert (paths(found)[0], found.partial) == ("memory/b.md", False)


async def test_while_another_process_builds_the_first_index_the_answer_is_partial(house: House) -> None:
    house.notes(3)
    lock = WriterLock(house.db)
    house.db.parent.mkdir(parents=True, exist_ok=True)
    lock.acquire(0)
    try:
        async with house.opened(WordEmbedder()) as index:
            found = await find(index, "fact")
    finally:
        lock.release()
    assert (found.hits, found.partial) == ((), True)
    assert any("Another process is indexing" in note for note in found.warnings)


async def test_searches_on_the_command_line_go_on_with_vectors_that_were_not_made(house: House) -> None:
    house.notes(30)
    embedder = WordEmbedder()
    async with house.opened(embedder, query={"wait_for_vectors": "0ms"}) as index:
        embedder.gate.clear()
        assert paths(await find(index, "word7"))[0] == "memory/0001.md"
    assert house.vectors() == 0
    embedder.gate.set()
    async with house.opened(embedder, query={"wait_for_vectors": "20s"}) as index:
        found = await find(index, "word7")
    assert (paths(found)[0], found.mode) == ("memory/0001.md", "hybrid")
    assert house.vectors() == 30 * 7


async def test_searching_does_not_sync_when_it_must_not(house: House) -> None:
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder(), sync={"on_search": False}) as index:
        await index.sync()
        house.write("memory/b.md", "beta")
        assert paths(await find(index, "beta")) == []
        assert paths(await find(index, "alpha")) == ["memory/a.md"]
        await index.sync()
        assert paths(await find(index, "beta"))[0] == "memory/b.md"


async def test_no_way_to_search_is_an_error_that_says_why(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cls: type[IndexWriter], path: Path) -> None:
        raise StoreError("The disk is full.", hint="Make room.")

    monkeypatch.setattr(IndexWriter, "open", classmethod(fail))
    async with house.opened(WordEmbedder()) as index:
        with pytest.raises(IndexUnavailableError, match=r"full.*Make room"):
            await find(index, "alpha")


async def test_a_closed_index_says_so(house: House) -> None:
    index = house.index(WordEmbedder())
    await find(index, "alpha")
    await index.close()
    await index.close()
    with pytest.raises(IndexUnavailableError, match="closed"):
        await find(index, "alpha")


@pytest.mark.parametrize("part", ["_reminder", "_sync", "_searcher", "_pool", "_handle"])
async def test_a_part_that_does_not_end_well_keeps_no_other_from_ending(
    part: str, house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.write("memory/a.md", "alpha\n")
    index = house.index(WordEmbedder())
    index.start()
    await find(index, "alpha")
    ended: list[str] = []

    def watch(name: str, method: str) -> None:
        end = getattr(getattr(index, name), method)

        async def wrapped() -> None:
            await end()
            ended.append(name)
            if name == part:
                raise OSError(9, "Bad file descriptor")

        monkeypatch.setattr(getattr(index, name), method, wrapped)

    for name in ("_sync", "_searcher", "_pool"):
        watch(name, "close")
    watch("_reminder", "stop")
    watch("_handle", "aclose")
    await index.close()
    assert sorted(ended) == ["_handle", "_pool", "_reminder", "_searcher", "_sync"]
    assert "a part of the memory index did not end well" in caplog.text


async def test_a_fault_in_the_search_is_told_as_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: SearchEngine, *values: object, **named: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(SearchEngine, "rank", fail)
    async with house.opened(WordEmbedder()) as index:
        with pytest.raises(IndexUnavailableError, match="ZeroDivisionError: division by zero"):
            await find(index, "alpha")


async def test_a_provider_that_fails_for_the_question_leaves_words(house: House) -> None:
    embedder = WordEmbedder()
    house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index:
        await index.sync()
        embedder.failure = EmbeddingError("no route to host.", retryable=True)
        found = await find(index, "alpha")
    assert paths(found) == ["memory/a.md"]
    assert (found.mode, found.provider) == ("fts-only", "none")
    assert found.fallback is not None
    assert (found.fallback.from_, found.fallback.reason) == ("words", "no route to host.")


@pytest.mark.long
async def test_the_deadline_ends_a_search_in_the_middle_of_a_query(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.notes(3)
    started = threading.Event()

    def endless(self: SearchEngine, search: Search, *values: object) -> None:
        started.set()
        assert isinstance(search.reader, IndexReader)
        search.reader._connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        )

    async with house.opened(WordEmbedder(), query={"timeout": "100ms"}) as index:
        await index.sync()
        with monkeypatch.context() as patch:
            patch.setattr(SearchEngine, "rank", endless)
            found = await find(index, "fact")
            assert started.is_set()
            assert (found.hits, found.partial) == ((), True)
        # Its reader is not harmed.
        assert (await find(index, "word3")).hits


async def test_a_cancelled_search_stops_working(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notes(3)
    started, ended = threading.Event(), threading.Event()

    def patient(self: SearchEngine, search: Search, *values: object) -> None:
        started.set()
        should_stop = search.should_stop
        while not should_stop():
            time.sleep(0.005)
        ended.set()

    async with house.opened(WordEmbedder()) as index:
        await index.sync()
        monkeypatch.setattr(SearchEngine, "rank", patient)
        search = asyncio.create_task(find(index, "fact"))
        await until(started.is_set)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        await until(ended.is_set)


async def test_vectors_in_memory_give_the_same_answers(house: House) -> None:
    house.notes(40)
    questions = [f"fact {number} word{number * 7}" for number in range(10)]
    once = []
    await house.sync(WordEmbedder())
    for question in questions:
        async with house.opened(WordEmbedder()) as index:
            once.append(await find(index, question))
            assert index._pool._matrix is None
    async with house.opened(WordEmbedder(), long_lived=True) as index:
        await find(index, "anything")
        await until(lambda: index._pool._matrix is not None)
        assert [await find(index, question) for question in questions] == once
        house.write("memory/new.md", "- a fact about otters")
        assert paths(await find(index, "otters"))[0] == "memory/new.md"
        assert index._pool._matrix is not None
        assert len(index._pool._matrix) == house.vectors()


@pytest.mark.parametrize("error", [MemoryError("no room"), StoreError("The disk can't be read.")])
async def test_vectors_that_could_not_be_read_into_memory_are_read_with_a_later_search(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    caplog.set_level("INFO", "clawbot")
    failures: list[Exception] = []

    def fail(cls: type[VectorMatrix], reader: IndexReader) -> None:
        failures.append(error)
        raise error

    house.write("memory/a.md", "- the proxy moved to port 8443")
    async with house.opened(WordEmbedder(), long_lived=True) as index:
        await index.sync()
        with monkeypatch.context() as patch:
            patch.setattr(VectorMatrix, "load", classmethod(fail))
            assert (await find(index, "proxy")).mode == "hybrid"
            await until(lambda: str(error) in caplog.text)
        # What failed is over a moment after it was told.
        async with asyncio.timeout(100):
            while index._pool._matrix is None:
                assert (await find(index, "proxy")).hits
        assert failures


async def test_bounds_go_through(house: House) -> None:
    for day, name in (("2026-11-19", "Ada"), ("2026-11-20", "Ben"), ("2026-11-21", "Cleo")):
        house.write(f"memory/{day}.md", f"- tea with {name}")
    async with house.opened(WordEmbedder()) as index:
        found = await find(index, "tea", after=date(2026, 11, 20), before=date(2026, 11, 20))
        assert paths(found) == ["memory/2026-11-20.md"]
        assert paths(await find(index, "tea", path="memory/2026-11-19.md")) == ["memory/2026-11-19.md"]
        assert len((await find(index, "tea", max_results=2)).hits) == 2


async def test_several_wordings_are_embedded_and_joined(house: House) -> None:
    embedder = WordEmbedder()
    house.write("memory/a.md", "- tea in the morning")
    house.write("memory/b.md", "- 早上喝茶")
    async with house.opened(embedder) as index:
        await index.sync()
        found = await index.search(SearchRequest(queries=("morning tea", "早上喝茶", "x", "y", "beyond the fourth")))
        assert set(paths(found)) == {"memory/a.md", "memory/b.md"}
        assert len(embedder.queries) == MAX_QUERIES
        assert (await index.search(SearchRequest(queries=()))).hits == ()


async def test_a_model_may_order_the_results(house: House) -> None:
    asked: list[tuple[str, int]] = []

    class Backwards:
        async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int]:
            asked.append((queries[0], len(texts)))
            return range(len(texts) - 1, -1, -1)

        async def problem(self) -> str:
            return "It is backwards."

    house.notes(3)
    async with house.opened(WordEmbedder()) as index:
        usual = paths(await find(index, "fact word4 word9"))
    async with house.opened(WordEmbedder(), rerank=Backwards(), query={"rerank": "model"}) as index:
        assert paths(await find(index, "fact word4 word9")) != usual
        assert (await index.status()).rerank_problem == "It is backwards."
    assert asked[0][0] == "fact word4 word9"
    async with house.opened(WordEmbedder(), rerank=Backwards()) as index:
        assert paths(await find(index, "fact word4 word9")) == usual
        assert (await index.status()).rerank_problem == ""
    assert len(asked) == 1


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(), min_size=1, max_size=4))
def test_any_text_is_a_query(house: House, texts: list[str]) -> None:
    house.write("memory/a.md", "- alpha beta 数据库")

    async def ask() -> None:
        async with house.opened(WordEmbedder()) as index:
            found = await index.search(SearchRequest(queries=tuple(texts)))
            assert not found.partial

    asyncio.run(ask())


@pytest.mark.few(4)
@pytest.mark.parametrize("query", ["", " ", "\0", "\ud800", '"', "AND", "NEAR(", "x" * 1_000_000, "的"])
async def test_odd_queries(house: House, query: str) -> None:
    house.write("memory/a.md", "- alpha beta")
    async with house.opened(WordEmbedder()) as index:
        found = await find(index, query)
        assert not found.partial
        assert found.fallback is None


# -- read, status, verify ----------------------------------------------------------------------------------------------


async def test_reading_needs_no_index(house: House) -> None:
    house.write("MEMORY.md", "one\ntwo\nthree\n")
    async with house.opened(WordEmbedder()) as index:
        assert (await index.read("MEMORY.md", 2, 1)).text == "two"
        assert not (await index.read("memory/none.md")).found
        with pytest.raises(ForbiddenPathError):
            await index.read("../other.md")
    assert not house.db.exists()


async def test_the_status_of_an_index_that_is_not_there_yet(house: House) -> None:
    house.notes(2)
    async with house.opened(WordEmbedder()) as index:
        status = await index.status()
    assert (status.files, status.total_files, status.chunks, status.dirty) == (0, 2, 0, True)
    assert (status.provider, status.last_sync, status.disk_bytes) == ("words", None, 0)
    assert not house.db.exists()


async def test_the_status_says_what_there_is(house: House) -> None:
    house.notes(2, lines=3)
    async with house.opened(WordEmbedder(), extra_paths=["/nowhere"]) as index:
        await index.sync()
        status = await index.status(deep=True)
        assert (status.files, status.total_files, status.chunks, status.vectors) == (2, 2, 8, 8)
        assert (status.dirty, status.pending_vectors, status.mode) == (False, 0, "hybrid")
        assert (status.details["dimensions"], status.sources, status.extra_paths) == (
            DIMENSIONS,
            ("memory",),
            ("/nowhere",),
        )
        assert status.text_bytes == sum(file.stat().st_size for file in house.workspace.glob("memory/*"))
        assert status.disk_bytes >= house.db.stat().st_size
        assert status.tokens > 0
        assert "words one" in status.identity
        assert status.embedding_probe is not None
        assert status.embedding_probe.ok
        assert [issue.path for issue in status.issues] == ["../../../../../../nowhere"] or status.issues
        house.write("memory/0000.md", "other")
        assert (await index.status()).dirty


async def test_the_status_of_a_provider_that_fails(house: House) -> None:
    embedder = WordEmbedder(remote=True)
    embedder.address = "http://127.0.0.1:9000/v1"
    embedder.failure = EmbeddingError("no key.")
    async with house.opened(embedder) as index:
        status = await index.status(deep=True)
        assert (status.remote, status.address) == (True, "http://127.0.0.1:9000/v1")
        assert status.embedding_probe is not None
        assert (status.embedding_probe.ok, status.embedding_probe.error) == (False, "no key.")
        assert status.fallback is not None
    async with house.opened(EmbeddingError("no model here.")) as index:
        status = await index.status(deep=True)
        assert not status.details["vector"]["available"]
        assert status.details["vector"]["error"] == "no model here."


async def test_verifying_finds_a_difference_and_repairs_it(house: House) -> None:
    house.notes(3)
    async with house.opened(WordEmbedder()) as index:
        missing = await index.verify()
        assert not missing.clean
        await index.sync()
        clean = await index.verify()
        assert clean.clean
        assert (clean.checked.files, clean.checked.vectors) == (3, clean.checked.chunks)
    writer = IndexWriter.open(house.db)
    with writer.transaction():
        writer.remove(["memory/0001.md"])
    writer.close()
    async with house.opened(WordEmbedder()) as index:
        found = await index.verify()
        assert not found.clean
        assert len(found.problems) == 1
        assert "memory/0001.md" in found.problems[0]
        fixed = await index.verify(fix=True)
        assert fixed.fixed == fixed.problems
        after = await index.verify()
        assert after.clean
        assert after.checked == clean.checked


async def test_an_index_of_an_older_rule_is_built_anew_by_itself(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.write("MEMORY.md", (shipped("workspace_template") / "MEMORY.md").read_text())
    house.write("memory/2026-11-20-talk.md", "- **Session ID**: otter\n\nuser: the badger\n> >\n")
    house.write("memory/.trash/old.md", "- the ibis\n")
    with monkeypatch.context() as older:
        older.setattr(document_chunks, "indexed_text", lambda document: document.text)
        older.setattr(round_, "indexing_rule", lambda: "0")
        async with house.opened(WordEmbedder()) as index:
            assert "otter" in (await find(index, "otter")).hits[0].snippet
            assert "MEMORY.md" in paths(await find(index, "lasting preferences"))
    async with house.opened(WordEmbedder()) as index:
        report = await index.sync()
        assert report.rebuilt
        for word in ("otter", "lasting preferences", "ibis"):
            assert not any(word in hit.snippet for hit in (await find(index, word)).hits)
        [hit] = (await find(index, "badger")).hits
        assert (hit.start_line, hit.end_line, hit.snippet) == (3, 3, "user: the badger")
        verified = await index.verify()
        assert (verified.problems, verified.checked.files, verified.checked.chunks) == ((), 2, 1)


async def test_verifying_a_damaged_index_repairs_it_with_a_new_one(house: House) -> None:
    house.notes(2)
    await house.sync(WordEmbedder())
    house.db.write_bytes(b"x" * 50_000)
    async with house.opened(WordEmbedder()) as index:
        assert not (await index.verify()).clean
        assert (await index.verify(fix=True)).clean
        assert (await index.verify()).clean


async def test_verifying_waits_for_a_sync(house: House) -> None:
    house.notes(20)
    embedder = WordEmbedder()
    embedder.gate.clear()
    async with house.opened(embedder) as index:
        sync = asyncio.create_task(index.sync())
        await embedder.waiting.wait()
        verify = asyncio.create_task(index.verify())
        await find(index, "fact")
        assert not verify.done()
        embedder.gate.set()
        assert (await verify).clean
        assert (await sync).added == 20


# -- following the files -----------------------------------------------------------------------------------------------


async def test_a_started_index_follows_its_files(house: House) -> None:
    house.notes(2)
    told: list[Progress | None] = []
    async with house.opened(WordEmbedder(), long_lived=True, sync={"watch_debounce_ms": 20}) as index:
        index.on_progress = told.append
        index.start()
        await until(lambda: house.db.exists() and None in told)
        house.write("memory/0000.md", "other text")
        await until(lambda: house.stored().get("memory/0000.md") == 1)
        (house.workspace / "memory/0001.md").unlink()
        await until(lambda: "memory/0001.md" not in house.stored())
        house.write("memory/deep/er/new.md", "new")
        await until(lambda: "memory/deep/er/new.md" in house.stored())


async def test_a_file_that_is_written_all_the_time_ends_up_as_it_is(house: House) -> None:
    house.notes(50)
    async with house.opened(WordEmbedder(), long_lived=True, sync={"watch_debounce_ms": 5}) as index:
        index.start()

        def write() -> None:
            for number in range(1000):
                house.write("memory/busy.md", f"- round {number} of otter{number}\n")

        await asyncio.to_thread(write)
        found = await find(index, "otter999")
        assert [hit.snippet for hit in found.hits][:1] == ["- round 999 of otter999"]
        await index.sync()
        assert (await index.verify()).clean


async def test_two_indexes_of_one_database_both_find_what_is_written(house: House) -> None:
    house.notes(10)
    async with house.opened(WordEmbedder()) as one, house.opened(WordEmbedder()) as other:
        await asyncio.gather(one.sync(), other.sync())
        await until(lambda: len(house.stored()) == 10)
        for number in range(5):
            house.write("memory/new.md", f"- otter{number}")
            results = await asyncio.gather(find(one, f"otter{number}"), find(other, f"otter{number}"))
            assert all(result.hits for result in results)
        await one.sync()
        await other.sync()
        assert paths(await find(other, "otter4"))[0] == "memory/new.md"
        assert (await other.sync(force=True)).rebuilt
        assert paths(await find(one, "otter4"))[0] == "memory/new.md"


async def test_the_generation_grows_with_what_can_be_found_and_with_nothing_else(house: House) -> None:
    embedder = WordEmbedder()
    house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index, house.opened(embedder) as other:
        told: list[int] = []
        index.on_progress = lambda progress: told.append(index.generation)
        await index.sync()
        before = index.generation
        assert before > 0
        await index.sync()
        for _ in range(3):
            await find(index, "alpha")
        assert index.generation == before
        house.write("memory/b.md", "部署窗口")
        assert paths(await find(index, "部署窗口"))[0] == "memory/b.md"
        await index.sync()
        written = index.generation
        assert written > before
        # What another process has indexed is noticed as well.
        (house.workspace / "memory" / "a.md").unlink()
        await other.sync()
        await index.sync()
        assert index.generation > written
        assert told[-1] == index.generation
        again = index.generation
        await index.sync()
        assert index.generation == again


async def test_a_file_that_is_gone_is_not_quoted_however_late_the_index_is(house: House) -> None:
    for name in ("memory/a.md", "memory/sub/b.md"):
        house.write(name, "alpha beta")
    async with house.opened(WordEmbedder(), sync={"on_search": False}) as index:
        await index.sync()
        assert sorted(paths(await find(index, "alpha"))) == ["memory/a.md", "memory/sub/b.md"]
        shutil.rmtree(house.workspace / "memory/sub")
        assert paths(await find(index, "alpha")) == ["memory/a.md"]
        house.workspace.rename(house.workspace.with_name("away"))
        # A disk that is not there has lost nothing.
        assert paths(await find(index, "alpha"))


async def test_a_name_that_was_written_in_another_form_of_unicode_is_still_there(house: House) -> None:
    house.write(unicodedata.normalize("NFD", "memory/größe.md"), "alpha")
    async with house.opened(WordEmbedder()) as index:
        assert len((await find(index, "alpha")).hits) == 1


async def test_a_look_at_files_that_hangs_holds_up_no_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.write("memory/a.md", "alpha")
    go_on = threading.Event()
    monkeypatch.setattr(searcher, "CHECK_SECONDS", 0.01)

    def hang(self: Library, hits: Sequence[Hit]) -> frozenset[str]:
        go_on.wait(100)
        return frozenset(hit.path for hit in hits)

    monkeypatch.setattr(Library, "gone", hang)
    async with house.opened(WordEmbedder()) as index:
        await index.sync()
        assert paths(await find(index, "alpha")) == ["memory/a.md"]
        go_on.set()


async def test_a_look_at_files_that_fails_holds_up_no_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Library, hits: Sequence[Hit]) -> frozenset[str]:
        raise OSError("no such device")

    house.write("memory/a.md", "alpha")
    monkeypatch.setattr(Library, "gone", fail)
    async with house.opened(WordEmbedder()) as index:
        assert paths(await find(index, "alpha")) == ["memory/a.md"]
