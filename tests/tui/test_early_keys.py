"""Keys that come before there is a prompt to take them: all of them count, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.events import Event, Key, Paste
from textual.pilot import Pilot

import clawbot.tui.app
from clawbot.agent.events import TextDelta
from clawbot.api import RuntimeApi
from clawbot.tui.app import ClawbotApp
from clawbot.tui.driver import KeyParser
from clawbot.tui.screens.editor import EditorScreen
from tests.tables import load_table
from tests.tui.chat_host import StepClock, chatting, page_text, send, until
from tests.tui.fake_runtime import MEASURED, FakeRuntime, Hold, reply


def keys(*names: str) -> list[Event]:
    return [Key(name, name if len(name) == 1 else None) for name in names]


class Early(ClawbotApp):
    """Gets `early` before its prompt is there, and `later` when that is about to be replayed."""

    CSS_PATH = f"{Path(clawbot.tui.app.__file__).parent}/styles/chat.tcss"
    early: Sequence[Event] = ()
    later: Sequence[Event] = ()

    def on_mount(self) -> None:
        for event in self.early:
            self.post_message(event)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        later, self.later = self.later, ()

        def late() -> Any:
            for event in later:
                self.post_message(event)
            return callback(*args, **kwargs)

        return super().call_after_refresh(late)


@asynccontextmanager
async def starting(
    runtime: FakeRuntime, early: Sequence[Event], later: Sequence[Event] = ()
) -> AsyncIterator[tuple[ClawbotApp, Pilot[object]]]:
    async def open_runtime(agent: str | None = None) -> RuntimeApi:
        return runtime

    app = Early(open_runtime, clock=StepClock())
    app.early, app.later = early, later
    async with app.run_test() as pilot:
        yield app, pilot


async def test_all_of_it_stands_in_the_prompt_before_the_runtime_opens(tmp_path: Path) -> None:
    early = [*keys("a", "ctrl+j", "b", "x", "backspace"), Paste("你好\n1"), *keys("left", "2")]
    async with starting(FakeRuntime(tmp_path), early, keys("3", "end", "4")) as (app, pilot):
        await until(pilot, lambda: app.runtime is not None)
        assert app.chat.composer.prompt.text == "a\nb你好\n2314"


async def test_each_enter_sends_what_was_typed_before_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with starting(runtime, keys("h", "i", "enter", "y", "o", "enter", "m")) as (app, pilot):
        await until(pilot, lambda: "You said: yo" in page_text(app))
        assert runtime.submitted == ["hi", "yo"]
        assert app.chat.composer.prompt.text == "m"


async def test_what_was_sent_is_not_held_up_by_counting_the_context(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with starting(runtime, keys("h", "i", "enter")) as (_, pilot):
        await until(pilot, lambda: runtime.measures > 0)
        assert runtime.order == ["hi", MEASURED]


async def test_ctrl_c_twice_leaves_without_opening_anything(tmp_path: Path) -> None:
    async with starting(FakeRuntime(tmp_path), keys("x", "ctrl+c", "ctrl+c")) as (app, pilot):
        await until(pilot, lambda: not app.is_running)
    assert app.runtime is None
    assert app.return_code == 0


async def test_ctrl_d_leaves_when_the_prompt_is_empty_again(tmp_path: Path) -> None:
    async with starting(FakeRuntime(tmp_path), keys("x", "ctrl+d", "backspace", "ctrl+d")) as (app, pilot):
        await until(pilot, lambda: not app.is_running)
    assert app.runtime is None


async def test_ctrl_c_clears_what_was_typed_before_it_and_nothing_else(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        for event in keys("x", "ctrl+c", "y"):
            app.post_message(event)
        await until(pilot, lambda: "y" in app.chat.composer.prompt.text)
        assert app.chat.composer.prompt.text == "y"
        assert app.chat.composer.prompt.inputs.entries[-1] == "x"


BURST = (*"one", "enter", *"two", "enter", *"three", "enter", *"re")


async def test_keys_of_one_burst_are_sent_line_by_line_and_the_rest_stays(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        for event in keys(*BURST):
            app.post_message(event)
        await until(pilot, lambda: "You said: three" in page_text(app) and not app.chat.turns.busy)
        assert runtime.submitted == ["one", "two", "three"]
        assert app.chat.composer.prompt.text == "re"
        assert app.chat.composer.prompt.inputs.entries == ["one", "two", "three"]


async def test_a_burst_while_a_long_reply_streams_waits_line_by_line(tmp_path: Path) -> None:
    hold = Hold()
    long = [TextDelta(text=f"Line {number} of **many**.\n\n") for number in range(200)]
    async with chatting(FakeRuntime(tmp_path, turns=[[*long, hold, *reply("")]])) as (app, pilot):
        await send(app, pilot, "go on")
        for event in keys(*BURST):
            app.post_message(event)
        await until(pilot, lambda: app.chat.turns.queued == ["one", "two", "three"])
        assert app.chat.composer.prompt.text == "re"
        hold.release()


async def test_a_burst_that_picks_a_command_sends_it_alone(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await pilot.press(*"/sta")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        for event in keys("enter", *"hello", "enter"):
            app.post_message(event)
        await until(pilot, lambda: "You said: hello" in page_text(app))
        assert runtime.submitted == ["/status", "hello"]


async def test_a_list_that_was_made_for_fewer_letters_decides_nothing(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await pilot.press("/", "e")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        for event in keys(*"xport", "enter", *"hello", "enter"):
            app.post_message(event)
        await until(pilot, lambda: "You said: hello" in page_text(app))
        assert runtime.submitted == ["/export", "hello"]


@pytest.mark.parametrize(
    ("typed", "key"),
    [("\x1b\r", "alt+enter"), ("\x1b\n", "alt+enter"), ("\x1b[27;2;13~", "shift+enter"), ("\x1b[13;2u", "shift+enter")],
)
def test_a_line_break_is_known_however_the_terminal_spells_it(typed: str, key: str) -> None:
    (event,) = KeyParser().feed(typed)
    assert isinstance(event, Key)
    assert event.key == key


FILES = {"AGENTS.md": "one\ntwo\nthree", "notes.md": "a note"}
# What is typed before the file is there -> the file, the line that it is opened at, the text in the end.
TYPED: list[tuple[list[str], str, int | None, str]] = [
    (["h", "i"], "AGENTS.md", None, "hione\ntwo\nthree"),
    (["h", "i", "enter"], "AGENTS.md", 2, "one\nhi\ntwo\nthree"),
    (["x", "backspace", "y"], "AGENTS.md", 3, "one\ntwo\nythree"),
    (["end", "茶"], "notes.md", 1, "a note茶"),
    (["n", "e", "w"], "missing.md", None, "new"),
]


@pytest.mark.few(2)
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
COMPLETED = load_table(__file__, "COMPLETED")


@pytest.mark.few(2)
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


@pytest.mark.few(2)
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
