"""What this machine, or this container, has for a model: memory, and cores that have nothing else to do."""

from __future__ import annotations

import math
import os
from pathlib import Path

from clawbot.text.numbers import whole_number

_GROUP = Path("/sys/fs/cgroup")
_CORES = Path("/sys/devices/system/cpu")


def total_memory() -> int:
    """Return bytes of memory that this machine has, or this container may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(total, whole_number(_read(_GROUP / "memory.max")) or total)


def free_memory() -> int:
    """Return bytes of memory that a program could take now; where the system reports none, all there is."""
    lines = _read(Path("/proc/meminfo")).splitlines()
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return min(int(found) * 1024, total_memory()) if found else total_memory()


def usable_cores() -> int | None:
    """Return how many cores this process may use, without the second threads of a core; None if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = os.sched_getaffinity(0)
    shared = {_read(_CORES / f"cpu{number}" / "topology" / "thread_siblings_list") or str(number) for number in allowed}
    quota, _, period = _read(_GROUP / "cpu.max").partition(" ")
    used, each = whole_number(quota), whole_number(period)
    granted = math.ceil(used / each) if used and each else len(shared)
    return max(1, min(len(shared), granted))


def free_cores(usable: int, load: float, total: int) -> int:
    """Return how many of `usable` cores are free where `load` programs run on the `total` of the machine.

    At least half of them: loads pass, and a server runs on. llama.cpp's threads wait for one another at each step. On
    two cores, of which another program had one, two threads answered at 21 tokens/s (alone: 77), one thread at 47.
    """
    free = round(usable * (1 - min(1.0, load / total)))
    return max(free, math.ceil(usable / 2))


def _read(path: Path) -> str:
    """Return the text of a file of the system; empty when there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
