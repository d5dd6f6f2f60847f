"""Bringing the index up to date: what is written, embedded and kept, and what happens meanwhile."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from clawbot.errors import ClawbotError
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.walking import Listing
from clawbot.memory.embeddings import embedder_handle
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.protocol import EmbeddingError, Purpose, Vectors
from clawbot.memory.index import MemoryIndex
from clawbot.memory.store import database
from clawbot.memory.store import writer as writing
from clawbot.memory.store.chunk_table import Change
from clawbot.memory.store.errors import StoreError
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.records import ChunkRecord, FileRecord, Identity
from clawbot.memory.store.replacement import building_path
from clawbot.memory.store.writer import IndexWriter
from clawbot.memory.sync import synchroniser as syncing
from clawbot.memory.sync import watcher
from clawbot.memory.sync.observer import FolderObserver
from clawbot.memory.sync.round import Round, needs_rebuild
from clawbot.memory.sync.synchroniser import ClosedError
from clawbot.memory.values import Fallback, Progress
from tests.memory.index_host import House, WordEmbedder, find, paths, until

DOWN = EmbeddingError("the provider is down.", hint="Wait.", retryable=True)


async def test_an_empty_workspace_is_indexed_once_and_not_built_anew_for_ever(house: House) -> None:
    async with house.opened(WordEmbedder()) as index:
        first = await index.sync()
        changed = house.db.stat().st_mtime_ns
        again = await index.sync()
        assert not first.rebuilt
        assert not again.rebuilt
        assert (await index.status()).last_sync is not None
    async with house.opened(WordEmbedder()) as index:
        assert not (await index.sync()).rebuilt
    assert house.db.stat().st_mtime_ns == changed


async def test_new_changed_removed_and_kept_files_are_counted(house: House) -> None:
    house.write("MEMORY.md", "- tea, not coffee")
    house.write("memory/a.md", "alpha")
    house.write("memory/日记.md", "今天下雨")
    async with house.opened(WordEmbedder()) as index:
        first = await index.sync()
        assert (first.added, first.changed, first.removed, first.unchanged) == (3, 0, 0, 0)
        assert first.pieces_written == first.pieces_embedded == 3
        house.write("memory/a.md", "alpha beta")
        (house.workspace / "memory/日记.md").unlink()
        second = await index.sync()
        assert (second.added, second.changed, second.removed) == (0, 1, 1)
    assert set(house.stored()) == {"MEMORY.md", "memory/a.md"}


async def test_an_appended_line_embeds_one_line(house: House) -> None:
    embedder = WordEmbedder()
    house.write("memory/a.md", "# Day\n\n- one\n- two\n")
    async with house.opened(embedder) as index:
        await index.sync()
        embedder.texts.clear()
        house.write("memory/a.md", "# Day\n\n- one\n- two\n- three\n")
        report = await index.sync()
    assert embedder.texts == ["Day - three"]
    assert (report.pieces_written, report.pieces_embedded) == (1, 1)


async def test_the_files_of_the_index_are_read_once_however_often_one_changes(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.notes(20)
    read: list[object] = []
    convert = database.valid

    def counted(kind: type[Any], rows: Sequence[Any], path: Path) -> Any:
        read.extend(rows)
        return convert(kind, rows, path)

    monkeypatch.setattr(writing, "valid", counted)
    async with house.opened(WordEmbedder()) as index:
        await index.sync()
        read.clear()
        for number in range(3):
            house.write("memory/new.md", f"{number} {'x' * number}")
            report = await index.sync()
            assert report.added + report.changed == 1
        assert read == []
        await house.sync(WordEmbedder())
        assert (await index.sync()).unchanged == 21
        (house.workspace / "memory/new.md").unlink()
        await house.sync(WordEmbedder())
        # Another process has changed it.
        read.clear()
        assert (await index.sync()).unchanged == 20
        assert len(read) == 20


async def test_the_files_are_listed_once_for_a_change(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notes(3)
    await house.sync(WordEmbedder())
    listed: list[Library] = []
    get = Library.list

    def counted(library: Library) -> Listing:
        listed.append(library)
        return get(library)

    monkeypatch.setattr(Library, "list", counted)
    house.write("memory/a.md", "alpha")
    assert (await house.sync(WordEmbedder())).added == 1
    assert len(listed) == 1


async def test_what_another_process_indexes_after_the_listing_is_not_removed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.notes(3)
    await house.sync(WordEmbedder())
    begin = Round.open

    def late(work: Round, *, force: bool, dimensions: int = 0) -> None:
        monkeypatch.setattr(Round, "open", begin)
        house.write("memory/b.md", "beta")
        asyncio.run(house.sync(WordEmbedder()))
        begin(work, force=force, dimensions=dimensions)

    monkeypatch.setattr(Round, "open", late)
    house.write("memory/a.md", "alpha")
    report = await house.sync(WordEmbedder())
    assert (report.removed, report.unchanged) == (0, 5)


async def test_another_time_alone_is_no_change(house: House) -> None:
    embedder = WordEmbedder()
    file = house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index:
        await index.sync()
        os.utime(file, ns=(1, 1))
        report = await index.sync()
        assert (report.changed, report.pieces_written, report.unchanged) == (0, 0, 1)
        assert not (await index.status()).dirty
    assert embedder.texts == ["alpha"]


async def test_words_need_no_provider(house: House) -> None:
    house.write("memory/a.md", "the proxy moved to port 8443\n\n部署窗口改到周四晚上")
    async with house.opened(None) as index:
        report = await index.sync()
        assert (report.pending_vectors, report.fallback) == (0, None)
        assert paths(await find(index, "proxy port")) == ["memory/a.md"]
        found = await find(index, "部署窗口")
    assert paths(found) == ["memory/a.md"]
    assert (found.mode, found.provider, found.fallback) == ("fts-only", "none", None)


async def test_losing_the_provider_empties_nothing(house: House) -> None:
    house.notes(3)
    await house.sync(WordEmbedder())
    vectors = house.vectors()
    assert vectors
    async with house.opened(ClawbotError("OPENAI_API_KEY is not set.", hint="Set it.")) as index:
        house.write("memory/new.md", "a new fact about otters")
        report = await index.sync()
        assert not report.rebuilt
        assert report.fallback == Fallback("words", "OPENAI_API_KEY is not set. Set it.")
        # Also when there was nothing to do.
        assert (await index.sync()).fallback == report.fallback
        found = await find(index, "otters")
        assert paths(found) == ["memory/new.md"]
        assert found.mode == "fts-only"
        assert found.fallback is not None
        assert "OPENAI_API_KEY" in found.fallback.reason
        status = await index.status()
        assert (status.vectors, status.pending_vectors) == (vectors, 1)
    # It is back: only what came meanwhile is embedded.
    embedder = WordEmbedder()
    async with house.opened(embedder) as index:
        assert (await index.sync()).pending_vectors == 0
        assert (await find(index, "otters")).mode == "hybrid"
    assert embedder.texts == ["new fact otters"]


async def test_vectors_of_a_provider_that_was_switched_off_stay(house: House) -> None:
    house.notes(2)
    await house.sync(WordEmbedder())
    vectors = house.vectors()
    async with house.opened(None) as index:
        house.write("MEMORY.md", "something new")
        assert not (await index.sync()).rebuilt
    assert house.vectors() == vectors


async def test_an_index_without_vectors_gets_them_in_its_place(house: House) -> None:
    house.notes(2)
    await house.sync(None)
    async with house.opened(WordEmbedder()) as index:
        report = await index.sync()
        assert not report.rebuilt
        assert report.pieces_written == 0
        assert report.pieces_embedded == house.vectors() > 0


async def test_a_provider_that_fails_leaves_words_and_is_tried_again(house: House) -> None:
    embedder = WordEmbedder()
    embedder.failure = DOWN
    house.write("memory/a.md", "alpha beta")
    async with house.opened(embedder) as index:
        report = await index.sync()
        assert (report.pieces_written, report.pieces_embedded, report.pending_vectors) == (1, 0, 1)
        assert report.fallback is not None
        assert "is down" in report.fallback.reason
        embedder.failure = None
        found = await find(index, "alpha")
        # It rests for a while after a failure.
        assert (found.mode, embedder.queries) == ("fts-only", [])
        assert found.fallback is not None
        assert "is down" in found.fallback.reason
        assert paths(found) == ["memory/a.md"]


async def test_what_is_written_while_it_embeds_is_found_before_that_is_done(house: House) -> None:
    embedder = WordEmbedder(remote=True)
    embedder.gate.clear()
    house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index:
        first = asyncio.create_task(index.sync())
        await embedder.waiting.wait()
        house.write("memory/b.md", "beta")
        assert paths(await find(index, "beta")) == ["memory/b.md"]
        assert not first.done()
        embedder.gate.set()
        report = await first
        assert (report.added, report.pending_vectors) == (2, 0)
    assert house.vectors() == 2


async def test_a_change_after_its_file_was_read_is_indexed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference loses it: its flag is cleared at the end of the sync (12.6)."""
    house.notes(3)
    async with house.opened(WordEmbedder()) as index:
        replace = IndexWriter.replace_file
        written: list[str] = []

        def replace_and_change(self: IndexWriter, record: FileRecord, chunks: Sequence[ChunkRecord]) -> Change:
            path = record.state.path
            if path not in written:
                written.append(path)
                house.write(path, f"later text of {path}")
            return replace(self, record, chunks)

        monkeypatch.setattr(IndexWriter, "replace_file", replace_and_change)
        index.start()
        await index.sync()
        await until(lambda: set(house.stored().values()) == {1})
        assert len(paths(await find(index, "later text"))) == 3


