"""Kills commands at random moments: an import and the download of a model, which the same command completes, and what
writes the memory: dreams, undos, the history.

Used by kills.py, whose rounds these are.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.files import digest_of, is_aside
from clawbot.history import history_of
from tests.importing import homes
from tests.local_model.hosts import SMALL, FileHost, serving

ROOT = Path(__file__).resolve().parents[1]
MODEL = SMALL + random.Random(1).randbytes(2_000_000)
DRIP = 20_000  # bytes that the server of a model sends at once
DRIP_PAUSE = 0.01
PATIENCE = 120.0


class CommandKills(ABC):
    """One home in which a command is killed, and called again."""

    kind = ""
    earliest = 0.1  # share of the time of a command after which it may be killed

    def __init__(self, home: Path, chance: random.Random) -> None:
        self._home = home
        self._chance = chance
        self._rounds = 0
        self._span = 0.0  # seconds that the command takes
        self.figures: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "clawbot", *arguments]
        return subprocess.Popen(
            argv, env=env, cwd=self._home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _run(self, *arguments: str) -> str:
        """Run a command to its end, hours later; one that fails is a problem. Returns what it printed."""
        for left in (self._home / ".clawbot").rglob(".*.tmp"):
            os.utime(left, (0, 0))
        process = self._start(*arguments)
        output, errors = process.communicate(timeout=PATIENCE)
        if process.returncode:
            self.problems.append(f"{self.kind}: `{' '.join(arguments)}` failed: {errors.strip()[-300:]}")
        return output

    def _kill(self, *arguments: str) -> bool:
        """Kill a command at a random moment; returns whether it was still at work. The first one runs to its end, to
        say how long that takes."""
        began = time.monotonic()
        process = self._start(*arguments)
        if not self._span:
            process.communicate(timeout=PATIENCE)
            self._span = time.monotonic() - began
            return False
        try:
            process.communicate(timeout=self._chance.uniform(self.earliest, 1.0) * self._span)
        except subprocess.TimeoutExpired:
            process.send_signal(self._chance.choice((signal.SIGKILL,) * 8 + (signal.SIGTERM, signal.SIGHUP)))
            process.communicate(timeout=PATIENCE)
            return True
        return False

    def _count(self, name: str, count: int = 1) -> None:
        self.figures[f"any|{self.kind}", name] += count

    @abstractmethod
    def round(self) -> None:
        """Kill the command, look, and let it come to its end now and then."""

    def finish(self) -> None:
        """Complete what was killed last; nothing by default."""
        return


class ImportKills(CommandKills):
    """Imports of the homes of other programs."""

    kind = "import"

    def __init__(self, home: Path, chance: random.Random) -> None:
        super().__init__(home, chance)
        self._sources: list[Path] = []
        self._expected: dict[Path, Counter[str]] = {}
        for name, make in homes.HOMES.items():
            place = home / "theirs" / name
            place.mkdir(parents=True)
            self._sources.append(make(place, homes.WORDS[chance.choice(("en", "zh"))]))

    @property
    def _state(self) -> Path:
        return self._home / ".clawbot"

    def _said(self) -> Counter[str]:
        """What each conversation holds, without what is new with each import: times and ids."""
        found = []
        for path in (self._state / "agents/main/sessions").glob("*.jsonl"):
            lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
            texts = [json.dumps(line["message"]["content"]) for line in lines if line["type"] == "message"]
            if texts:
                found.append(re.sub(r"[0-9a-f]{8,}", "", "\n".join(texts)))
        return Counter(found)

    def round(self) -> None:
        """Kill an import, complete it, compare it with one that nobody disturbed, and take it back."""
        source = self._chance.choice(self._sources)
        command = ("import", str(source))
        if source not in self._expected:
            self._span = 0.0
            self._kill(*command)
            self._expected[source] = self._said()
            self._take_back(source)
        killed = 0
        for _ in range(self._chance.randint(1, 3)):
            killed += self._kill(*command)
        self._count("ends", killed)
        if self._chance.random() < 0.7:
            self._run(*command)
            if self._said() != self._expected[source]:
                told = sorted(
                    ((self._said() - self._expected[source]) + (self._expected[source] - self._said())).values()
                )
                self.problems.append(f"import: {source.name} came out differently ({told})")
        self._take_back(source)

    def _take_back(self, source: Path) -> None:
        for run in reversed(json.loads(self._run("import", "list", "--json"))):
            self._run("import", "undo", run["id"])
        left = [path for path in (self._state / "workspace").rglob("*") if path.suffix == ".md" and path.is_file()]
        left += [path for path in self._state.rglob("*") if is_aside(path.name)]
        if self._said() or left:
            self.problems.append(f"import: {source.name} was not taken back: {self._said().total()} talks, {left}")


class Drip(io.RawIOBase):
    """A slow line: what is written to it goes on in small parts."""

    def __init__(self, line: BufferedIOBase) -> None:
        self._line = line

    def write(self, data: Any) -> int:
        """Pass `data` on."""
        for start in range(0, len(data), DRIP):
            if start:
                time.sleep(DRIP_PAUSE)
            self._line.write(data[start : start + DRIP])
        return len(data)


class SlowHost(FileHost):
    """Serves a file over a slow line, to clients that are killed."""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer as long as somebody listens."""
        handler.wfile, line = cast("BufferedIOBase", Drip(handler.wfile)), handler.wfile
        with contextlib.suppress(ConnectionError):
            super().answer(handler)
        handler.wfile, handler.close_connection = line, True


