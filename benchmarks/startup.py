"""How long it takes until one can type, what it weighs, and what the screen costs at rest.

The screen runs on a pty, offline. Its keys are sent before the program has started, as somebody would who types ahead.

Run: .venv/bin/python benchmarks/startup.py [--runs N] [--rest SECONDS]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from processes import environment, median_of, memory_of, tree_of, weigh
from tables import show

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.factory import open_model

MARK = "Ω"  # one cell, and nothing else on the screen is like it
SETTLED = 0.005  # a second with so little CPU ends what a start does in the background
TICK = 0.005  # seconds between two looks at the event loop
OFFLINE = ("chat", "-p", "hello", "--model", "offline")
BARE = """
from textual.app import App
from textual.widgets import TextArea

class Bare(App):
    def compose(self):
        yield TextArea()

Bare().run()
"""


class Screen(NamedTuple):
    """Seconds and CPU seconds from exec until a typed text is on the screen, the resident MB then; of the screen at
    rest: how often it wakes in a second (the median of seconds), and the share of a processor that it takes, in
    percent."""

    echo: float
    cpu: float
    memory: float
    wakeups: float
    busy: float


@contextmanager
def echoed(command: Sequence[str], home: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, float, float]]:
    """The process of `command` on a terminal, whose descriptor follows, and the seconds and CPU seconds from exec until
    a typed text is on the screen."""
    master, slave = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment(home),
        cwd=home,
        start_new_session=True,
    )
    os.close(slave)
    typed = False
    seen = b""
    try:
        while MARK.encode() not in seen:
            if time.perf_counter() - began > 30:
                raise RuntimeError(f"no echo within 30 s; the screen said {seen[-500:]!r}")
            if select.select([master], [], [], 0.005)[0]:
                seen += os.read(master, 65536)
            if not typed and b"\x1b[?1049h" in seen:
                os.write(master, MARK.encode())
                typed = True
        yield process, master, time.perf_counter() - began, busy_seconds(process.pid)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def open_screen(home: Path, rest: int) -> Screen:
    """Start the screen, type, and watch it rest for so many seconds."""
    with echoed(["-m", "clawbot", "chat"], home) as (process, master, elapsed, spent):
        used = -1.0
        while (now := busy_seconds(process.pid)) - used > SETTLED:
            used = now
            drain(master, 1)
        memory = sum(memory_of(pid, "Rss") for pid in tree_of(process.pid))
        counts, used = [wakeups(process.pid)], now
        for _ in range(rest):
            drain(master, 1)
            counts.append(wakeups(process.pid))
        busy = (busy_seconds(process.pid) - used) / rest * 100
        each = [after - before for before, after in pairwise(counts)]
        return Screen(elapsed, spent, memory, statistics.median(each), busy)


def bare_echo(home: Path) -> tuple[float, float]:
    """Return the seconds and CPU seconds of an app of Textual with a text field: no screen of it can be sooner."""
    with echoed(["-c", BARE], home) as (_, _, elapsed, spent):
        return elapsed, spent


def drain(master: int, seconds: float) -> None:
    """Read what the screen writes for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if select.select([master], [], [], 0.05)[0]:
            os.read(master, 65536)


def wakeups(pid: int) -> int:
    """Return how often the threads of a process gave up the processor to wait, so far."""
    found = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(each.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for each in found)


def busy_seconds(pid: int) -> float:
    """Return how long the threads of a process have run, exact to less than a clock tick."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


async def stall_while_loading() -> float:
    """Return the longest delay of the event loop in milliseconds, from `warm` until litellm is loaded."""
    model = await open_model("openai/gpt-4o", AgentSettings(), clock=SystemClock())
    loading = asyncio.create_task(model.warm())
    longest = 0.0
    while not loading.done():
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        longest = max(longest, time.perf_counter() - began - TICK)
    await model.aclose()
    return longest * 1000


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--rest", type=int, default=10, help="seconds at rest of each run")
    options = parser.parse_args()
    clawbot = (sys.executable, "-m", "clawbot")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ["CLAWBOT_HOME"] = folder
        weigh((*clawbot, *OFFLINE), home)
        version = median_of(weigh((*clawbot, "--version"), home) for _ in range(options.runs))
        screens, bare = zip(
            *[(open_screen(home, options.rest), bare_echo(home)) for _ in range(options.runs)], strict=True
        )
        turn = median_of(weigh((*clawbot, *OFFLINE), home) for _ in range(options.runs))
        stall = max(asyncio.run(stall_while_loading()) for _ in range(options.runs))
    echo, cpu, memory, wakes, busy = (statistics.median(each) for each in zip(*screens, strict=True))
    floor, floor_cpu = (statistics.median(each) for each in zip(*bare, strict=True))
    rows = (
        ("`clawbot --version`", f"{version.wall:.2f} s, CPU {version.cpu:.2f} s", "0.15 s"),
        ("exec to the first echoed key", f"{echo:.2f} s, CPU {cpu:.2f} s", "0.50 s"),
        ("the same of a bare app of Textual", f"{floor:.2f} s, CPU {floor_cpu:.2f} s", "–"),
        ("memory after it, without a key and a turn", f"{memory:.0f} MB", "150 MB"),
        ("the screen at rest: wakeups; CPU", f"{wakes:.1f} a second; {busy:.2f} %", "1; 0.1 %"),
        ("`clawbot chat -p hello`, offline", f"{turn.wall:.2f} s, CPU {turn.cpu:.2f} s", "–"),
        ("longest stall of the event loop while litellm loads", f"{stall:.0f} ms", "100 ms"),
    )
    show(("start and rest", "measured", "at most"), rows)


if __name__ == "__main__":
    main()
