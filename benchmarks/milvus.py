"""Does the memory in Milvus keep every piece, and what does it cost? Prints tables.

Run: PYTHONPATH=.venv-milvus/lib/pythonX.Y/site-packages .venv/bin/python benchmarks/milvus.py WHAT [options]

  kills      a sync of --pieces is killed (-9) --times times, its server with every third one; then `verify`
  processes  --count processes with a workspace each write and search one agent's memory for --seconds; then each piece
             that was written is looked for, and `verify`
  costs      --pieces are indexed and searched: seconds, bytes and milliseconds of each

Milvus Lite is used, through its own server process, unless $CLAWBOT_MILVUS_URI names a server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.indexing.opening import backend_context
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest
from clawbot.plugins.milvus.backend import open_milvus
from clawbot.plugins.milvus.lite_server import OWNER, side_file

URI = "CLAWBOT_MILVUS_URI"
LINES = 200
"""Pieces of a file."""

TEXT = """
river copper lantern meadow harbour violin pepper granite window saddle orchard thunder kettle marble feather compass
ladder blanket mirror pocket anchor basket candle desert engine forest garden hammer island jacket
"""
WORDS = TEXT.split()


def memory_of(home: Path, uri: str, collection: str) -> MemoryBackend:
    """The backend itself, without the builtin index that would stand in for it."""
    paths = Paths(home)
    overrides = {
        "agents": {"defaults": {"workspace": str(home / "workspace"), "timezone": "UTC"}},
        "memory": {"backend": "milvus", "milvus": {"uri": uri, "collection": collection, "staleness": 1}},
    }
    settings = load_settings(paths, overrides=overrides).settings
    return open_milvus(backend_context(settings, MAIN_AGENT, paths, SystemClock(), long_lived=True))


def write_notes(workspace: Path, pieces: int, seed: int = 1) -> None:
    """Files of LINES items each, with `pieces` together."""
    chance = random.Random(seed)
    folder = workspace / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(0, pieces, LINES):
        lines = [f"- {' '.join(chance.choices(WORDS, k=8))} n{number + line}" for line in range(LINES)]
        (folder / f"note-{number // LINES:05}.md").write_text("\n".join(lines) + "\n", "utf-8")


async def sync_once(home: Path, uri: str, collection: str) -> None:
    """One sync, for a process that may be killed."""
    memory = memory_of(home, uri, collection)
    try:
        report = await memory.sync()
        print(f"written {report.pieces_written}", flush=True)
    finally:
        await memory.close()


async def verified(home: Path, uri: str, collection: str) -> bool:
    """Whether files, claims and pieces agree; prints what does not."""
    memory = memory_of(home, uri, collection)
    try:
        began = time.perf_counter()
        report = await memory.verify()
        print(f"verify: clean={report.clean} {report.checked} in {time.perf_counter() - began:.0f} s")
        for problem in report.problems:
            print(f"  {problem}")
        return report.clean
    finally:
        await memory.close()


def kill_server(database: Path) -> None:
    """Kill the server process of Milvus Lite: the one that holds the lock of the database."""
    lock = side_file(database, OWNER)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"lite_server" in command and str(database).encode() in command:
            print(f"  killing the server {process.name} of {lock.name}")
            os.kill(int(process.name), signal.SIGKILL)


def kills(options: argparse.Namespace, root: Path, uri: str, collection: str) -> None:
    """Kill a sync again and again, until it is allowed to end."""
    home = root / "home"
    write_notes(home / "workspace", options.pieces)
    chance = random.Random(options.times)
    began = time.perf_counter()
    done = 0
    while True:
        command = [sys.executable, __file__, "sync", str(home), uri, collection]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(*options.between) if done < options.times else None)
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
            if done % 3 == 0 and not os.environ.get(URI):
                kill_server(Path(uri))
    print(f"{options.pieces:,} pieces, killed {done} times, {time.perf_counter() - began:.0f} s")
    asyncio.run(verified(home, uri, collection))


async def worker(number: int, home: Path, uri: str, collection: str, seconds: float) -> None:
    """One machine: it writes notes of its own and one that all have, syncs and searches what it wrote."""
    memory = memory_of(home, uri, collection)
    chance = random.Random(number)
    folder = home / "workspace" / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "shared.md").write_text("\n".join(f"- shared line {line} of all machines" for line in range(100)))
    end = time.monotonic() + seconds
    turns = lost = foreign = 0
    took: list[float] = []
    alive: list[str] = []
    try:
        while time.monotonic() < end:
            word = f"w{number}x{turns}"
            note = folder / f"day-{turns % 20}-{number}.md"
            if turns % 20 == 0 and chance.random() < 0.3:
                note.unlink(missing_ok=True)
            with note.open("a") as out:
                out.write(f"- {' '.join(chance.choices(WORDS, k=6))} {word}\n")
            await memory.sync()
            began = time.perf_counter()
            found = await memory.search(SearchRequest(queries=(word,), max_results=3))
            took.append(time.perf_counter() - began)
            lost += not any(word in hit.snippet for hit in found.hits)
            other = f"w{(number + 1) % 8}x0"
            found = await memory.search(SearchRequest(queries=(other,), max_results=3))
            foreign += any(other in hit.snippet for hit in found.hits)
            alive.append(word)
            turns += 1
    finally:
        await memory.close()
    median = statistics.median(took) if took else 0
    print(f"machine {number}: {turns} writes, {lost} own not found, {foreign} of others found, {median * 1000:.0f} ms")


def processes(options: argparse.Namespace, root: Path, uri: str, collection: str) -> None:
    """Many machines at once on one agent."""
    homes = [root / f"home{number}" for number in range(options.count)]
    for home in homes:
        home.mkdir()
    began = time.perf_counter()
    running = [
        subprocess.Popen(
            [sys.executable, __file__, "worker", str(number), str(home), uri, collection, str(options.seconds)]
        )
        for number, home in enumerate(homes)
    ]
    codes = Counter(process.wait() for process in running)
    print(f"{options.count} processes for {time.perf_counter() - began:.0f} s, exit codes {dict(codes)}")
    asyncio.run(verified(homes[0], uri, collection))
    for home in homes[1:]:
        asyncio.run(verified(home, uri, collection))


async def costs(options: argparse.Namespace, root: Path, uri: str, collection: str) -> None:
    """What writing, keeping and searching costs."""
    home = root / "home"
    write_notes(home / "workspace", options.pieces)
    memory = memory_of(home, uri, collection)
    try:
        began = time.perf_counter()
        report = await memory.sync()
        seconds = time.perf_counter() - began
        print(f"{report.pieces_written:,} pieces in {seconds:.1f} s: {report.pieces_written / seconds:,.0f} a second")
        took = []
        for _ in range(options.searches):
            query = " ".join(random.Random(len(took)).choices(WORDS, k=3)) + f" n{len(took) * 7}"
            began = time.perf_counter()
            await memory.search(SearchRequest(queries=(query,)))
            took.append((time.perf_counter() - began) * 1000)
        print(f"search: median {statistics.median(took):.0f} ms, p95 {sorted(took)[int(len(took) * 0.95)]:.0f} ms")
        status = await memory.status()
        if status.disk_bytes:
            each = status.disk_bytes / max(1, status.chunks)
            print(f"on disk: {status.disk_bytes / 1e6:.0f} MB, {each:,.0f} bytes a piece")
        began = time.perf_counter()
        await memory.sync()
        print(f"a sync without changes: {(time.perf_counter() - began) * 1000:.0f} ms")
    finally:
        await memory.close()


def main() -> None:
    """Run one of the measurements in a folder of its own."""
    if sys.argv[1:2] == ["sync"]:
        asyncio.run(sync_once(Path(sys.argv[2]), *sys.argv[3:5]))
        return
    if sys.argv[1:2] == ["worker"]:
        asyncio.run(worker(int(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:6], float(sys.argv[6])))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kills", "processes", "costs"))
    parser.add_argument("--pieces", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=20, help="of kills")
    parser.add_argument("--between", type=float, nargs=2, default=(5.0, 15.0), help="seconds between two kills")
    parser.add_argument("--count", type=int, default=8, help="of processes")
    parser.add_argument("--seconds", type=float, default=300.0, help="of processes")
    parser.add_argument("--searches", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        uri = os.environ.get(URI) or str(root / "memory.db")
        collection = f"bench_{os.getpid()}"
        if options.what == "costs":
            asyncio.run(costs(options, root, uri, collection))
        else:
            {"kills": kills, "processes": processes}[options.what](options, root, uri, collection)
        if not os.environ.get(URI):
            kill_server(Path(uri))


if __name__ == "__main__":
    main()
