"""How many calls and files of clawbot lie between Enter and the call of the model, in the first and in a later turn.

Runs the real program headless, offline and in a fresh home: `python benchmarks/trace.py [--files]`. A call is a Python
call of a function of the package, in any thread; a coroutine that goes on after a wait counts again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from textual.pilot import Pilot

import clawbot
from clawbot.llm.offline.model import OfflineModel
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.tui.app import ClawbotApp

PACKAGE = str(Path(clawbot.__file__).parent)
MODEL = OfflineModel.stream.__code__
TARGET_CALLS, TARGET_FILES = 1000, 50


class Tracer:
    """Counts calls by function while it is on. It is set before any thread begins, so that it hears all of them."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.on = False
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code is MODEL:
            self.on = False
        else:
            self.calls[code.co_filename, code.co_qualname] += 1


def by_file(calls: Counter[tuple[str, str]]) -> Counter[str]:
    """Calls of each file, named within the package."""
    found: Counter[str] = Counter()
    for (path, _), count in calls.items():
        found[os.path.relpath(path, PACKAGE)] += count
    return found


async def one_turn(app: ClawbotApp, pilot: Pilot[Any], tracer: Tracer, text: str) -> Counter[tuple[str, str]]:
    """The calls from Enter until the model is called; returns after the turn."""
    app.chat.composer.prompt.insert(text)
    await pilot.pause()
    tracer.calls.clear()
    tracer.on = True
    await pilot.press("enter")
    while tracer.on:
        await pilot.pause()
    calls = tracer.calls.copy()
    while app.chat.turns.busy:
        await pilot.pause()
    return calls


async def measure() -> list[tuple[str, Counter[tuple[str, str]]]]:
    """What two turns called."""
    tracer = Tracer()
    app = ClawbotApp(lambda agent=None: Runtime.open(RuntimeOptions(model="offline")))
    async with app.run_test(size=(100, 30)) as pilot:
        while app.runtime is None:
            await pilot.pause()
        await pilot.pause()
        texts = {"the first turn of a session": "hello", "a plain turn": "how are you?"}
        return [(name, await one_turn(app, pilot, tracer, text)) for name, text in texts.items()]


def main() -> None:
    """Trace and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="also the calls of each file in the plain turn")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["CLAWBOT_HOME"] = home
        traces = asyncio.run(measure())
    print(f"{'Enter to the call of the model':32} {'calls':>8} {'functions':>10} {'files':>7}")
    for name, calls in traces:
        print(f"{name:32} {calls.total():>8,} {len(calls):>10,} {len(by_file(calls)):>7,}")
    print(f"{'at most':32} {TARGET_CALLS:>8,} {'':>10} {TARGET_FILES:>7,}")
    if chosen.files:
        for path, count in by_file(traces[-1][1]).most_common():
            print(f"{count:>6,}  {path}")


if __name__ == "__main__":
    main()
