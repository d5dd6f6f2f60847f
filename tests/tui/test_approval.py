"""The question of a tool on the screen: it is read to its end before it is allowed, and what is seen is what runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.events import MouseScrollDown, Paste
from textual.pilot import Pilot

from clawbot.agent.events import ApprovalRequested, ToolStarted
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings, ShellSettings, ToolSettings
from clawbot.messages import ToolCallBlock
from clawbot.text.sanitize import without_isolates
from clawbot.text.visible import reveal, title_of, unwritten
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from clawbot.tools.registry import build_toolbox
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.question import WELL
from clawbot.tui.widgets.approval import STYLES, CommandEditor, QuestionView
from tests.tui.chat_host import StepClock, chatting, page_text, screen_text, send, until
from tests.tui.contrast import contrast
from tests.tui.fake_runtime import FakeRuntime
from tests.tui.test_question import MIXED, asked

SIZES = [(80, 24), (80, 10), (60, 24), (140, 45)]


@asynccontextmanager
async def asking(
    tmp_path: Path, request: ApprovalRequested, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ClawbotApp, Pilot[object], FakeRuntime]]:
    """The app with `request` on the screen and a keyboard that has rested."""
    started = ToolStarted(call_id="c1", name="shell", title=title_of("shell", request.command))
    runtime = FakeRuntime(tmp_path, turns=[[started, request]])
    async with chatting(runtime, size) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: question(app).view is not None and "n no" in screen_text(app))
        yield app, pilot, runtime


def question(app: ClawbotApp) -> QuestionView:
    return app.chat.approval.question


async def press(app: ClawbotApp, pilot: Pilot[object], key: str) -> None:
    """Press `key` after a rest."""
    assert isinstance(app.clock, StepClock)
    app.clock.seconds += 5
    await pilot.press(key)
    await pilot.pause()


@pytest.mark.few(2)
@pytest.mark.parametrize("key", ["y", "a"])
@pytest.mark.parametrize("size", SIZES)
async def test_what_was_not_seen_to_its_end_is_not_allowed(tmp_path: Path, key: str, size: tuple[int, int]) -> None:
    command = "echo start" + "\n" * 90 + "touch PWNED"
    async with asking(tmp_path, asked(command), size) as (app, pilot, runtime):
        assert "91 lines, " in screen_text(app)
        presses = 0
        while "touch PWNED" not in screen_text(app).split("Run this command?")[1]:
            await press(app, pilot, key)
            presses += 1
            assert runtime.answers == []
        assert presses > 1
        assert "y once" in screen_text(app)
        await press(app, pilot, key)
        await until(pilot, lambda: bool(runtime.answers))
        assert runtime.answers == [("r1", {"y": "once", "a": "always"}[key], None)]


async def test_an_editor_is_no_way_past_the_end(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("x\n" * 90)) as (app, pilot, runtime):
        await press(app, pilot, "e")
        assert not app.query(CommandEditor)
        await press(app, pilot, "n")
        await until(pilot, lambda: runtime.answers == [("r1", "deny", None)])


async def test_it_is_read_by_keys_and_by_the_mouse(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("\n".join(f"line {n}" for n in range(60)))) as (app, pilot, _):
        view = question(app)

        async def at(key: str) -> int:
            await pilot.press(key)
            await pilot.pause()
            assert view.view is not None
            return view.view.top

        room = view.view.room if view.view else 0
        assert [await at(key) for key in ("down", "down", "up", "pagedown", "pageup", "up")] == [1, 2, 1, room, 1, 0]
        await pilot._post_mouse_events([MouseScrollDown], widget=view)
        await until(pilot, lambda: view.view is not None and view.view.top > 0)
        assert not view.was_read


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(80, 10), (60, 10), (60, 24), (40, 8), (200, 60)])
async def test_the_keys_are_on_every_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    for command in ("rm -rf memory", "x\n" * 90):
        async with asking(tmp_path, asked(command), size) as (app, _, _):
            lines = screen_text(app).split("\n")
            assert any("n no" in line for line in lines)
            assert any("Run this command?" in line for line in lines)
            assert len(lines) == size[1]


async def test_a_smaller_window_is_read_again(tmp_path: Path) -> None:
    command = "\n".join(f"echo {n}" for n in range(6))
    async with asking(tmp_path, asked(command)) as (app, pilot, runtime):
        assert question(app).was_read
        await pilot.resize_terminal(60, 9)
        await until(pilot, lambda: "below" in screen_text(app))
        await press(app, pilot, "y")
        assert runtime.answers == []


@pytest.mark.few(1)
@pytest.mark.parametrize("size", [(20, 24), (60, 5), (60, 4)])
async def test_in_a_window_that_shows_nothing_nothing_is_allowed(tmp_path: Path, size: tuple[int, int]) -> None:
    async with asking(tmp_path, asked("touch PWNED")) as (app, pilot, runtime):
        assert question(app).was_read
        await pilot.resize_terminal(*size)
        await until(pilot, lambda: not question(app).was_read)
        for key in ("y", "a", "e"):
            await press(app, pilot, key)
        assert runtime.answers == []
        assert not app.query(CommandEditor)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: question(app).was_read)
        await press(app, pilot, "y")
        await until(pilot, lambda: bool(runtime.answers))


async def test_a_second_press_is_no_answer_to_the_next_question(tmp_path: Path) -> None:
    """Two presses in a row: the second one was made before anybody could have read the second question."""
    first = asked("true")
    second = msgspec.structs.replace(first, request_id="r2", call_id="c2", command="touch PWNED")
    started = [ToolStarted(call_id=call, name="shell", title="shell") for call in ("c1", "c2")]
    runtime = FakeRuntime(tmp_path, turns=[[*started, first, second]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "$ true" in screen_text(app))
        assert isinstance(app.clock, StepClock)
        await press(app, pilot, "y")
        await until(pilot, lambda: "touch PWNED" in screen_text(app))
        for wait in (0.2, 0.6, 0.2):
            app.clock.seconds += wait
            await pilot.press("y")
            await until(pilot, lambda: not app.chat.approval.is_holding)
            assert runtime.answers == [("r1", "once", None)]
            assert app.chat.composer.prompt.text == ""
        await press(app, pilot, "y")
        await until(pilot, lambda: runtime.answers[1:] == [("r2", "once", None)])


async def test_a_message_at_the_edge_does_not_cover_the_question(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("echo a\n" * 15 + "touch PWNED"), (60, 24)) as (app, pilot, _):
        shown = screen_text(app)
        app.notify("Saved to a file.")
        await until(pilot, lambda: bool(app.screen.query("Toast")))
        assert screen_text(app) == shown


async def test_a_change_of_a_file_has_no_editor(tmp_path: Path) -> None:
    request = asked("write AGENTS.md", diff="--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\u200b", pattern="")
    async with asking(tmp_path, request) as (app, pilot, runtime):
        assert "+b⟦U+200B⟧" in screen_text(app)
        await press(app, pilot, "e")
        await press(app, pilot, "a")
        assert not app.query(CommandEditor)
        assert runtime.answers == []
        await press(app, pilot, "y")
        await until(pilot, lambda: runtime.answers == [("r1", "once", None)])


async def test_the_editor_shows_signs_and_gives_back_what_they_stand_for(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("echo 👩\u200d👧\t⟦x")) as (app, pilot, runtime):
        await press(app, pilot, "e")
        await until(pilot, lambda: isinstance(app.focused, CommandEditor))
        editor = app.query_one(CommandEditor)
        assert editor.text == "echo 👩⟦U+200D⟧👧⟦tab⟧⟦U+27E6⟧x"
        editor.move_cursor(editor.document.end)
        app.post_message(Paste("\u00a0\x1b[2J"))
        await until(pilot, lambda: editor.text.endswith("⟦U+00A0⟧⟦U+001B⟧[2J"))
        await press(app, pilot, "enter")
        await until(pilot, lambda: "U+001B at character 13 is never run" in screen_text(app))
        assert runtime.answers == []
        for _ in range(4):
            await pilot.press("backspace")
        await press(app, pilot, "enter")
        await until(pilot, lambda: "enclose signs only" in screen_text(app))
        for _ in range(7):
            await pilot.press("backspace")
        await press(app, pilot, "enter")
        await until(pilot, lambda: bool(runtime.answers))
        assert runtime.answers == [("r1", "once", "echo 👩\u200d👧\t⟦x\u00a0")]


async def test_the_line_of_the_call_hides_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("git status" + " " * 400 + "# ;touch PWNED")) as (app, _, _):
        assert "$ git status⟦400×space⟧# ;touch PWNED" in page_text(app)


class Asked:
    """Says no, and remembers what it was asked."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    async def __call__(self, question: ApprovalQuestion) -> ApprovalAnswer:
        self.commands.append(question.command)
        return ApprovalAnswer("deny")


