"""What a long talk costs the memory index: all of it once, then its growth alone.

Run: .venv/bin/python benchmarks/talks.py [--megabytes N] [--runs N]

Writes a transcript of that size into a folder of its own (nine tenths of it output of tools, as in real ones), indexes
it with the vectors of this machine, and then says something more in it again and again. CPU is that of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.indexing import open_index
from clawbot.memory.values import SearchRequest, SyncReport
from clawbot.messages import AssistantMessage, TextBlock, ToolResultMessage, UserMessage
from clawbot.sessions.transcript import Transcript

MEGABYTE = 1_000_000
WORDS = (
    "proxy",
    "port",
    "harbour",
    "lamp",
    "paper",
    "river",
    "engine",
    "garden",
    "letter",
    "winter",
    "copper",
    "bread",
)
ANY_CHANGE = "agents: {defaults: {memory_search: {sync: {sessions: {delta_messages: 0}}}}}\n"


def sentence(chance: random.Random, number: int) -> str:
    """Something to say, with one rare word."""
    return f"{' '.join(chance.choice(WORDS) for _ in range(14))} token{number}"


def write_talk(folder: Path, size: int) -> tuple[Path, int]:
    """A transcript of `size` bytes, and how many turns it has."""
    chance, number = random.Random(7), 0
    with Transcript.create(folder, cwd=folder, clock=SystemClock()) as transcript:
        path = transcript.path
    head = path.read_bytes()
    with path.open("ab") as stream:
        written, before = len(head), None
        while written < size:
            texts = (
                {"role": "user", "content": sentence(chance, number), "timestamp": 1_795_000_000_000 + number * 60_000},
                {
                    "role": "toolResult",
                    "toolCallId": "c",
                    "toolName": "read",
                    "content": [{"type": "text", "text": sentence(chance, 0) * 60}],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": sentence(chance, number) + "."}],
                    "timestamp": 1_795_000_000_000 + number * 60_000,
                },
            )
            for message in texts:
                own = f"{chance.getrandbits(32):08x}"
                entry = {"type": "message", "id": own, "parentId": before, "timestamp": "2026-11-20T14:00:00.000Z"}
                line = json.dumps(entry | {"message": message}).encode() + b"\n"
                stream.write(line)
                written, before = written + len(line), own
            number += 1
    return path, number


async def measured(work: Awaitable[SyncReport]) -> tuple[SyncReport, float, float]:
    """What `work` reports, and the seconds and CPU seconds that it took."""
    began, cpu = time.perf_counter(), time.process_time()
    report = await work
    return report, time.perf_counter() - began, time.process_time() - cpu


async def compare(paths: Paths, path: Path, runs: int) -> None:
    """Index the transcript at `path`, let it grow `runs` times, and print what each took."""
    settings = load_settings(paths).settings
    index = open_index(settings, MAIN_AGENT, paths, SystemClock(), long_lived=True)
    fresh = open_index(settings, MAIN_AGENT, paths, SystemClock())
    if index is None or fresh is None:
        raise SystemExit("the memory index is switched off")
    report, wall, cpu = await measured(index.sync())
    print(f"{report.pieces_written:,} pieces\n\n| | wall s | CPU s | pieces embedded |\n|---|---|---|---|")
    print(f"| all of it, once | {wall:.1f} | {cpu:.1f} | {report.pieces_embedded:,} |")
    rows = []
    for run in range(runs):
        say_more(path, run)
        rows.append(await measured(index.sync()))
    embedded = statistics.median(report.pieces_embedded for report, _, _ in rows)
    wall, cpu = (statistics.median(each) for each in list(zip(*rows, strict=True))[1:])
    print(f"| one more turn | {wall:.3f} | {cpu:.3f} | {embedded:g} |")
    began = time.perf_counter()
    found = await index.search(SearchRequest(queries=(f"Bruno{runs - 1}",), sources=("sessions",)))
    print(f"| a search for it (found: {bool(found.hits)}) | {time.perf_counter() - began:.3f} | | |")
    await index.close()
    _, wall, cpu = await measured(fresh.sync())
    print(f"| the first look of another process | {wall:.3f} | {cpu:.3f} | 0 |")
    await fresh.close()


def say_more(path: Path, run: int) -> None:
    """One more turn, with a tool."""
    with Transcript.open(path, clock=SystemClock()) as transcript:
        transcript.append_message(UserMessage(f"the walrus of run {run} is called Bruno{run}"))
        transcript.append_message(ToolResultMessage("c", "read", [TextBlock("output " * 300)]))
        transcript.append_message(AssistantMessage([TextBlock(f"Noted: Bruno{run}.")]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a long talk costs the memory index.")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(Path(folder))
        sessions = paths.sessions(MAIN_AGENT)
        sessions.mkdir(parents=True)
        (paths.home / "workspace").mkdir()
        (paths.home / "config.yaml").write_text(ANY_CHANGE)
        path, turns = write_talk(sessions, given.megabytes * MEGABYTE)
        os.environ["CLAWBOT_HOME"] = folder
        print(f"{given.megabytes} MB, {turns:,} turns, ", end="")
        asyncio.run(compare(paths, path, given.runs))


if __name__ == "__main__":
    main()
