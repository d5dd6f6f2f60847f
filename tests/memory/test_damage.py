"""Whatever happens to the files of an index, a search finds what stands in the notes or says that it was built anew."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.errors import ClawbotError
from clawbot.memory.index import MemoryIndex
from clawbot.memory.store.database import CHECKSUM_BYTES, PAGE_BYTES
from clawbot.memory.store.locks import WriterLock, may_be_unsound
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.values import SearchResult
from tests.memory.index_host import House, WordEmbedder, find, paths

SEEDS = range(int(os.environ.get("CLAWBOT_TEST_DAMAGES", "60")))
_RESERVED_AT = 20
"""Where a database says how many bytes of each page are reserved."""


PLANTED = "memory/heron.md"
QUESTION = "heron flowerpot"

FIRST = ("", "", "", "status", "verify", "verify --fix", "index", "index --force")
KINDS = ("bit", "bits", "byte", "zeros", "noise", "shift", "truncate", "grow", "swap", "copy")


class Template:
    """A small index on disk, to be copied for each damage: `closed` with an empty log, `logged` with a full one."""

    def __init__(self, root: Path) -> None:
        self.closed = root / "closed"
        self.logged = root / "logged"

    async def make(self) -> None:
        for folder, with_log in ((self.closed, False), (self.logged, True)):
            folder.mkdir(parents=True)
            house = House(folder)
            house.notes(40)
            async with house.opened(WordEmbedder()) as index:
                await index.sync()
                # Who reads keeps the log from being emptied.
                reader = IndexReader(house.db) if with_log else None
                if reader is not None:
                    reader._connection.execute("BEGIN")
                    reader.files()
                house.write(PLANTED, "# Garden\n\n- The key lies under the heron flowerpot.\n")
                await index.sync()
                house.notes(60)
                await index.sync()
                if with_log:
                    state = house.db.parent
                    shutil.copytree(state, folder / "kept")
                if reader is not None:
                    reader._connection.execute("COMMIT")
                    reader.close()
            if with_log:
                shutil.rmtree(house.db.parent)
                (folder / "kept").rename(house.db.parent)

    def copy(self, target: Path, *, with_log: bool) -> House:
        """A house like it, whose index was left in order."""
        shutil.copytree(self.logged if with_log else self.closed, target)
        house = House.__new__(House)
        house.workspace, house.db = target / "workspace", target / "state" / "main.sqlite"
        lock = WriterLock(house.db)
        lock.acquire()
        lock.seal()
        lock.release()
        return house


def damage(choose: random.Random, file: Path, *, unseen: bool) -> str:
    """Change `file` at random; `unseen`: as a failing disk does, which leaves its time alone. Returns what was done."""
    # A disk that puts a page in the place of another is the one thing that neither checksums nor times tell.
    kind = choose.choice(KINDS[:-2] if unseen else KINDS)
    before = file.stat()
    data = bytearray(file.read_bytes())
    _change(choose, kind, data)
    # In place: who has it open has it open.
    with file.open("r+b") as stream:
        stream.write(data)
        stream.truncate()
    if unseen:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{file.name} {kind}{' unseen' if unseen else ''}"


def _change(choose: random.Random, kind: str, data: bytearray) -> None:
    size = len(data)
    place = choose.randrange(size) if choose.random() < 0.8 else choose.randrange(min(size, 200))
    length = min(choose.choice((1, 8, 100, PAGE_BYTES, 3 * PAGE_BYTES)), size - place)
    pages = max(1, size // PAGE_BYTES)
    one, other = (PAGE_BYTES * choose.randrange(pages) for _ in range(2))
    match kind:
        case "bit" | "byte":
            data[place] ^= 1 << choose.randrange(8) if kind == "bit" else choose.randrange(1, 256)
        case "bits":
            for _ in range(choose.randint(2, 200)):
                data[choose.randrange(size)] ^= 1 << choose.randrange(8)
        case "zeros":
            data[place : place + length] = bytes(length)
        case "noise":
            data[place : place + length] = choose.randbytes(length)
        case "shift":
            del data[place]
            data.append(0)
        case "truncate":
            del data[place:]
        case "grow":
            data += choose.randbytes(length)
        case "swap":
            data[one : one + PAGE_BYTES], data[other : other + PAGE_BYTES] = (
                data[other : other + PAGE_BYTES],
                data[one : one + PAGE_BYTES],
            )
        case _:
            data[one : one + PAGE_BYTES] = data[other : other + PAGE_BYTES]


def _says_so(result: SearchResult) -> bool:
    return any("quarantined" in note and "rebuilt" in note for note in result.warnings)


async def outcome(template: Template, folder: Path, seed: int) -> tuple[str, str]:
    """Damage an index by `seed`; what was done, and "found", "rebuilt", or what is wrong."""
    choose = random.Random(seed)
    with_log = choose.random() < 0.4
    house = template.copy(folder / str(seed), with_log=with_log)
    alive = choose.random() < 0.3
    unseen = choose.random() < 0.5
    names = [house.db.name, *((f"{house.db.name}-wal", f"{house.db.name}-shm") if with_log else ())]
    file = house.db.with_name(choose.choice(names))
    try:
        if alive:
            async with house.opened(WordEmbedder(), long_lived=True, query={"wait_for_writes": "60s"}) as index:
                assert PLANTED in paths(await find(index, QUESTION))
                # A live process has emptied the log.
                what = f"alive {damage(choose, house.db, unseen=unseen)}"
                said = await _looked(await find(index, QUESTION))
                if said == "nothing":
                    return what, said
        else:
            what = f"{'logged ' if with_log else ''}{damage(choose, file, unseen=unseen)}"
        first = choose.choice(FIRST)
        what += f", {first}"
        async with house.opened(WordEmbedder(), query={"wait_for_writes": "60s"}) as index:
            await _use(index, first)
        async with house.opened(WordEmbedder(), query={"wait_for_writes": "60s"}) as index:
            said = await _looked(await find(index, QUESTION))
            if said == "nothing":
                return what, said
            if PLANTED not in paths(await find(index, QUESTION)):
                return what, f"{said}, then nothing"
            report = await index.sync()
            if report.issues and said != "rebuilt":
                said = f"issues {report.issues}"
            # What a failing disk has done to a page that nobody has read yet is no damage that anybody could know of.
            verified = await index.verify(fix=unseen)
            if not verified.clean or PLANTED not in paths(await find(index, QUESTION)):
                return what, f"{said}, then not clean: {verified.problems[:2]}"
        return what, said
    finally:
        shutil.rmtree(folder / str(seed), ignore_errors=True)


async def _use(index: MemoryIndex, command: str) -> None:
    """What a user may do first: nothing of it may fail."""
    match command:
        case "status":
            await index.status()
        case "verify" | "verify --fix":
            await index.verify(fix=command == "verify --fix")
        case "index" | "index --force":
            await index.sync(force=command == "index --force")
        case _:
            pass


async def _looked(result: SearchResult) -> str:
    if _says_so(result):
        return "rebuilt"
    return "found" if PLANTED in paths(result) else "nothing"


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


async def test_a_workspace_that_is_away_empties_nothing_and_is_told(house: House) -> None:
    house.write("MEMORY.md", "the proxy listens on 8443")
    house.write("memory/茶.md", "喜欢乌龙茶")
    await house.sync(WordEmbedder())
    away = house.workspace.rename(house.workspace.with_name("away"))
    async with house.opened(WordEmbedder()) as index:
        found = await find(index, "proxy")
        assert paths(found)[0] == "MEMORY.md"
        assert [note for note in found.warnings if "the workspace does not exist" in note]
        report = await index.sync()
        assert (report.removed, report.unchanged) == (0, 2)
        assert [issue.path for issue in report.issues] == [str(house.workspace)]
        status = await index.status()
        assert (status.files, status.dirty, status.issues) == (2, False, report.issues)
        # Nor does what builds anew or repairs.
        with pytest.raises(ClawbotError, match=r"not rebuilt: .*the workspace does not exist"):
            await index.sync(force=True)
        verified = await index.verify(fix=True)
        assert not verified.clean
        assert "the workspace does not exist" in verified.problems[0]
        assert paths(await find(index, "乌龙茶"))[0] == "memory/茶.md"
    assert len(house.stored()) == 2
    away.rename(house.workspace)
    async with house.opened(WordEmbedder()) as index:
        assert (await find(index, "proxy")).warnings == ()
        assert (await index.status()).issues == ()
        assert (await index.sync(force=True)).rebuilt


async def test_a_folder_that_was_deleted_takes_its_files_along(house: House) -> None:
    house.write("MEMORY.md", "alpha")
    house.write("memory/a.md", "beta")
    async with house.opened() as index:
        await index.sync()
        shutil.rmtree(house.workspace / "memory")
        assert (await index.sync()).removed == 1
        assert (await find(index, "beta")).hits == ()
    assert set(house.stored()) == {"MEMORY.md"}


async def test_many_places_that_cannot_be_looked_at_are_summed_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        house.write(f"memory/{number}/a.md", f"alpha {number}")
    async with house.opened() as index:
        await index.sync()
        real = os.open

        def refuse(path: str, *more: int, **named: int) -> int:
            if str(path).isdigit():
                raise OSError(5, "Input/output error")
            return real(path, *more, **named)

        monkeypatch.setattr(os, "open", refuse)
        found = await find(index, "alpha")
        assert len(found.hits) == 6
        assert len(found.warnings) == 4
        assert found.warnings[0].startswith("memory/0 could not be read (it can't be read: Input/output error)")
        assert found.warnings[-1] == "3 more paths could not be read."


async def test_files_that_could_not_be_read_are_in_the_status_of_a_later_process(house: House) -> None:
    house.write("memory/gbk.md", "备忘".encode("gbk"))
    house.write("memory/good.md", "fine")
    async with house.opened() as index:
        report = await index.sync()
        assert len(report.issues) == 1
    async with house.opened() as index:
        status = await index.status()
        assert (status.issues, status.dirty) == (report.issues, False)
        assert (status.files, status.total_files) == (1, 2)
        house.write("memory/gbk.md", "备忘")
        status = await index.status()
        assert (status.issues, status.dirty) == ((), True)


async def test_the_status_of_an_index_of_nothing_but_an_unreadable_file(house: House) -> None:
    house.write("MEMORY.md", b"\xff\xfe\xff")
    async with house.opened() as index:
        assert (await index.status()).dirty
        report = await index.sync()
    async with house.opened() as index:
        status = await index.status()
        assert (status.issues, status.dirty) == (report.issues, False)
