"""A turn in plan mode ends with a question on the screen: whether the plan is carried out, and how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from clawbot.agent.events import Event, PlanReady, TextDelta
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import StepClock, chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply

TEXT = "## Plan\n\n1. Write it\n2. Read it"
SAID = "The plan is accepted: carry it out."
READY = PlanReady(plan=TEXT, acceptance=SAID)


def planning(home: Path, *turns: Sequence[Event | Hold]) -> FakeRuntime:
    runtime = FakeRuntime(home, turns=[[*reply(TEXT), READY], *turns])
    runtime.set_mode("plan")
    return runtime


def is_asked(app: ClawbotApp) -> bool:
    return "Carry out this plan?" in screen_text(app)


def rest(app: ClawbotApp) -> None:
    """The question was on the screen for a while."""
    assert isinstance(app.clock, StepClock)
    app.clock.seconds += 5


@pytest.mark.parametrize(("key", "mode"), [("enter", "ask"), ("1", "ask"), ("2", "edits")])
async def test_accepting_changes_the_mode_and_says_so(tmp_path: Path, key: str, mode: str) -> None:
    async with chatting(planning(tmp_path, reply("Done."))) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app))
        shown = screen_text(app)
        assert "❯ 1 accept, ask before each change" in shown
        assert "  2 accept, change without asking" in shown
        assert "  3 no: say what should change" in shown
        rest(app)
        await pilot.press(key)
        await until(pilot, lambda: "Done." in page_text(app) and not is_asked(app))
        runtime = app.runtime
        assert runtime is not None
        assert runtime.agent.status.mode == mode
        assert f"▌ {SAID}" in page_text(app)
        assert app.focused is app.chat.composer.prompt


@pytest.mark.parametrize("key", ["3", "escape", "down"])
async def test_planning_goes_on(tmp_path: Path, key: str) -> None:
    async with chatting(planning(tmp_path)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app))
        rest(app)
        await pilot.press(*(["down", "down", "enter"] if key == "down" else [key]))
        await until(pilot, lambda: not is_asked(app) and " say what should change" in screen_text(app))
        assert app.runtime is not None
        assert app.runtime.agent.status.mode == "plan"
        await pilot.press("m", "o", "r", "e")
        await until(pilot, lambda: app.chat.composer.prompt.text == "more")


@pytest.mark.parametrize("rested", [True, False])
async def test_who_begins_to_type_says_what_should_change(tmp_path: Path, rested: bool) -> None:
    async with chatting(planning(tmp_path)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app))
        if rested:
            rest(app)
        await pilot.press("a", "n", "d")
        await until(pilot, lambda: not is_asked(app) and app.chat.composer.prompt.text == "and")
        assert app.runtime is not None
        assert app.runtime.agent.status.mode == "plan"


async def test_a_digit_that_comes_at_once_accepts_nothing(tmp_path: Path) -> None:
    async with chatting(planning(tmp_path)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app))
        await pilot.press("2")
        await until(pilot, lambda: not app.chat.approval.is_holding)
        assert is_asked(app)
        await pilot.press("shift+tab")
        await until(pilot, lambda: not is_asked(app))
        assert app.runtime is not None
        assert app.runtime.agent.status.mode == "ask"


async def test_nothing_is_asked_where_more_was_said_meanwhile(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [TextDelta(text="## Pl"), hold, *reply(TEXT), READY]
    runtime = FakeRuntime(tmp_path, turns=[turn, reply("Another answer.")])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await send(app, pilot, "and more")
        await until(pilot, lambda: "queued: and more" in screen_text(app))
        hold.release()
        await until(pilot, lambda: "Another answer." in page_text(app))
        assert not is_asked(app)


@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (200, 50)])
async def test_the_question_is_on_every_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(planning(tmp_path, reply("Done.")), size) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app) and "accept, change without asking" in screen_text(app))
        rest(app)
        await pilot.press("1")
        await until(pilot, lambda: "Done." in page_text(app))