async def test_a_change_before_its_folder_is_watched_is_indexed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notes(3)
    may_watch = threading.Event()
    watch = FolderObserver.watch

    def watch_later(self: FolderObserver, folders: Mapping[Path, bool]) -> None:
        may_watch.wait()
        watch(self, folders)

    monkeypatch.setattr(FolderObserver, "watch", watch_later)
    async with house.opened(None) as index:
        index.start()
        await index.sync()
        house.write("memory/0001.md", "one line")
        may_watch.set()
        await until(lambda: house.stored()["memory/0001.md"] == 1)


async def test_a_sync_that_is_asked_for_sees_what_was_written_before_it(house: House) -> None:
    embedder = WordEmbedder()
    embedder.gate.clear()
    house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index:
        first = asyncio.create_task(index.sync())
        await embedder.waiting.wait()
        house.write("memory/b.md", "beta")
        second = asyncio.create_task(index.sync())
        embedder.gate.set()
        await asyncio.gather(first, second)
    assert set(house.stored()) == {"memory/a.md", "memory/b.md"}
    assert house.vectors() == 2


async def test_many_who_ask_share_a_round(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.notes(5)
    listings: list[object] = []
    async with house.opened(WordEmbedder()) as index:
        library = index._context.library
        listed = library.list

        def counted() -> object:
            listings.append(1)
            return listed()

        monkeypatch.setattr(library, "list", counted)
        reports = await asyncio.gather(*(index.sync() for _ in range(50)))
    assert {report.added for report in reports} == {5}
    assert len(listings) <= 4


async def test_searches_go_on_with_the_old_index_while_a_new_one_is_built(house: House) -> None:
    house.write("memory/a.md", "alpha beta gamma")
    await house.sync(WordEmbedder())
    embedder = WordEmbedder("two")
    embedder.gate.clear()
    async with house.opened(embedder) as index:
        rebuild = asyncio.create_task(index.sync())
        await embedder.waiting.wait()
        found = await find(index, "alpha")
        assert paths(found) == ["memory/a.md"]
        assert not found.partial
        assert any("rebuilt" in note for note in found.warnings)
        # What is written now is found too.
        house.write("memory/b.md", "delta")
        assert paths(await find(index, "delta")) == ["memory/b.md"]
        embedder.gate.set()
        report = await rebuild
        assert report.rebuilt
        found = await find(index, "delta")
        assert (paths(found)[0], found.mode, found.warnings) == ("memory/b.md", "hybrid", ())
    assert not building_path(house.db).exists()
    assert house.vectors() == 2


async def test_another_profile_builds_anew_and_a_search_never_sees_half(house: House) -> None:
    house.notes(30)
    async with house.opened(WordEmbedder()) as index:
        lines = (await index.sync()).pieces_written
    async with house.opened(WordEmbedder(), profile="classic") as index:
        report = await index.sync()
        assert report.rebuilt
        assert 0 < report.pieces_written < lines
        status = await index.status()
        assert (status.files, status.details["profile"], status.pending_vectors) == (30, "classic", 0)
        assert (await find(index, "fact 7 3")).mode == "hybrid"
    async with house.opened(WordEmbedder(), profile="classic", chunking={"tokens": 40, "overlap": 5}) as index:
        assert (await index.sync()).rebuilt


async def test_force_builds_anew_and_embeds_anew_here(house: House) -> None:
    house.notes(2)
    embedder = WordEmbedder()
    async with house.opened(embedder) as index:
        count = (await index.sync()).pieces_embedded
        report = await index.sync(force=True)
        assert report.rebuilt
        assert report.pieces_embedded == count
        assert (await index.verify()).clean


async def test_vectors_that_cost_money_survive_a_forced_build(house: House) -> None:
    house.notes(2)
    embedder = WordEmbedder(remote=True)
    async with house.opened(embedder) as index:
        count = (await index.sync()).pieces_embedded
        embedder.texts.clear()
        report = await index.sync(force=True)
        assert report.rebuilt
        assert report.pending_vectors == 0
    assert embedder.texts == []
    assert house.vectors() == count


async def test_a_forced_build_leaves_vectors_behind_that_the_model_gives_in_another_size_now(house: House) -> None:
    house.write("memory/a.md", "the proxy moved to port 8443")
    house.write("memory/b.md", "部署窗口改到周四晚上")
    async with house.opened(WordEmbedder(remote=True), cached=True) as index:
        await index.sync()
        assert (await find(index, "proxy")).mode == "hybrid"
    embedder = WordEmbedder(remote=True, dimensions=48)
    async with house.opened(embedder, cached=True) as index:
        found = await find(index, "port")
        assert (found.mode, paths(found)) == ("fts-only", ["memory/a.md"])
        assert found.fallback is not None
        assert "--force" in found.fallback.reason
        report = await index.sync(force=True)
        assert (report.rebuilt, report.pending_vectors, report.pieces_embedded) == (True, 0, 2)
        assert (await find(index, "port")).mode == "hybrid"
        house.write("memory/c.md", "the proxy moved to port 8443 again")
        assert (await index.sync()).pending_vectors == 0
        assert (await index.status()).details["dimensions"] == 48


async def test_a_running_process_gets_over_vectors_of_another_size_too(house: House) -> None:
    house.notes(2)
    embedder = WordEmbedder(remote=True)
    async with house.opened(embedder, cached=True) as index:
        count = (await index.sync()).pieces_embedded
        embedder.dimensions = 48
        house.write("memory/new.md", "a new fact about otters")
        assert (await index.sync()).pending_vectors == 1
        report = await index.sync(force=True)
        assert (report.pieces_embedded, report.pending_vectors) == (count + 1, 0)
        assert (await find(index, "otters")).mode == "hybrid"


async def test_a_forced_build_keeps_its_vectors_while_the_provider_can_t_be_asked(house: House) -> None:
    house.notes(2)
    embedder = WordEmbedder(remote=True)
    async with house.opened(embedder, cached=True) as index:
        count = (await index.sync()).pieces_embedded
        embedder.failure = DOWN
        report = await index.sync(force=True)
        assert (report.rebuilt, report.pending_vectors) == (True, 0)
    assert house.vectors() == count


async def test_a_close_does_not_wait_for_the_size_of_vectors(house: House) -> None:
    class Silent(WordEmbedder):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
            self.waiting.set()
            await asyncio.Event().wait()
            return Vectors(0, b"")

    house.notes(2)
    await house.sync(None)
    embedder = Silent(remote=True)
    index = house.index(embedder)
    running = asyncio.create_task(index.sync(force=True))
    await embedder.waiting.wait()
    async with asyncio.timeout(100):
        await index.close()
    with pytest.raises(ClosedError):
        await running


async def test_a_close_while_the_provider_is_opened_asks_it_nothing(house: House) -> None:
    house.notes(2)
    await house.sync(None)
    embedder = WordEmbedder(remote=True)
    opening, go_on = asyncio.Event(), asyncio.Event()

    async def opener() -> WordEmbedder:
        opening.set()
        await go_on.wait()
        return embedder

    context = house.context()
    index = MemoryIndex(context, EmbedderHandle("words", opener, context.clock))
    running = asyncio.create_task(index.sync(force=True))
    await opening.wait()
    closing = asyncio.create_task(index.close())
    await until(index._sync._stop.is_set)
    go_on.set()
    await closing
    with pytest.raises(ClosedError):
        await running
    assert (embedder.queries, embedder.texts, embedder.closed) == ([], [], True)


async def test_kept_vectors_come_back_after_another_model(house: House) -> None:
    house.notes(2)
    for model in ("one", "two"):
        await house.sync(WordEmbedder(model, remote=True), cached=True)
    embedder = WordEmbedder("one", remote=True)
    async with house.opened(embedder, cached=True) as index:
        report = await index.sync()
        assert report.rebuilt
        assert report.pieces_embedded > 0
    assert embedder.texts == []


async def test_a_provider_that_fails_in_a_rebuild_leaves_words_in_the_new_index(house: House) -> None:
    house.notes(2)
    await house.sync(WordEmbedder())
    embedder = WordEmbedder("two")
    embedder.failure = DOWN
    async with house.opened(embedder, profile="classic") as index:
        report = await index.sync()
        assert report.rebuilt
        assert report.pending_vectors == report.pieces_written > 0
        assert paths(await find(index, "word9")) == ["memory/0001.md"]


@pytest.mark.parametrize("rebuild", [False, True])
async def test_what_was_done_before_a_close_is_not_done_again(
    house: House, rebuild: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.notes(300, lines=3)
    if rebuild:
        await house.sync(None)
    options: dict[str, Any] = {"profile": "classic"} if rebuild else {}
    index = house.index(WordEmbedder(), **options)
    written: list[str] = []
    replace = IndexWriter.replace_file

    def replace_some(self: IndexWriter, record: FileRecord, chunks: Sequence[ChunkRecord]) -> Change:
        written.append(record.state.path)
        if len(written) == 150:
            index._sync._stop.wait(100)
        return replace(self, record, chunks)

    with monkeypatch.context() as patch:
        patch.setattr(IndexWriter, "replace_file", replace_some)
        running = asyncio.create_task(index.sync())
        await until(lambda: len(written) == 150)
        await index.close()
        with pytest.raises(ClosedError):
            await running
    assert len(written) == 150
    if rebuild:
        assert len(house.stored()) == 300
    async with house.opened(WordEmbedder(), **options) as index:
        report = await index.sync()
        assert report.added == 150
        assert report.rebuilt == rebuild
        assert (await index.verify()).clean
    assert len(house.stored()) == 300


async def test_a_rebuild_that_nobody_wants_any_more_is_removed(house: House) -> None:
    house.notes(3)
    await house.sync(WordEmbedder())
    embedder = WordEmbedder("two")
    embedder.gate.clear()
    index = house.index(embedder, profile="classic")
    running = asyncio.create_task(index.sync())
    await embedder.waiting.wait()
    await index.close()
    with pytest.raises(ClosedError):
        await running
    assert building_path(house.db).exists()
    async with house.opened(WordEmbedder()) as index:
        assert not (await index.sync()).rebuilt
        assert (await index.verify()).clean
    assert not building_path(house.db).exists()


async def test_files_that_are_no_text_are_named_and_keep_nothing_away(house: House) -> None:
    house.write("memory/gbk.md", "备忘".encode("gbk"))
    house.write("memory/nul.md", b"before\0after\n\xef\xbb\xbf")
    house.write("memory/good.md", "fine")
    async with house.opened(WordEmbedder()) as index:
        report = await index.sync()
        assert [issue.path for issue in report.issues] == ["memory/gbk.md"]
        assert "UTF-8" in report.issues[0].text
        assert set(house.stored()) == {"memory/good.md", "memory/nul.md"}
        assert (await index.status()).issues == report.issues
        house.write("memory/gbk.md", "备忘")
        assert (await index.sync()).issues == ()
        assert paths(await find(index, "备忘"))[0] == "memory/gbk.md"
        # And what was text, and is none any more, is forgotten.
        house.write("memory/good.md", b"\xff\xfe\xff")
        await index.sync()
    assert set(house.stored()) == {"memory/gbk.md", "memory/nul.md"}


async def test_another_process_that_indexes_is_told_and_searches_go_on(house: House) -> None:
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder()) as index:
        await index.sync()
        other = WriterLock(house.db)
        other.acquire()
        try:
            house.write("memory/b.md", "beta")
            assert (await index.sync()).busy
            found = await find(index, "alpha")
            assert paths(found) == ["memory/a.md"]
            assert any("Another process" in note for note in found.warnings)
            assert (await index.status()).busy
        finally:
            other.release()
        assert not (await index.sync()).busy
        assert (await find(index, "beta")).warnings == ()


async def test_chunks_without_a_vector_are_still_told_of_while_another_process_indexes(house: House) -> None:
    embedder = WordEmbedder()
    embedder.failure = DOWN
    house.notes(20)
    async with house.opened(embedder, sync={"watch": False, "on_search": False}) as index:
        await index.sync()
        note = (await find(index, "fact")).warnings
        assert "no vector yet" in note[0]
        other = WriterLock(house.db)
        other.acquire()
        try:
            house.write("memory/b.md", "beta 部署")
            assert (await index.sync()).busy
            assert (await find(index, "fact")).warnings == note
        finally:
            other.release()


async def test_a_damaged_index_is_set_aside_and_built_anew(house: House) -> None:
    house.notes(3)
    await house.sync(WordEmbedder())
    house.db.write_bytes(b"no database at all" * 1000)
    async with house.opened(WordEmbedder()) as index:
        report = await index.sync()
        assert report.added == 3
        assert "quarantined" in report.issues[0].text
        assert (await index.verify()).clean
        assert (await index.sync()).issues == ()
    assert list(house.db.parent.glob("main.sqlite.set-aside-*"))


async def test_an_index_that_was_deleted_is_built_again_for_the_next_search(house: House) -> None:
    house.notes(3)
    async with house.opened(WordEmbedder()) as index:
        await index.sync()
        for file in house.db.parent.glob("main.sqlite*"):
            file.unlink()
        assert paths(await find(index, "fact 1 3"))[0] == "memory/0001.md"


async def test_a_failure_to_write_is_told_and_the_old_index_answers(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("memory/a.md", "alpha")
    async with house.opened(WordEmbedder()) as index:
        await index.sync()

        def fail(*_: object) -> None:
            raise StoreError("The disk is full.", hint="Make room.")

        with monkeypatch.context() as patch:
            patch.setattr(IndexWriter, "replace_file", fail)
            house.write("memory/b.md", "beta")
            with pytest.raises(StoreError, match="full"):
                await index.sync()
            found = await find(index, "alpha")
            assert paths(found) == ["memory/a.md"]
            assert any("disk is full" in note for note in found.warnings)
            assert any("disk is full" in issue.text for issue in (await index.status()).issues)
        await index.sync()
        assert (await find(index, "beta")).warnings == ()


@pytest.mark.parametrize("searched", [True, False])
async def test_a_failure_that_is_over_is_made_good_without_another_change_of_a_file(
    house: House, monkeypatch: pytest.MonkeyPatch, searched: bool
) -> None:
    monkeypatch.setattr(syncing, "FAILED_SECONDS", 600 if searched else 0.05)
    house.write("memory/a.md", "alpha")

    def fail(*_: object) -> None:
        raise StoreError("The disk is full.", hint="Make room.")

    async with house.opened(WordEmbedder(), long_lived=True) as index:
        with monkeypatch.context() as patch:
            patch.setattr(IndexWriter, "put_vectors", fail)
            with pytest.raises(StoreError, match="full"):
                await index.sync()
        if searched:
            assert (await find(index, "alpha")).warnings == ()
        await until(lambda: house.vectors() == 1)


async def test_vectors_of_another_size_are_not_mixed(house: House) -> None:
    house.write("memory/a.md", "alpha")
    await house.sync(WordEmbedder())
    house.write("memory/b.md", "beta")
    async with house.opened(WordEmbedder(dimensions=48)) as index:
        report = await index.sync()
        assert report.pending_vectors == 1
        found = await find(index, "beta")
        assert found.mode == "fts-only"
        assert found.fallback is not None
    assert house.vectors() == 1


async def test_a_close_ends_a_sync_that_waits_for_its_provider(house: House) -> None:
    before = set(threading.enumerate())
    embedder = WordEmbedder(remote=True)
    embedder.gate.clear()
    house.notes(3)
    index = house.index(embedder, long_lived=True)
    index.start()
    running = asyncio.create_task(index.sync())
    await embedder.waiting.wait()
    async with asyncio.timeout(100):
        await index.close()
    with pytest.raises(ClosedError):
        await running
    assert embedder.closed
    own = [each for each in set(threading.enumerate()) - before if each.name.startswith("memory-")]
    for thread in own:
        await asyncio.to_thread(thread.join, 5)
    assert not [thread.name for thread in own if thread.is_alive()]
    with pytest.raises(ClosedError):
        await index.sync()


async def test_progress_counts_files_then_chunks_and_ends_with_nothing(house: House) -> None:
    house.notes(40)
    steps: list[Progress] = []
    seen: list[Progress | None] = []
    async with house.opened(WordEmbedder()) as index:
        index.on_progress = seen.append
        report = await index.sync(progress=steps.append)
    text = [step for step in steps if step.phase == "text"]
    vectors = [step for step in steps if step.phase == "vectors"]
    assert (text[-1].done, text[-1].total, text[-1].unit) == (40, 40, "files")
    assert (vectors[-1].done, vectors[-1].total, vectors[-1].unit) == (report.pieces_written,) * 2 + ("pieces",)
    assert seen == [*steps, None]


async def test_progress_is_of_chunks_while_the_first_of_them_are_embedded(house: House) -> None:
    house.notes(3)
    embedder = WordEmbedder(remote=True)
    embedder.gate.clear()
    steps: list[Progress] = []
    async with house.opened(embedder) as index:
        running = asyncio.create_task(index.sync(progress=steps.append))
        await embedder.waiting.wait()
        assert (steps[-1].phase, steps[-1].done, steps[-1].unit) == ("vectors", 0, "pieces")
        embedder.gate.set()
        assert steps[-1].total == (await running).pieces_written


async def test_a_provider_that_failed_is_asked_again_by_itself(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedder_handle, "FIRST_PAUSE", 0.05)
    embedder = WordEmbedder()
    embedder.failure = DOWN
    house.write("memory/a.md", "alpha")
    async with house.opened(embedder) as index:
        assert (await index.sync()).pending_vectors == 1
        embedder.failure = None
        await until(lambda: house.vectors() == 1)
        assert (await find(index, "alpha")).fallback is None


async def test_chunks_that_failed_get_their_vectors_though_a_question_in_flight_had_its_own(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Divided(WordEmbedder):
        """Fails for documents while `failure` is set; questions wait for `answer`, and succeed."""

        def __init__(self) -> None:
            super().__init__()
            self.answer = asyncio.Event()

        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
            if purpose == "document" and self.failure is not None:
                raise self.failure
            if purpose == "query":
                self.waiting.set()
                await self.answer.wait()
            return Vectors.of_rows(self._row(text) for text in texts)

    monkeypatch.setattr(syncing, "BUSY_SECONDS", 0.05)
    embedder = Divided()
    embedder.failure = DOWN
    finishing, go_on = threading.Event(), threading.Event()
    finish = Round.finish

    def slowly(self: Round) -> bool:
        finishing.set()
        go_on.wait(100)
        return finish(self)

    async with house.opened(embedder, sync={"watch": False, "on_search": False}) as index:
        await index.sync()
        monkeypatch.setattr(Round, "finish", slowly)
        house.write("memory/a.md", "alpha\n\n部署窗口")
        question = asyncio.create_task(find(index, "alpha"))
        await embedder.waiting.wait()
        running = asyncio.create_task(index.sync())
        try:
            await until(finishing.is_set)
            embedder.answer.set()
            await question
        finally:
            go_on.set()
        report = await running
        assert (report.pending_vectors > 0, report.fallback) == (True, None)
        embedder.failure = None
        await until(lambda: house.vectors() == report.pending_vectors)


async def test_what_another_process_kept_it_from_is_done_when_that_is_over(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "BUSY_SECONDS", 0.05)
    house.write("memory/a.md", "alpha")
    other = WriterLock(house.db)
    other.acquire()
    async with house.opened(WordEmbedder()) as index:
        assert (await index.sync()).busy
        other.release()
        await until(lambda: set(house.stored()) == {"memory/a.md"})


def _is_stored(house: House, name: str) -> bool:
    return name in house.stored()


async def test_an_interval_brings_it_up_to_date(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "MINUTE", 0.05)
    options = {"watch": False, "on_session_start": False, "interval_minutes": 1}
    async with house.opened(WordEmbedder(), sync=options) as index:
        index.start()
        for name in ("memory/a.md", "memory/b.md"):
            house.write(name, "alpha")
            await until(functools.partial(_is_stored, house, name))


async def test_a_rebuild_for_another_profile_does_not_keep_searches_waiting(house: House) -> None:
    house.write("memory/a.md", "alpha")
    await house.sync(WordEmbedder())
    embedder = WordEmbedder("two", remote=True)
    embedder.gate.clear()
    async with house.opened(embedder, profile="classic", query={"wait_for_writes": "20s"}) as index:
        rebuild = asyncio.create_task(index.sync())
        await embedder.waiting.wait()
        house.write("memory/b.md", "beta")
        async with asyncio.timeout(100):
            found = await find(index, "beta")
        assert any("rebuilt" in note for note in found.warnings)
        embedder.gate.set()
        await rebuild
        assert paths(await find(index, "beta"))[0] == "memory/b.md"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400) | st.text(max_size=400).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_in_a_file_are_survived(house: House, data: bytes) -> None:
    house.write("memory/a.md", data)
    house.write("memory/b.md", "- still here")

    async def index_it() -> None:
        async with house.opened(WordEmbedder()) as index:
            await index.sync()
            assert "memory/b.md" in house.stored()
            assert (await index.verify()).clean

    asyncio.run(index_it())


KNOWN = Identity(profile="lines", chunker="1", tokenizer="1", vectors="offline", dimensions=256)


@pytest.mark.parametrize(
    ("change", "anew"),
    [
        ({}, False),
        ({"sources": ("memory", "sessions")}, False),
        ({"chunker": "2"}, True),
        ({"tokenizer": "2"}, True),
        ({"profile": "classic"}, True),
        ({"vectors": "openai"}, True),
        ({"form": KNOWN.form + 1}, True),
        ({"vectors": ""}, False),
    ],
)
def test_what_chunks_and_vectors_depend_on_decides(change: dict[str, object], anew: bool) -> None:
    assert needs_rebuild(KNOWN, structs.replace(KNOWN, **change)) is anew


def test_an_index_without_vectors_gets_them_in_place() -> None:
    bare = structs.replace(KNOWN, vectors="", dimensions=0)
    assert not needs_rebuild(bare, KNOWN)
