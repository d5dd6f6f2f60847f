"""How many calls and files of clawbot a turn takes from Enter to the call of the model, and a search from start to end.

Runs the real program offline and in a fresh home, headless for the turns: `python benchmarks/trace.py [--files]`.
A call is a Python call of a function of the package, in any thread; a coroutine that resumes counts again. The search
is `clawbot memory search` over two lines of notes that are indexed, in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from tables import Table

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from clawbot.tui.app import ClawbotApp

# Nothing of clawbot is imported before a trace: a search counts what its own imports call.
CHECKOUT = Path(__file__).parents[1]
PACKAGE = str(CHECKOUT / "clawbot")
LIMITS = CHECKOUT / ".ci/house.toml"
NOTES = "The staging proxy listens on port 8443.\nDana reviews the release on Fridays.\n"
QUERY = ("memory", "search", "port of the staging proxy")


class Tracer:
    """Counts calls by function while it is on; bodies of modules and classes are no functions. It is set before any
    thread begins, so that it covers all of them."""

    def __init__(self, last: CodeType | None = None) -> None:
        """`last` is the function whose call ends the trace."""
        self.calls: Counter[tuple[str, str]] = Counter()
        self.on = False
        self.last = last
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if code is self.last:
            self.on = False
        elif code.co_flags & inspect.CO_OPTIMIZED:
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


async def trace_turns() -> dict[str, Counter[tuple[str, str]]]:
    """Return the calls of two turns."""
    from clawbot.llm.offline.model import OfflineModel
    from clawbot.runtime import Runtime, RuntimeOptions
    from clawbot.tui.app import ClawbotApp

    tracer = Tracer(OfflineModel.stream.__code__)
    app = ClawbotApp(lambda agent=None: Runtime.open(RuntimeOptions(model="offline")))
    async with app.run_test(size=(100, 30)) as pilot:
        while app.runtime is None:
            await pilot.pause()
        await pilot.pause()
        texts = {"the first turn of a session": "hello", "a plain turn": "how are you?"}
        return {name: await one_turn(app, pilot, tracer, text) for name, text in texts.items()}


def trace_search() -> dict[str, Counter[tuple[str, str]]]:
    """Return the calls of a search, which runs in this process."""
    tracer = Tracer()
    tracer.on = True
    from clawbot.__main__ import main as run

    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        sys.argv = ["clawbot", *QUERY]
        run()
    tracer.on = False
    return {"a search": tracer.calls}


def traced_in_child(what: str) -> dict[str, Counter[tuple[str, str]]]:
    """Trace `turns` or `search` in a process and a home of its own, and return the calls."""
    with tempfile.TemporaryDirectory() as home:
        env = os.environ | {"CLAWBOT_HOME": home, "HOME": home}
        if what == "search":
            notes = Path(home) / "workspace/MEMORY.md"
            notes.parent.mkdir()
            notes.write_text(NOTES, encoding="utf-8")
            first = [sys.executable, "-m", "clawbot", *QUERY]
            subprocess.run(first, env=env, check=True, capture_output=True)
        argv = [sys.executable, __file__, "--only", what]
        done = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    return {name: Counter({(path, function): n for path, function, n in calls}) for name, calls in rows.items()}


def main() -> None:
    """Trace and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="also the calls of each file in the plain turn and search")
    parser.add_argument("--json", action="store_true", help="the figures of .ci/house.toml in the last line")
    parser.add_argument("--only", choices=("turns", "search"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only:
        found = asyncio.run(trace_turns()) if chosen.only == "turns" else trace_search()
        print(json.dumps({name: [[*key, count] for key, count in calls.items()] for name, calls in found.items()}))
        return
    traces = traced_in_child("turns") | traced_in_child("search")
    limited = {"turn": traces["a plain turn"], "search": traces["a search"]}
    figures = {f"{name}_calls": calls.total() for name, calls in limited.items()}
    figures |= {f"{name}_files": len(by_file(calls)) for name, calls in limited.items()}
    goals = {name: table.get("goal") for name, table in tomllib.loads(LIMITS.read_text(encoding="utf-8")).items()}
    with Table("Enter to the model, and a search", "calls", "functions", "files") as table:
        for name, calls in traces.items():
            table.row(name, f"{calls.total():,}", f"{len(calls):,}", f"{len(by_file(calls)):,}")
        for name in limited:
            table.row(f"{name}, wanted", f"{goals[f'{name}_calls']:,}", "–", f"{goals[f'{name}_files']:,}")
    if chosen.files:
        for name, calls in limited.items():
            print(name)
            for path, count in by_file(calls).most_common():
                print(f"{count:>6,}  {path}")
    if chosen.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
