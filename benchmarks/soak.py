"""A long talk in the real screen: whether memory, descriptors or threads grow with its turns.

The program runs on a pty with its worker and a scripted server on loopback. A message is typed at a fixed pace, or as
soon as the machine allows it; each one is answered with a tool call that writes a note, and then with words, so that
flushes and compactions come by themselves. At the end the program is left by `/quit`, and the transcripts are compared
with what was typed.

Run: .venv/bin/python benchmarks/soak.py [--seconds N] [--rate TURNS_A_SECOND] [--every SECONDS] [--warm-up TURNS]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from processes import cpu_of, status_of, tree_of
from tables import Table, show

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from clawbot.context.compaction.prompts import REQUIRED
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.llm.scripted.server import ServedScript, serve_script
from tests.e2e.terminal import TOLD, Terminal

ROOT = Path(__file__).resolve().parents[1]
WINDOW = 24_000  # tokens: small enough for a compaction every hundred turns
NOTES_A_FILE = 200
SUMMARY = "\n\n".join(f"## {heading}\n- as it stood, port 8443" for heading in REQUIRED)
TURN = re.compile(r"^(?:\[[^\]]*\] )?turn (\d+):")  # behind the time at which it was said
KIB = 1024
MOST_AHEAD = 3  # turns that wait: on a busy machine the pace goes down, and what is measured is not a queue
PATIENCE = 60.0  # seconds for what still waits at the end
COLUMNS = ("seconds", "turns", "main MB", "own MB", "worker MB", "fds", "threads", "transcript KB", "CPU s")


class SoakEngine(ScriptEngine):
    """Writes the script as it is asked, and keeps no request: a run of hours would keep gigabytes of them."""

    def __init__(self) -> None:
        super().__init__(_script("unused"))
        self.answered = 0
        self.housekeeping = 0

    async def reply(self, request: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """A note for a turn, words for its result, and what housekeeping wants."""
        last = request["messages"][-1]
        spoken = TURN.match(str(last.get("content")))
        if last["role"] == "tool":
            answer: Any = "It is **noted**: the staging proxy listens on `8443`, see memory. 已经记下来了。"
        elif spoken:
            number = int(spoken[1])
            path = f"memory/soak-{number // NOTES_A_FILE:04}.md"
            note = f"- {number}: the staging proxy moved to port 8443 because 8080 clashed with grafana"
            answer = {"tool_calls": [{"name": "append", "arguments": {"path": path, "content": note}}]}
        else:
            self.housekeeping += 1
            answer = "NO_REPLY" if "NO_REPLY" in str(last.get("content")) else SUMMARY
        async for chunk in ScriptEngine(_script(answer)).reply(request):
            yield chunk
        self.answered += last["role"] == "tool"


def _script(reply: Any) -> Any:
    return parse_script(json.dumps({"turns": [{"reply": reply}]}), Path("soak.yaml"))


class Server:
    """The scripted server, in a thread of its own while the context lasts."""

    def __init__(self) -> None:
        self.engine = SoakEngine()
        self.url = ""
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        served: ServedScript
        async with serve_script(self.engine) as served:
            self.url = served.url
            self._ready.set()
            await self._over.wait()

    def __enter__(self) -> Server:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._over is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()


class Sample(NamedTuple):
    """What was measured at one moment; memory in KiB. `own` is the part of `main` that maps no file: the rest comes and
    goes as the system needs room."""

    seconds: float
    turns: int
    main: int
    own: int
    worker: int
    descriptors: int
    threads: int
    transcript: int
    cpu: float

    def cells(self) -> tuple[str, ...]:
        """Return the line of the table."""
        return (
            f"{self.seconds:.0f}",
            f"{self.turns:,}",
            f"{self.main / KIB:.1f}",
            f"{self.own / KIB:.1f}",
            f"{self.worker / KIB:.1f}",
            str(self.descriptors),
            str(self.threads),
            f"{self.transcript / KIB:,.0f}",
            f"{self.cpu:.1f}",
        )


class Soak:
    """One run: `rate` turns a second for `seconds`."""

    def __init__(self, home: Path, server: Server, seconds: float, rate: float) -> None:
        self._home = home
        self._server = server
        self._seconds = seconds
        self._rate = rate
        self.typed = 0
        self.samples: list[Sample] = []

    def play(self, every: float, table: Table) -> None:
        """Talk, and print a line of the table every so many seconds."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        log = self._home / ".clawbot" / "logs" / "clawbot.log"
        argv = [sys.executable, "-m", "clawbot"]
        with Terminal(argv, env=env, cwd=self._home, columns=120, rows=40, log=log) as chat:
            chat.wait_for("scripted")
            began = time.monotonic()
            shown = -every
            while (now := time.monotonic() - began) < self._seconds:
                if now * self._rate >= self.typed and self.typed - self._server.engine.answered < MOST_AHEAD:
                    self.typed += 1
                    chat.send(f"turn {self.typed}: the proxy moved again, please note it", "enter")
                sample = self._measure(chat.process.pid, now)
                self.samples.append(sample)
                if now - shown >= every:
                    shown = now
                    table.row(*sample.cells())
                del chat.raw[:-TOLD]  # a run of hours prints hundreds of megabytes
                chat.feed(min(1.0, max(0.05, self.typed / self._rate - now)))
            chat.wait_for(lambda _: self._server.engine.answered >= self.typed, seconds=PATIENCE)
            chat.wait_for(lambda text: "esc stops" not in text)
            self.samples.append(self._measure(chat.process.pid, time.monotonic() - began))
            table.row(*self.samples[-1].cells())
            chat.send("/quit", "enter")
            chat.wait_end()

    def _measure(self, pid: int, now: float) -> Sample:
        # A login on the pty runs `exec`, so the process is the program itself; its children are workers.
        return Sample(
            seconds=now,
            turns=self._server.engine.answered,
            main=status_of(pid, "VmRSS"),
            own=status_of(pid, "RssAnon"),
            worker=max((status_of(child, "VmRSS") for child in tree_of(pid)[1:]), default=0),
            descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
            threads=status_of(pid, "Threads"),
            transcript=sum(path.stat().st_size for path in self._transcripts),
            cpu=cpu_of([pid]),
        )

    @property
    def _transcripts(self) -> Sequence[Path]:
        return sorted(self._home.glob(".clawbot/agents/main/sessions/*.jsonl"))

    def stored(self) -> Counter[int]:
        """How often each turn stands in the transcripts as the user's words."""
        found: Counter[int] = Counter()
        for path in self._transcripts:
            for line in path.read_text("utf-8").splitlines():
                message = json.loads(line).get("message") or {}
                if message.get("role") == "user" and (turn := TURN.match(str(message.get("content")))):
                    found[int(turn[1])] += 1
        return found


