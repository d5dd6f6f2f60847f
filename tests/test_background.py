"""What an open chat does beside its turns: jobs here and elsewhere, and what it leaves alone while a turn runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clawbot.agent.events import Event, Notice
from clawbot.background import Background, jobs_for
from clawbot.config.schema import Settings
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.scheduling.jobs import Job, jobs_of
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import JobSkippedError, Schedule
from clawbot.sessions.errors import SessionLockedError
from tests.scheduling.jobs import SetClock, at, job

EIGHT = at("2026-11-21T08:00")


class Idle:
    """What commands do for the schedule in a session that nobody uses."""

    def __init__(self) -> None:
        self.quiet = 0.0
        self.reminded = 0
        self.reply: str | Exception = ""
        self.ran: list[str] = []

    async def run(self, name: str) -> str:
        self.ran.append(name)
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply

    async def remind(self) -> None:
        self.reminded += 1


class Chat:
    """An agent as the background sees it: whether a turn runs, how often it was asked to look at the clock."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.notify = self.told.append
        self.status = SimpleNamespace(busy=False)
        record = SimpleNamespace(key="agent:main:main")
        self.conversation = SimpleNamespace(session=SimpleNamespace(record=record))
        self.looks = 0
        self.idle = Idle()

        self.failure: Exception | None = None
        self.looked = asyncio.Event()

    async def check_clock(self) -> None:
        self.looks += 1
        self.looked.set()
        if self.failure is not None:
            raise self.failure


class Stage:
    """The background of one chat with a clock that tests move on."""

    def __init__(self, folder: Path, elsewhere: Callable[[Job], Awaitable[str]], *jobs: Job) -> None:
        self.chat, self.clock = Chat(), SetClock(EIGHT)
        self.schedule = Schedule(jobs, Ledger(folder / "schedule.json"), self.clock)
        self.schedule.due(EIGHT)
        self.background = Background("main", self.schedule, self.clock, elsewhere)
        self.background.agents.append(cast("Any", self.chat))

    async def look_after(self, minutes: int) -> None:
        self.clock.moment += timedelta(minutes=minutes)
        await self.background.check()

    @property
    def lines(self) -> list[str]:
        return [event.text for event in self.chat.told if isinstance(event, Notice)]


async def reports(wanted: Job) -> str:
    return f"{wanted.name} 完成\nall is well"


async def test_what_a_job_of_another_session_says_is_told_in_one_line(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports, job(1800, "morning"))
    await stage.look_after(30)
    assert stage.lines == ["morning: morning 完成 all is well (full text: /sessions)"]
    await stage.look_after(1)
    assert len(stage.lines) == 1


async def test_a_job_that_fails_is_told_and_stops_no_other(tmp_path: Path) -> None:
    async def breaks(wanted: Job) -> str:
        if wanted.name == "a":
            raise ClawbotError("The harbour is closed.")
        return "done"

    stage = Stage(tmp_path, breaks, job(1800, "a"), job(1800, "b"))
    await stage.look_after(30)
    assert stage.lines == ["The job a failed: The harbour is closed.", "b: done (full text: /sessions)"]


async def test_while_a_turn_runs_the_clock_and_the_jobs_of_its_session_wait_and_others_do_not(tmp_path: Path) -> None:
    own = job(1800, "own", session_key="agent:main:main")
    stage = Stage(tmp_path, reports, own, job(1800, "other"))
    stage.chat.status.busy = True
    await stage.look_after(30)
    assert stage.chat.looks == 0
    assert [line.partition(":")[0] for line in stage.lines] == ["other"]
    due = next(state.next_due for state in stage.schedule.states(stage.clock.now()))
    assert due is not None
    assert due <= stage.clock.now()


async def test_a_session_that_is_open_elsewhere_puts_its_job_off(tmp_path: Path) -> None:
    locked = True

    async def opens(wanted: Job) -> str:
        if locked:
            raise SessionLockedError("The session is in use.", pid=1)
        return "at last"

    stage = Stage(tmp_path, opens, job(1800, "morning"))
    await stage.look_after(30)
    assert stage.lines == []
    locked = False
    await stage.look_after(1)
    assert stage.lines == ["morning: at last (full text: /sessions)"]


