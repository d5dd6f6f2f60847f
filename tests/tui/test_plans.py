"""What the screen shows of a plan, a shell command, saving to memory, and the count of the context."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.widgets import Static

from clawbot.agent.events import (
    CompactionRunning,
    ContextUsed,
    Event,
    PlanReady,
    SessionChanged,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from clawbot.errors import ClawbotError
from clawbot.messages import BashExecutionMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import StepClock, chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, RuntimeStatus, reply, summary

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


@pytest.mark.few(1)
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


@pytest.mark.few(1)
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


@pytest.mark.few(1)
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


@pytest.mark.few(2)
@pytest.mark.parametrize("size", [(40, 12), (60, 20), (80, 24), (200, 50)])
async def test_the_question_is_on_every_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chatting(planning(tmp_path, reply("Done.")), size) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: is_asked(app) and "accept, change without asking" in screen_text(app))
        rest(app)
        await pilot.press("1")
        await until(pilot, lambda: "Done." in page_text(app))


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


async def test_saving_is_named_and_can_be_skipped_and_the_turn_goes_on_after_it(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[hold, *reply("done")]])
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "thinking 0 s · esc stops" in screen_text(app))
        runtime.save(True)
        await until(pilot, lambda: "saving to memory 0 s · esc skips" in screen_text(app))
        clock = app.chat.clock
        assert isinstance(clock, StepClock)
        clock.seconds += 7
        await until(pilot, lambda: "saving to memory 7 s · esc skips" in screen_text(app))
        app.chat.order.submitted(ContextUsed(tokens=1, window=2, exact=True))
        assert app.chat.status.state.hint == "esc skips"
        runtime.save(False)
        await until(pilot, lambda: "thinking 7 s · esc stops" in screen_text(app))
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert (app.chat.status.state.activity, app.chat.status.state.hint) == ("", "")


async def test_saving_before_a_fresh_session_is_named_and_then_the_command_again(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime, (100, 24)) as (app, pilot):
        app.chat.order.submitted(TurnStarted(text="/new", session_key="main", session_id="s", model="offline"))
        assert app.chat.status.state.activity == "/new"
        runtime.save(True)
        await until(pilot, lambda: app.chat.status.state.activity == "saving to memory")
        app.chat.order.submitted(CompactionRunning(trigger="manual", part=2, parts=3))
        assert app.chat.status.state.activity == "saving to memory"
        runtime.save(False)
        await until(pilot, lambda: app.chat.status.state.activity == "summarising 2/3")


async def test_nothing_is_said_of_a_context_that_was_not_counted(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, status=RuntimeStatus(tokens=0, exact=False))
    async with chatting(runtime, (100, 24)) as (app, _):
        assert "▕░░░░░░" in screen_text(app)
        assert "%" not in screen_text(app)
        assert "200k" not in screen_text(app)


async def test_the_context_is_counted_at_the_start(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, status=RuntimeStatus(tokens=0, exact=False))
    runtime.measured = RuntimeStatus(tokens=9_000, exact=False)
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: "~4% 9.0k/200k" in screen_text(app))


async def test_the_context_is_counted_in_a_fresh_session_once_the_turn_has_ended(tmp_path: Path) -> None:
    hold = Hold()
    changed = SessionChanged(session_key="main", session_id="abcdef123", reason="/new")
    runtime = FakeRuntime(tmp_path, turns=[[changed, hold]])
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: runtime.measures == 1)
        await send(app, pilot, "go")
        await hold.reached.wait()
        runtime.measured = RuntimeStatus(tokens=9_000)
        hold.release()
        await until(pilot, lambda: "4% 9.0k/200k" in screen_text(app))
        assert runtime.measures == 2


async def test_the_context_is_counted_after_another_conversation_was_chosen(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, sessions=[summary(1, "The other one")])
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: runtime.measures == 1)
        runtime.measured = RuntimeStatus(tokens=9_000)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "The other one" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "4% 9.0k/200k" in screen_text(app))


async def test_the_context_is_counted_for_a_model_that_was_chosen(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await until(pilot, lambda: runtime.measures == 1)
        runtime.measured = RuntimeStatus(tokens=9_000)
        await pilot.press("ctrl+l")
        await until(pilot, lambda: "claude" in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "4% 9.0k/200k" in screen_text(app))


async def test_figures_that_can_not_be_counted_are_not_needed(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.faults["measure"] = ClawbotError("MEMORY.md can't be read.")
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: runtime.measures == 1)
        await send(app, pilot, "go")
        await until(pilot, lambda: "You said: go" in screen_text(app))