class PullKills(CommandKills):
    """Downloads of a model."""

    kind = "pull"

    def __init__(self, home: Path, chance: random.Random) -> None:
        super().__init__(home, chance)
        self._open = contextlib.ExitStack()
        self._host = self._open.enter_context(serving(SlowHost(MODEL)))
        self._models = home / ".clawbot/models"
        self._file, self._part = self._models / "tiny.gguf", self._models / "tiny.gguf.part"

    def round(self) -> None:
        """Kill a download, look at what it left, and let it come to its end now and then."""
        if not self._span:
            self._kill("model", "pull", self._host.url)
            self._complete()
        before = self._part.stat().st_size if self._part.exists() else 0
        self._host.asked.clear()
        self._count("ends", self._kill("model", "pull", self._host.url))
        self._look(before)
        if self._chance.random() < 0.4:
            self._complete()

    def _look(self, before: int) -> None:
        if self._file.exists() and self._file.read_bytes() != MODEL:
            self.problems.append("pull: the model is there and not whole")
        part = self._part.read_bytes() if self._part.exists() else b""
        if not MODEL.startswith(part):
            self.problems.append(f"pull: a part of {len(part)} bytes is not the beginning")
        if before and self._host.asked and self._host.asked[0] != f"bytes={before}-":
            self.problems.append(f"pull: {before} bytes were there, and {self._host.asked[0]} was asked for")

    def _complete(self) -> None:
        self._run("model", "pull", self._host.url)
        left = sorted(path.name for path in self._models.iterdir())
        if left != ["hashes.json", "tiny.gguf"] or self._file.read_bytes() != MODEL:
            self.problems.append(f"pull: {left} at the end")
        self._file.unlink(missing_ok=True)

    def finish(self) -> None:
        """Let the last download come to its end."""
        self._complete()
        self._open.close()


class DreamKills(CommandKills):
    """Dreams, undos, and the log, which ends what a kill left open."""

    kind = "dream"
    earliest = 0.5
    seed = "# Memory\n\n- My dentist is Dr. Kim (since 2020-01-10)\n"

    def __init__(self, home: Path, chance: random.Random) -> None:
        super().__init__(home, chance)
        self._state, self._spans = home / ".clawbot", dict[str, float]()
        self._workspace = self._state / "workspace"
        (self._workspace / "memory").mkdir(parents=True)
        (self._workspace / "MEMORY.md").write_text(self.seed)
        (self._state / "config.yaml").write_text("agents: {defaults: {model: offline}}\n")
        paths = Paths(self._state)
        self._history = history_of(load_settings(paths).settings, paths, "main", SystemClock())

    def round(self) -> None:
        """Write a note, kill a command, look, and complete the dream now and then."""
        self._rounds += 1
        number, day = self._rounds, date(2020, 1, 10) + timedelta(days=self._rounds)
        facts = (
            f"My dentist is now Dr. Okafor{number}",
            f"my aunt Ada{number} lives in Porto",
            f"我表弟小王{number}住在柏林",
        )
        (self._workspace / f"memory/{day}.md").write_text("".join(f"- {fact}\n" for fact in facts), "utf-8")
        while not self._kill_one():
            pass
        self._look()
        if self._chance.random() < 0.5:
            self._run("memory", "dream", "--apply")
            self._look()

    def _kill_one(self) -> bool:
        undo = [("undo", ident) for ident in self._undoable()[:1]]
        command = self._chance.choice([("dream", "--apply"), ("dream", "--apply"), ("log",), *undo])
        self._span = self._spans.get(command[0], 0.0)
        killed = self._kill("memory", *command)
        self._spans[command[0]] = self._span
        self.figures[f"any|memory {command[0]}", "ends"] += killed
        return killed

    def _undoable(self) -> list[str]:
        """The changes that dreams made and nobody took back, newest first."""
        changes = self._history.changes()
        gone = {change.author.undoes for change in changes}
        return [change.id for change in changes if change.author.by == "dream" and change.id not in gone]

    def _look(self) -> None:
        """Look whether each file is as the history has it, holds no line twice, and no proposal was made twice."""
        self._history.notice()
        for path in self._workspace.rglob("[!.]*.md"):
            name, data = str(path.relative_to(self._workspace)), path.read_bytes()
            changes = self._history.changes(name)
            if not name.startswith("memory/20") and any(change.author.by == "user" for change in changes):
                self.problems.append(f"dream: {name} has what no change of the history made")
            if changes and digest_of(data) != changes[0].after:
                self.problems.append(f"dream: {name} is not as the history has it")
            twice = [line for line, count in Counter(data.decode().splitlines()).items() if line and count > 1]
            self.problems += [f"dream: {name} has twice: {line}" for line in twice]
        proposals = self._state / "dreams/main/proposals.jsonl"
        states: dict[str, str] = {}
        for line in proposals.read_text("utf-8").split("\n") if proposals.exists() else ():
            with contextlib.suppress(ValueError):
                step = json.loads(line)
                ident = step.get("id") or step["proposal"]["id"]
                if step["state"] == "proposed" and states.get(ident, "stale") != "stale":
                    self.problems.append(f"dream: {ident} was proposed twice")
                states[ident] = step["state"]

    def finish(self) -> None:
        """Complete the dream, and take all of it back, to the byte."""
        self._run("memory", "dream", "--apply")
        self._look()
        for ident in self._undoable():
            self._history.undo(ident)
        left = {path.name for path in self._workspace.rglob("*.md") if not path.name.startswith("20")}
        if left != {"MEMORY.md"} or (self._workspace / "MEMORY.md").read_text("utf-8") != self.seed:
            self.problems.append(f"dream: not all was taken back: {left}")
