"""A clock that is set back and forth between messages, resets and starts: nothing is lost, doubled or out of order, and
memory has each session once."""

from __future__ import annotations

import os
import random
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from clawbot.runtime import Runtime
from clawbot.scheduling.jobs import Every, Job
from clawbot.sessions.store import SessionStore
from tests.agent.keeping_house import Note, notes_in, taken
from tests.program import say
from tests.test_resets import BERLIN, Program, background

MORNING = datetime(2026, 11, 20, 9, 30, tzinfo=BERLIN)
JUMPS = (
    *(timedelta(minutes=minutes) for minutes in (-1, 5, -90, 240)),
    *(timedelta(days=days) for days in (-1, 1, -3, 8, -400, 400)),
)
WRONG = (datetime(1970, 1, 1, 1, 2, tzinfo=UTC), datetime(2099, 12, 31, 23, 59, tzinfo=UTC))
ZONES = (BERLIN, UTC, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kathmandu"))
STEPS = 16
SEEDS = range(3)
MARK = re.compile(r"\bm\d{3}\b")
NOON = Job(name="noon", agent_id="main", kind="prompt", when=Every(1_800), session_key="agent:main:noon", prompt="now?")


class Day(Program):
    """The program, whose clock is the machine's: files have its time, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        super().__init__(monkeypatch)
        self.clock.moment = MORNING
        self.chance = random.Random(seed)
        self.count = 0
        self.told: list[str] = []
        self._times: dict[Path, int] = {}

    def stamp(self) -> None:
        """Give what was written since the last call the time of the clock."""
        for path in self.folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.stat().st_mtime_ns != self._times.get(path):
                moment = self.clock.moment.timestamp()
                os.utime(path, (moment, moment))
                self._times[path] = path.stat().st_mtime_ns

    def jump(self) -> None:
        """Set the clock: a little, by days, to what it never was, or right again; and its zone, as who travels does."""
        luck = self.chance.random()
        if luck < 0.15:
            self.clock.moment = self.chance.choice(WRONG)
        elif luck < 0.3:
            self.clock.moment = MORNING + timedelta(hours=self.count)
        else:
            jump = self.chance.choice(JUMPS)
            self.clock.moment = max(WRONG[0], min(WRONG[1], self.clock.moment + jump))
        self.clock.moment = self.clock.moment.astimezone(self.chance.choice(ZONES))

    async def step(self, runtime: Runtime) -> Runtime:
        """Do one thing."""
        match self.chance.choices(("say", "new", "reopen", "look", "resume"), (8, 2, 2, 2, 1))[0]:
            case "say":
                await self.say(runtime)
            case "new":
                await say(runtime, "/new")
            case "look":
                await background(runtime, self, NOON).check()
            case "resume":
                if older := await self.older(runtime):
                    await runtime.sessions.resume(self.chance.choice(older))
                    await self.say(runtime)
            case _:
                await runtime.close()
                self.stamp()
                runtime = await self.open()
        await self.settle(runtime)
        return runtime

    async def older(self, runtime: Runtime) -> list[str]:
        """The other sessions in which something was said."""
        here = runtime.agent.conversation.session_id
        return [each.session_id for each in await runtime.sessions.all() if each.turns and each.session_id != here]

    async def say(self, runtime: Runtime) -> None:
        """Say something new, with a word of its own."""
        self.count += 1
        self.told.append(f"m{self.count:03}")
        await say(runtime, f"{self.told[-1]} and the harbour")

    async def settle(self, runtime: Runtime) -> None:
        """Wait for what goes on beside."""
        await runtime.agent.ended.settled()
        if runtime.agent.deps.hooks is not None:
            await runtime.agent.deps.hooks.settled()
        self.stamp()


def said(path: Path) -> list[str]:
    """The words of the user's messages in a transcript, in their order."""
    return [
        mark for line in path.read_text("utf-8").splitlines() if '"role":"user"' in line for mark in MARK.findall(line)
    ]


def problems(day: Day) -> list[str]:
    """What is wrong when all sessions have ended."""
    store = SessionStore(day.paths.sessions("main"), day.clock)
    paths = {path.stem: path for path in store.folder.glob("*.jsonl")}
    found = [f"{path.name} is left" for path in day.folder.rglob(".*.tmp")]
    words = {ident: said(path) for ident, path in paths.items()}
    counts = Counter(mark for marks in words.values() for mark in marks)
    found += [f"{mark} was said {counts[mark]} times" for mark in day.told if counts[mark] != 1]
    found += [f"{ident}: {marks} is out of order" for ident, marks in words.items() if marks != sorted(marks)]
    notes: dict[str, list[Note]] = defaultdict(list)
    for note in notes_in(day.workspace):
        notes[note.session_id].append(note)
    for ident, marks in words.items():
        if not marks:
            continue
        offered = set(taken(paths[ident]).values())
        if offered != {1}:
            found.append(f"{ident} {marks}: offered {taken(paths[ident])}")
        kept = Counter(MARK.findall(" ".join(text for note in notes[ident] for _, text in note.said)))
        if max(kept.values(), default=0) > 1 or marks[-1] not in kept:
            found.append(f"{ident} {marks}: {[note.name for note in notes[ident]]} hold {dict(kept)}")
    return found


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_clock_that_jumps_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    day = Day(monkeypatch, seed)
    runtime = await day.open()
    for _ in range(STEPS):
        if day.chance.random() < 0.5:
            day.jump()
        runtime = await day.step(runtime)
    day.clock.moment = MORNING + timedelta(days=30)
    for left in await day.older(runtime):
        await say(runtime, "/new")
        await runtime.sessions.resume(left)
    await say(runtime, "/new")
    await day.settle(runtime)
    await runtime.close()
    assert problems(day) == []
