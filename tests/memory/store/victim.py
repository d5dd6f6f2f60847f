"""A process to be killed: it writes an index, builds others beside it and publishes them, and tells each step.

python -m tests.memory.store.victim PATH churn|publish|write [N]

`churn` goes on for ever. `publish` and `write` die by themselves: before the N-th operation on files, or in the middle
of a transaction.
"""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from clawbot.memory.store.locks import WriterLock
from clawbot.memory.store.reader import IndexReader
from clawbot.memory.store.replacement import building_path, open_index, publish
from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import chunks, embed_all, identity, put, record

NAMES = [f"memory/{number}.md" for number in range(8)]


def text_of(name: str, version: int) -> str:
    """What `name` holds in `version`: every line says so."""
    return "\n".join(f"{name} version {version} line {line}" for line in range(1 + version % 40))


def version_of(line: str) -> int:
    return int(line.split()[2])


def opened(path: Path) -> IndexWriter:
    writer, aside = open_index(path, dt.datetime(2026, 11, 20, tzinfo=dt.UTC))
    assert aside is None, aside
    writer.set_identity(identity())
    return writer


def build_beside(path: Path) -> None:
    """Build an index with what the one at `path` holds, and publish it."""
    beside = opened(building_path(path))
    reader = IndexReader(path)
    beside.inherit(reader)
    for file in reader.files().values():
        [first] = reader.rows([file.id << 20])
        put(beside, {file.path: text_of(file.path, version_of(first.text))}, embed=False)
    embed_all(beside)
    beside.inherit(None)
    reader.close()
    beside.close()
    publish(path)


def tell(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def churn(path: Path) -> None:
    choose = random.Random(os.getpid())
    lock = WriterLock(path)
    lock.acquire()
    version = choose.randrange(1000)
    while True:
        writer = opened(path)
        for _ in range(3):
            version += 1
            put(writer, {name: text_of(name, version) for name in choose.sample(NAMES, 3)})
            tell("written")
        writer.close()
        build_beside(path)
        tell("published")


def die_before(operation: int) -> None:
    """Kill this process before its `operation`-th renaming or removing of a file."""
    count = 0

    def dying(inner: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return inner(*args, **options)

        return call

    for name in ("unlink", "replace"):
        setattr(Path, name, dying(getattr(Path, name)))


def main() -> None:
    path, what = Path(sys.argv[1]), sys.argv[2]
    if what == "churn":
        churn(path)
    lock = WriterLock(path)
    lock.acquire()
    if what == "publish":
        die_before(int(sys.argv[3]))
        build_beside(path)
        return
    writer = opened(path)
    with writer.transaction():
        writer.replace_file(record(NAMES[0], "other"), chunks("other"))
        writer.remove(NAMES[1:])
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