def emulated(app: ClawbotApp) -> list[str]:
    """The rows of the screen as a terminal emulator has them after it got what is written to a terminal."""
    width, height = app.size
    screen = pyte.Screen(width, height)
    stream = pyte.ByteStream(screen)
    for row, strip in enumerate(app.screen._compositor.render_strips()):
        stream.feed(f"\x1b[{row + 1};1H{strip.render(app.console)}".encode())
    return ["".join(screen.buffer[row][column].data for column in range(width)) for row in range(height)]


def well_of(rows: list[str], view: QuestionView) -> list[str]:
    """The rows of the well that are in view, cut out of the rows of the screen."""
    assert view.view is not None
    top = view.region.y + next(n for n, line in enumerate(view.view.lines) if line.fill)
    return [row[view.region.x :] for row in rows[top : top + view.view.room]]


def put_together(rows: list[str]) -> str:
    """The command as somebody reads it off: a dollar sign or a number begins a line, the rest goes on with it."""
    gutter = 3 if rows[0].startswith(" $ ") else rows[0].index("1") + 2
    lines: list[str] = []
    for row in rows:
        text = without_isolates(row[gutter:]).rstrip(" ")
        if row[:gutter].strip():
            lines.append(text)
        else:
            lines[-1] += text
    return reveal("\n".join(lines))


