"""What commands of packages do for the schedule, and report when a session begins."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clawbot.agent.command_hosts import AgentHost
from clawbot.agent.commands import Command, CommandResult, CommandSet
from clawbot.agent.events import Notice
from clawbot.agent.idle_requests import IdleWork
from clawbot.agent.slash import CommandInfo
from clawbot.deadline import InterruptedTurnError
from clawbot.errors import ClawbotError
from clawbot.runtime import Runtime, RuntimeOptions
from tests.clocks import StillClock


class Package:
    """A package with a command that works until it is stopped, and one that fails when it reports."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = False

    async def work(self, host: AgentHost) -> str:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True
        return "never"

    async def fails(self, host: AgentHost) -> str:
        raise OSError("The disk is full.")

    async def report(self, host: AgentHost) -> str:
        return "3 wait"

    async def run(self, host: AgentHost, argument: str) -> CommandResult:
        return CommandResult()

    @property
    def commands(self) -> CommandSet:
        def named(name: str) -> CommandInfo:
            return CommandInfo(f"/{name}", "", "")

        return CommandSet(
            {
                "broken": Command(named("broken"), self.run, remind=self.fails),
                "plain": Command(named("plain"), self.run),
                "dream": Command(named("dream"), self.run, self.work, self.report),
            }
        )


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Package:
    made = Package()
    for module in ("idle_requests", "commands"):
        monkeypatch.setattr(f"clawbot.agent.{module}.installed_commands", lambda: made.commands)
    return made


def host(*, attended: bool = True) -> Any:
    shown: list[Notice] = []
    deps = SimpleNamespace(clock=StillClock(), front=SimpleNamespace(approvals=attended))
    conversation = SimpleNamespace(session_id="a")
    return SimpleNamespace(deps=deps, conversation=conversation, notify=shown.append, shown=shown)


async def test_what_the_user_sends_stops_the_work_and_what_the_schedule_sends_does_not(package: Package) -> None:
    work = IdleWork(host())
    task = asyncio.create_task(work.run("dream"))
    await package.begun.wait()
    work.stop("schedule")
    await asyncio.sleep(0)
    assert not task.done()
    work.stop()
    with pytest.raises(InterruptedTurnError):
        await task
    assert package.left


@pytest.mark.parametrize("name", ["plain", "unknown"])
async def test_a_command_without_work_for_the_schedule_is_named(package: Package, name: str) -> None:
    with pytest.raises(ClawbotError, match=f"has the command /{name} for the schedule"):
        await IdleWork(host()).run(name)


async def test_quiet_is_the_time_since_the_user_did_something(package: Package) -> None:
    made = host()
    work = IdleWork(made)
    made.deps.clock.forward(minutes=12)
    assert work.quiet == 720
    work.touch()
    assert work.quiet == 0


async def test_a_session_begins_with_what_commands_report(package: Package) -> None:
    made = host()
    work = IdleWork(made)
    await work.remind()
    await work.remind()
    assert [notice.text for notice in made.shown] == ["3 wait"]
    made.conversation.session_id = "b"
    await work.remind()
    assert len(made.shown) == 2


async def test_where_no_user_is_nothing_is_reported(package: Package) -> None:
    made = host(attended=False)
    await IdleWork(made).remind()
    assert made.shown == []


async def test_a_message_stops_what_the_schedule_does_in_the_session(package: Package) -> None:
    runtime = await Runtime.open(RuntimeOptions(model="offline", watch=False, background=False, flush_at_end=False))
    task = asyncio.create_task(runtime.agent.idle.run("dream"))
    await package.begun.wait()
    async for _event in runtime.agent.submit("hello"):
        pass
    with pytest.raises(InterruptedTurnError):
        await task
    await runtime.close(hasty=True)


async def test_the_end_of_the_session_stops_it_too(package: Package) -> None:
    runtime = await Runtime.open(RuntimeOptions(model="offline", watch=False, background=False, flush_at_end=False))
    task = asyncio.create_task(runtime.agent.idle.run("dream"))
    await package.begun.wait()
    await runtime.close(hasty=True)
    with pytest.raises(InterruptedTurnError):
        await task
