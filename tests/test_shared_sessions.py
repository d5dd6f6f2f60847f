"""Several sessions of one agent in one process: they share an index that is watched once, a store, hooks and jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.scheduling.jobs import Every, Job
from clawbot.services import SharedServices
from tests.memory.index_host import until
from tests.program import reply_of

OPTIONS = RuntimeOptions(model="offline")


@asynccontextmanager
async def two_sessions() -> AsyncIterator[tuple[SharedServices, Runtime, Runtime]]:
    services = await asyncio.to_thread(SharedServices, OPTIONS)
    try:
        main = await Runtime.open(OPTIONS, services)
        yield services, main, await Runtime.open(RuntimeOptions(new=True), services)
    finally:
        await services.close()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The memories whose files somebody began to follow."""
    from clawbot.memory.index import MemoryIndex

    started: list[object] = []
    start: Callable[[MemoryIndex], None] = MemoryIndex.start

    def noted(index: MemoryIndex) -> None:
        started.append(index)
        start(index)

    monkeypatch.setattr(MemoryIndex, "start", noted)
    return started


@pytest.mark.few(1)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the first closes first", "the second closes first"])
async def test_two_sessions_share_one_index_and_one_watcher_and_close_in_either_order(
    starts: list[object], order: tuple[int, int]
) -> None:
    async with two_sessions() as (services, *both):
        assert both[0].agent.status.session_key != both[1].agent.status.session_key
        assert both[0].memory.index is both[1].memory.index is services.memory
        assert starts == [services.memory]
        # Two turns at once, then what one session was told is found in the other.
        await asyncio.gather(reply_of(both[0], "remember that the harbour opens at six"), reply_of(both[1], "hello"))
        assert "six" in await reply_of(both[1], "when does the harbour open?")
        first, last = both[order[0]], both[order[1]]
        await first.close()
        generation = last.memory.generation
        await last.workspace.write("memory/2026-11-21.md", "- the proxy listens on port 8443\n")
        await until(lambda: last.memory.generation > generation)
        assert "8443" in await reply_of(last, "which port does the proxy listen on?")
        await last.close()
        assert services.sessions == {}
    again = await Runtime.open(OPTIONS)
    assert [item.message.text for item in await again.sessions.history() if item.message is not None]
    await again.close()


async def test_sessions_that_are_open_have_one_scheduler_which_ends_with_the_last(own_world: object) -> None:
    async with two_sessions() as (services, main, other):
        background = services.background
        assert background is not None
        assert background.agents == [main.agent, other.agent]
        await main.close()
        assert background.agents == [other.agent]
        await other.close()
        assert background.agents == []


async def test_a_job_runs_in_the_session_it_belongs_to_though_another_one_was_opened_first() -> None:
    home = Paths(find_home()).home
    home.mkdir(parents=True)
    (home / "config.yaml").write_text(json.dumps({"session": {"reset": {"mode": "none"}}}))
    async with two_sessions() as (_, main, other):
        key = other.agent.conversation.session.record.key
        job = Job(name="ask", agent_id="main", kind="prompt", when=Every(60), session_key=key, prompt="hello")
        reply = await other.run_job(job)
        assert reply
        assert await main.sessions.history() == []
        assert [item.message.text for item in await other.sessions.history() if item.message is not None][-1] == reply
        await other.close()
        await main.close()
