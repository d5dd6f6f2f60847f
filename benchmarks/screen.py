"""What the screen costs in a terminal of 120 by 40 cells: long answers of each kind that stream in, a long transcript
that is resumed, `/new`, `/compact`, and a long conversation. The model is the benchmark's own and answers at once.

CPU is that of the process. A gap is the longest time for which the event loop worked without a look at the keys, in CPU
time of its thread, so that other programs don't count. `text every` is the 95th percentile of the time between two
pictures of an answer that streams in.

Run: .venv/bin/python benchmarks/screen.py [ROW ...] [--runs N] [--pair OTHER/.venv/bin/python] [--tiny]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import pty
import resource
import selectors
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from opening import open_with
from real_client import WORDS, drain, env_of, written
from tables import Table

from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart, TextPart
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.tui.run import run_chat

if TYPE_CHECKING:
    from clawbot.runtime import Runtime
    from clawbot.tui.app import ClawbotApp

PIECES, PAUSE = 2000, 0.005  # of an answer, seconds between two of them
LINE_BYTES = 790  # of a message in a transcript
REST = 1.0  # seconds after which what a start leaves to do is done
SUMMARY = "The user wanted something; it was done. " * 20
SENTENCE = "Some **bold** words, `code`, a [link](https://example.org) and memory/2026-10-02.md:14; then 中文 and 🎉. "
CHINESE = "今天我们讨论了索引的大小,**重点**是内存与速度;`代码`在第八行。"
KINDS = {
    "mixed Markdown": (
        "",
        f"## Part\n\n{SENTENCE * 3}\n\n- one\n- two\n  - three\n\n"
        "```python\ndef f(x):\n    return x + 1  # why\n```\n\n"
        "| a | b |\n|---|--:|\n| x | 1 |\n\n",
    ),
    "one paragraph": ("", SENTENCE),
    "one Chinese paragraph": ("", CHINESE),
    "one word": ("", "abcdefghij"),
    "one list": ("", "- an item with **bold** words and `code`\n"),
    "one block of code": ("```python\n", "    value = compute(first, 'second')  # why\n"),
    "one table": ("| a | b |\n|---|---|\n", "| cell one | cell **two** |\n"),
    "one quote": ("", "> a line of a quote with **bold** words\n"),
}


class Row(NamedTuple):
    """What is measured: `kind` of an answer or what is done, `size` in characters, MB or turns."""

    kind: str
    size: int

    @property
    def title(self) -> str:
        """The name in the table."""
        match self.kind:
            case "resume":
                return f"resume {self.size} MB"
            case "turns":
                return f"a conversation of {self.size:,} turns"
            case "/new" | "/compact":
                return f"`{self.kind}` after {self.size} MB"
        return f"{self.size:,} characters, {self.kind}"


ROWS = (
    *(Row(kind, 200_000) for kind in ("mixed Markdown", "one paragraph", "one Chinese paragraph")),
    *(Row(kind, 40_000) for kind in KINDS),
    *(Row("resume", size) for size in (10, 100)),
    Row("/new", 10),
    Row("/compact", 10),
    Row("turns", 2000),
)
TINY = (Row("mixed Markdown", 400), Row("resume", 0), Row("/new", 0), Row("/compact", 0), Row("turns", 3))


class Measured(msgspec.Struct):
    """CPU seconds, the longest gap of the loop in seconds, the peak of resident memory in MB, and seconds between two
    pictures of a text; 0 where there is none."""

    cpu: float
    gap: float
    peak: float
    pictures: float = 0.0


class TimedSelector(selectors.DefaultSelector):
    """Measures the CPU time of the loop's thread between two waits."""

    longest = 0.0
    _began: float | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait; what came before was one stretch of work."""
        if TimedSelector._began is not None:
            TimedSelector.longest = max(TimedSelector.longest, time.thread_time() - TimedSelector._began)
        found = super().select(timeout)
        TimedSelector._began = time.thread_time()
        return found


class Streamer:
    """Streams the answer that the last message describes (`KIND/SIZE`); else it answers in a few words."""

    info = ModelInfo(ref="script:benchmark", window=200_000)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`."""
        last = request.messages[-1]
        kind, _, size = last.text.partition("/") if isinstance(last, UserMessage) else ("", "", "")
        text = SUMMARY if request.purpose == "summary" else f"All is well. {WORDS}"
        if request.purpose == "chat" and kind in KINDS:
            head, body = KINDS[kind]
            text = (head + body * (int(size) // len(body) + 1))[: int(size)]
            step = max(1, len(text) // PIECES)
            for at in range(0, len(text), step):
                yield TextPart(text[at : at + step])
                await asyncio.sleep(PAUSE)
        yield FinalPart(AssistantMessage([TextBlock("NO_REPLY" if request.purpose == "flush" else text)]))

    async def warm(self) -> None:
        """Nothing has to be loaded."""

    async def aclose(self) -> None:
        """Nothing has to be let go of."""


# -- inside the measured program ---------------------------------------------------------------------------------------


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`, which is checked without work that would be measured."""
    for _ in itertools.count():
        if condition():
            return
        await asyncio.sleep(0.05)


async def asked(app: ClawbotApp, texts: Sequence[str]) -> None:
    """Send `texts`, each after the answer to the one before."""
    for text in texts:
        app.chat.turns.submit(text)
        await until(lambda: not app.chat.turns.busy)


def pictures_of(app: ClawbotApp) -> list[float]:
    """The times at which the writer shows text, from now on."""
    times: list[float] = []
    writer, flush = app.chat.writer, app.chat.writer.flush

    def timed() -> None:
        flush()
        times.append(time.perf_counter())

    # Measured inside of the program, which offers no hook for it.
    writer.flush = timed  # type: ignore[method-assign]
    return times


async def measure(app: ClawbotApp, row: Row) -> Measured:
    """Do what `row` names, once the program is ready."""
    await until(lambda: app.runtime is not None and len(app.chat.page.stack) > 0)
    await asyncio.sleep(REST)
    cpu, times = 0.0, pictures_of(app)
    if row.kind != "resume":
        await asked(app, ["hello"])  # what the first turn of a program loads
        times.clear()
        cpu, TimedSelector.longest = time.process_time(), 0.0
        texts = {
            "/new": ["/new"],
            "/compact": ["/compact"],
            "turns": [f"question {n}: {WORDS}" for n in range(row.size)],
        }
        await asked(app, texts.get(row.kind, [f"{row.kind}/{row.size}"]))
        await asyncio.sleep(REST)
    apart = sorted(after - before for before, after in itertools.pairwise(times))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(
        time.process_time() - cpu, TimedSelector.longest, peak, apart[int(len(apart) * 0.95)] if apart else 0.0
    )


def run_measured(row: Row, out: Path) -> None:
    """Run the program until `row` is measured; the figures go to `out`."""
    # asyncio takes its selector from this name alone, before any loop exists.
    selectors.DefaultSelector = TimedSelector  # type: ignore[misc]
    tasks = []

    async def drive(app: ClawbotApp) -> None:
        found = msgspec.json.encode(await measure(app, row))
        await asyncio.to_thread(out.write_bytes, found)
        app.exit()

    async def open_runtime(agent: str | None = None) -> Runtime:
        from textual._context import active_app

        runtime = await open_with(Streamer(), interactive=True)
        # Textual types the running app as any App; it is the chat here.
        tasks.append(asyncio.create_task(drive(active_app.get())))  # type: ignore[arg-type]
        return runtime

    sys.exit(run_chat(open_runtime))


# -- around it ---------------------------------------------------------------------------------------------------------


def measured(python: str, row: Row) -> Measured:
    """Run the program of `python` in a terminal and a home of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home, out = Path(folder, "home"), Path(folder, "out.json")
        home.mkdir()
        # Memory would index the conversation at the same time.
        settings = "agents: {defaults: {model: offline, memory_search: {sources: [memory]}}}\n"
        settings += "session: {reset: {mode: none}}\n"
        Path(home, "config.yaml").write_text(settings)
        if row.kind in ("resume", "/new", "/compact"):
            written(home, max(4, row.size * 1_000_000 // LINE_BYTES))
        in_terminal(python, home, row, out)
        return msgspec.json.decode(out.read_bytes(), type=Measured)


def in_terminal(python: str, home: Path, row: Row, out: Path) -> None:
    """Run one measured program on a pty that is read all the time. Raises RuntimeError if it failed."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    command = [python, __file__, "--inside", json.dumps(row), str(out)]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env_of(home), cwd=home, start_new_session=True
    )
    os.close(slave)
    reader = threading.Thread(target=drain, args=(master,), daemon=True)
    reader.start()
    try:
        if process.wait(timeout=900):
            raise RuntimeError(f"the program of {row.title} ended with {process.returncode}")
    finally:
        process.kill()
        reader.join()
        os.close(master)


def shown(found: Sequence[Measured]) -> tuple[str, ...]:
    """The medians as cells of a table."""
    cpu, gap, peak, pictures = (
        statistics.median(each) for each in zip(*map(msgspec.structs.astuple, found), strict=True)
    )
    return f"{cpu:.2f} s", f"{gap * 1000:.0f} ms", f"{peak:.0f} MB", f"{pictures * 1000:.0f} ms" if pictures else "–"


def main() -> None:
    """Measure what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="parts of the names of rows (default: all)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pair", metavar="PYTHON", help="alternate with the program of another checkout")
    parser.add_argument("--tiny", action="store_true", help="a moment of each: that it runs, not what it costs")
    parser.add_argument("--inside", nargs=2, metavar=("ROW", "OUT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        run_measured(Row(*json.loads(chosen.inside[0])), Path(chosen.inside[1]))
    pythons = [*([chosen.pair] if chosen.pair else []), sys.executable]
    rows = [row for row in (TINY if chosen.tiny else ROWS) if any(part in row.title for part in chosen.rows or [""])]
    names = ("other", "this") if chosen.pair else ("",)
    head = ("program",) if chosen.pair else ()
    with Table(*head, "on the screen", "CPU", "longest gap", "peak memory", "text every") as table:
        for row in rows:
            found = [[measured(python, row) for python in pythons] for _ in range(1 if chosen.tiny else chosen.runs)]
            for name, each in zip(names, zip(*found, strict=True), strict=True):
                table.row(*((name,) if chosen.pair else ()), row.title, *shown(each))


if __name__ == "__main__":
    main()
