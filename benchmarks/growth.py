"""What a search costs as notes grow: in one process that has asked before, by the number of pieces.

Run: .venv/bin/python benchmarks/growth.py [--files 105,1050,2750,11000] [--home DIR]

The notes are those of `index.py`, a fifth of them Chinese. Milliseconds are wall time and CPU time of the whole process
for one search; "after a change" is the CPU time of a sync and a search after a line was added to one note, less that of
a search. With `--home` the notes and indexes stay there, and are used again.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from index import House

from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest

QUESTIONS = 100
CHANGES = 5
SETTLED = 1.0  # seconds in which the first searches leave everything in memory


def resident() -> int:
    """The memory of this process that is in RAM, in MB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


async def cost(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """The milliseconds of wall time and of CPU time that `work` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


async def measure(house: House) -> list[str]:
    """The row of one size."""
    index: MemoryBackend = house.open()

    async def ask() -> None:
        await index.search(SearchRequest(queries=(house.writer.question(),)))

    async def change_and_ask() -> None:
        await index.sync()
        await ask()

    try:
        await index.sync()
        for _ in range(3):
            await ask()
            await asyncio.sleep(SETTLED)
        costs = [await cost(ask) for _ in range(QUESTIONS)]
        memory = resident()
        changes = []
        for number in range(CHANGES):
            house.change(number)
            changes.append((await cost(change_and_ask))[1])
        pieces = (await index.status()).chunks
    finally:
        await index.close()
    wall, cpu = zip(*costs, strict=True)
    late = statistics.quantiles(wall, n=20)[-1]
    middle = statistics.median(cpu)
    return [
        f"{pieces:,}",
        f"{statistics.median(wall):.1f} / {late:.1f} ms",
        f"{middle:.1f} ms",
        f"{statistics.median(changes) - middle:.0f} ms",
        f"{memory} MB",
        f"{house.disk_bytes() / house.bytes:.2f}",
    ]


def main() -> None:
    """Measure each size, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="105,1050,2750,11000", help="sizes, separated by commas")
    parser.add_argument("--home", type=Path, help="where notes and indexes stay")
    options = parser.parse_args()
    print("| pieces | search, p50 / p95 | CPU | after a change, CPU | resident | index / text |")
    print("|--:|--:|--:|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for size in map(int, options.files.split(",")):
            house = House((options.home or Path(folder)) / f"home{size}", size)
            house.set_provider("auto")
            house.run("index")
            print(f"| {' | '.join(asyncio.run(measure(house)))} |", flush=True)


if __name__ == "__main__":
    main()