async def read_off(app: ClawbotApp, pilot: Pilot[object], screen: Callable[[ClawbotApp], list[str]]) -> str:
    """Turn the pages of the question to its end, and put together what was seen."""
    view = question(app)
    rows: list[str] = []
    while True:
        await until(pilot, lambda: view.view is not None and "n no" in screen_text(app))
        assert view.view is not None
        rows += well_of(screen(app), view)[len(rows) - view.view.top :]
        if not view.view.below:
            return put_together(rows)
        await pilot.press("pagedown")
        await pilot.pause()


async def hold(commands: list[str], size: tuple[int, int], screen: Callable[[ClawbotApp], list[str]]) -> None:
    """Each of `commands` is shown to its last character, or refused before anything is asked."""
    with TemporaryDirectory() as folder:
        tools = ToolSettings(shell=ShellSettings(approval="ask"))
        box = build_toolbox(Path(folder), AgentSettings(tools=tools), SystemClock(), Paths(find_home()))
        async with chatting(FakeRuntime(Path(folder)), size) as (app, pilot):
            app.chat.composer.display = False
            app.chat.add_class("asking")
            for command in commands:
                user = Asked()
                outcome = await box.run(ToolCallBlock("c1", "shell", {"command": command}), user)
                if not user.commands:
                    assert unwritten(command) or not command.strip() or len(command) > 20_000
                    assert outcome.is_error
                    continue
                assert user.commands == [command]
                app.chat.approval.ask(asked(command), mid_typing=False)
                await pilot.pause()
                assert await read_off(app, pilot, screen) == command
                app.chat.approval.close()


