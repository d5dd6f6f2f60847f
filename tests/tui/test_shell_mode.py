"""A command of the shell on the screen: the prompt says what it does, and its card shows what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from clawbot.agent.events import Event, ToolFinished, ToolOutput, ToolStarted, TurnEnded
from clawbot.messages import BashExecutionMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from tests.tui.chat_host import chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold

STAMP = int(NOW.timestamp() * 1000)
SEQ = "\n".join(str(number) for number in range(1, 31))


def ran(output: str, *, shared: bool = False) -> ToolFinished:
    return ToolFinished(call_id="u1", name="shell", output=output, summary="exit 0", details={"shared": shared})


STARTED = ToolStarted(call_id="u1", name="shell", title="shell seq 30", arguments={"command": "seq 30"})


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_the_prompt_says_what_it_does(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(FakeRuntime(tmp_path), size) as (app, pilot):
        mark = app.chat.composer.query_one("#prompt-mark", Static)
        assert app.runtime is not None
        assert app.runtime.agent.runs_shell
        await pilot.press("!")
        await until(pilot, lambda: app.chat.status.state.hint == "shell")
        await pilot.pause()
        assert " shell" in screen_text(app)
        assert ("the model does not see it" in screen_text(app)) is (size[1] > 12)
        assert str(mark.content) == "$"
        await pilot.press("!")
        await until(pilot, lambda: "shell, shared" in screen_text(app))
        assert ("the model sees the output" in screen_text(app)) is (size[1] > 12)
        await pilot.press("backspace", "backspace")
        await until(pilot, lambda: "shell" not in screen_text(app))
        assert str(mark.content) == "❯"


async def test_the_sign_alone_stays_in_the_prompt(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "!!")
        await pilot.pause()
        assert app.chat.composer.prompt.text == "!!"
        assert runtime.submitted == []


async def test_its_output_is_seen_live_then_at_once_and_folded(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [
        STARTED,
        ToolOutput(call_id="u1", text="live\n"),
        hold,
        ran(SEQ),
        TurnEnded(status="done"),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn]), (100, 60)) as (app, pilot):
        await send(app, pilot, "!seq 30")
        await until(pilot, lambda: "live" in page_text(app))
        hold.release()
        await until(pilot, lambda: "not shared" in page_text(app))
        shown = page_text(app)
        assert "✓ $ seq 30" in shown
        assert "12" in shown.split()
        assert "13" not in shown.split()
        assert "… 18 more lines" in shown
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "30" in page_text(app).split()[-3:])


async def test_a_talk_that_is_opened_again_looks_the_same(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [STARTED, ran("one\ntwo", shared=True), TurnEnded(status="done")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "!!seq 30")
        await until(pilot, lambda: "shared" in page_text(app))
        live = page_text(app)
        live = live[live.index("10:41") :]
    message = BashExecutionMessage("seq 30", "one\ntwo", 0, timestamp=STAMP)
    history = [HistoryItem("b1", STAMP, message)]
    async with chatting(FakeRuntime(tmp_path, history=history)) as (app, pilot):
        await until(pilot, lambda: "shared" in page_text(app))
        assert page_text(app).replace(" ", "") == live.replace(" ", "").replace("0ms·", "")


@pytest.mark.usefixtures("chinese")
async def test_in_chinese(tmp_path: Path) -> None:
    message = BashExecutionMessage("ls", "文件", 0, exclude_from_context=True, timestamp=STAMP)
    history = [
        HistoryItem("u1", STAMP, UserMessage("我想看看有哪些文件", timestamp=STAMP)),
        HistoryItem("b1", STAMP, message),
    ]
    async with chatting(FakeRuntime(tmp_path, history=history)) as (app, pilot):
        await until(pilot, lambda: "文件" in page_text(app))
        assert "模型不可见" in page_text(app)
