"""Random damage to the files of an index, and what a user sees of it."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from clawbot.memory.index import MemoryIndex
from clawbot.memory.store.database import PAGE_BYTES
from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.values import SearchResult
from tests.memory.index_host import House, WordEmbedder, find, paths

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
