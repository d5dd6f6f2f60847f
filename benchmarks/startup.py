"""How long it takes until one can type, what it weighs, and what a turn costs beside the model's own time.

Run: .venv/bin/python benchmarks/startup.py [--runs N]
"""

from __future__ import annotations

import argparse
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

REST_SECONDS = 7
BARE = """
from textual.app import App
from textual.widgets import TextArea

class Bare(App):
    def compose(self):
        yield TextArea()

Bare().run()
"""
MARK = "Ω"  # one cell, and nothing else on the screen is like it


def fresh_env(home: str) -> dict[str, str]:
    """An environment without keys and with a home of its own."""
    return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TERM": "xterm-256color"}


@contextmanager
def echoed(command: Sequence[str], home: str) -> Iterator[tuple[subprocess.Popen[bytes], int, float, float]]:
    """The process of `command` on a terminal, whose descriptor follows, and the seconds and CPU seconds from exec until
    a typed text is on the screen.

    The keys are sent before the program has started, as somebody would who types ahead.
    """
    master, slave = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=fresh_env(home),
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
        yield process, master, time.perf_counter() - began, cpu(process.pid)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def first_echo(home: str) -> tuple[float, float, int, float]:
    """Seconds and CPU seconds from exec until a typed text is on the screen, and the resident memory then, in kB; how
    often the screen wakes in a second at rest."""
    with echoed(["-m", "clawbot", "chat"], home) as (process, master, elapsed, spent):
        drain(master, 2)
        memory, counts = tree_memory(process.pid), [wakeups(process.pid)]
        for _ in range(REST_SECONDS):
            drain(master, 1)
            counts.append(wakeups(process.pid))
        return elapsed, spent, memory, statistics.median(after - before for before, after in pairwise(counts))


def bare_echo(home: str) -> tuple[float, float]:
    """The first two of an app of Textual with a text field: no screen of it can be sooner."""
    with echoed(["-c", BARE], home) as (_, _, elapsed, spent):
        return elapsed, spent


def cpu(pid: int) -> float:
    """The CPU seconds of the threads of a process so far."""
    found = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(each.split()[0]) for each in found) / 1e9


def drain(master: int, seconds: float) -> None:
    """Read what the screen writes for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if select.select([master], [], [], 0.05)[0]:
            os.read(master, 65536)


def wakeups(pid: int) -> int:
    """How often the threads of a process gave up the processor to wait, so far."""
    found = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(each.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for each in found)


def tree_memory(pid: int) -> int:
    """Resident memory of a process and its children, in kB."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    status = Path(f"/proc/{pid}/status").read_text()
    own = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return own + sum(tree_memory(int(child)) for child in children)


def command_seconds(arguments: list[str], home: str) -> float:
    """Wall seconds of a whole command."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "clawbot", *arguments], env=fresh_env(home), cwd=home, check=True, capture_output=True
    )
    return time.perf_counter() - began


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as home:
        command_seconds(["chat", "-p", "hello", "--model", "offline"], home)
        versions = [command_seconds(["--version"], home) for _ in range(runs)]
        echoes, bare = zip(*[(first_echo(home), bare_echo(home)) for _ in range(runs)], strict=True)
        turns = [command_seconds(["chat", "-p", "hello", "--model", "offline"], home) for _ in range(runs)]
    rows = [
        ("clawbot --version", f"{statistics.median(versions):.2f} s", "0.15 s"),
        ("exec to first echoed key", f"{statistics.median(e for e, *_ in echoes):.2f} s", "0.50 s"),
        ("    CPU", f"{statistics.median(c for _, c, *_ in echoes):.2f} s", "-"),
        ("    the same of a bare Textual app", f"{statistics.median(e for e, _ in bare):.2f} s", "-"),
        ("    CPU", f"{statistics.median(c for _, c in bare):.2f} s", "-"),
        ("memory before the first model call", f"{max(m for *_, m, _ in echoes) / 1024:.0f} MB", "150 MB"),
        ("wakeups of the screen at rest", f"{statistics.median(w for *_, w in echoes):.1f} a second", "1"),
        ("-p hello, offline, whole command", f"{statistics.median(turns):.2f} s", "-"),
    ]
    print(f"{'':40} {'median':>10} {'at most':>10}")
    for name, value, limit in rows:
        print(f"{name:40} {value:>10} {limit:>10}")


if __name__ == "__main__":
    main()
