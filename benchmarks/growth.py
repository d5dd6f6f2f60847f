"""What a search costs as notes grow: in one process that has asked before, by the number of pieces.

Run: .venv/bin/python benchmarks/growth.py [--files 105,1050,2750,11000] [--home DIR]
     .venv/bin/python benchmarks/growth.py --questions 500 [--cold 60] [--files 1000,10000] [--bytes 1200] [--home DIR]

The notes are those of `index.py`, a fifth of them Chinese. Milliseconds are wall time and CPU time of the whole process
for one search; "after a change" is the CPU time of a sync and a search after a line was added to one note, less that of
a search. With `--home` the notes and indexes stay there, and are used again.

With `--questions` these are of all kinds (`NoteWriter.any_question`), and the table has the distribution of their cost:
CPU time and peak memory of `clawbot memory search` for the first `--cold` of them, and of each search in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from daily_notes import NOTE_BYTES, NoteWriter
from index import House
from processes import status_of
from tables import Table

from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest

QUESTIONS = 100
CHANGES = 5
SETTLED = 1.0  # seconds in which the first searches leave everything in memory


def forget_peak() -> None:
    """Let the peak of memory count from here."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


async def cost(work: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """The milliseconds of wall time and of CPU time that `work` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


async def measure(house: House) -> list[list[str]]:
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
        memory = status_of("self", "VmRSS") // 1024
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
        [
            f"{pieces:,}",
            f"{statistics.median(wall):.1f} / {late:.1f} ms",
            f"{middle:.1f} ms",
            f"{statistics.median(changes) - middle:.0f} ms",
            f"{memory} MB",
            f"{house.disk_bytes() / house.bytes:.2f}",
        ]
    ]


def distribution(costs: Sequence[tuple[float, float]]) -> list[str]:
    """The columns of milliseconds of CPU time and MB of peak memory."""
    cpu, memory = zip(*costs, strict=True)
    middle, usual = statistics.median(cpu), statistics.median(memory)
    late = statistics.quantiles(cpu, n=20, method="inclusive")[-1] if len(cpu) > 1 else middle
    return [
        f"{middle:.0f} / {late:.0f} / {max(cpu):.0f} ms",
        f"{max(cpu) / middle:.1f}",
        f"{usual:.0f} / {max(memory):.0f} MB",
        f"{max(memory) / usual:.2f}",
    ]


async def any_questions(house: House, questions: Sequence[str], count: int) -> list[list[str]]:
    """The rows of one size: cold for the first `count` of the `questions`, and in this process for all."""
    commands = [house.run("search", "--", question) for question in questions[:count]]
    index: MemoryBackend = house.open()
    warm: list[tuple[float, float]] = []
    try:
        await index.sync()
        for _ in range(3):
            await index.search(SearchRequest(queries=(questions[0],)))
            await asyncio.sleep(SETTLED)
        for question in questions:
            request = SearchRequest(queries=(question,))
            forget_peak()
            _, cpu = await cost(lambda request=request: index.search(request))
            warm.append((cpu, status_of("self", "VmHWM") // 1024))
        pieces = (await index.status()).chunks
    finally:
        await index.close()
    cold = [(each.cpu * 1000, each.memory) for each in commands]
    rows = (("command", cold), ("in one process", warm))
    return [[f"{pieces:,}", name, f"{len(costs)}", *distribution(costs)] for name, costs in rows if costs]


def main() -> None:
    """Measure each size, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", default="105,1050,2750,11000", help="sizes, separated by commas")
    parser.add_argument("--home", type=Path, help="where notes and indexes stay")
    parser.add_argument("--questions", type=int, default=0, help="of all kinds: the distribution of their cost")
    parser.add_argument("--cold", type=int, default=60, help="so many of them are commands")
    parser.add_argument("--bytes", type=int, default=NOTE_BYTES, help="of a note")
    options = parser.parse_args()
    columns = ["chunks", "search, p50 / p95", "CPU", "after a change, CPU", "resident", "index / text"]
    if options.questions:
        columns = ["chunks", "search", "questions", "CPU, p50 / p95 / max", "max / p50", "peak, p50 / max", "max / p50"]
    with tempfile.TemporaryDirectory() as folder, Table(*columns) as table:
        for size in map(int, options.files.split(",")):
            writer = NoteWriter(note_bytes=options.bytes, things=options.questions > 0)
            house = House((options.home or Path(folder)) / f"home{size}", size, writer=writer)
            house.set_provider("auto")
            house.run("index")
            questions = [writer.any_question() for _ in range(options.questions)]
            measured = any_questions(house, questions, options.cold) if questions else measure(house)
            for row in asyncio.run(measured):
                table.row(*row)


if __name__ == "__main__":
    main()
