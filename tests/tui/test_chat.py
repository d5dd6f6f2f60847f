"""The conversation on the screen: streaming, the place of the reader, the queue, interrupts, approvals, keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from msgspec import structs
from textual.events import Paste

from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    Event,
    MessageFinished,
    ModelChanged,
    ModelRetry,
    Notice,
    PlanReady,
    ReasoningDelta,
    SessionChanged,
    SessionTitled,
    TextDelta,
    TextWithdrawn,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from clawbot.agent.slash import COMMANDS
from clawbot.api import RuntimeApi
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ModelInfo
from clawbot.tui.app import ClawbotApp
from clawbot.tui.earlier import PAGE_OF_HISTORY
from clawbot.tui.input import ScreenCommand
from clawbot.tui.screens.common import AskScreen
from clawbot.tui.screens.editor import EditorScreen
from clawbot.tui.screens.memory import MemoryScreen
from clawbot.tui.widgets.approval import REST
from clawbot.tui.widgets.composer import PAUSE
from clawbot.tui.widgets.line_view import Pointed
from tests.tui.chat_host import StepClock, chatting, make_app, page_text, screen_text, send, skip_timers, until
from tests.tui.fake_runtime import FakeRuntime, Hold, RuntimeStatus, conversation, found, hit, reply, told

ASKS = ApprovalRequested(
    request_id="r1", call_id="c1", tool="shell", command="make -j2", folder="~/w", pattern="make *", reach="your files"
)
SHELL = ToolStarted(call_id="c1", name="shell", title="shell make -j2", arguments={"command": "make -j2"})
DONE = ToolFinished(call_id="c1", name="shell", output="all built", summary="exit 0", duration_ms=12)


def has_ended(app: ClawbotApp, text: str) -> bool:
    return text in page_text(app) and not app.chat.turns.busy


def is_asked(app: ClawbotApp, request: ApprovalRequested) -> bool:
    return app.chat.approval.request == request


def shows(app: ClawbotApp, screen: str) -> bool:
    return type(app.screen).__name__ == screen


def step(app: ClawbotApp, seconds: float) -> None:
    """Let so much time pass."""
    assert isinstance(app.clock, StepClock)
    app.clock.seconds += seconds


@pytest.mark.parametrize("skipped", [False, True])
async def test_an_answer_streams_onto_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skipped: bool) -> None:
    hold = Hold()
    if skipped:
        skip_timers(monkeypatch)
    events = [TextDelta(text="# Answer\n\nFirst **pa"), hold, TextDelta(text="rt**."), *reply("")]
    async with chatting(FakeRuntime(tmp_path, turns=[events])) as (app, pilot):
        await send(app, pilot, "go on")
        await until(pilot, lambda: "First" in page_text(app))
        assert "▌ go on" in page_text(app)
        assert app.chat.status.state.activity == "writing"
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "   First part." in page_text(app)
        assert app.chat.status.state.activity == ""


async def test_the_page_follows_only_at_its_end(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [*reply("\n\n".join(f"line {n}" for n in range(40))), hold, *reply("the last one")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await hold.reached.wait()
        await until(pilot, lambda: app.chat.page.at_end and "line 39" in screen_text(app))
        await pilot.press("pageup")
        await until(pilot, lambda: not app.chat.page.at_end)
        before = screen_text(app).split("\n")[1:10]
        app.chat.writer.notice(Notice(level="info", text="something new"))
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy and "↓ 1 new" in screen_text(app))
        assert screen_text(app).split("\n")[1:10] == before
        await pilot.press("ctrl+end")
        await until(pilot, lambda: "the last one" in screen_text(app) and "new" not in screen_text(app).split("\n")[-5])


async def test_a_message_during_a_turn_is_queued_and_can_be_taken_back(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[TextDelta(text="busy"), hold]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "one")
        await hold.reached.wait()
        await send(app, pilot, "two")
        await send(app, pilot, "three")
        await until(pilot, lambda: "queued: three" in screen_text(app))
        assert app.chat.turns.queued == ["two", "three"]
        await pilot.press("alt+up")
        await until(pilot, lambda: app.chat.turns.queued == ["two"] and runtime.withdrawn == ["three"])
        assert app.chat.composer.prompt.text == "three"
        hold.release()
        await until(pilot, lambda: "You said: two" in page_text(app) and not app.chat.turns.busy)
        assert "three" not in page_text(app)


async def test_escape_interrupts_the_turn_and_what_was_written_stays_marked(tmp_path: Path) -> None:
    hold = Hold()
    async with chatting(FakeRuntime(tmp_path, turns=[[TextDelta(text="half an ans"), SHELL, hold]])) as (app, pilot):
        await send(app, pilot, "one")
        await hold.reached.wait()
        await send(app, pilot, "two")
        await until(pilot, lambda: app.chat.turns.queued == ["two"])
        await pilot.press("escape")
        await until(pilot, lambda: "You said: two" in page_text(app))
        text = page_text(app)
        assert "half an ans" in text
        assert text.count("interrupted") == 2


async def test_what_is_sent_before_the_runtime_is_there_waits_for_it(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path)

    async def slow(agent: str | None = None) -> RuntimeApi:
        await hold.released.wait()
        return runtime

    app = ClawbotApp(slow, clock=StepClock())
    async with app.run_test() as pilot:
        await pilot.press("h", "i", "enter")
        await until(pilot, lambda: "queued: hi" in screen_text(app))
        await pilot.press("m")
        hold.release()
        await until(pilot, lambda: "You said: hi" in page_text(app))
        assert runtime.submitted == ["hi"]
        assert app.chat.composer.prompt.text == "m"
        await until(pilot, lambda: runtime.warmed == 1)
        # After a pause the process that calls the model may have ended.
        step(app, PAUSE)
        await pilot.press("o")
        await until(pilot, lambda: runtime.warmed == 2)


async def test_a_start_that_fails_ends_the_app_with_its_error(tmp_path: Path) -> None:
    async def fails(agent: str | None = None) -> RuntimeApi:
        raise ClawbotError("The session is open elsewhere.", hint="Use --new.")

    app = ClawbotApp(fails, clock=StepClock())
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.failure is not None)
    assert app.return_code == 1
    assert "elsewhere" in str(app.failure)


async def test_an_early_key_allows_nothing_and_is_no_text(tmp_path: Path) -> None:
    """A no is a refusal when nothing follows it."""
    runtime = FakeRuntime(tmp_path, turns=[[SHELL, ASKS, DONE]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "build")
        await until(pilot, lambda: app.chat.approval.request is not None)
        for key in "yae":
            await pilot.press(key)
            assert app.chat.approval.is_holding
            await until(pilot, lambda: not app.chat.approval.is_holding)
            assert runtime.answers == []
            assert app.chat.approval.request is not None
            assert app.chat.composer.prompt.text == ""
        await pilot.press("n")
        assert runtime.answers == []
        await until(pilot, lambda: runtime.answers == [("r1", "deny", None)])


async def test_who_was_writing_goes_on_writing(tmp_path: Path) -> None:
    hold = Hold()
    runtime = FakeRuntime(tmp_path, turns=[[SHELL, hold, ASKS, DONE]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "build")
        await hold.reached.wait()
        await pilot.press("m", "a")
        hold.release()
        await until(pilot, lambda: app.chat.approval.request is not None)
        await pilot.press("y")
        await until(pilot, lambda: app.chat.composer.prompt.text == "may")
        assert runtime.answers == []


async def test_an_answer_key_counts_only_after_the_keyboard_has_rested(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[SHELL, ASKS, DONE, *reply("built")]])
    async with chatting(runtime) as (app, pilot):
        clock = app.clock
        assert isinstance(clock, StepClock)
        await send(app, pilot, "build")
        await until(pilot, lambda: app.chat.approval.request is not None)
        assert "make -j2" in screen_text(app)
        assert "your files" in screen_text(app)
        await pilot.press("y", "a", "enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "ya")
        assert runtime.answers == []
        clock.seconds += REST
        await pilot.press("y")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert runtime.answers == [("r1", "once", None)]
        assert app.chat.composer.display
        assert app.chat.composer.prompt.text == "ya"


async def test_the_other_answers(tmp_path: Path) -> None:
    """Network is given where the question offers it, and a command can be changed before it runs."""
    asked = [structs.replace(ASKS, request_id=f"r{number}", network=number == 3) for number in range(1, 5)]
    runtime = FakeRuntime(tmp_path, turns=[[SHELL, *asked, DONE]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "build")
        for number, key in ((1, "w"), (1, "a"), (2, "n"), (3, "w"), (4, "e")):
            await until(pilot, partial(is_asked, app, asked[number - 1]))
            assert ("with network" in screen_text(app)) == (number == 3)
            step(app, 5)
            await pilot.press(key)
        await until(pilot, lambda: "CommandEditor" in str(app.focused))
        await pilot.press("end", "space", "x", "enter")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert runtime.answers == [
            ("r1", "always", None),
            ("r2", "deny", None),
            ("r3", "once with network", None),
            ("r4", "once", "make -j2 x"),
        ]


async def test_an_interrupt_closes_the_question(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[SHELL, ASKS, DONE]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "build")
        await until(pilot, lambda: app.chat.approval.request is not None)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert runtime.answers == []
        assert app.chat.approval.request is None
        assert app.focused is app.chat.composer.prompt


async def test_tool_calls_unfold_by_keys_and_by_the_mouse(tmp_path: Path) -> None:
    """What is typed over the page goes into the prompt nevertheless."""
    async with chatting(FakeRuntime(tmp_path, turns=[[SHELL, DONE, *reply("built")]])) as (app, pilot):
        await send(app, pilot, "build")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "✓ $ make -j2" in page_text(app)
        assert "exit 0 · 12 ms" in page_text(app)
        assert "all built" not in page_text(app)
        await pilot.press("ctrl+o")
        assert "command: make -j2" in page_text(app)
        assert "all built" in page_text(app)
        await pilot.press("ctrl+o")
        assert "all built" not in page_text(app)
        await pilot.press("f6", "enter")
        assert "all built" in page_text(app)
        row = next(n for n, line in enumerate(screen_text(app).split("\n")) if "✓ $" in line)
        await pilot.click(offset=(8, row))
        await until(pilot, lambda: "all built" not in page_text(app))
        assert app.focused is app.chat.page
        await pilot.press("h", "i")
        assert app.chat.composer.prompt.text == "hi"


async def test_reasoning_is_hidden_until_it_is_asked_for(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [ReasoningDelta(text="let me "), ReasoningDelta(text="think"), *reply("so")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "why")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "let me think" not in page_text(app)
        await pilot.press("ctrl+t")
        assert "let me think" in page_text(app)


async def test_large_pastes_stand_as_one_word_each_and_are_sent_whole(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    pasted = "word 中文\n" * 12_000
    async with chatting(runtime) as (app, pilot):
        app.post_message(Paste(pasted))
        await until(pilot, lambda: not app.chat.composer.is_empty)
        assert app.chat.composer.prompt.text == "[pasted 96,000 characters]"
        await pilot.press("space", "!", "enter")
        await until(pilot, lambda: not app.chat.turns.busy and bool(runtime.submitted))
        assert runtime.submitted == [pasted + " !"]
        for letter in "ab":
            app.post_message(Paste(letter * 3000))
        await until(pilot, lambda: "characters, 2]" in app.chat.composer.prompt.text)
        await pilot.press("enter")
        await until(pilot, lambda: len(runtime.submitted) == 2)
        assert runtime.submitted[1] == "a" * 3000 + "b" * 3000


async def test_keys_of_the_prompt(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press("a", "ctrl+j", "b", "shift+enter", "c")
        assert prompt.text == "a\nb\nc"
        assert prompt.size.height == 3
        await pilot.press("enter")
        await until(pilot, lambda: runtime.submitted == ["a\nb\nc"])
        await pilot.press("x", "up")
        assert prompt.text == "a\nb\nc"
        await pilot.press("down", "down", "down")
        assert prompt.text == "x"
        await pilot.press("ctrl+c")
        assert prompt.text == ""
        assert "ctrl+c again leaves" in screen_text(app)


async def test_ctrl_z_takes_back_and_with_nothing_to_take_back_suspends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suspended: list[bool] = []
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        monkeypatch.setattr(app, "action_suspend_process", lambda: suspended.append(True))
        await pilot.press("a", "ctrl+z")
        assert app.chat.composer.is_empty
        assert suspended == []
        await pilot.press("ctrl+z")
        assert suspended == [True]


async def test_history_comes_back_at_the_next_start(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await send(app, pilot, "remember me")
        await until(pilot, (tmp_path / "history.jsonl").exists)
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await until(pilot, lambda: bool(app.chat.composer.prompt.inputs.entries))
        await pilot.press("up")
        assert app.chat.composer.prompt.text == "remember me"


async def test_a_command_is_sent_as_the_agent_reads_it_and_an_unknown_one_stays(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "/statsu now")
        await until(pilot, lambda: "There is no command /statsu" in screen_text(app))
        assert runtime.submitted == []
        assert app.chat.composer.prompt.text == "/statsu now"
        app.chat.composer.clear()
        await send(app, pilot, "  /New Text")
        await until(pilot, lambda: runtime.submitted == ["/new Text"])


def begun(text: str) -> TurnStarted:
    return TurnStarted(text=text, session_key="main", session_id="s", model="offline")


async def test_the_words_behind_a_command_are_shown_once(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, _):
        app.chat.order.submitted(begun("/new hello\nthree"))
        assert "/new hello" in page_text(app)
        app.chat.order.submitted(SessionChanged(session_key="main", session_id="abcdef123", reason="/new"))
        app.chat.order.submitted(begun("hello\nthree"))
        assert page_text(app).count("hello") == 1
        assert "▌ /new\n" in page_text(app)
        app.chat.order.submitted(TurnEnded(status="done"))
        app.chat.order.submitted(begun("/compact ports"))
        app.chat.order.submitted(TurnEnded(status="done"))
        app.chat.order.submitted(begun("ports"))
        assert "/compact ports" in page_text(app)


async def test_what_was_thought_before_silence_is_not_shown(tmp_path: Path) -> None:
    thought = ReasoningDelta(text="Nothing to say.")
    turns: list[list[Event | Hold]] = [
        [thought],
        [thought, *reply("Hm.")],
        [thought, SHELL, DONE],
        [thought, TurnEnded(status="interrupted")],
    ]
    async with chatting(FakeRuntime(tmp_path, turns=turns)) as (app, pilot):
        await pilot.press("ctrl+t")
        for number in range(len(turns)):
            await send(app, pilot, f"number {number}")
            await until(pilot, partial(has_ended, app, f"number {number}"))
            assert page_text(app).count("Nothing to say.") == number


async def test_what_could_not_be_stored_is_handed_back(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.full_disk = True
    async with chatting(runtime) as (app, pilot):
        prompt = app.chat.composer.prompt
        await send(app, pilot, "keep these words")
        await until(pilot, lambda: prompt.text == "keep these words")
        assert "✕ No space left on device. Make room." in page_text(app)
        assert "not sent" not in page_text(app)
        app.chat.turns.submit("these as well")
        await until(pilot, lambda: "not sent" in page_text(app))
        assert prompt.text == "keep these words"
        assert "these as well" in page_text(app)
        runtime.full_disk = False
        await pilot.press("enter")
        await until(pilot, lambda: "You said: keep these words" in page_text(app))
        assert prompt.text == ""


async def test_a_long_text_that_is_handed_back_stands_as_a_placeholder(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.full_disk = True
    async with chatting(runtime) as (app, pilot):
        app.chat.turns.submit("x" * 9000)
        await until(pilot, lambda: app.chat.composer.prompt.text == "[pasted 9,000 characters]")
        await pilot.press("enter")
        await until(pilot, lambda: runtime.submitted == ["x" * 9000] * 2)


async def test_a_turn_that_fails_later_hands_nothing_back(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [
        TextDelta(text="half"),
        TurnEnded(status="failed", error="It broke off.", hint="Send it again."),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "✕ It broke off. Send it again." in page_text(app))
        assert app.chat.composer.is_empty
        assert "half" in page_text(app)


async def test_commands_and_files_are_completed(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await pilot.press("/", "s", "t")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        await pilot.press("enter")
        await until(pilot, lambda: "Output of `/status`" in page_text(app) or "Output of /status" in page_text(app))
        assert runtime.submitted == ["/status"]
        await pilot.press("s", "e", "e", "space", "@", "m", "e")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        await pilot.press("tab")
        assert app.chat.composer.prompt.text == "see @memory/2026-10-02.md "


async def test_the_name_of_a_skill_is_completed_after_its_command(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.known_skills = {"deploy": "发布网站。", "release-notes": "Writes them."}
    async with chatting(runtime) as (app, pilot):
        await pilot.press(*"/skill", "space")
        await until(pilot, lambda: "发布网站。" in screen_text(app) and "Writes them." in screen_text(app))
        await pilot.press("r", "tab")
        assert app.chat.composer.prompt.text == "/skill release-notes "
        assert not app.chat.composer.completions.is_open
        await pilot.press(*"now", "enter")
        await until(pilot, lambda: runtime.submitted == ["/skill release-notes now"])


async def test_escape_closes_the_list_before_it_stops_a_turn(tmp_path: Path) -> None:
    hold = Hold()
    async with chatting(FakeRuntime(tmp_path, turns=[[hold, *reply("done")]])) as (app, pilot):
        await send(app, pilot, "go")
        await hold.reached.wait()
        await pilot.press("/", "s")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        await pilot.press("escape")
        assert not app.chat.composer.completions.is_open
        assert app.chat.turns.busy
        hold.release()
        await until(pilot, lambda: "done" in page_text(app))


async def test_older_turns_come_when_the_reader_reaches_the_top(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(100))) as (app, pilot):
        await until(pilot, lambda: "question 99" in screen_text(app))
        assert "question 74" not in page_text(app)
        assert PAGE_OF_HISTORY == 50
        page = app.chat.page
        page.scroll_to(y=3, animate=False)
        top = page.stack.line(page.scroll_offset.y).text
        await until(pilot, lambda: "question 50" in page_text(app))
        await until(pilot, lambda: page.stack.line(page.scroll_offset.y).text == top)
        page.scroll_home(animate=False)
        await until(pilot, lambda: "question 25" in page_text(app))


async def test_a_resize_keeps_the_reader_in_place(tmp_path: Path) -> None:
    turn = reply("\n\n".join(f"paragraph {n} " + "with words " * 20 for n in range(40)))
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy)
        page = app.chat.page
        page.scroll_to(y=60, animate=False)
        item = page.stack.item(page.stack.at(60)[0])
        await pilot.resize_terminal(50, 30)
        await until(pilot, lambda: page.stack.page.width == page.page_width < 50)
        assert page.stack.item(page.stack.at(page.scroll_offset.y)[0]) is item
        await pilot.press("ctrl+end")
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: page.at_end and "paragraph 39" in screen_text(app))


async def test_control_characters_of_a_model_and_a_tool_never_reach_the_screen(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [
        ToolStarted(call_id="c1", name="x", title="x \x1b[2J\x07", arguments={"a\x1b[1m": "\x1b]0;t\x07v"}),
        ToolFinished(call_id="c1", name="x", output="\x1b[31mred\x1b[0m\x00", summary="\x1b[5m1"),
        TextDelta(text="a\x1b"),
        TextDelta(text="[2Jb [bold]c[/bold]"),
        MessageFinished(entry_id="m", text="", stop_reason="stop"),
        Notice(level="warning", text="w\x1b[2J"),
        CommandOutput(command="/x\x1b[2J", text="o\x1b[2J"),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "u\x1b[2J")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("ctrl+o")
        assert not [sign for sign in page_text(app) if sign < " " and sign != "\n"]
        assert "ab [bold]c[/bold]" in page_text(app)


async def test_what_happens_beside_the_talk_is_a_quiet_line(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [
        TextDelta(text="from the first model"),
        ModelChanged(model="offline", reason="openai: unreachable", discard=True),
        *reply("from the second"),
        ModelChanged(model="other", reason=""),
        Notice(level="info", text="3 lines to memory/2026-11-20.md", path="memory/2026-11-20.md", line=3),
        TurnEnded(status="failed", error="The key is wrong.", hint="Set OPENAI_API_KEY."),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy)
        text = page_text(app)
        assert "─ offline answers · openai: unreachable" in text
        assert "─ other answers ─" in text
        assert "✕ The key is wrong. Set OPENAI_API_KEY." in text
        styles = {
            span.style
            for n in range(len(app.chat.page.stack))
            for line in app.chat.page.stack.lines(n)
            for span in line.spans
        }
        assert "discarded" in styles


async def test_the_reason_of_a_retry_wraps_on_the_page_and_the_wait_stays_in_sight(tmp_path: Path) -> None:
    reason = f"You exceeded your current quota: {'for more of it, head to the pages of the vendor. ' * 4}Retry later."
    hold = Hold()
    turn: list[Event | Hold] = [
        ModelRetry(attempt=2, wait=0.25, reason=reason),
        ModelRetry(attempt=3, wait=14.3, reason=reason),
        hold,
        *reply("done"),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn]), size=(80, 24)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: app.chat.status.state.activity == "attempt 3 in 15 s")
        assert " ".join(page_text(app).split()).count(reason) == 1
        hold.release()


@pytest.mark.few(1)
@pytest.mark.parametrize("pieces", [["zebra, so\n\n", "it is"], ["zebra"], ["# zebra\n\n- a\n- b\n\n", "c\n\n", "d"]])
async def test_text_that_was_a_thought_is_shown_as_reasoning_alone(tmp_path: Path, pieces: list[str]) -> None:
    held = Hold()
    thought = "".join(pieces)
    turn: list[Event | Hold] = [
        *(TextDelta(text=piece) for piece in pieces),
        held,
        TextWithdrawn(text=thought),
        TextDelta(text="Port 3128."),
        MessageFinished(entry_id="m", text="Port 3128.", stop_reason="stop"),
        TurnEnded(status="done"),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "where")
        await until(pilot, lambda: "zebra" in page_text(app))
        held.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "zebra" not in page_text(app)
        assert page_text(app).count("Port 3128.") == 1
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "zebra" in page_text(app))


async def test_a_note_opens_in_the_editor_at_its_line(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[reply("See memory/2026-10-02.md:1 for it.")])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "where")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("f6", "enter")
        await until(pilot, lambda: type(app.screen).__name__ == "EditorScreen")


async def test_a_changed_file_shows_its_diff_on_coloured_ground(tmp_path: Path) -> None:
    diff = "--- AGENTS.md\n+++ AGENTS.md\n@@ -1 +1 @@\n-old words\n+new \x1b[2Jwords"
    turn: list[Event | Hold] = [
        ToolStarted(call_id="c1", name="edit", title="edit AGENTS.md", arguments={"old": "old words"}),
        ToolFinished(call_id="c1", name="edit", output="Edited.", summary="+1 −1", details={"diff": diff}),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "edit it")
        await until(pilot, lambda: "+1 −1" in page_text(app))
        stack = app.chat.page.stack
        spans = [span for n in range(len(stack)) for line in stack.lines(n) for span in line.spans]
        styles = {span.text: span.style for span in spans}
        assert (styles["old words"], styles["new words"]) == ("diff-removed", "diff-added")
        assert "---" not in page_text(app)


async def test_ctrl_q_asks_before_an_edit_is_lost(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        await send(app, pilot, "/edit AGENTS.md")
        await until(pilot, lambda: isinstance(app.screen, EditorScreen) and not app.screen.area.disabled)
        await pilot.press("x", "ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, AskScreen))
        await pilot.press("ctrl+q")
        assert app.is_running
        assert isinstance(app.screen, AskScreen)
        await pilot.press("d")
        await until(pilot, lambda: app.screen is app.chat)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.long
async def test_keys_lead_to_the_other_screens_and_back(tmp_path: Path) -> None:
    keys = {"ctrl+l": "ModelsScreen", "ctrl+r": "SessionsScreen", "ctrl+f": "MemoryScreen", "f1": "HelpScreen"}
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        for key, screen in keys.items():
            await pilot.press(key)
            await until(pilot, partial(shows, app, screen))
            await pilot.press("escape")
            await until(pilot, lambda: app.screen is app.chat)


async def test_a_search_in_the_memory_leaves_the_prompt_as_it_is(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.memories["代理 port"] = found(hit("memory/2026-10-02.md", 1, "# Notes"))
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "/memory 代理 port")
        await until(
            pilot, lambda: isinstance(app.screen, MemoryScreen) and "memory/2026-10-02.md:1" in screen_text(app)
        )
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert runtime.submitted == []
        await pilot.press(*"half a word", "ctrl+f", "x", "escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert app.chat.composer.prompt.text == "half a word"


@pytest.mark.long
async def test_a_place_in_another_conversation_is_gone_on_with(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(1))
    for session in ("5f0c1d2e", "0a1b2c3d"):
        runtime.memories[session] = found(hit(f"sessions/{session}.jsonl", 3, "User: hi", source="sessions"))
    async with chatting(runtime) as (app, pilot):
        resumed = runtime.resumed
        for session, expected in (("5f0c1d2e", []), ("0a1b2c3d", ["0a1b2c3d"])):
            await send(app, pilot, f"/memory {session}")
            await until(pilot, lambda: "jsonl:3" in screen_text(app))
            await pilot.press("enter")
            await until(pilot, lambda: app.screen is app.chat and not app.workers)
            assert resumed == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("session", ["5f0c1d2e", "0a1b2c3d"])
async def test_a_place_in_a_conversation_is_shown_there(tmp_path: Path, session: str) -> None:
    """In the one that is open as well."""
    runtime = FakeRuntime(tmp_path, history=conversation(60))
    runtime.status = structs.replace(runtime.status, session_id="5f0c1d2e")
    wanted = runtime.items[10]
    runtime.memories["question"] = found(told(session, "User: question", entry=wanted.entry_id))
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "/memory question")
        await until(pilot, lambda: isinstance(app.screen, MemoryScreen) and bool(app.screen.shown))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat and app.chat.page.pointed is not None)
        await until(pilot, lambda: not app.workers)
        assert app.chat.page.pointed == Pointed(wanted.entry_id, "question")
        assert not app.chat.page.at_end


async def test_the_notes_that_a_search_found_are_lines_that_open(tmp_path: Path) -> None:
    results = [{"path": f"memory/2026-10-0{n}.md", "startLine": n, "snippet": f"note\n{n}"} for n in range(1, 9)]
    results.append({"path": "sessions/5f0c.jsonl", "startLine": 9, "snippet": "User: said \x1b[2Jearlier"})
    turn: list[Event | Hold] = [
        ToolStarted(call_id="c1", name="memory_search", title="memory_search proxy", arguments={"query": "proxy"}),
        ToolFinished(call_id="c1", name="memory_search", output="{}", summary="9 hits", details={"results": results}),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "where is the proxy?")
        await until(pilot, lambda: "9 hits" in page_text(app))
        lines = [line.strip() for line in page_text(app).splitlines() if "2026-10" in line]
        assert lines == [f"memory/2026-10-0{n}.md:{n}   note {n}" for n in range(1, 7)]
        assert "… 3 more" in page_text(app)
        row = next(n for n, line in enumerate(screen_text(app).split("\n")) if "2026-10-02" in line)
        await pilot.click(offset=(9, row))
        await until(pilot, lambda: isinstance(app.screen, EditorScreen))
        assert isinstance(app.screen, EditorScreen)
        assert (app.screen.file, app.screen.line) == ("memory/2026-10-02.md", 2)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        row = next(n for n, line in enumerate(screen_text(app).split("\n")) if "3 more" in line)
        await pilot.click(offset=(9, row))
        await until(pilot, lambda: "sessions/5f0c.jsonl:9   User: said earlier" in page_text(app))
        assert "more" not in page_text(app)
        assert "query: proxy" in page_text(app)


async def test_lines_of_a_note_that_were_read_unfold_as_lines(tmp_path: Path) -> None:
    excerpt = {"path": "memory/2026-10-02.md", "startLine": 4, "endLine": 5, "text": "- proxy on 8443\n- 部署改到周四"}
    details = {"excerpt": excerpt, "notes": ["Up to line 5 of 9."]}
    turn: list[Event | Hold] = [
        ToolStarted(call_id="c1", name="memory_get", title="memory_get memory/2026-10-02.md", arguments={"from": 4}),
        ToolFinished(call_id="c1", name="memory_get", output='{"text":""}', summary="2 lines", details=details),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "what was it?")
        await until(pilot, lambda: "2 lines" in page_text(app))
        assert "8443" not in page_text(app)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "5  - 部署改到周四" in page_text(app))
        lines = [line.strip() for line in page_text(app).splitlines()]
        start = lines.index("memory/2026-10-02.md:4")
        assert lines[start + 1 : start + 4] == ["4  - proxy on 8443", "5  - 部署改到周四", "Up to line 5 of 9."]
        assert '{"text"' not in page_text(app)


async def test_a_reply_is_copied_and_ctrl_d_leaves(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply("the **reply**")])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy)
        await send(app, pilot, "/copy")
        await until(pilot, lambda: app.clipboard == "the **reply**")
        await pilot.press("ctrl+d")
        await until(pilot, lambda: not app.is_running)
    assert app.return_code in (0, None)


async def test_selected_text_of_the_page_is_copied(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply("one line to copy")])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: not app.chat.turns.busy and "one line to copy" in screen_text(app))
        row = next(n for n, line in enumerate(screen_text(app).split("\n")) if "one line" in line)
        await pilot.mouse_down(offset=(3, row))
        await pilot.hover(offset=(11, row))
        await pilot.mouse_up(offset=(11, row))
        await pilot.press("ctrl+c")
        await until(pilot, lambda: app.clipboard == "one line")
        assert app.is_running


async def test_leaving_in_the_middle_of_a_turn_is_no_crash(tmp_path: Path) -> None:
    hold = Hold()
    app = make_app(FakeRuntime(tmp_path, turns=[[TextDelta(text="x"), hold]]))
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.runtime is not None)
        await send(app, pilot, "go")
        await hold.reached.wait()
        app.exit()
    assert app.crash is None


async def test_every_event_has_its_place_on_the_screen_and_every_screen_command_its_answer(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        by_the_screen = {PlanReady, SessionTitled}
        assert app.chat.view.handlers.keys() | by_the_screen == set(get_args(Event))
        for info in COMMANDS:
            if info.screen and info.name != "/quit":
                app.take(ScreenCommand(info.name, ""))
                await pilot.pause()
                while len(app.screen_stack) > 1:
                    await pilot.press("escape")
    assert app.crash is None


async def test_a_model_that_is_another_one_than_before_is_told_on_the_page(tmp_path: Path) -> None:
    status = RuntimeStatus(answered_before="offline", model=ModelInfo(ref="llamafile/qwen"))
    runtime = FakeRuntime(tmp_path, history=conversation(1), status=status)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "offline answered so far · llamafile/qwen answers from here on" in page_text(app))


async def test_arguments_of_commands_are_completed(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        offered = app.chat.composer.completions

        def begins_with(names: list[str]) -> bool:
            return [choice.text for choice in offered.choices][: len(names)] == names

        for typed, names in [
            ("/edit m", ["memory/2026-10-02.md", "AGENTS.md"]),
            ("/model gpt", ["openai/gpt-5"]),
            ("/mode ", ["plan", "ask", "edits"]),
            ("/theme dra", ["dracula"]),
        ]:
            app.chat.composer.prompt.take(typed)
            await until(pilot, partial(begins_with, names))
        app.chat.composer.prompt.take("/mode pl")
        await until(pilot, lambda: [choice.text for choice in offered.choices] == ["plan"])
        await pilot.press("enter")
        await until(pilot, lambda: runtime.status.mode == "plan")
        assert app.chat.composer.is_empty


async def test_a_command_that_another_one_begins_with_is_sent_by_enter(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path)
    async with chatting(runtime) as (app, pilot):
        await pilot.press(*"/mode")
        await until(pilot, lambda: app.chat.composer.completions.is_open)
        before = runtime.status.mode
        await pilot.press("enter")
        await until(pilot, lambda: runtime.status.mode != before)


async def test_the_menu_says_how_many_more_there_are_and_shows_code_without_its_marks(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path), (130, 24)) as (app, pilot):
        await pilot.press("/")
        await until(pilot, lambda: f"↓ {len(COMMANDS) - 7} more" in screen_text(app))
        rows = [row for row in screen_text(app).splitlines() if row.strip().startswith("/")]
        assert {row.index("  End this") for row in rows if "End this" in row} == {
            row.index("  The same as /new") for row in rows if "The same as /new" in row
        }
        for _ in COMMANDS[1:]:
            await pilot.press("down")
        await until(pilot, lambda: f"↑ {len(COMMANDS) - 7} more" in screen_text(app))
        assert "light, dark, auto or a theme" in screen_text(app)
        assert "/quit" in screen_text(app)


async def test_paths_outside_the_workspace_are_completed(tmp_path: Path) -> None:
    (tmp_path / "shots").mkdir()
    (tmp_path / "shots" / "one.png").write_bytes(b"x")
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt, offered = app.chat.composer.prompt, app.chat.composer.completions
        prompt.take(f"see @{tmp_path}/sh")
        await until(pilot, lambda: offered.is_open)
        await pilot.press("tab")
        assert prompt.text == f"see @{tmp_path}/shots/"
        await until(pilot, lambda: offered.is_open)
        await pilot.press("tab")
        assert prompt.text == f"see @{tmp_path}/shots/one.png "


class Unheard(Notice, frozen=True):
    """An event of a kind that the screen does not know."""


async def test_an_event_of_another_kind_is_ignored(tmp_path: Path) -> None:
    turn: list[Event | Hold] = [Unheard(level="info", text="of a later version"), *reply("all the same")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "all the same" in page_text(app) and not app.chat.turns.busy)
        assert "later version" not in page_text(app)
    assert app.crash is None
