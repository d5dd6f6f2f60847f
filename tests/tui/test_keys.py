"""The keys of the conversation as the settings change them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clawbot.agent.events import Event
from clawbot.config.schema import Settings
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply


def with_keys(home: Path, keys: dict[str, object], turns: Sequence[Sequence[Event | Hold]] = ()) -> FakeRuntime:
    runtime = FakeRuntime(home, turns=turns)
    runtime.settings = Settings.model_validate({"tui": {"keys": keys}})
    return runtime


async def test_another_key_does_it_and_the_old_one_does_not(tmp_path: Path) -> None:
    async with chatting(with_keys(tmp_path, {"help": "ctrl+b", "sessions": "none"}), (120, 30)) as (app, pilot):
        await until(pilot, lambda: "ctrl+b help" in screen_text(app))
        assert "sessions" not in screen_text(app)
        await pilot.press("f1", "ctrl+r", "ctrl+b")
        await until(pilot, lambda: app.screen is not app.chat)
        assert type(app.screen).__name__ == "HelpScreen"


async def test_two_actions_can_change_their_keys_round(tmp_path: Path) -> None:
    async with chatting(with_keys(tmp_path, {"models": "ctrl+r", "sessions": "ctrl+l"})) as (app, pilot):
        await pilot.press("ctrl+r")
        await until(pilot, lambda: type(app.screen).__name__ == "ModelsScreen")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: type(app.screen).__name__ == "SessionsScreen")


async def test_a_key_that_edits_the_prompt_can_be_taken(tmp_path: Path) -> None:
    keys: dict[str, object] = {"stop": "ctrl+k", "newline": ["ctrl+u", "ctrl+j"], "leave": "ctrl+e"}
    hold = Hold()
    async with chatting(with_keys(tmp_path, keys, [[hold, *reply("never")]])) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press("a", "ctrl+u", "b", "ctrl+d")
        await until(pilot, lambda: prompt.text == "a\nb")
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await until(pilot, lambda: "ctrl+k stops" in screen_text(app))
        await pilot.press("ctrl+k")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("ctrl+e")
        await until(pilot, lambda: app._exit)


async def test_the_lines_that_name_a_key_name_the_one_that_was_set(tmp_path: Path) -> None:
    hold = Hold()
    async with chatting(with_keys(tmp_path, {"recall": "alt+q"}, [[hold, *reply("done")]])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await send(app, pilot, "next")
        await until(pilot, lambda: "queued: next   alt+q takes it back" in screen_text(app))
        await pilot.press("alt+q")
        await until(pilot, lambda: app.chat.composer.prompt.text == "next")
        hold.release()


async def test_the_palette_shows_the_keys_that_were_set(tmp_path: Path) -> None:
    keys: dict[str, object] = {"palette": "f9", "reasoning": "none", "help": "ctrl+/"}
    async with chatting(with_keys(tmp_path, keys), (100, 60)) as (app, pilot):
        await pilot.press("f2", "f9")

        def row_of(text: str) -> str:
            return next((row for row in screen_text(app).splitlines() if text in row), "")

        await until(pilot, lambda: row_of("Show the reasoning") != "" and "ctrl+/" in row_of("/help  Show"))
        assert "ctrl+" not in row_of("Show the reasoning")
