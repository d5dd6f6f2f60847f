"""What processes cost: CPU seconds, wall seconds and memory, of those that run and of whole commands."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
# Between this process and a command: a child's largest memory counts from its fork, so its parent has to be small.
_WEIGH = """
import resource, subprocess, sys, time
began = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
wall = time.perf_counter() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, wall, used.ru_maxrss, code)
"""


@dataclass(frozen=True)
class Cost:
    """What a command took: CPU seconds, wall seconds, and its largest resident memory in MB."""

    cpu: float
    wall: float
    memory: float


def median_of(costs: Iterable[Cost]) -> Cost:
    """Return the medians of several costs, and the largest memory."""
    found = list(costs)
    return Cost(
        statistics.median(cost.cpu for cost in found),
        statistics.median(cost.wall for cost in found),
        max(cost.memory for cost in found),
    )


def weigh(command: Sequence[str], home: Path, **more: str) -> Cost:
    """Run `command` in `home` and return its cost with that of its children. Raises SystemExit if it fails."""
    weighed = subprocess.run(
        [sys.executable, "-c", _WEIGH, *command],
        env=environment(home, **more),
        cwd=home,
        stdout=subprocess.PIPE,
        check=True,
    )
    cpu, wall, memory, code = map(float, weighed.stdout.split())
    if code != 0:
        raise SystemExit(f"{' '.join(command)} failed with {code:.0f}")
    return Cost(cpu, wall, memory / 1024)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment without keys whose home is `home`."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color", **more}


def cpu_of(pids: Iterable[int]) -> float:
    """Return the CPU seconds of processes so far, to 10 ms."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum((int(fields[11]) + int(fields[12])) / _TICKS for fields in stats)


def tree_of(pid: int) -> list[int]:
    """Return a process and what its threads started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(each for child in children for each in tree_of(child))]


def memory_of(pid: int, kind: str = "Pss") -> float:
    """Return the memory of a process in MB: its share of what is resident; Rss: all of that."""
    return _kilobytes(Path(f"/proc/{pid}/smaps_rollup"), kind) / 1024


def status_of(pid: int | str, key: str) -> int:
    """Return a figure of a process: VmRSS, VmHWM, RssAnon (KiB), Threads; 0 if there is none."""
    return _kilobytes(Path(f"/proc/{pid}/status"), key)


def _kilobytes(file: Path, key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0
