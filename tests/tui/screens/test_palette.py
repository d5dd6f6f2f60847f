"""The palette of everything, the themes, and that a chosen theme comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from textual.widgets import Input

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings, ThemeName
from clawbot.errors import ClawbotError
from clawbot.tui.app import ClawbotApp
from clawbot.tui.screens.palette import PaletteScreen
from clawbot.tui.screens.picker import PickerScreen
from clawbot.tui.themes import keep_theme, kept_theme
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, summary


def runtime(home: Path) -> FakeRuntime:
    sessions = [summary(1, "the launch party"), summary(30, "记住我喜欢制表符")]
    return FakeRuntime(home, history=conversation(2), sessions=sessions)


def highlighted(app: ClawbotApp) -> str:
    """The title of the row that Enter would take, without a path before it."""
    row = app.screen.current if isinstance(app.screen, PickerScreen) else None
    return row.title.rpartition("memory/")[2] if row else ""


def listed(app: ClawbotApp) -> list[str]:
    """The rows of the palette, while it is open."""
    return [row.id for row in app.screen.shown] if isinstance(app.screen, PaletteScreen) else []


@pytest.mark.parametrize("key", ["f2", "ctrl+p"])
async def test_a_key_opens_a_list_of_commands_and_keys(tmp_path: Path, key: str) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        await pilot.press(key)
        await until(pilot, lambda: "Find anything" in screen_text(app))
        lines = screen_text(app).splitlines()
        rows = [line for line in lines if any(name in line for name in ("/sessions ", "/model ", "/memory "))]
        ends = {key: row.index(key) for row in rows for key in ("ctrl+r", "ctrl+l", "ctrl+f") if key in row}
        assert len(ends) == 3
        assert len(set(ends.values())) == 1
        assert any("/sessions" in line and "ctrl+r" in line for line in lines)


async def test_what_ends_a_conversation_stands_last_and_what_was_chosen_first(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        for typed in ("", "status", "tools"):
            await pilot.press("f2")
            await until(pilot, lambda: any(each.startswith("session:") for each in listed(app)))
            rows = listed(app)
            assert [each.rpartition(":")[2] for each in rows[-4:]] == ["/new", "/reset", "/compact", "/quit"]
            await pilot.press(*typed)
            await until(pilot, lambda: isinstance(app.screen, PickerScreen) and app.screen.current is not None)
            await pilot.press("enter" if typed else "escape")
            await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("f2")
        await until(pilot, lambda: "Recent" in screen_text(app))
        assert isinstance(app.screen, PaletteScreen)
        assert not any(
            row.title.startswith("Focus") or row.title.endswith("such as AGENTS") for row in app.screen.shown
        )
        assert listed(app)[1:3] == ["command:/tools", "command:/status"]


async def test_the_frame_is_centred_and_about_seventy_columns_wide(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (120, 36)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: "Find anything" in screen_text(app))
        region = app.screen.query_one("#frame").region
        assert 68 <= region.width <= 76
        assert abs(region.x - (120 - region.right)) <= 1


async def test_commands_are_there_while_the_disk_is_read(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.holds["sessions"] = Hold()
    async with chatting(below, (100, 40)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: "/status" in screen_text(app))
        await pilot.press(*"party")
        await until(pilot, lambda: "search the memory for “party”" in screen_text(app))
        assert "launch" not in screen_text(app)
        below.holds["sessions"].release()
        await until(pilot, lambda: "the launch party" in screen_text(app))


async def test_what_can_not_be_read_is_said_and_the_rest_is_there(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.faults["files"] = ClawbotError("The workspace is gone.")
    async with chatting(below, (100, 40)) as (app, pilot):
        await pilot.press("f2", *"party")
        await until(
            pilot, lambda: "the launch party" in screen_text(app) and "The workspace is gone" in screen_text(app)
        )


async def test_a_session_is_resumed(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 40)) as (app, pilot):
        await pilot.press("f2", *"制表符")
        app.screen.query_one(Input).value = "制表符"
        await until(pilot, lambda: "记住我喜欢制表符" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: below.resumed == [f"{30:08x}"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("typed", "sign"),
    [("/status", "Output of /status"), ("AGENTS", "# Rules"), ("anthropic", "anthropic/claude-sonnet-4-5 answers")],
)
async def test_a_command_runs_a_file_opens_a_model_is_taken(tmp_path: Path, typed: str, sign: str) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: "Find anything" in screen_text(app))
        app.screen.query_one(Input).value = typed
        await until(pilot, lambda: highlighted(app).startswith(typed))
        await pilot.press("enter")
        await until(pilot, lambda: sign in page_text(app) + screen_text(app))


async def test_a_skill_waits_in_the_prompt_for_words(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.known_skills = {"release-notes": "撰写发布说明。"}
    async with chatting(below, (100, 40)) as (app, pilot):
        await pilot.press("f2", *"release-n")
        await until(pilot, lambda: highlighted(app) == "release-notes  撰写发布说明。")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "/skill release-notes ")
        assert not below.submitted


async def test_a_command_that_needs_an_argument_waits_in_the_prompt(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        await pilot.press("f2", *"/edit")
        await pilot.press("enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "/edit ")


async def test_a_theme_is_shown_while_it_is_highlighted_and_goes_with_escape(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        await pilot.press("f2", *"dracula")
        await until(pilot, lambda: app.theme == "dracula")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.theme == "clawbot-dark"
        assert not (tmp_path / "look.json").exists()


async def test_a_chosen_theme_is_kept_and_comes_back(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 40)) as (app, pilot):
        await pilot.press("f2", *"dracula")
        await until(pilot, lambda: app.theme == "dracula")
        await pilot.press("enter")
        await until(pilot, (tmp_path / "look.json").exists)
    assert (tmp_path / "look.json").stat().st_mode & 0o777 == 0o600
    async with chatting(runtime(tmp_path)) as (app, pilot):
        assert app.theme == "dracula"


async def test_the_theme_command_takes_a_name_and_refuses_others(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        await send(app, pilot, "/theme drakula")
        await until(pilot, lambda: "Did you mean dracula?" in screen_text(app))
        await send(app, pilot, "/theme nord")
        await until(pilot, lambda: app.theme == "nord" and (tmp_path / "look.json").exists())


async def test_the_theme_command_alone_offers_them(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        await send(app, pilot, "/theme")
        await until(pilot, lambda: "Theme · " in screen_text(app))
        await pilot.press(*"gruv")
        await until(pilot, lambda: app.theme == "gruvbox")
        await pilot.press("enter")
        await until(pilot, lambda: (tmp_path / "look.json").exists() and app.screen is app.chat)
        assert app.theme == "gruvbox"


def test_a_later_change_of_the_settings_comes_before_the_kept_theme(tmp_path: Path) -> None:
    file = tmp_path / "look.json"
    assert kept_theme(file, "auto") is None
    keep_theme(file, "nord", "auto")
    assert kept_theme(file, "auto") == "nord"
    assert kept_theme(file, "light") is None


def test_a_damaged_file_of_the_theme_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "look.json"
    file.write_text(json.dumps(["nord"]))
    assert kept_theme(file, "auto") is None
    assert "look.json" in caplog.text


async def test_the_settings_know_all_themes(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path)) as (app, _):
        assert {"auto", "light", "dark", *app.available_themes} == set(get_args(ThemeName))
    assert Settings().tui.theme == "auto"


def test_an_unknown_theme_is_an_error_with_the_nearest_one(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    paths.config_file.write_text("tui:\n  theme: drak\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(paths)
    assert "tui.theme" in str(caught.value)
    assert "did you mean dark?" in str(caught.value)
