"""Keys that come while what they are for is still being loaded: they wait, and nothing of them is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clawbot.api import RuntimeApi
from clawbot.tui.app import ClawbotApp
from clawbot.tui.screens.editor import EditorScreen
from tests.tui.chat_host import StepClock, chatting, until
from tests.tui.fake_runtime import FakeRuntime, Hold

FILES = {"AGENTS.md": "one\ntwo\nthree", "notes.md": "a note"}
# What is typed before the file is there -> the file, the line that it is opened at, the text in the end.
TYPED: list[tuple[list[str], str, int | None, str]] = [
    (["h", "i"], "AGENTS.md", None, "hione\ntwo\nthree"),
    (["h", "i", "enter"], "AGENTS.md", 2, "one\nhi\ntwo\nthree"),
    (["x", "backspace", "y"], "AGENTS.md", 3, "one\ntwo\nythree"),
    (["end", "茶"], "notes.md", 1, "a note茶"),
    (["n", "e", "w"], "missing.md", None, "new"),
]


@pytest.mark.parametrize(("keys", "file", "line", "text"), TYPED)
async def test_what_is_typed_while_a_file_is_read_is_typed_into_it(
    tmp_path: Path, keys: list[str], file: str, line: int | None, text: str
) -> None:
    runtime = FakeRuntime(tmp_path, files=dict(FILES))
    runtime.holds["read"] = hold = Hold()
    async with chatting(runtime) as (app, pilot):
        app.edit(file, line)
        await until(pilot, hold.reached.is_set)
        for key in keys:
            app.simulate_key(key)
        hold.release()
        screen = app.screen
        assert isinstance(screen, EditorScreen)
        await until(pilot, lambda: screen.area.text == text)
        assert app.chat.composer.is_empty


async def test_a_file_that_is_typed_into_and_saved_while_it_is_read_is_saved_whole(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, files=dict(FILES))
    runtime.holds["read"] = hold = Hold()
    async with chatting(runtime) as (app, pilot):
        app.edit("notes.md")
        await until(pilot, hold.reached.is_set)
        for key in ("N", "o", "w", "enter", "ctrl+s"):
            app.simulate_key(key)
        hold.release()
        await until(pilot, lambda: runtime.files["notes.md"] == "Now\na note")


# What is typed, with Tab, before the files are known -> what stands in the prompt in the end.
COMPLETED = [
    (["@", "n", "o", "tab"], "@notes.md "),
    (["@", "n", "o", "tab", "?", "!"], "@notes.md ?!"),
    (["s", "e", "e", "ctrl+j", "@", "A", "tab", "n", "o", "w"], "see\n@AGENTS.md now"),
    (["@", "z", "q", "tab", "x"], "@zqx"),
    (["@", "n", "tab", "@", "A", "G", "tab"], "@notes.md @AGENTS.md "),
    (["@", "n", "o", "tab", "backspace", "backspace"], "@notes.m"),
]


@pytest.mark.parametrize(("keys", "text"), COMPLETED)
async def test_tab_waits_for_the_list_of_files(tmp_path: Path, keys: list[str], text: str) -> None:
    runtime = FakeRuntime(tmp_path, files=dict(FILES))
    runtime.holds["files"] = hold = Hold()
    async with chatting(runtime) as (app, pilot):
        for key in keys:
            app.simulate_key(key)
        await until(pilot, hold.reached.is_set)
        hold.release()
        await until(pilot, lambda: app.chat.composer.prompt.text == text)


async def test_tab_waits_for_the_runtime(tmp_path: Path) -> None:
    opened = asyncio.Event()

    async def open_runtime(agent: str | None = None) -> RuntimeApi:
        await opened.wait()
        return FakeRuntime(tmp_path, files=dict(FILES))

    app = ClawbotApp(open_runtime, theme="dark", clock=StepClock())
    async with app.run_test(size=(80, 24)) as pilot:
        for key in ("@", "n", "o", "tab", "?"):
            app.simulate_key(key)
        await until(pilot, lambda: app.chat.composer.picks_first)
        opened.set()
        await until(pilot, lambda: app.chat.composer.prompt.text == "@notes.md ?")


# What is entered while the words for it are looked for, and by which call.
ENTERED = [("/skill x", "skills"), ("/skill tea", "skills"), ("/edit notes.md", "files"), ("/edit new.md", "files")]


@pytest.mark.parametrize(("typed", "call"), ENTERED)
async def test_enter_picks_nothing_that_was_found_for_the_command(tmp_path: Path, typed: str, call: str) -> None:
    runtime = FakeRuntime(tmp_path, files=dict(FILES))
    runtime.holds[call] = hold = Hold()
    async with chatting(runtime) as (app, pilot):
        for key in typed:
            app.simulate_key(key)
        await until(pilot, hold.reached.is_set)
        app.simulate_key("enter")
        await until(pilot, lambda: app.chat.composer.is_empty)
        hold.release()
        await until(pilot, lambda: runtime.submitted == [typed] or isinstance(app.screen, EditorScreen))
