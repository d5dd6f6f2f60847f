"""The prompt in vi mode: keys, modes, and what only the screen can do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from clawbot.config.schema import Settings
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply


@asynccontextmanager
async def vi(runtime: FakeRuntime) -> AsyncIterator[tuple[ClawbotApp, Pilot[object]]]:
    runtime.settings = Settings.model_validate({"tui": {"vi": True}})
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: " INSERT " in screen_text(app))
        yield app, pilot


async def test_the_prompt_is_edited_and_the_mode_is_shown(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path, turns=[reply("done")])) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press(*"say hallo", "escape", *"bcw", *"hello", "escape")
        await until(pilot, lambda: prompt.text == "say hello" and " NORMAL " in screen_text(app))
        assert prompt.cursor_location == (0, 8)
        await pilot.press("0", "d", "w", "u")
        await until(pilot, lambda: prompt.text == "say hello")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: prompt.text == "hello")
        assert app.screen is app.chat
        await pilot.press("v", "e")
        await until(pilot, lambda: " VISUAL " in screen_text(app))
        assert prompt.selected_text == "hell"  # and the cursor stands on the last letter
        await pilot.press("escape", "o", *"你好 世界", "escape", "b", "D", "enter")
        await until(pilot, lambda: app.chat.runtime is not None and not prompt.text)
        await until(pilot, lambda: " INSERT " in screen_text(app))


async def test_escape_goes_to_normal_first_and_then_stops(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[hold, *reply("never")]])
    async with vi(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: " NORMAL " in screen_text(app))
        assert app.chat.turns.busy
        await pilot.press("d", "escape", "escape")
        await until(pilot, lambda: not app.chat.turns.busy)


async def test_k_and_j_at_the_edges_bring_earlier_inputs(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path, turns=[reply("done")])) as (app, pilot):
        await send(app, pilot, "first words")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("escape", "k")
        await until(pilot, lambda: app.chat.composer.prompt.text == "first words")
        await pilot.press("x", "j")
        await until(pilot, lambda: not app.chat.composer.prompt.text)


async def test_escape_closes_the_completions_first(tmp_path: Path) -> None:
    async with vi(FakeRuntime(tmp_path)) as (app, pilot):
        await pilot.press("/", "h")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.composer.completions.is_open)
        assert " INSERT " in screen_text(app)


async def test_without_the_setting_escape_and_letters_are_what_they_are(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await pilot.press("a", "escape", "x")
        await until(pilot, lambda: app.chat.composer.prompt.text == "ax")
        assert "INSERT" not in screen_text(app)
