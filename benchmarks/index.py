"""What the memory index costs: built from nothing, one file changed, nothing changed, searched, in memory and on disk.

Run: .venv/bin/python benchmarks/index.py [--files 100,1000,10000] [--runs N]
     .venv/bin/python benchmarks/index.py --pair ../other/.venv/bin/python --files 1000 --runs 11

The notes are made up (`daily_notes.py`), about 12 KB a day. Seconds of whole commands are CPU time (user and system) of
the process from start to end, since the machines that this runs on are shared; warm searches are wall time. With
`--pair` the commands of another checkout take turns with those of this one, on the same notes, beside the least that
any such command takes: Python alone, and with the libraries that it needs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from daily_notes import NoteWriter
from processes import Cost, median_of, weigh
from tables import Table, show

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.indexing import open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest
from clawbot.tui.app import ClawbotApp

QUESTIONS = 200
TICK = 0.005  # seconds between two looks at the event loop


class House:
    """A home with a workspace of `files` notes, and the commands run in it."""

    def __init__(self, home: Path, files: int, python: str = sys.executable, writer: NoteWriter | None = None) -> None:
        self.python = python
        self.home = home
        self.state = home / ".clawbot"
        self.workspace = self.state / "workspace"
        self.writer = writer or NoteWriter()
        self.bytes = self.writer.write(self.workspace, files)

    def set_provider(self, provider: str) -> None:
        """Choose where vectors come from."""
        settings = f"agents: {{defaults: {{memory_search: {{provider: {provider}}}}}}}\n"
        (self.state / "config.yaml").write_text(settings)

    def forget(self) -> None:
        """Remove the index."""
        for file in (self.state / "memory").glob("*"):
            file.unlink()

    def run(self, *arguments: str) -> Cost:
        """Run `clawbot memory` with `arguments` and weigh it."""
        return self.weigh("-m", "clawbot", "memory", *arguments)

    def weigh(self, *arguments: str) -> Cost:
        """Run Python with `arguments` and weigh it."""
        return weigh([self.python, *arguments], self.home)

    def change(self, number: int) -> None:
        """Append a line to the newest note."""
        newest = max((self.workspace / "memory").iterdir())
        with newest.open("a") as note:
            note.write(f"- change {number}: {' '.join(self.writer.words(8))}\n")

    def disk_bytes(self) -> int:
        """The index with all its files."""
        return sum(file.stat().st_size for file in (self.state / "memory").iterdir())

    def open(self) -> MemoryBackend:
        """The index in this process, which asks more than once."""
        paths = Paths(self.state)
        settings = load_settings(
            paths, overrides={"agents": {"defaults": {"workspace": str(self.workspace), "timezone": "UTC"}}}
        ).settings
        index = open_index(settings, MAIN_AGENT, paths, SystemClock(), long_lived=True)
        if index is None:
            raise SystemExit("memory_search.enabled is off")
        return index


async def warm_search(house: House) -> tuple[int, list[float]]:
    """How many pieces there are, and the milliseconds of searches after the first one."""
    index = house.open()
    try:
        await index.sync()
        await index.search(SearchRequest(queries=(house.writer.question(),)))
        pieces = (await index.status()).chunks
        took = []
        for _ in range(QUESTIONS):
            question = house.writer.question()
            began = time.perf_counter()
            await index.search(SearchRequest(queries=(question,)))
            took.append((time.perf_counter() - began) * 1000)
    finally:
        await index.close()
    return pieces, took


async def longest_delay(work: Awaitable[object]) -> float:
    """The longest delay of the event loop in milliseconds while `work` is done."""
    doing = asyncio.ensure_future(work)
    longest = 0.0
    while not doing.done():
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        longest = max(longest, (time.perf_counter() - began - TICK) * 1000)
    await doing
    return longest


async def stall_on_screen(house: House) -> float:
    """The longest stall of the screen's event loop while everything is indexed anew."""
    from clawbot.runtime import Runtime, RuntimeOptions

    os.environ.update(HOME=str(house.home), CLAWBOT_HOME=str(house.state))

    opened: list[Runtime] = []

    async def open_runtime(agent: str | None = None) -> Runtime:
        opened.append(await Runtime.open(RuntimeOptions(model="offline")))
        return opened[-1]

    app = ClawbotApp(open_runtime)
    async with app.run_test(size=(100, 30)) as pilot:
        while app.runtime is None:
            await pilot.pause(TICK)
        index = opened[0].memory.index
        if index is None:
            raise SystemExit("memory_search.enabled is off")
        longest = await longest_delay(index.sync(force=True))
        await app.runtime.close()
    return longest


