"""What must stay on the screen when it is small, and the footer that tells the keys of the moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.agent.events import ApprovalRequested, Notice, ToolFinished, ToolStarted
from clawbot.config.keys import KeyMap
from clawbot.tui.render.lines import width_of
from clawbot.tui.status_bar import keys_of
from clawbot.tui.widgets.status_line import keys_line
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, reply

ASKED = ApprovalRequested(
    request_id="r1",
    call_id="c1",
    tool="shell",
    command="make test && make lint",
    folder="/home/ada/work",
    pattern="make test && make lint",
    reach="Not sandboxed: it runs as you and can read, change and delete whatever you can on this machine.",
    risks=("deletes files",),
)
SMALL = [(40, 10), (40, 12), (80, 10), (40, 15), (80, 15)]


@pytest.mark.few(2)
@pytest.mark.parametrize("size", SMALL)
async def test_a_menu_leaves_the_prompt_and_the_status_in_view(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path), size) as (app, pilot):
        await pilot.press("/")
        await until(pilot, lambda: "/new" in screen_text(app))
        shown = screen_text(app)
        assert "❯ /" in shown
        assert " main" in shown.splitlines()[-1]


@pytest.mark.few(2)
@pytest.mark.parametrize("size", SMALL)
async def test_a_long_text_leaves_its_end_and_the_status_in_view(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path), size) as (app, pilot):
        app.chat.composer.prompt.take("\n".join(f"line {number}" for number in range(12)))
        await until(pilot, lambda: "line 11" in screen_text(app))
        assert " main" in screen_text(app).splitlines()[-1]


@pytest.mark.few(2)
@pytest.mark.parametrize("size", SMALL)
async def test_a_question_leaves_its_keys_in_view(tmp_path: Path, size: tuple[int, int]) -> None:
    started = ToolStarted(call_id="c1", name="shell", title="shell make test")
    runtime = FakeRuntime(tmp_path, turns=[[started, ASKED, *reply("done")]])
    async with chatting(runtime, size) as (app, pilot):
        await send(app, pilot, "test it")
        await until(pilot, lambda: "make test" in screen_text(app) and app.chat.approval.question.was_read)
        shown = screen_text(app)
        assert all(f"{key} {text}" in shown for key, text in (("y", "once"), ("n", "no"), ("e", "edit")))


async def test_what_was_allowed_is_what_runs(tmp_path: Path) -> None:
    hold = Hold()
    started = ToolStarted(call_id="c1", name="shell", title="shell make test")
    finished = ToolFinished(call_id="c1", name="shell", output="ok")
    runtime = FakeRuntime(tmp_path, turns=[[started, ASKED, hold, finished, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "test it")
        await until(pilot, lambda: "waits for your answer" in screen_text(app))
        app.chat.approval.post_message(app.chat.approval.Answered("r1", "once"))
        await until(pilot, hold.reached.is_set)
        await until(pilot, lambda: "shell make test 0 s" in screen_text(app))
        assert "waits for your answer" not in screen_text(app)
        hold.release()


def test_the_footer_drops_whole_keys_from_the_right() -> None:
    def shown(width: int) -> str:
        keys = keys_of(KeyMap(), "ask", asking=False, reading=False, busy=False)
        return "".join(span.text for span in keys_line(keys[1:], width))

    assert shown(100) == " / commands · @ files · ctrl+r conversations · ctrl+f memory · f2 all · f1 help · ctrl+/ find"
    assert shown(42) == " / commands · @ files"
    assert shown(8) == ""


def test_the_footer_tells_the_keys_of_the_state() -> None:
    def shown(*, asking: bool = False, reading: bool = False, busy: bool = False) -> list[str]:
        keys = KeyMap({"unfold": ["f7"], "recall": [], "page_up": ["alt+u"]})
        return [" ".join(key) for key in keys_of(keys, "ask", asking=asking, reading=reading, busy=busy)]

    assert shown(asking=True, reading=True, busy=True) == []
    assert shown(reading=True, busy=True) == ["ctrl+end ↓ the end", "alt+u pgdn scroll", "ctrl+/ find", "f7 unfolds"]
    assert shown(busy=True) == ["enter queues", "f7 unfolds", "ctrl+t reasoning"]
    assert shown()[:2] == ["shift+tab mode: ask", "/ commands"]


async def test_the_footer_follows_the_conversation(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, history=conversation(20), turns=[[hold, *reply("done")]])
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "ctrl+r conversations" in screen_text(app))
        await send(app, pilot, "go")
        await until(pilot, lambda: "alt+up takes it back" in screen_text(app))
        await pilot.press("pageup")
        await until(pilot, lambda: "ctrl+end ↓ the end" in screen_text(app))
        await pilot.press("ctrl+end")
        hold.release()
        await until(pilot, lambda: "ctrl+r conversations" in screen_text(app))


async def test_a_toast_has_an_edge_and_lies_over_no_line_of_the_end(tmp_path: Path) -> None:
    end = Notice(level="info", text=f"written to {'a' * 50}")
    runtime = FakeRuntime(tmp_path, history=conversation(20), turns=[[*reply("Done."), end]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "a" * 50 in screen_text(app) and not app.chat.turns.busy)
        await send(app, pilot, "/zzzz x")
        await until(pilot, lambda: "There is no command /zzzz" in screen_text(app))
        shown = screen_text(app)
        assert "▌ There is no command" in shown or "▌There is no command" in shown
        assert "a" * 50 in shown


async def test_shift_tab_goes_through_the_modes_and_the_footer_tells(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "shift+tab mode: edits" in screen_text(app))
        await pilot.press("shift+tab")
        await until(pilot, lambda: "main · plan mode" in screen_text(app) and "mode: plan" in screen_text(app))
        assert "plan: nothing is changed" in screen_text(app)
        await send(app, pilot, "/mode ask")
        await until(pilot, lambda: "mode: ask" in screen_text(app))
        await pilot.press("shift+tab")
        await until(pilot, lambda: runtime.status.mode == "edits")


@pytest.mark.few(1)
@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("size", SMALL)
async def test_a_question_in_chinese_leaves_its_keys_in_view(tmp_path: Path, size: tuple[int, int]) -> None:
    started = ToolStarted(call_id="c1", name="shell", title="shell make test")
    runtime = FakeRuntime(tmp_path, turns=[[started, ASKED, *reply("完成")]])
    async with chatting(runtime, size) as (app, pilot):
        await send(app, pilot, "测试一下")
        await until(pilot, lambda: "make test" in screen_text(app) and app.chat.approval.question.was_read)
        shown = screen_text(app)
        assert all(f"{key} {text}" in shown for key, text in (("y", "允许一次"), ("n", "拒绝"), ("e", "先编辑")))


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_footer_in_chinese_is_cut_between_its_keys(width: int) -> None:
    keys = keys_of(KeyMap(), "edits", asking=False, reading=False, busy=False)
    shown = "".join(span.text for span in keys_line(keys, width))
    assert shown.startswith(" shift+tab 模式：可改文件 · / 命令")
    assert width_of(shown) < width
    assert any(shown.endswith(f"{key} {text}") for key, text in keys)
