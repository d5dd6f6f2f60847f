"""How soon after `/new` one can go on while a slow model names the note and is asked what memory is to keep of the
rest, and what hooks cost a turn.

Every figure of a reset is of a process of its own: a chat with its memory index, and a model that takes seconds for
either. `newer` notes are all younger than the session, as after a `git clone`: each of them may be the session's.

Run: .venv/bin/python benchmarks/reset.py [--runs N] [--slug SECONDS | --offline] [--tiny]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
from opening import open_with
from tables import Table, show

from clawbot.agent.events import Event, NoteKept, TurnEnded
from clawbot.clock import SystemClock
from clawbot.config.paths import MAIN_AGENT, Paths
from clawbot.hooks.events import ToolBefore
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.store import SessionStore

CASES = [
    (20, 0, ""),
    (500, 0, ""),
    (2_000, 0, ""),
    (5_000, 0, ""),
    (20, 10_000, ""),
    (500, 10_000, ""),
    (5_000, 10_000, ""),
]
CASES += [(500, 10_000, "newer")]
TINY_CASES = [(3, 2, "newer")]
TURNS = 60  # of each kind, for the cost of hooks
STARTS = 9
HOOK_HEAD = "---\nname: watch\nevents: [message:received, tool:before]\n---\n"
HOOK_CODE = "async def handle(event):\n    pass\n"


class SlowNamer:
    """Answers at once, calls a tool when it is told to, and takes its time to name a note and for a silent turn."""

    info = ModelInfo(ref="script:reset")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`."""
        last = request.messages[-1]
        if request.purpose in ("slug", "flush"):
            await asyncio.sleep(self._seconds)
        if request.purpose == "slug":
            yield FinalPart(AssistantMessage([TextBlock("port of staging")]))
        elif isinstance(last, UserMessage) and last.text.startswith("tool"):
            call = ToolCallBlock("call-1", "read", {"path": "AGENTS.md"})
            yield FinalPart(AssistantMessage([call], stop_reason="toolUse"))
        else:
            yield FinalPart(AssistantMessage([TextBlock("NO_REPLY" if request.purpose == "flush" else "All is well.")]))

    async def warm(self) -> None:
        """Nothing has to be loaded."""

    async def aclose(self) -> None:
        """Nothing has to be let go of."""


class Reset(msgspec.Struct):
    """Milliseconds of one `/new`: until the note was on disk, until the user could go on, of the processor by then."""

    note: float
    wall: float
    cpu: float


class Measured(msgspec.Struct):
    """What one process measured; `peak` is its largest resident memory in KiB."""

    resets: list[Reset]
    renamed: int
    peak: int


async def open_runtime(home: Path, seconds: float | None, *, interactive: bool = False) -> Runtime:
    """A runtime whose state is in `home`, with a model that takes `seconds` to name a note; None: the offline one."""
    os.environ["CLAWBOT_HOME"] = str(home)
    if seconds is None:
        options = RuntimeOptions(model="offline")
        return await Runtime.open(options if interactive else options.unattended())
    return await open_with(SlowNamer(seconds), interactive=interactive)


def write_notes(folder: Path, count: int, *, newer: bool) -> None:
    """Notes like those of earlier sessions."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = time.time() + (86_400 if newer else -86_400)
    for number in range(count):
        path = folder / f"{2000 + number // 365}-{number % 12 + 1:02}-{number % 28 + 1:02}-earlier-{number}.md"
        path.write_text(f"# Session: {number}\n\n- **Session ID**: {number:08}\n\nuser: what of it? 端口 {number}\n")
        os.utime(path, (moment, moment))


def write_session(store: SessionStore, turns: int) -> str:
    """A conversation of `turns` turns; returns its key."""
    session = store.open(fresh=True)
    for number in range(turns):
        text = f"question {number}: which port does staging use, and 测试环境 which?" * 2
        session.transcript.append_message(UserMessage(text))
        session.transcript.append_message(AssistantMessage([TextBlock(f"Answer {number}: 8443, as it was. " * 8)]))
    session.close()
    return session.record.key


async def index_rests(runtime: Runtime) -> None:
    """Wait until the memory index has nothing to do."""
    rests = asyncio.Event()
    runtime.memory.on_progress = lambda: rests.set() if runtime.memory.progress is None else rests.clear()
    if runtime.memory.progress is not None:
        await rests.wait()


async def reset_once(runtime: Runtime, aside: Callable[[Event], None]) -> Reset:
    """Submit `/new` and wait until the user can go on. `aside` is told all that happens meanwhile."""
    note = 0.0
    cpu, began = time.process_time(), time.perf_counter()
    async with aclosing(runtime.agent.submit("/new")) as events:
        async for event in events:
            aside(event)
            if isinstance(event, NoteKept) and not event.was:
                note = (time.perf_counter() - began) * 1000
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    if not note:
        raise RuntimeError("no note was kept")
    return Reset(note, wall * 1000, cpu * 1000)


async def measure_resets(home: Path, case: tuple[int, int, str], runs: int, seconds: float | None) -> Measured:
    """Reset `runs` conversations; wait until all notes have their names."""
    turns, notes, age = case
    write_notes(home / "workspace" / "memory", notes, newer=bool(age))
    runtime = await open_runtime(home, seconds, interactive=True)
    renamed = 0

    def aside(event: Event) -> None:
        nonlocal renamed
        renamed += isinstance(event, NoteKept) and bool(event.was)

    runtime.agent.listen(aside)
    await runtime.memory.search("port")  # returns when all notes are in the index
    store = SessionStore(Paths(home).sessions(MAIN_AGENT), SystemClock())
    resets = []
    for _ in range(runs):
        await runtime.sessions.resume(await asyncio.to_thread(write_session, store, turns))
        await runtime.agent.warm()  # as the first key does
        async with aclosing(runtime.agent.submit("And what about the harbour?")) as events:
            async for event in events:
                aside(event)
        await index_rests(runtime)
        resets.append(await reset_once(runtime, aside))
    if runtime.agent.deps.hooks is not None:
        await runtime.agent.deps.hooks.settled()
    await runtime.close(hasty=True)
    return Measured(resets, renamed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def in_a_process(case: tuple[int, int, str], runs: int, seconds: float | None) -> Measured:
    """`measure_resets` in a process and a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        model = ["--offline"] if seconds is None else ["--slug", str(seconds)]
        command = [sys.executable, __file__, "--runs", str(runs), *model, "--case", json.dumps(case)]
        done = subprocess.run([*command, "--home", home], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Measured)


