"""Plays a day on a disk that becomes full at some point of it, and the next day with room: whether anything is lost,
doubled or half written, and whether each failure says what, where and what to do.

A day: a message, one whose answer appends a note, one that writes a file, `/new`, a message, `/compact`, the end of the
program, and a second start that searches memory. It is played once with room to see what it writes; then in a fresh
home for each point at which the disk can be full:

- `calls`: the nth call that creates, writes, syncs or renames a file and all that follow it fail, or with `--once` that
  call alone. Calls of Python code; what SQLite writes is not among them. `--error` has them fail in another way.
- `tmpfs`: a file system of n blocks, which has room again for the next day. It takes the right to mount.

Run: .venv/bin/python benchmarks/full_disk.py [--by calls|tmpfs] [--once] [--error NAME] [--first N] [--every N]
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import contextlib
import errno
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from opening import open_with
from tables import Table

from clawbot.agent.events import Notice, TurnEnded
from clawbot.context.compaction.prompts import REQUIRED
from clawbot.errors import ClawbotError
from clawbot.files import is_aside
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.messages import UserMessage
from clawbot.testing.fixture import ScriptedModel

MARK = re.compile(r"\bm\d\b")
PLAN = "# Plan\n\n" + "- the staging proxy moves to port 8443\n" * 40
SUMMARY = "\n\n".join(f"## {heading}\n- as it stood, port 8443" for heading in REQUIRED)
STARTS = (("m1 hello", "m2 note it", "m3 write the plan", "/new m4 and now?", "/compact"), ("m5 search it",))
NEXT_DAY = ("m6 good morning", "/new m7 and now?")
CONFIG = """\
agents: {main: {}, defaults: {compaction: {keep_recent_tokens: 30, memory_flush: {quit_min_tokens: 0}}}}
hooks: {entries: {session-memory: {llm_slug: false}}}
"""
BLOCK = 4096
ROOM = "64m"
LIMIT = 120  # seconds of one start of the program
ERRORS = {name: getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EIO", "EFBIG")}


class DayModel:
    """Answers by what the message asks for."""

    info = ModelInfo(ref="script:day", window=100_000)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`."""
        script = parse_script(json.dumps({"turns": [{"reply": self._draw(request)}]}), Path("day.yaml"))
        async with aclosing(ScriptedModel(ScriptEngine(script)).stream(request)) as parts:
            async for part in parts:
                yield part

    def _draw(self, request: ChatRequest) -> Any:
        last = request.messages[-1]
        if request.purpose == "summary":
            return SUMMARY
        if not isinstance(last, UserMessage):
            return "It is done." if request.purpose == "chat" else "NO_REPLY"
        marks = MARK.findall(" ".join(message.text for message in request.messages if isinstance(message, UserMessage)))
        if request.purpose == "flush":
            return _call("append", content=f"- flushed {marks[-1] if marks else 'nothing'}")
        if "note it" in last.text:
            return _call("append", path="memory/own.md", content="- noted m2")
        if "search it" in last.text:
            return _call("memory_search", query="what was noted?")
        if "write the plan" in last.text:
            return _call("write", path="plan.md", content=PLAN)
        return f"Answer to {marks[-1] if marks else 'that'}."

    async def warm(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Nothing to let go of."""


def _call(name: str, **arguments: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


class Faults:
    """Lets calls of this process that write fail with `error`: from number `first` on, or that one alone."""

    NAMES = ("write", "pwrite", "fsync", "fdatasync", "rename", "replace", "link", "symlink", "mkdir", "ftruncate")

    def __init__(self, home: Path, first: int | None, error: str, *, once: bool) -> None:
        self._home, self._first, self._error, self._once = str(home), first, ERRORS[error], once
        self.count = 0

    def install(self) -> None:
        """Put the faults in place, for the rest of the process."""
        for name in self.NAMES:
            setattr(os, name, self._counted(getattr(os, name)))
        os.open = self._opening(os.open)
        builtins.open = io.open = self._file_opening(builtins.open)

    def _take(self, path: object = None) -> None:
        self.count += 1
        if self._first is not None and (self.count == self._first or (self.count > self._first and not self._once)):
            raise OSError(self._error, os.strerror(self._error), path)

    def _is_ours(self, file: object) -> bool:
        """Whether `file`, a descriptor or a path, is on the disk that is full."""
        if isinstance(file, int):
            with contextlib.suppress(OSError):
                return str(Path(f"/proc/self/fd/{file}").readlink()).startswith(self._home)
            return False
        return os.fsdecode(file).startswith(self._home) if isinstance(file, str | bytes | os.PathLike) else False

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(first: Any, *args: Any, **kwargs: Any) -> Any:
            folders = [kwargs[name] for name in ("dir_fd", "src_dir_fd") if isinstance(kwargs.get(name), int)]
            if self._is_ours(first) or any(map(self._is_ours, folders)):
                self._take(None if isinstance(first, int) else first)
            return call(first, *args, **kwargs)

        return counted

    def _opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
            folder = kwargs.get("dir_fd")
            ours = self._is_ours(path) if folder is None else self._is_ours(folder)
            if flags & os.O_CREAT and ours and not self._exists(path, folder):
                self._take(path)
            return call(path, flags, *args, **kwargs)

        return opening

    def _file_opening(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opening(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if set(mode) & set("wax+") and self._is_ours(file):
                self._take(file)
            return call(file, mode, *args, **kwargs)

        return opening

    @staticmethod
    def _exists(path: Any, folder: int | None) -> bool:
        try:
            os.lstat(path) if folder is None else os.stat(path, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True


def play(home: Path, starts: tuple[tuple[str, ...], ...], log: Path, faults: Faults | None) -> None:
    """Play `starts` in a process of its own; `log` gets a JSON line for each thing that happened."""
    child = os.fork()
    if child:
        _wait(child, log)
        return
    try:
        os.environ["CLAWBOT_HOME"] = str(home / ".clawbot")
        os.environ["HOME"] = str(home)
        os.chdir(home)
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if faults is not None:
            faults.install()
        for texts in starts:
            asyncio.run(_start(texts, lambda **what: os.write(stream, json.dumps(what).encode() + b"\n")))
        if faults is not None:
            os.write(stream, json.dumps({"what": "calls", "count": faults.count}).encode() + b"\n")
    finally:
        if failed := sys.exc_info()[0]:
            log.with_suffix(".crash").write_text(traceback.format_exc())
        os._exit(failed is not None)


def _wait(child: int, log: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            log.with_suffix(".crash").write_text("it hangs")
            return
        time.sleep(0.01)


async def _start(texts: tuple[str, ...], tell: Callable[..., object]) -> None:
    """One start of the program, in which `texts` are said."""
    try:
        runtime = await open_with(DayModel())
    except (ClawbotError, OSError) as error:
        tell(what="open", error=str(error), hint=getattr(error, "hint", "") or "", kind=type(error).__name__)
        return
    heard: list[str] = [notice.text for notice in runtime.notices]
    runtime.agent.listen(lambda event: heard.append(event.text) if isinstance(event, Notice) else None)
    for text in texts:
        async with aclosing(runtime.agent.submit(text)) as events:
            async for event in events:
                if isinstance(event, Notice):
                    heard.append(event.text)
                if isinstance(event, TurnEnded):
                    tell(what="said", text=text, status=event.status, error=event.error, hint=event.hint)
    try:
        await runtime.close()
    except (ClawbotError, OSError) as error:
        tell(what="close", error=str(error), hint=getattr(error, "hint", "") or "", kind=type(error).__name__)
    tell(what="notices", texts=heard)


class Outcome:
    """What a day came to: its log and what is on disk."""

    def __init__(self, home: Path, log: Path) -> None:
        self._home = home / ".clawbot"
        self.rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        crash = log.with_suffix(".crash")
        self.problems: list[str] = [f"crash: {crash.read_text()[-900:]}"] if crash.exists() else []
        self.said: Counter[str] = Counter()
        for path in self._home.glob("agents/main/sessions/*.jsonl"):
            self._read(path)

    def _read(self, path: Path) -> None:
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            try:
                entry = json.loads(line)
            except ValueError:
                self.problems.append(f"{path.name}:{number} is torn: {line[:60]!r}")
                continue
            message = entry.get("message") or {}
            if message.get("role") == "user":
                self.said.update(MARK.findall(str(message["content"])))

    @property
    def done(self) -> set[str]:
        """The messages whose turn ended well."""
        rows = [row for row in self.rows if row["what"] == "said" and row["status"] == "done"]
        return {mark for row in rows for mark in MARK.findall(row["text"])}

    @property
    def failures(self) -> list[dict[str, Any]]:
        """What failed, as the user was told."""
        return [row for row in self.rows if row.get("error")]

    def check(self, reason: str) -> list[str]:
        """What is wrong at the end of the next day. Each failure gives the `reason` of the system."""
        found = list(self.problems)
        found += [f"{mark} was said {self.said[mark]} times" for mark in sorted(self.done) if self.said[mark] != 1]
        found += [f"{mark} was said {count} times" for mark, count in self.said.items() if count > 1]
        left = [path for path in self._home.rglob("*") if is_aside(path.name) or path.suffix in (".torn", ".part")]
        found += [f"{path.relative_to(self._home)} is left" for path in left]
        memory = self._home / "workspace/memory"
        notes = "".join(path.read_text("utf-8") for path in memory.glob("*.md")) if memory.is_dir() else ""
        lines = Counter(line for line in notes.splitlines() if line.startswith(("- noted", "- flushed")))
        found += [f"{line!r} is there {count} times" for line, count in lines.items() if count > 1]
        plan = self._home / "workspace/plan.md"
        if plan.exists() and plan.read_text("utf-8") != PLAN:
            found.append(f"plan.md is half written: {plan.stat().st_size} bytes")
        for row in self.failures:
            if reason not in row["error"] or not row["hint"] or "/" not in row["error"]:
                found.append(f"{row.get('text', row['what'])}: says {row['error']!r}, {row['hint']!r}")
        return found


def _fresh(home: Path) -> None:
    (home / ".clawbot").mkdir(mode=0o700)
    (home / ".clawbot/config.yaml").write_text(CONFIG)


def _by_calls(place: Path, first: int | None, error: str, *, once: bool) -> Outcome:
    home, log = place / "home", place / "log"
    home.mkdir()
    _fresh(home)
    play(home, STARTS, log, Faults(home, first, error, once=once))
    play(home, (NEXT_DAY,), log, None)
    return Outcome(home, log)


def _by_size(place: Path, blocks: int | None) -> Outcome:
    home, log = place / "home", place / "log"
    home.mkdir()
    size = ROOM if blocks is None else f"{blocks * BLOCK}"
    _mount("-t", "tmpfs", "-o", f"size={size},mode=0700", "clawbot", str(home))
    try:
        _fresh(home)
        play(home, STARTS, log, None)
        disk = os.statvfs(home)
        with log.open("a") as rows:
            rows.write(json.dumps({"what": "used", "count": disk.f_blocks - disk.f_bfree}) + "\n")
        _mount("-o", f"remount,size={ROOM}", str(home))
        play(home, (NEXT_DAY,), log, None)
        return Outcome(home, log)
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


class NoRightError(Exception):
    """This process may not mount file systems."""


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoRightError(done.stderr.strip())


def _points(chosen: argparse.Namespace, place: Path) -> Iterator[tuple[int, Outcome]]:
    """Each point at which the disk is full, with what came of it, beginning with 0: nowhere."""
    whole = _by_size(place, None) if chosen.by == "tmpfs" else _by_calls(place, None, chosen.error, once=False)
    yield 0, whole
    last = next(row["count"] for row in whole.rows if row["what"] == ("used" if chosen.by == "tmpfs" else "calls"))
    points = range(chosen.first, last + 1, chosen.every)
    for point in points[: chosen.points]:
        inner = place / str(point)
        inner.mkdir()
        outcome = (
            _by_size(inner, point) if chosen.by == "tmpfs" else _by_calls(inner, point, chosen.error, once=chosen.once)
        )
        yield point, outcome


@contextlib.contextmanager
def _refusing(parser: argparse.ArgumentParser) -> Iterator[None]:
    try:
        yield
    except NoRightError as error:
        parser.error(f"no right to mount a tmpfs: {error}")


def main() -> int:
    """Fill the disk at one point after the other; 1 when anything was lost or not told, 2 where it may not mount."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("calls", "tmpfs"), default="calls")
    parser.add_argument("--once", action="store_true", help="only one call fails")
    parser.add_argument("--error", choices=ERRORS, default="ENOSPC", help="how calls fail")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--points", type=int, default=10_000, help="at most so many")
    chosen = parser.parse_args()
    ways: Counter[str] = Counter()
    wrong = count = 0
    with tempfile.TemporaryDirectory() as folder, _refusing(parser):
        for point, outcome in _points(chosen, Path(folder)):
            problems = outcome.check(os.strerror(ERRORS[chosen.error]))
            count += 1
            wrong += bool(problems)
            # The text of an exception has its hint at the end.
            failures = (f"{row['error'].removesuffix(row['hint']).rstrip()} {row['hint']}" for row in outcome.failures)
            ways.update(re.sub(r"/\S*/(?:[0-9a-f-]{36})?", "…/", failure) for failure in failures)
            print("".join(f"{point}: {problem}\n" for problem in problems), end="", flush=True)
            if not point:
                print(f"with room: said {sorted(outcome.done)}; {len(outcome.failures)} failures", flush=True)
    with Table(f"{count} days with a full disk", "number") as table:
        table.row("days on which something was lost, doubled or half written", wrong)
        for words, times in ways.most_common():
            table.row(words, times)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
