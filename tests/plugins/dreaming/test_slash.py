"""`/dream` in a conversation, the job of the schedule, and the reminder of a day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawbot.agent.events import CommandOutput, Event, Notice, TurnEnded
from clawbot.config.paths import Paths, find_home
from clawbot.errors import ClawbotError
from clawbot.history import History
from clawbot.plugins.dreaming import job, slash
from clawbot.plugins.dreaming.applying import Applied
from clawbot.plugins.dreaming.dream import DreamContext, DreamOutcome, accept
from clawbot.runtime import Runtime, RuntimeOptions
from tests.clocks import StillClock

MEMORY = "# Memory\n\n## Facts\n\n- the staging proxy answers on 8080\n"
NOTE = "# 2026-11-19\n\n- I prefer answers in metric units\n- my sister Ada lives in Berlin\n"
SETTINGS: dict[str, Any] = {"agents": {"defaults": {"model": "offline", "memory_search": {"enabled": False}}}}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StillClock:
    made = StillClock()
    monkeypatch.setattr("clawbot.services.SystemClock", lambda _zone: made)
    return made


async def opened(dream: Any = "propose", session: str | None = None, config: Path | None = None) -> Runtime:
    """A conversation with the offline model, in a home with one note and MEMORY.md; its settings are in `config`."""
    home = Paths(find_home())
    workspace = home.home / "workspace"
    (workspace / "memory").mkdir(parents=True, exist_ok=True)
    (workspace / "MEMORY.md").write_text(MEMORY)
    (workspace / "memory" / "2026-11-19.md").write_text(NOTE)
    (config or home.config_file).write_text(yaml.safe_dump({**SETTINGS, "memory": {"dream": dream}}))
    options = RuntimeOptions(session=session, watch=False, background=False, flush_at_end=False, config_file=config)
    return await Runtime.open(options)


@pytest.fixture
async def runtime(clock: StillClock) -> AsyncIterator[Runtime]:
    made = await opened()
    yield made
    await made.close(hasty=True)


async def said(runtime: Runtime, text: str) -> CommandOutput | TurnEnded:
    """The output of a command, or the end of its turn when it failed."""
    found: list[CommandOutput | TurnEnded] = []
    async for event in runtime.agent.submit(text):
        if isinstance(event, CommandOutput | TurnEnded):
            found.append(event)
    return found[0]


def memory(runtime: Runtime) -> str:
    return Path(runtime.agent.status.workspace, "MEMORY.md").read_text()


def write_note(runtime: Runtime, text: str) -> None:
    Path(runtime.agent.status.workspace, "memory", "2026-11-20.md").write_text(text)


async def test_the_command_shows_what_waits_and_dreams_only_where_nothing_does(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await said(runtime, "/dream")
    assert isinstance(first, CommandOutput)
    assert first.screen == "dream"
    assert "+ - my sister Ada lives in Berlin" in first.text
    assert "`/dream apply` writes all of it" in first.text
    assert [each["kind"] for each in first.data["proposals"]] == ["add", "add"]

    async def never(_context: DreamContext) -> DreamOutcome:
        raise AssertionError("a dream that nobody asked for")

    monkeypatch.setattr(job, "dream", never)
    again = await said(runtime, "/dream")
    assert isinstance(again, CommandOutput)
    assert again.data == first.data
    assert memory(runtime) == MEMORY


async def test_apply_writes_what_waits_and_now_looks_for_more(runtime: Runtime) -> None:
    await said(runtime, "/dream")
    applied = await said(runtime, "/dream apply")
    assert isinstance(applied, CommandOutput)
    assert (applied.screen, applied.text.count("written")) == ("", 2)
    assert "my sister Ada lives in Berlin" in memory(runtime)
    write_note(runtime, "- I prefer tea to coffee\n")
    more = await said(runtime, "/dream now")
    assert isinstance(more, CommandOutput)
    assert [each["text"].partition(" (")[0] for each in more.data["proposals"]] == ["- I prefer tea to coffee"]


@pytest.mark.parametrize(("session", "text"), [(None, "/dream everything"), ("agent:main:a:group:b", "/dream")])
async def test_what_is_no_use_of_the_command_is_refused(clock: StillClock, session: str | None, text: str) -> None:
    runtime = await opened(session=session)
    ended = await said(runtime, text)
    assert isinstance(ended, TurnEnded)
    assert ended.status == "failed"
    await runtime.close(hasty=True)


async def test_the_reminder_comes_once_a_day_as_long_as_something_waits(runtime: Runtime, clock: StillClock) -> None:
    agent = runtime.agent
    assert await slash.SLASH.remind(agent) == ""
    await said(runtime, "/dream")
    assert await slash.SLASH.remind(agent) == "2 proposals for MEMORY.md: /dream"
    assert await slash.SLASH.remind(agent) == ""
    clock.forward(days=1)
    assert await slash.SLASH.remind(agent) == "2 proposals for MEMORY.md: /dream"
    clock.forward(days=1)
    await said(runtime, "/dream apply")
    assert await slash.SLASH.remind(agent) == ""


@pytest.mark.parametrize(
    ("dream", "session", "config"),
    [("off", None, ""), ("off", None, "other.yaml"), ("propose", "agent:main:a:group:b", "")],
)
async def test_no_reminder_where_dreams_are_off_or_the_memory_is_not_for_the_session(
    clock: StillClock, dream: str, session: str | None, config: str, tmp_path: Path
) -> None:
    runtime = await opened()
    await said(runtime, "/dream")
    await runtime.close(hasty=True)
    runtime = await opened(dream, session, tmp_path / config if config else None)
    assert await slash.SLASH.remind(runtime.agent) == ""
    await runtime.close(hasty=True)


async def test_the_job_proposes_and_its_line_is_the_reminder(runtime: Runtime) -> None:
    shown: list[Event] = []
    runtime.agent.listen(shown.append)
    assert await runtime.agent.idle.run("dream") == "2 proposals for MEMORY.md: /dream"
    assert await runtime.agent.idle.run("dream") == ""
    assert (memory(runtime), shown) == (MEMORY, [])


@pytest.mark.parametrize("config", ["", "other.yaml"])
async def test_the_job_writes_where_it_may_and_names_what_it_wrote(
    clock: StillClock, config: str, tmp_path: Path
) -> None:
    runtime = await opened("auto", config=tmp_path / config if config else None)
    line = await runtime.agent.idle.run("dream")
    assert line == "A dream made 2 changes in MEMORY.md: /undo takes them back."
    assert "my sister Ada lives in Berlin" in memory(runtime)
    limits = runtime.settings.memory.history
    history = History(runtime.paths.memory_history("main"), runtime.agent.status.workspace, clock, limits)
    changes = [change for change in history.changes() if change.author.by == "dream"]
    assert len({change.author.job for change in changes}) == 1
    for change in changes:
        history.undo(change.id)
    assert memory(runtime) == MEMORY
    await runtime.close(hasty=True)


async def test_what_was_written_when_a_message_stops_the_job_is_named(
    clock: StillClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await opened("auto")
    shown: asyncio.Queue[Event] = asyncio.Queue()
    runtime.agent.listen(shown.put_nowait)
    writing, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(*args: Any, **named: Any) -> list[Applied]:
        loop.call_soon_threadsafe(writing.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        return accept(*args, **named)

    monkeypatch.setattr(job, "accept", slowly)
    task = asyncio.create_task(runtime.agent.idle.run("dream"))
    await writing.wait()
    runtime.agent.idle.stop()
    await asyncio.wait({task})
    go_on.set()
    line = await shown.get()
    assert isinstance(line, Notice)
    assert line.text.startswith("A dream made 2 changes")
    await runtime.close(hasty=True)


async def test_a_job_that_takes_too_long_is_stopped(clock: StillClock, monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(_context: DreamContext) -> DreamOutcome:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(job, "dream", endless)
    runtime = await opened({"time_limit": "10ms"})
    with pytest.raises(ClawbotError, match="It took longer than 10ms and was stopped; nothing was proposed"):
        await runtime.agent.idle.run("dream")
    await runtime.close(hasty=True)