COMMANDS = st.lists(MIXED.filter(lambda text: len(text) < 1500), min_size=5, max_size=5)
# What pyte can tell apart: it has no notion of what stands on another character or has no width.
PLAIN = st.lists(
    st.sampled_from(
        ["git status", "; touch X", "# ", " ", "  ", " " * 400, "\n", "\n" * 40, "好的，", "⟦U+001B⟧", "$ ", "1 "]
    )
    | st.sampled_from(
        ["\t", "\u00a0", "\u3000", "\u200d", "\u200f", "\ue000", "\ufe0f", "\ufffd" * 12, "é", "👧", "\x1b]0;x\x07"]
    )
    | st.text(st.sampled_from("abc/-"), min_size=30, max_size=90),
    max_size=12,
).map("".join)


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(COMMANDS, st.sampled_from(SIZES))
def test_what_the_screen_shows_read_back_is_the_command_or_nothing_runs(
    commands: list[str], size: tuple[int, int]
) -> None:
    asyncio.run(hold(commands, size, lambda app: screen_text(app).split("\n")))


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(st.lists(PLAIN, min_size=5, max_size=5), st.sampled_from(SIZES))
def test_what_a_terminal_emulator_shows_read_back_is_the_command(commands: list[str], size: tuple[int, int]) -> None:
    asyncio.run(hold(commands, size, emulated))


@pytest.mark.few(1)
@pytest.mark.parametrize("theme", ["clawbot-dark", "clawbot-light"])
async def test_all_text_of_a_question_has_contrast_in_both_themes(tmp_path: Path, theme: str) -> None:
    async with asking(tmp_path, asked("rm -rf x")) as (app, pilot, _):
        app.theme = theme
        await pilot.pause()
        view = question(app)
        grounds = ("", f"{WELL} ")
        figures = {ground + name: contrast(view.named(ground + name)) for ground in grounds for name in STYLES}
        assert {name: figure for name, figure in figures.items() if figure < 4.5} == {}


async def test_the_cursor_chooses_and_enter_takes_it(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("make x", risks=()), (80, 30)) as (app, pilot, runtime):
        assert "❯ y once" in screen_text(app)
        await pilot.press("down")
        await until(pilot, lambda: "❯ a yes, “make *” without asking until I quit" in screen_text(app))
        await press(app, pilot, "enter")
        await until(pilot, lambda: runtime.answers == [("r1", "always", None)])


async def test_enter_refuses_what_is_grave_unless_the_cursor_was_moved(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("rm -rf x"), (80, 30)) as (app, pilot, runtime):
        assert app.chat.approval.has_class("-grave")
        assert "❯ n no" in screen_text(app)
        await press(app, pilot, "enter")
        await until(pilot, lambda: runtime.answers == [("r1", "deny", None)])


async def test_enter_reads_on_until_the_end_was_seen(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("x\n" * 90, risks=())) as (app, pilot, runtime):
        await press(app, pilot, "enter")
        view = question(app).view
        assert view is not None
        assert view.top > 0
        assert runtime.answers == []


async def test_an_enter_that_comes_at_once_allows_nothing(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("make x", risks=())) as (app, pilot, runtime):
        await pilot.press("enter")
        await pilot.pause()
        assert runtime.answers == []
        await press(app, pilot, "enter")
        await until(pilot, lambda: runtime.answers == [("r1", "once", None)])


async def test_what_commands_can_touch_is_told_once(tmp_path: Path) -> None:
    runtime = FakeRuntime(
        tmp_path, turns=[[asked("make one"), msgspec.structs.replace(asked("make two"), request_id="r2")]]
    )
    async with chatting(runtime, (80, 30)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "$ make one" in screen_text(app) and "It runs as you" in screen_text(app))
        await press(app, pilot, "n")
        await until(pilot, lambda: "$ make two" in screen_text(app))
        assert "It runs as you" not in screen_text(app)
        assert "in /home/ada/w" in screen_text(app)


async def test_in_the_editor_only_the_way_back_is_told(tmp_path: Path) -> None:
    async with asking(tmp_path, asked("make x")) as (app, pilot, _):
        await until(pilot, lambda: "esc stops" in screen_text(app))
        await press(app, pilot, "e")
        await until(pilot, lambda: "esc back" in screen_text(app) and "esc stops" not in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "esc stops" in screen_text(app))
