"""Ends the real screen at random moments, again and again in one home: whether anything that was said is lost or said
twice.

Each round starts the screen on a pty, answers the question about what was not sent, types messages, some of them
behind `/new`, and ends the program at a random moment: most by `kill -9`, some by SIGTERM or SIGHUP. A message counts
as told when the screen showed it as sent or queued after Enter. After each end the transcripts and what waits beside
them must hold each told message once. At the end all that waits is sent, and each told message must have been said.

The model answers in the program's own process, at once or after some seconds.

`--kinds` chooses the moments: `plain` as above; `stream`, only while an answer comes word by word; `flush`, only while
memory takes what leaves the context (`/new`, `/compact`, quit), where each message must be offered once and each note
be written once; `import`, `pull` and `dream`, commands of killed_commands.py. Several kinds share the kills.

Run: .venv/bin/python benchmarks/kills.py [--kills N] [--kinds KIND,...] [--seed N] [--slow SHARE] [--every ROUNDS]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from killed_commands import DreamKills, ImportKills, PullKills
from tables import Table

from clawbot.context.compaction.prompts import REQUIRED
from clawbot.sessions.entries import FINAL, FLUSH, OFFER
from tests.e2e.terminal import Terminal

ROOT = Path(__file__).resolve().parents[1]
DELAY = 3.0  # seconds until a slow model answers
AFTER_ENTER = {
    True: 2.5,
    False: 1.5,
}  # seconds at most from the last Enter to the end, with a slow model or a quick one
BEFORE_ENTER = (0.0, 0.0, 0.05, 2.1)  # seconds from the last word to Enter; what stands for two seconds is stored
MARK = re.compile(r"\bm\d{5}\b")
WORDS = ("fix the tests", "端口改到八四四三", "and the release notes", "what did we say of the proxy?", "再看一遍日志")
READY = "script:kills · "  # the model in the header: the conversation is open
EMPTY = "❯ Ask, or / for commands"  # the prompt, with nothing in it
WATCHED = 0.6  # share of the messages for which the user waits until the screen shows them
REST = 0.6  # seconds after which a key is an answer
PATIENCE = 60.0
SIGNALS = (signal.SIGKILL,) * 8 + (signal.SIGTERM, signal.SIGHUP)
KINDS = ("plain", "stream", "flush", "import", "pull", "dream")
FLUSH_PAUSE = 0.4  # seconds of the model before each answer to a flush
FLUSH_KILL = 3.0  # seconds at most from what ends a session to the kill
QUOTED = "Notes from the workspace"  # the first words of a message that quotes what flushes wrote
WORD = "word"  # what the answer of `stream` consists of
MESSAGES = ("message", "custom_message")
FACT = re.compile(r"\bfact (m\d{5})\b")
SUMMARY = "\n\n".join(f"## {heading}\n- as it stood, port 8443" for heading in REQUIRED)
CONFIG = """\
agents:
  defaults:
    compaction: {keep_recent_tokens: 30, memory_flush: {quit_min_tokens: 0}}
