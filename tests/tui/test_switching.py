"""Another agent in the same program: opened before the one that was talked to is closed, and never at its cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from clawbot.agent.events import NoteKept
from clawbot.agent.status import AgentInfo
from clawbot.api import RuntimeApi
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.memory.values import Progress
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import StepClock, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, RuntimeStatus, conversation, reply

INFOS = [("main", "openai/gpt-5"), ("work", "offline"), ("study", "auto")]


def agent(home: Path, agent_id: str, **values: Any) -> FakeRuntime:
    runtime = FakeRuntime(home, status=RuntimeStatus(agent_id=agent_id, session_key=agent_id), **values)
    runtime.settings = Settings.model_validate({"agents": {name: {} for name, _ in INFOS}})
    runtime.agents = [AgentInfo(name, home / name, model, current=name == agent_id) for name, model in INFOS]
    return runtime


class Program:
    """The app over several agents; `opened` are the ids that were asked for, and `shut` those that can't be opened."""

    def __init__(self, *runtimes: FakeRuntime) -> None:
        self.runtimes = {runtime.status.agent_id: runtime for runtime in runtimes}
        self.opened: list[str | None] = []
        self.shut: set[str] = set()
        self.app = ClawbotApp(self.open, theme="dark", clock=StepClock())

    async def open(self, agent: str | None = None) -> RuntimeApi:
        self.opened.append(agent)
        if agent in self.shut:
            raise ClawbotError(f"The session of {agent} is open elsewhere.", hint="Close it there.")
        return self.runtimes[agent or "main"]


@asynccontextmanager
async def talking(*runtimes: FakeRuntime) -> AsyncIterator[tuple[Program, ClawbotApp, Pilot[object]]]:
    program = Program(*runtimes)
    async with program.app.run_test(size=(100, 30), notifications=True) as pilot:
        await until(pilot, lambda: bool(program.app.chat.header.right_text))
        yield program, program.app, pilot


def talks_to(app: ClawbotApp, agent_id: str) -> bool:
    return app.chat.header.name_text == f"clawbot · {agent_id}"


async def test_an_agent_is_picked_and_the_other_one_closed_behind_it(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work", history=conversation(2))
    async with talking(main, work) as (program, app, pilot):
        await send(app, pilot, "/agent")
        await until(pilot, lambda: "openai/gpt-5" in screen_text(app) and "this one" in screen_text(app))
        app.chat.composer.prompt.take("typed, 已输入")
        await pilot.press(*"work", "enter")
        await until(pilot, lambda: talks_to(app, "work") and "Answer 1" in page_text(app))
        assert (main.closed, work.closed, program.opened) == (True, False, [None, "work"])
        assert app.chat.composer.prompt.text == "typed, 已输入"
        assert main.on_event is None
        work.tell(NoteKept(session_id="s", path="memory/x.md"))
        await until(pilot, lambda: "kept: memory/x.md" in page_text(app))
        await send(app, pilot, "hello")
        await until(pilot, lambda: work.submitted == ["hello"] and main.submitted == [])


async def test_an_agent_that_is_named_is_not_asked_for(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: talks_to(app, "work"))
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: "You are talking to work" in screen_text(app))
        assert not work.closed


async def test_an_agent_that_can_not_be_opened_leaves_everything_as_it_was(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main", history=conversation(1)), agent(tmp_path, "work")
    async with talking(main, work) as (program, app, pilot):
        program.shut.add("work")
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: "open elsewhere" in screen_text(app))
        assert talks_to(app, "main")
        assert not main.closed
        await send(app, pilot, "hello")
        await until(pilot, lambda: "You said: hello" in page_text(app))
        program.shut.clear()
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: talks_to(app, "work") and main.closed)


async def test_a_running_turn_ends_first_and_what_is_sent_meanwhile_goes_to_the_other_agent(tmp_path: Path) -> None:
    hold = Hold()
    main = agent(tmp_path, "main", turns=[[hold, *reply("the end of it")]])
    work = agent(tmp_path, "work")
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "go")
        await hold.reached.wait()
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: "work comes when the running turn has ended" in screen_text(app))
        await send(app, pilot, "for work")
        await until(pilot, lambda: "queued: for work" in screen_text(app))
        assert not main.closed
        hold.release()
        await until(pilot, lambda: "You said: for work" in page_text(app))
        assert talks_to(app, "work")
        assert (main.submitted, work.submitted) == (["go"], ["for work"])


async def test_saving_what_was_said_is_told_and_can_be_skipped(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    main.close_hold = Hold()
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: "saving to memory 0 s · esc skips" in screen_text(app))
        assert talks_to(app, "main")
        await pilot.press("escape")
        await until(pilot, lambda: talks_to(app, "work"))
        assert main.closed
        assert "saving" not in screen_text(app)


async def test_a_closing_that_fails_is_told_and_the_other_agent_is_there(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    main.close_error = ClawbotError("The disk is full.")
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: talks_to(app, "work") and "disk" in screen_text(app))


async def test_the_index_of_the_agent_that_was_left_is_told_no_more(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    async with talking(main, work) as (_, app, pilot):
        main.index(Progress("text", 1, 2, "files"))
        await until(pilot, lambda: "indexing 50%" in screen_text(app))
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: talks_to(app, "work") and "indexing" not in screen_text(app))
        assert main.memory.on_progress is None


async def test_who_leaves_while_an_agent_is_closed_has_both_to_close(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    main.close_hold = Hold()
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "/agent work")
        await main.close_hold.reached.wait()
        app.exit()
        await pilot.pause()
    assert app.agents.closing is not None
    assert app.agents.runtimes == [work]
    main.close_hold.release()
    await app.agents.closing
    assert main.closed


async def test_an_agent_to_whom_nothing_was_said_welcomes(tmp_path: Path) -> None:
    main, work = agent(tmp_path, "main"), agent(tmp_path, "work")
    async with talking(main, work) as (_, app, pilot):
        await send(app, pilot, "/agent work")
        await until(pilot, lambda: "does not forget" in page_text(app))


def is_seen(app: ClawbotApp, text: str) -> bool:
    return text in screen_text(app)


@pytest.mark.few(2)
@pytest.mark.parametrize("width", [60, 80, 99, 100])
async def test_a_notice_keeps_its_last_word_at_every_length(width: int, tmp_path: Path) -> None:
    async with talking(agent(tmp_path, "main")) as (_, app, pilot):
        await pilot.resize_terminal(width, 30)
        for length in range(48, 60):
            app.notify(f"{'x' * (length - 5)} {length}e.", markup=False, timeout=600)
            await until(pilot, partial(is_seen, app, f"{length}e."))
            assert f"{length}e." in screen_text(app)
            app.clear_notifications()
            await until(pilot, lambda: not app.screen.query(Toast))