async def test_a_reset_of_the_own_agent_is_the_look_at_the_clock(tmp_path: Path) -> None:
    async def never(wanted: Job) -> str:
        raise AssertionError(wanted.name)

    stage = Stage(tmp_path, never, job(1800, "reset", kind="reset", session_key="agent:main:main", prompt=""))
    await stage.look_after(30)
    assert (stage.chat.looks, stage.lines) == (1, [])


async def test_a_look_that_fails_is_told_once_and_the_next_one_comes(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports)
    stage.chat.failure = RuntimeError("nobody foresaw this")
    agent = cast("Any", stage.chat)
    stage.background.agents.clear()
    await stage.background.add(agent)
    await stage.chat.looked.wait()
    await stage.background.remove(agent)
    stage.background.agents.append(agent)
    timer = stage.background._timer
    await timer.check()
    assert stage.chat.looks == 2
    assert stage.lines == ["The schedule could not be checked: RuntimeError (see the log for details)"]


async def test_a_session_that_can_not_be_ended_stops_no_job_and_is_told_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports, job(1800, "morning"))
    stage.chat.failure = ClawbotError("The disk is full.")
    await stage.look_after(30)
    await stage.look_after(1)
    assert stage.lines == [
        "The conversation should have ended, but could not be closed: The disk is full.",
        "morning: morning 完成 all is well (full text: /sessions)",
    ]


async def test_what_the_ledger_survives_is_told_once_and_not_collected(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports)
    for _ in range(3):
        stage.schedule.ledger.notices.append("The schedule can't be written: No space left on device.")
        await stage.look_after(1)
    assert stage.lines == ["The schedule can't be written: No space left on device."]
    assert stage.schedule.ledger.notices == []


def test_an_open_chat_leaves_the_resets_of_other_agents_to_them() -> None:
    jobs = jobs_of(Settings.model_validate({"agents": {"work": {}}}))
    own = {("main", "reset"), ("main", "memory.dream"), ("main", "heartbeat")}
    assert {(each.agent_id, each.name) for each in jobs_for(jobs, "main")} == own


def dreams(tmp_path: Path, **changes: Any) -> Stage:
    async def never(wanted: Job) -> str:
        raise AssertionError(wanted.name)

    values = {"kind": "command", "command": "dream", "idle": 600.0, "session_key": "agent:main:other"} | changes
    return Stage(tmp_path, never, job("0 8 * * *", "memory.dream", **values))


async def test_a_command_of_the_schedule_waits_until_nobody_uses_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_battery = True

    async def battery() -> bool:
        return on_battery

    monkeypatch.setattr("clawbot.background.on_battery", battery)
    stage = dreams(tmp_path)
    idle = stage.chat.idle
    idle.reply = "3 proposals"
    await stage.look_after(24 * 60)
    idle.quiet, stage.chat.status.busy = 700.0, True
    await stage.look_after(1)
    stage.chat.status.busy = False
    await stage.look_after(1)
    assert (idle.ran, stage.lines) == ([], [])
    on_battery = False
    await stage.look_after(1)
    await stage.look_after(1)
    assert (idle.ran, stage.lines) == (["dream"], ["3 proposals"])
    await stage.look_after(24 * 60)
    assert idle.ran == ["dream", "dream"]


async def test_a_command_that_a_message_stops_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def battery() -> bool:
        return False

    monkeypatch.setattr("clawbot.background.on_battery", battery)
    stage = dreams(tmp_path)
    idle = stage.chat.idle
    idle.quiet, idle.reply = 700.0, InterruptedTurnError()
    await stage.look_after(24 * 60)
    idle.reply = ""
    await stage.look_after(1)
    await stage.look_after(1)
    assert (idle.ran, stage.lines) == (["dream", "dream"], [])


async def test_reminders_come_while_no_turn_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, reports)
    stage.chat.status.busy = True
    await stage.look_after(1)
    assert stage.chat.idle.reminded == 0
    stage.chat.status.busy = False
    await stage.look_after(1)
    assert stage.chat.idle.reminded == 1


@pytest.mark.parametrize("busy", [True, False])
async def test_a_skipped_job_says_nothing(tmp_path: Path, busy: bool) -> None:
    async def skips(wanted: Job) -> str:
        raise JobSkippedError("there is nothing to do", postponed=busy)

    stage = Stage(tmp_path, skips, job(1800, "beat"))
    await stage.look_after(30)
    assert stage.lines == []
