"""Whatever happens to the files of an index, a search finds what stands in the notes or says that it was built anew."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.memory.store.database import CHECKSUM_BYTES, PAGE_BYTES
from clawbot.memory.store.locks import WriterLock, may_be_unsound
from clawbot.memory.store.reader import IndexReader
from tests.memory.damage import PLANTED, QUESTION, Template, outcome
from tests.memory.index_host import House, WordEmbedder, find, paths

SEEDS = range(int(os.environ.get("CLAWBOT_TEST_DAMAGES", "60")))
_RESERVED_AT = 20
"""Where a database says how many bytes of each page are reserved."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    made = Template(tmp_path_factory.mktemp("template"))
    asyncio.run(made.make())
    return made


@pytest.fixture
def damaged(template: Template, tmp_path: Path) -> House:
    return template.copy(tmp_path / "house", with_log=False)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_damage_it_is_found_or_said(template: Template, tmp_path: Path, seed: int) -> None:
    what, said = await outcome(template, tmp_path, seed)
    assert said in ("found", "rebuilt"), what


def in_pages_of_texts(house: House, change: Callable[[bytearray], None]) -> None:
    """Change all pages with the planted line as a failing disk does: the file keeps its time."""
    before = house.db.stat()
    data = bytearray(house.db.read_bytes())
    pages = [one for one in range(0, len(data), PAGE_BYTES) if b"heron" in data[one : one + PAGE_BYTES]]
    assert pages
    for one in pages:
        page = data[one : one + PAGE_BYTES]
        change(page)
        data[one : one + PAGE_BYTES] = page
    house.db.write_bytes(data)
    os.utime(house.db, ns=(before.st_atime_ns, before.st_mtime_ns))


def flip_a_letter(page: bytearray) -> None:
    page[page.index(b"heron")] ^= 0x80


def rename(page: bytearray) -> None:
    page[:] = page.replace(b"heron", b"robin")


@pytest.mark.parametrize("change", [flip_a_letter, rename], ids=["no UTF-8", "another word"])
async def test_a_page_that_is_not_as_it_was_written_is_never_read(
    damaged: House, change: Callable[[bytearray], None]
) -> None:
    in_pages_of_texts(damaged, change)
    assert not may_be_unsound(damaged.db)
    async with damaged.opened(WordEmbedder(), query={"wait_for_writes": "60s"}) as index:
        result = await find(index, QUESTION)
        assert paths(result)[0] == PLANTED
        assert "heron" in result.hits[0].snippet
        assert [note for note in result.warnings if "quarantined" in note]
        assert not [note for note in (await find(index, QUESTION)).warnings if "quarantined" in note]
    assert list(damaged.db.parent.glob("main.sqlite.set-aside-*"))


async def test_checksums_that_were_switched_off_are_missed(damaged: House) -> None:
    data = bytearray(damaged.db.read_bytes())
    assert data[_RESERVED_AT] == CHECKSUM_BYTES
    data[_RESERVED_AT] = 0
    damaged.db.write_bytes(data)
    async with damaged.opened(WordEmbedder(), query={"wait_for_writes": "60s"}) as index:
        status = await index.status()
        assert "quarantined" in status.issues[0].text
        assert paths(await find(index, QUESTION))[0] == PLANTED


async def test_an_index_of_an_earlier_version_gets_its_checksums_and_stays(damaged: House) -> None:
    connection = sqlite3.connect(damaged.db, isolation_level=None)
    connection.execute("UPDATE meta SET value = '1-tables' WHERE key = 'migrations'")
    connection.execute("ALTER TABLE files DROP COLUMN days")
    connection.execute("DROP TABLE changes")
    connection.execute("DROP INDEX files_pending")
    connection.close()
    data = bytearray(damaged.db.read_bytes())
    data[_RESERVED_AT] = 0
    damaged.db.write_bytes(data)
    embedder = WordEmbedder()
    async with damaged.opened(embedder, query={"wait_for_writes": "60s"}) as index:
        assert (await index.sync()).issues == ()
        assert paths(await find(index, QUESTION))[0] == PLANTED
        assert (await index.verify()).clean
    assert embedder.texts == []
    assert damaged.db.read_bytes()[_RESERVED_AT] == CHECKSUM_BYTES


async def test_what_a_writer_left_is_examined_once(damaged: House, monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[str] = []
    monkeypatch.setattr("clawbot.memory.store.replacement.examine", lambda _, path: examined.append(path.name))
    lock = WriterLock(damaged.db)
    lock.acquire()
    lock.break_seal()
    assert not may_be_unsound(damaged.db), "somebody writes"
    lock.release()
    assert may_be_unsound(damaged.db)
    for _ in range(2):
        async with damaged.opened(WordEmbedder()) as index:
            await index.sync()
    assert examined == [damaged.db.name]
    assert not may_be_unsound(damaged.db)


async def test_an_error_that_is_no_damage_is_told_and_costs_no_index(
    damaged: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: IndexReader) -> None:
        raise KeyError("a mistake of ours")

    async with damaged.opened(WordEmbedder()) as index:
        assert paths(await find(index, QUESTION))
        with monkeypatch.context() as patch:
            patch.setattr(IndexReader, "files", fail)
            with pytest.raises(Exception, match="a mistake of ours"):
                await find(index, QUESTION)
        assert paths(await find(index, QUESTION))[0] == PLANTED
    assert not list(damaged.db.parent.glob("*.set-aside-*"))


@pytest.mark.parametrize("seed", range(4))
async def test_pages_that_changed_places_are_found_by_the_next_look(damaged: House, seed: int) -> None:
    data = bytearray(damaged.db.read_bytes())
    one, other = random.Random(seed).sample(range(1, len(data) // PAGE_BYTES), 2)
    first, second = (slice(place * PAGE_BYTES, (place + 1) * PAGE_BYTES) for place in (one, other))
    data[first], data[second] = data[second], data[first]
    damaged.db.write_bytes(data)
    async with damaged.opened(WordEmbedder(), query={"wait_for_writes": "60s"}) as index:
        result = await find(index, QUESTION)
    assert paths(result)[0] == PLANTED
    assert "quarantined" in " ".join(result.warnings)