async def turn_cost(runtimes: Sequence[Runtime], text: str, turns: int) -> list[float]:
    """Milliseconds of a turn in each of `runtimes`, medians. They take turns, so that all see the same machine."""
    spent: list[list[float]] = [[] for _ in runtimes]
    for _ in range(turns):
        for runtime, times in zip(runtimes, spent, strict=True):
            began = time.perf_counter()
            async with aclosing(runtime.agent.submit(text)) as events:
                async for event in events:
                    if isinstance(event, TurnEnded) and event.status != "done":
                        raise RuntimeError(event.error)
            times.append((time.perf_counter() - began) * 1000)
    return [statistics.median(times) for times in spent]


async def first_event(home: Path) -> tuple[float, float]:
    """Milliseconds of the first and of the second event of a hook that has a process of its own."""
    runtime = await open_runtime(home, 0)
    times = []
    for _ in range(2):
        began = time.perf_counter()
        hooks = runtime.agent.hooks
        await hooks.ask(hooks.event(ToolBefore, call_id="1", tool="read"))
        times.append((time.perf_counter() - began) * 1000)
    await runtime.close()
    return times[0], times[1]


async def measure_hooks(folder: Path, turns: int, starts: int) -> list[tuple[str, str]]:
    """What hooks cost: rows of a table."""
    homes = [folder / name for name in ("off", "on", "hook")]
    for home in homes:
        home.mkdir(mode=0o700)
    (homes[0] / "config.yaml").write_text("hooks: {enabled: false}\n")
    watch = homes[2] / "hooks" / "watch"
    watch.mkdir(parents=True)
    (watch / "HOOK.md").write_text(HOOK_HEAD)
    (watch / "handler.py").write_text(HOOK_CODE)
    runtimes = [await open_runtime(home, 0) for home in homes]
    rows = []
    for name, text in (("a turn", "how are you?"), ("a turn with a tool", "tool")):
        await turn_cost(runtimes, text, turns)
        off, on, hook = await turn_cost(runtimes, text, turns)
        rows.append((f"{name}, hooks.enabled: false", f"{off:.2f} ms"))
        rows.append((f"{name}, the shipped hooks", f"{on:.2f} ms"))
        rows.append((f"{name}, a hook on message:received, tool:before", f"{hook:.2f} ms"))
    for runtime in runtimes:
        await runtime.close()
    spent = [await first_event(homes[2]) for _ in range(starts)]
    rows.append(("first event of a hook (its process starts)", f"{statistics.median(a for a, _ in spent):.0f} ms"))
    rows.append(("its second event", f"{statistics.median(b for _, b in spent):.2f} ms"))
    return rows


def row_of(case: tuple[int, int, str], measured: Measured) -> tuple[str, ...]:
    """Return a line of the table."""

    def both(figure: Callable[[Reset], float]) -> str:
        values = [figure(reset) for reset in measured.resets]
        return f"{statistics.median(values):.0f} / {max(values):.0f} ms"

    turns, notes, age = case
    name = " ".join(f"{turns:,} turns, {notes:,} {age} notes".split())
    figures = (both(lambda reset: reset.note), both(lambda reset: reset.wall), both(lambda reset: reset.cpu))
    return name, *figures, f"{measured.peak / 1024:.0f} MB", f"{measured.renamed}"


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--slug", type=float, default=10.0, help="seconds of a name or a silent turn")
    parser.add_argument("--offline", action="store_true", help="without a model")
    parser.add_argument("--tiny", action="store_true", help="a moment of each: that it runs, not what it costs")
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    seconds = None if given.offline else given.slug
    if given.case:
        measured = asyncio.run(measure_resets(given.home, given.case, given.runs, seconds))
        sys.stdout.buffer.write(msgspec.json.encode(measured))
        return
    with Table("`/new` after, median / worst", "note", "control", "CPU", "memory", "renamed") as table:
        for case in TINY_CASES if given.tiny else CASES:
            table.row(*row_of(case, in_a_process(case, given.runs, seconds)))
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure_hooks(Path(folder), *((2, 1) if given.tiny else (TURNS, STARTS))))
    show(("hooks", "median"), rows)


if __name__ == "__main__":
    main()
