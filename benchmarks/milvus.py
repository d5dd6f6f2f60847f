"""Does the memory in Milvus keep every piece, and what does it cost? Prints tables.

Run: make .venv-milvus/.ready, then .venv/bin/python benchmarks/milvus.py WHAT [options]

  kills      a sync of --pieces is killed (-9) --times times, its server with every third one; then `verify`
  processes  --count processes with a workspace each write and search one agent's memory for --seconds; then each piece
             that was written is looked for, and `verify`
  costs      the first of --pieces are indexed and searched, then more up to the next number: what each size costs. Of a
             search: the time it takes, the CPU time of this process and of the server process of Lite, and what it
             asks for on average: requests, wordings and vectors in them, rows read

Milvus Lite is used, through its own server process, unless $CLAWBOT_MILVUS_URI names a server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from check import MISSING, ROOT
from processes import cpu_of
from tables import Table

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.indexing.opening import backend_context
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest
from clawbot.plugins.milvus.backend import open_milvus
from clawbot.plugins.milvus.collections import Collections

# Its packages come after the program's own, in this process and in those it starts.
for packages in (ROOT / ".venv-milvus").glob("lib/python3.*/site-packages"):
    sys.path.append(str(packages))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(packages))))

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


def servers_of(database: Path) -> list[int]:
    """Return the server processes of Milvus Lite for `database`: at most one, but while it is replaced."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"lite_server" in command and str(database).encode() in command:
                found.append(int(process.name))
    return found


def kill_server(database: Path) -> None:
    """Kill the server process of Milvus Lite."""
    for pid in servers_of(database):
        os.kill(pid, signal.SIGKILL)


def kills(options: argparse.Namespace, root: Path, uri: str, collection: str) -> None:
    """Kill a sync again and again, until it is allowed to end."""
    home = root / "home"
    write_notes(home / "workspace", int(options.pieces))
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
    print(f"{int(options.pieces):,} pieces, killed {done} times, {time.perf_counter() - began:.0f} s")
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


class Asked:
    """Counts what the searches of this process ask Milvus for: requests, wordings and vectors in them, rows read."""

    def __init__(self) -> None:
        self.requests = self.questions = self.rows = 0

    def __enter__(self) -> Asked:
        self._patches = [
            patch.object(Collections, name, self._counted(name)) for name in ("rarities", "hybrid", "read", "claims")
        ]
        for each in self._patches:
            each.start()
        return self

    def _counted(self, name: str) -> Callable[..., Any]:
        method = getattr(Collections, name)

        def counted(collections: Collections, agents: Any, *given: Any, **named: Any) -> Any:
            found = method(collections, agents, *given, **named)
            self.requests += 1
            self.questions += len(given[1]) if name == "rarities" else 2 if name == "hybrid" else 0
            self.rows += len(found) if name in ("read", "claims") else 0
            return found

        return counted

    def __exit__(self, *_: object) -> None:
        for each in self._patches:
            each.stop()


async def costs(options: argparse.Namespace, root: Path, uri: str, collection: str) -> None:
    """What writing, keeping and searching costs as a collection grows."""
    columns = (
        "Milvus, chunks",
        "written a second",
        "bytes a chunk",
        "search, p50 / p95",
        "CPU here",
        "CPU of Lite",
        "requests, questions, rows",
        "sync without changes",
    )
    with Table(*columns) as table:
        for pieces in map(int, options.pieces.split(",")):
            table.row(*await costs_of(pieces, options.searches, root / "home", uri, collection))


async def costs_of(pieces: int, searches: int, home: Path, uri: str, collection: str) -> list[str]:
    """Return the row of one size. Notes that are there are not written again."""
    write_notes(home / "workspace", pieces)
    memory = memory_of(home, uri, collection)
    try:
        began = time.perf_counter()
        report = await memory.sync()
        rate = report.pieces_written / (time.perf_counter() - began)
        await memory.search(SearchRequest(queries=("river",)))
        servers = [] if os.environ.get(URI) else servers_of(Path(uri))
        took, here, there = [], time.process_time(), cpu_of(servers)
        with Asked() as asked:
            for number in range(searches):
                query = " ".join(random.Random(number).choices(WORDS, k=3)) + f" n{number * 7}"
                began = time.perf_counter()
                await memory.search(SearchRequest(queries=(query,)))
                took.append((time.perf_counter() - began) * 1000)
        here, there = time.process_time() - here, cpu_of(servers) - there
        status = await memory.status()
        began = time.perf_counter()
        await memory.sync()
        unchanged = (time.perf_counter() - began) * 1000
    finally:
        await memory.close()
    late = statistics.quantiles(took, n=20, method="inclusive")[-1]
    counts = (asked.requests, asked.questions, asked.rows)
    return [
        f"{status.chunks:,}",
        f"{rate:,.0f}",
        f"{status.disk_bytes / max(1, status.chunks):,.0f}" if status.disk_bytes else "–",
        f"{statistics.median(took):.0f} / {late:.0f} ms",
        f"{here / searches * 1000:.0f} ms",
        f"{there / searches * 1000:.0f} ms" if servers else "–",
        ", ".join(f"{count / searches:,.1f}" for count in counts),
        f"{unchanged:.0f} ms",
    ]


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
    parser.add_argument("--pieces", default="100000", help="of costs: several sizes, separated by commas")
    parser.add_argument("--times", type=int, default=20, help="of kills")
    parser.add_argument("--between", type=float, nargs=2, default=(5.0, 15.0), help="seconds between two kills")
    parser.add_argument("--count", type=int, default=8, help="of processes")
    parser.add_argument("--seconds", type=float, default=300.0, help="of processes")
    parser.add_argument("--searches", type=int, default=30)
    options = parser.parse_args()
    if importlib.util.find_spec("pymilvus") is None:
        print("Milvus Lite is not installed: make .venv-milvus/.ready", file=sys.stderr)
        sys.exit(MISSING)
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