def measure(files: int, runs: int) -> list[tuple[str, str]]:
    """The rows of one size."""
    with tempfile.TemporaryDirectory() as folder:
        house = House(Path(folder), files)
        house.set_provider("none")
        words = house.run("index")
        house.forget()
        house.set_provider("auto")
        cold = house.run("index")
        disk = house.disk_bytes()
        nothing = median_of(house.run("index") for _ in range(runs))
        one = median_of(change(house, number) for number in range(runs))
        search = median_of(house.run("search", house.writer.question()) for _ in range(runs))
        pieces, warm = asyncio.run(warm_search(house))
        stall = asyncio.run(stall_on_screen(house))
    quantiles = statistics.quantiles(warm, n=20)
    return [
        ("text", f"{house.bytes / 1e6:.1f} MB, {pieces:,} chunks"),
        ("cold, with vectors", f"{cold.cpu:.2f} s CPU, {cold.wall:.2f} s wall, {cold.memory:.0f} MB"),
        ("cold, keywords only", f"{words.cpu:.2f} s CPU, {words.wall:.2f} s wall, {words.memory:.0f} MB"),
        ("one file changed, whole command", f"{one.cpu:.2f} s CPU, {one.wall:.2f} s wall"),
        ("nothing changed, whole command", f"{nothing.cpu:.2f} s CPU, {nothing.wall:.2f} s wall"),
        ("search, whole command", f"{search.cpu:.2f} s CPU, {search.wall:.2f} s wall, {search.memory:.0f} MB"),
        ("warm search, p50 / p95", f"{statistics.median(warm):.1f} / {quantiles[-1]:.1f} ms"),
        ("index on disk", f"{disk / 1e6:.1f} MB, {disk / house.bytes:.2f} times the text"),
        ("longest stall of the screen, full index", f"{stall:.0f} ms"),
    ]


def change(house: House, number: int) -> Cost:
    """Change a note and index it."""
    house.change(number)
    return house.run("index")


def cold(house: House, provider: str) -> Cost:
    """Index everything anew."""
    house.set_provider(provider)
    house.forget()
    return house.run("index")


def pair(files: int, runs: int, other: str) -> None:
    """Print what the commands of `other`, the Python of another checkout, and of this one take, in turns."""
    question = NoteWriter().question()
    needed = "click, msgspec, asyncio, apsw"
    works: dict[str, tuple[int, Callable[[House, int], Cost]]] = {
        "python -c pass": (runs, lambda house, _: house.weigh("-c", "pass")),
        "the same with the libraries of every command": (runs, lambda house, _: house.weigh("-c", f"import {needed}")),
        "the same with numpy": (runs, lambda house, _: house.weigh("-c", f"import {needed}, numpy")),
        "cold, keywords only": (1, lambda house, _: cold(house, "none")),
        "cold, with vectors": (1, lambda house, _: cold(house, "auto")),
        "nothing changed": (runs, lambda house, _: house.run("index")),
        "one file changed": (runs, change),
        "search": (runs, lambda house, _: house.run("search", question)),
    }
    title = f"{files:,} files: CPU s, least / median"
    with (
        tempfile.TemporaryDirectory() as before,
        tempfile.TemporaryDirectory() as now,
        Table(title, "before", "now", "now / before") as table,
    ):
        houses = House(Path(before), files, other), House(Path(now), files)
        for name, (count, work) in works.items():
            costs = [[work(house, number).cpu for house in houses] for number in range(count)]
            old, new = ([pair[side] for pair in costs] for side in (0, 1))
            ratio = statistics.median(after / first for first, after in costs)
            figures = (f"{min(each):.3f} / {statistics.median(each):.3f}" for each in (old, new))
            table.row(name, *figures, f"{ratio:.2f}")


def main() -> None:
    """Measure each size and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="100,1000,10000", help="sizes, separated by commas")
    parser.add_argument("--runs", type=int, default=5, help="runs of each short command")
    parser.add_argument("--pair", metavar="PYTHON", help="the Python of another checkout, to be compared with")
    options = parser.parse_args()
    sizes = [int(size) for size in options.files.split(",")]
    if options.pair:
        for size in sizes:
            pair(size, options.runs, str(Path(options.pair).absolute()))
        return
    columns = [measure(size, options.runs) for size in sizes]
    rows = ((row[0][0], *(value for _, value in row)) for row in zip(*columns, strict=True))
    show(("memory index", *(f"{size:,} files" for size in sizes)), rows)


if __name__ == "__main__":
    main()