def slope(samples: Sequence[Sample], warm_up: int) -> float:
    """By how many kB the main process's own memory grows with a turn: least squares over the samples after `warm_up`
    turns; 0 when they are of one turn."""
    pairs = [(sample.turns, sample.own) for sample in samples if sample.turns >= warm_up]
    if not pairs:
        return 0.0
    mean_turns = sum(turns for turns, _ in pairs) / len(pairs)
    mean_size = sum(size for _, size in pairs) / len(pairs)
    spread = sum((turns - mean_turns) ** 2 for turns, _ in pairs)
    return sum((turns - mean_turns) * (size - mean_size) for turns, size in pairs) / spread if spread else 0.0


def _median(samples: Sequence[Sample], column: str) -> str:
    return f"{statistics.median(getattr(sample, column) for sample in samples):g}" if samples else "-"


def _ends(samples: Sequence[Sample], warm_up: int, column: str) -> str:
    """The median of the first quarter after the warm-up and of the last: files are opened for a moment all the time."""
    rest = [sample for sample in samples if sample.turns >= warm_up]
    quarter = max(1, len(rest) // 4)
    return f"{_median(rest[:quarter], column)} -> {_median(rest[-quarter:], column)}"


def main() -> int:
    """Talk, and print the table and what it says; 1 when a turn was lost or stored twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--rate", type=float, default=1.0, help="turns a second")
    parser.add_argument("--every", type=float, default=300, help="seconds between two lines of the table")
    parser.add_argument("--warm-up", type=int, default=1000, help="turns before the growth counts")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server() as server:
        home = Path(folder)
        (home / ".clawbot").mkdir(mode=0o700)
        (home / ".clawbot" / "config.yaml").write_text(
            "agents: {defaults: {model: openai/scripted, api_key: none, "
            f"api_base: '{server.url}', context_tokens: {WINDOW}}}}}\n"
        )
        soak = Soak(home, server, chosen.seconds, chosen.rate)
        with Table(*COLUMNS) as table:
            soak.play(chosen.every, table)
        stored = soak.stored()
    twice = sum(count > 1 for count in stored.values())
    rows = (
        ("turns typed; stored; stored twice", f"{soak.typed:,}; {len(stored):,}; {twice}"),
        ("requests of housekeeping", f"{server.engine.housekeeping}"),
        (f"growth after {chosen.warm_up:,} turns", f"{slope(soak.samples, chosen.warm_up):+.2f} kB a turn"),
        ("descriptors, first and last quarter after them", _ends(soak.samples, chosen.warm_up, "descriptors")),
        ("threads, the same", _ends(soak.samples, chosen.warm_up, "threads")),
    )
    show(("a long conversation on the screen", "measured"), rows)
    return 1 if twice or len(stored) < soak.typed else 0


if __name__ == "__main__":
    sys.exit(main())
