"""Prints a table as docs/benchmarks.md has it; below it the command, the day, the machine and its load."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path


class Table:
    """A Markdown table, printed row by row while the context lasts. Its caption comes at the end."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self._state = machine_state()

    def __enter__(self) -> Table:
        self.row(*self._columns)
        print("|---" + "|--:" * (len(self._columns) - 1) + "|", flush=True)
        return self

    def row(self, *cells: object) -> None:
        """Print one row."""
        print("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |", flush=True)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            command = shlex.join([f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
            machine = f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}"
            (load, pace), (later, after) = self._state, machine_state()
            state = f"load {load:.1f} to {later:.1f}, a million squares {pace:.0f} to {after:.0f} ms of CPU"
            day = datetime.now(tz=UTC).date()
            print(f"\n`{command}`, {day}, {machine}, Python {platform.python_version()}, {state}\n", flush=True)


def machine_state() -> tuple[float, float]:
    """Return the load of the machine, and the CPU milliseconds of a fixed loop, which a busy machine makes longer."""
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return os.getloadavg()[0], (time.process_time() - began) * 1000


def show(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table that is complete."""
    with Table(*columns) as table:
        for row in rows:
            table.row(*row)