hooks: {entries: {session-memory: {enabled: false}}}
"""
COLUMNS = ("ended by", "moment", "ends", "typed", "told", "said", "waiting", "lost", "doubled", "untold and gone")


def answer(kind: str, delay: float, purpose: str, texts: list[str]) -> Any:
    """What the model replies: `texts` are those of the request, the last one that of its last message. A flush appends
    the newest message that it was offered, and is silent when that is done."""
    if purpose == "summary":
        return SUMMARY
    if purpose == "flush" and "flush" in texts[-1]:
        newest = max(MARK.findall("\n".join(texts)), default="")
        call = {"name": "append", "arguments": {"content": f"- fact {newest}: the port of the staging proxy is 8443"}}
        return {"tool_calls": [call]} if newest else "NO_REPLY"
    if purpose != "chat":
        return "NO_REPLY"
    if kind == "stream":
        return {"text": [{"text": f"{WORD} {number} ", "after": 0.1} for number in range(30)]}
    return {"text": [{"text": "It is", "after": delay}, " done."]}


def show_screen(delay: float, kind: str) -> None:
    """The program itself, with a model of this process that answers after `delay` seconds."""
    import asyncio
    from collections.abc import AsyncGenerator
    from contextlib import aclosing
    from unittest.mock import patch

    from clawbot.cli.main import main as run
    from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
    from clawbot.llm.scripted import ScriptEngine, parse_script
    from clawbot.testing.fixture import ScriptedModel

    class KillModel:
        info = ModelInfo(ref="script:kills", window=100_000)

        async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
            if request.purpose == "flush":
                await asyncio.sleep(FLUSH_PAUSE)
            texts = [message.text for message in request.messages if not message.text.startswith(QUOTED)]
            reply = answer(kind, delay, request.purpose, texts)
            script = parse_script(json.dumps({"turns": [{"reply": reply}]}), Path("kills.yaml"))
            async with aclosing(ScriptedModel(ScriptEngine(script)).stream(request)) as parts:
                async for part in parts:
                    yield part

        async def warm(self) -> None:
            """Nothing to load."""

        async def aclose(self) -> None:
            """Nothing to let go of."""

    async def open_model(*_: object, **__: object) -> Any:
        return KillModel()

    sys.argv[1:] = ["chat"]
    with patch("clawbot.services.open_model", open_model):
        run()


class Disk:
    """What the files of a home hold of the messages that were typed."""

    def __init__(self, folder: Path) -> None:
        self.said: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        ids: set[Any] = set()
        for path in folder.glob("*.jsonl"):
            for line in path.read_text("utf-8", "replace").splitlines():
                message = _object(line).get("message") or {}
                if message.get("role") == "user" and isinstance(message.get("content"), str):
                    self.said.update(set(MARK.findall(message["content"])))
                    ids.add(message.get("unsentId"))
        for path in folder.glob("*.unsent"):
            texts: dict[str, str] = {}
            for line in path.read_text("utf-8", "replace").splitlines():
                row = _object(line)
                if "text" in row:
                    texts[row["id"]] = row["text"]
                texts.pop(row.get("gone", ""), None)
            for ident, text in texts.items():
                if ident not in ids:
                    self.waiting.update(set(MARK.findall(text)))


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Kills:
    """One home, and what was typed in it."""

    kind = "plain"

    def __init__(self, home: Path, chance: random.Random, slow: float) -> None:
        self._home = home
        self._chance = chance
        self._slow = slow
        self._count = 0
        self.figures: Counter[tuple[str, str]] = Counter()
        self.told: set[str] = set()
        self.typed: list[str] = []
        self.problems: list[str] = []

    @property
    def sessions(self) -> Path:
        """Where the transcripts lie."""
        return self._home / ".clawbot/agents/main/sessions"

    def _open(self, delay: float) -> Terminal:
        env = {"PATH": os.environ["PATH"], "HOME": str(self._home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, str(Path(__file__).resolve()), "--screen", str(delay), "--kinds", self.kind]
        log = self._home / ".clawbot/logs/clawbot.log"
        return Terminal(argv, env=env, cwd=self._home, columns=110, rows=50, log=log)

    def round(self) -> None:
        """Start, type, end; then look at what the disk holds."""
        slow = self._chance.random() < self._slow
        number = self._chance.choice(SIGNALS)
        row = f"{number.name[3:]}|{self.kind}, {'3 s' if slow else 'quick'}"
        fresh: list[str] = []
        with self._open(DELAY if slow else 0.0) as chat:
            self._begin(chat)
            for _ in range(self._chance.randint(1, 4) + slow):
                fresh.append(self._type(chat))
                chat.feed(self._chance.choice((0.0, 0.05, 0.3)))
                if self._chance.random() < WATCHED:
                    self._watch(chat, fresh[-1])
            self._reach_moment(chat, slow)
            if chat.process.poll() is not None:
                chat.wait_end()  # it crashed, and the terminal itself shows what is typed
            chat.process.send_signal(number)  # nothing if it ended by itself, as asked
            chat.wait_end(None, seconds=PATIENCE)
            self._look(chat)
        self._check(row, fresh)

    def _reach_moment(self, chat: Terminal, slow: bool) -> None:
        """Let time pass from the last Enter to the end of the program."""
        chat.feed(self._chance.random() * AFTER_ENTER[slow])

    def _begin(self, chat: Terminal, send: float = 0.8) -> None:
        """Wait for the conversation; send the draft that stands in the prompt, and what was not sent with the
        probability `send`."""
        chat.wait_for(READY, seconds=PATIENCE)
        chat.feed(0.2)
        if "esc later" not in chat.text and EMPTY not in chat.text:
            chat.send("enter")
            chat.wait_for(EMPTY, seconds=PATIENCE)
            if "/unsent" in chat.text:
                chat.send("/unsent", "enter")
                chat.wait_for("esc later", seconds=PATIENCE)
        if "esc later" in chat.text:
            chat.feed(REST)
            chat.send("s" if self._chance.random() < send else "esc")
            chat.wait_for(lambda text: "esc later" not in text, seconds=PATIENCE)

    def _type(self, chat: Terminal) -> str:
        self._count += 1
        mark = f"m{self._count:05}"
        self.typed.append(mark)
        head = "/new " if self._chance.random() < 0.25 else ""
        chat.send(f"{head}{mark} {self._chance.choice(WORDS)}")
        chat.feed(self._chance.choice(BEFORE_ENTER))
        chat.send("enter")
        return mark

    def _watch(self, chat: Terminal, mark: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while mark not in self.told and time.monotonic() < deadline:
            chat.feed(0.02)
            self._look(chat)

    def _look(self, chat: Terminal) -> None:
        """Whatever stands on the screen outside of the prompt was told."""
        rows = [row for row in chat.text.splitlines() if not row.lstrip().startswith("❯")]
        self.told.update(MARK.findall("\n".join(rows)))

    def _check(self, row: str, fresh: list[str]) -> None:
        disk = Disk(self.sessions)
        lost = [mark for mark in self.told if not disk.said[mark] + disk.waiting[mark]]
        doubled = [mark for mark in self.typed if disk.said[mark] + disk.waiting[mark] > 1]
        gone = [mark for mark in fresh if mark not in self.told and not disk.said[mark] + disk.waiting[mark]]
        figures = {
            "ends": 1,
            "typed": len(fresh),
            "told": sum(mark in self.told for mark in fresh),
            "said": sum(disk.said[mark] for mark in fresh),
            "waiting": sum(disk.waiting[mark] for mark in fresh),
            "lost": len(lost),
            "doubled": len(doubled),
            "untold and gone": len(gone),
        }
        for name, count in figures.items():
            self.figures[row, name] += count
        self.problems += [f"{row}: {mark} is lost" for mark in lost]
        self.problems += [f"{row}: {mark} is there {disk.said[mark]}+{disk.waiting[mark]} times" for mark in doubled]
        # Told once, and not with every end that follows.
        self.told -= set(lost)
        self.typed = [mark for mark in self.typed if mark not in doubled]

    def finish(self) -> None:
        """Send what waits, leave in good order, and look once more."""
        with self._open(0.0) as chat:
            self._begin(chat, send=1.0)
            deadline = time.monotonic() + PATIENCE
            while Disk(self.sessions).waiting and time.monotonic() < deadline:
                chat.feed(0.2)
            chat.wait_for(lambda text: "esc stops" not in text, seconds=PATIENCE)
            chat.send("/quit", "enter")
            chat.wait_end(seconds=PATIENCE)
        disk = Disk(self.sessions)
        self.problems += [f"at the end: {mark} waits" for mark in disk.waiting]
        wrong = [mark for mark in self.told if disk.said[mark] != 1]
        self.problems += [f"at the end: {mark} was said {disk.said[mark]} times" for mark in wrong]


class StreamKills(Kills):
    """The program ends while an answer comes word by word."""

    kind = "stream"

    def _reach_moment(self, chat: Terminal, slow: bool) -> None:
        chat.feed_until(WORD, seconds=PATIENCE)
        chat.feed(self._chance.random() * AFTER_ENTER[slow])


class FlushKills(Kills):
    """The program ends while memory takes what leaves the context."""

    kind = "flush"

    def __init__(self, home: Path, chance: random.Random, slow: float) -> None:
        super().__init__(home, chance, slow)
        (home / ".clawbot").mkdir(mode=0o700)
        (home / ".clawbot/config.yaml").write_text(CONFIG)

    def _reach_moment(self, chat: Terminal, slow: bool) -> None:
        chat.wait_for(lambda text: "esc stops" not in text, seconds=PATIENCE)
        way = self._chance.choice(("/new", "/compact", "/quit", "ctrl+d"))
        chat.send(*((way, "enter") if way.startswith("/") else (way,)))
        chat.feed(self._chance.random() * FLUSH_KILL)

    def _check(self, row: str, fresh: list[str]) -> None:
        memory = Memory(self._home, self.sessions)
        row = f"{row}, {'an offer open' if memory.is_open else 'none open'}"
        super()._check(row, fresh)
        self.problems += [f"{row}: {problem}" for problem in memory.problems]

    def finish(self) -> None:
        """The same; then end the session, and memory has all that was said in a while."""
        super().finish()
        with self._open(0.0) as chat:
            self._begin(chat)
            chat.send("/new", "enter")
            deadline = time.monotonic() + PATIENCE
            while Memory(self._home, self.sessions).left_over and time.monotonic() < deadline:
                chat.feed(0.2)
            chat.send("/quit", "enter")
            chat.wait_end(seconds=PATIENCE)
        memory = Memory(self._home, self.sessions)
        self.problems += [f"at the end: {problem}" for problem in (*memory.problems, *memory.left_over)]


class Memory:
    """What the records of offers and the notes say that memory has had."""

    def __init__(self, home: Path, sessions: Path) -> None:
        notes = (home / ".clawbot/workspace/memory").glob("*.md")
        facts = Counter(FACT.findall("\n".join(path.read_text("utf-8") for path in notes)))
        self.problems = [f"{mark} was noted {count} times" for mark, count in facts.items() if count > 1]
        self.left_over: list[str] = []
        self.is_open = False
        written = 0
        for path in sessions.glob("*.jsonl"):
            lines = [_object(line) for line in path.read_text("utf-8", "replace").splitlines()]
            if not any((line.get("message") or {}).get("role") == "user" for line in lines):
                continue
            order = [line["id"] for line in lines if line.get("type") in MESSAGES]
            place = {ident: number for number, ident in enumerate(order)}
            offers = [line["data"] for line in lines if line.get("customType") == OFFER]
            had: Counter[int] = Counter()
            for offer in offers:
                if offer["phase"] == "end" and offer["result"] in FINAL:
                    had.update(range(place[offer["first"]], place[offer["last"]] + 1))
                    written += offer["by"] == FLUSH and offer["result"] == "written"
            self.problems += [
                f"{path.name}: message {at} was offered {count} times" for at, count in had.items() if count > 1
            ]
            if offers and offers[-1]["phase"] != "end":
                self.is_open = True
                self.left_over.append(f"{path.name}: an offer has no end")
            self.left_over += [
                f"{path.name}: message {at} was never offered" for at in range(len(order)) if not had[at]
            ]
        if written != facts.total():
            self.left_over.append(f"{written} offers were written, {facts.total()} notes are there")


SCREENS = {each.kind: each for each in (Kills, StreamKills, FlushKills)}
COMMANDS = {each.kind: each for each in (ImportKills, PullKills, DreamKills)}


def _print(figures: Counter[tuple[str, str]]) -> None:
    rows = sorted({row for row, _ in figures})
    with Table(*COLUMNS) as table:
        for row in rows:
            table.row(*row.split("|"), *(figures[row, name] for name in COLUMNS[2:]))
        table.row("all", "", *(sum(figures[row, name] for row in rows) for name in COLUMNS[2:]))


def main() -> int:
    """Kill, and print the table now and then; 1 when anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", type=float, default=0.5, help="share of the rounds with a slow model")
    parser.add_argument("--every", type=int, default=50, help="rounds in one home")
    parser.add_argument("--kinds", default="plain", help=f"moments, with commas between: {', '.join(KINDS)}")
    parser.add_argument("--keep", type=Path, help="a folder to which each home with a problem is copied")
    parser.add_argument("--screen", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    kinds = chosen.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"no kinds of moments: {', '.join(sorted(unknown))}")
    if chosen.screen is not None:
        show_screen(chosen.screen, chosen.kinds)
        return 0
    chance = random.Random(chosen.seed)
    figures: Counter[tuple[str, str]] = Counter()
    problems: list[str] = []
    began = time.monotonic()
    each, more = divmod(chosen.kills, len(kinds))
    for number, kind in enumerate(kinds):
        rounds = each + (number < more)
        for first in range(0, rounds, chosen.every):
            with tempfile.TemporaryDirectory() as folder:
                kills = (
                    COMMANDS[kind](Path(folder), chance)
                    if kind in COMMANDS
                    else SCREENS[kind](Path(folder), chance, chosen.slow)
                )
                for _ in range(min(chosen.every, rounds - first)):
                    kills.round()
                kills.finish()
                if kills.problems and chosen.keep:
                    shutil.copytree(folder, chosen.keep / Path(folder).name, symlinks=True)
            figures.update(kills.figures)
            problems += kills.problems
            ends = sum(count for (_, name), count in figures.items() if name == "ends")
            print(f"{ends} ends, {time.monotonic() - began:.0f} s", *kills.problems, sep="\n", file=sys.stderr)
    _print(figures)
    print(f"problems: {len(problems)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
