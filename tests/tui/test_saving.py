"""Memory that is saved in silence, and the context that is counted in silence: what the status line says of them."""

from __future__ import annotations

from pathlib import Path

from clawbot.agent.events import CompactionRunning, ContextUsed, SessionChanged, TurnStarted
from clawbot.errors import ClawbotError
from tests.tui.chat_host import StepClock, chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, RuntimeStatus, reply, summary


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
