"""The page of a conversation: what can be read on it, what moves, and where the reader stays."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import pytest
from rich.style import Style
from textual.geometry import Offset
from textual.screen import Screen
from textual.selection import SELECT_ALL, Selection

from clawbot.agent.events import (
    ApprovalRequested,
    Event,
    MessageFinished,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
)
from clawbot.config.schema import Settings, TuiSettings
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, Usage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.cards import ToolItem
from clawbot.tui.render.items import HeadItem, MarkItem
from clawbot.tui.widgets.line_view import NAMES
from clawbot.tui.widgets.status_line import StatusState
from tests.tui.chat_host import StepClock, chatting, page_text, screen_text, send, until
from tests.tui.contrast import contrast
from tests.tui.fake_runtime import NOW, FakeRuntime, Hold, conversation, reply

STAMP = int(NOW.timestamp() * 1000)
MINUTE = 60_000
SIGNS = {"quote-bar", "rule", "card-waits"}  # no text
SHELL = ToolStarted(call_id="c1", name="shell", title="shell make", arguments={"command": "make"})
LONG = "\n\n".join(f"line {number}" for number in range(60))


def history(*messages: UserMessage | AssistantMessage | ToolResultMessage, apart: int = 0) -> list[HistoryItem]:
    return [HistoryItem(f"h{number}", STAMP + number * apart, message) for number, message in enumerate(messages)]


@pytest.mark.few(1)
@pytest.mark.parametrize("theme", ["clawbot-dark", "clawbot-light"])
async def test_all_text_of_the_page_has_contrast_in_both_themes(tmp_path: Path, theme: str) -> None:
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        app.theme = theme
        await pilot.pause()
        page = app.chat.page
        grounds = ["", "code ", "code-inline ", "diff-added ", "diff-removed "]
        plain = {name: contrast(page.named(name)) for name in NAMES if name not in SIGNS}
        assert {name: figure for name, figure in plain.items() if figure < 4.5} == {}
        inside = ["note", "link", "code-comment", "code-string", "code-number", "code-keyword", "code-deleted"]
        on = {ground + name: contrast(page.named(ground + name)) for ground in grounds[:3] for name in inside}
        assert {name: figure for name, figure in on.items() if figure < 4.5} == {}


async def test_what_is_selected_can_be_read(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=history(UserMessage("select me")))) as (app, pilot):
        await until(pilot, lambda: "select me" in screen_text(app))
        page = app.chat.page
        row = next(number for number, line in enumerate(page_text(app).split("\n")) if "select me" in line)
        app.chat.selections = {page: Selection(Offset(3, row), Offset(9, row))}
        await pilot.pause()
        strip = page.render_line(row - page.scroll_offset.y)
        marked = [segment for segment in strip if segment.text == "select"]
        assert marked
        assert all(contrast(segment.style or Style()) >= 4.5 for segment in marked)
        assert app.chat.get_selected_text() == "select"


async def test_a_turn_tells_how_long_it_takes_and_what_is_written_and_at_its_end_what_was(tmp_path: Path) -> None:
    first, last = Hold(), Hold()
    turn: list[Event | Hold] = [
        TextDelta(text="x" * 4_000),
        first,
        *[TextDelta(text="word") for _ in range(1_000)],
        last,
        MessageFinished(entry_id="m", text="words", stop_reason="stop", usage=Usage(output=1_234)),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn]), (100, 24)) as (app, pilot):
        counts: set[int] = set()

        def note(state: StatusState) -> None:
            counts.add(state.written)

        app.chat.watch(app.chat.status, "state", note)
        await send(app, pilot, "go")
        await until(pilot, first.reached.is_set)
        assert isinstance(app.chat.clock, StepClock)
        app.chat.clock.seconds += 42
        counts.clear()
        first.release()
        await until(pilot, last.reached.is_set)
        await until(pilot, lambda: "writing 42 s · ↓ 1.0k tokens · esc stops" in screen_text(app))
        # A thousand pieces come between two looks at the clock: the line is drawn for a few of them.
        assert len(counts) <= 2
        last.release()
        await until(pilot, lambda: " 42 s · ↓ 1.2k tokens " in screen_text(app) and not app.chat.turns.busy)
        app.chat.status_bar.changed()
        await until(pilot, lambda: "tokens" not in screen_text(app))


async def test_a_copy_of_the_users_words_is_without_the_bar(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=history(UserMessage("one\ntwo")))) as (app, pilot):
        await until(pilot, lambda: "▌ two" in screen_text(app))
        row = next(number for number, line in enumerate(page_text(app).split("\n")) if "▌ one" in line)
        app.chat.selections = {app.chat.page: Selection(Offset(0, row), Offset(9, row + 1))}
        assert app.chat.get_selected_text() == "one\ntwo"


async def test_code_is_as_wide_as_the_page_after_a_resize(tmp_path: Path) -> None:
    said = AssistantMessage([TextBlock("```\nx = 1\n```")])
    async with chatting(FakeRuntime(tmp_path, history=history(UserMessage("go"), said))) as (app, pilot):
        await until(pilot, lambda: "x = 1" in screen_text(app))

        def ground() -> int:
            """The cells of the line of code that have its ground."""
            page = app.chat.page
            number = next(n for n, line in enumerate(page_text(app).split("\n")) if "x = 1" in line)
            colour = page.named("code").bgcolor
            strip = page.render_line(number - page.scroll_offset.y)
            return sum(segment.cell_length for segment in strip if segment.style and segment.style.bgcolor == colour)

        assert ground() == app.chat.page.page_width - 3
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: app.size.width == 100 and app.chat.page.stack.page.width > 90)
        assert ground() == app.chat.page.page_width - 3


async def test_an_answer_of_two_blocks_has_one_head_at_each_moment(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [TextDelta(text="# Heading\n\nA paragraph"), hold, *reply("")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "A paragraph" in page_text(app))
        heads = [item for item in app.chat.page.stack.items if isinstance(item, HeadItem) and not item.by_user]
        assert len(heads) == 1


async def test_a_time_is_told_once_a_minute_and_the_day_when_it_changes(tmp_path: Path) -> None:
    said = history(UserMessage("a"), AssistantMessage([TextBlock("b")]), UserMessage("c"), apart=10_000)
    runtime = FakeRuntime(tmp_path, history=said)
    runtime.items.append(HistoryItem("n", STAMP + 24 * 60 * MINUTE, AssistantMessage([TextBlock("d")])))
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: "   d" in page_text(app))
        times = [item.time for item in app.chat.page.stack.items if isinstance(item, HeadItem)]
        assert times == ["10:41", "", "", "Sat 21 Nov 10:41"]


async def test_cards_look_after_a_resume_as_they_did(tmp_path: Path) -> None:
    """What was told beside the call, and that the user declined it, stand in the transcript."""
    calls = [ToolCallBlock(name, "shell", {"command": f"echo {name}"}) for name in ("done", "no", "old")]
    told = ToolResultMessage("done", "shell", [TextBlock("x")], summary="exit 0", duration_ms=1_200)
    refused = ToolResultMessage(
        "no", "shell", [TextBlock("Not run.")], is_error=True, details={"declined": True}, summary="declined"
    )
    old = ToolResultMessage("old", "shell", [TextBlock("x")], is_error=True)
    said = history(UserMessage("go"), AssistantMessage([*calls]), told, refused, old)
    async with chatting(FakeRuntime(tmp_path, history=said)) as (app, pilot):
        await until(pilot, lambda: "echo old" in page_text(app))
        cards = [" ".join(line.split()) for line in page_text(app).split("\n") if "$ echo" in line]
        assert cards == ["✓ $ echo done exit 0 · 1.2 s", "⊘ $ echo no declined", "✕ $ echo old failed"]


async def test_words_that_were_never_answered_have_a_mark(tmp_path: Path) -> None:
    said = history(
        UserMessage("lost"), UserMessage("again"), AssistantMessage([TextBlock("here")]), UserMessage("丢了")
    )
    async with chatting(FakeRuntime(tmp_path, history=said)) as (app, pilot):
        await until(pilot, lambda: "丢了" in page_text(app))
        lines = [line.strip() for line in page_text(app).split("\n") if line.strip(" ▌") and ":" not in line]
        assert lines == ["▌ lost", "never answered", "▌ again", "here", "▌ 丢了", "never answered"]


async def test_a_running_command_shows_what_it_prints_and_for_how_long(tmp_path: Path) -> None:
    asks = ApprovalRequested(request_id="r1", call_id="c1", tool="shell", command="make", folder="~", pattern="make")
    hold, more = Hold(), Hold()
    done = ToolFinished(call_id="c1", name="shell", output="all", summary="exit 0", duration_ms=2_500)
    turn: list[Event | Hold] = [SHELL, asks, ToolOutput(call_id="c1", text="step 1\nste"), hold]
    turn += [ToolOutput(call_id="c1", text="p 2\n"), more, done, *reply("built")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        assert isinstance(app.clock, StepClock)
        await send(app, pilot, "build")
        await until(pilot, lambda: app.chat.approval.request is not None)
        assert "● $ make" in page_text(app)
        assert "waits for your answer" in page_text(app)
        app.clock.seconds += 30
        await pilot.press("y")
        await until(pilot, lambda: "step 1" in page_text(app))
        app.clock.seconds += 7
        hold.release()
        await until(pilot, lambda: "step 2" in page_text(app) and "7 s" in page_text(app))
        more.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert "step 2" not in page_text(app)
        assert "✓ $ make" in page_text(app)
        assert "exit 0 · 2.5 s" in page_text(app)


@pytest.mark.few(1)
@pytest.mark.parametrize("moves", [True, False])
async def test_a_sign_stands_where_the_answer_will_appear(tmp_path: Path, moves: bool) -> None:
    before, hold = Hold(), Hold()
    runtime = FakeRuntime(tmp_path, turns=[[before, TextDelta(text="Here."), hold, *reply("")]])
    runtime.settings = Settings(tui=TuiSettings(motion=moves))
    async with chatting(runtime) as (app, pilot):
        assert isinstance(app.clock, StepClock)
        await send(app, pilot, "go")
        await until(pilot, lambda: page_text(app).rstrip().endswith("● thinking 0 s · esc stops"))
        if moves:
            await until(pilot, lambda: app.chat.writer.motion.steps > 1)
        app.clock.seconds += 15
        await until(pilot, lambda: page_text(app).rstrip().endswith("● thinking 15 s · esc stops"))
        assert (app.chat.writer.motion.steps > 0) == moves
        before.release()
        await until(pilot, lambda: "Here.\n\n   ● writing 15 s" in page_text(app))
        assert screen_text(app).count("15 s") == 1
        hold.release()
        await until(pilot, lambda: not app.chat.turns.busy)
        assert re.search(r"Here\.\n\n   15 s · ↓ ~\d+$", page_text(app).rstrip())
        await until(pilot, lambda: not app.chat.writer.motion.is_running)


async def test_a_queued_message_that_starts_leaves_the_reader_where_he_is(tmp_path: Path) -> None:
    hold, second = Hold(), Hold()
    turns: list[list[Event | Hold]] = [[*reply(LONG), hold], [second, *reply("second")]]
    async with chatting(FakeRuntime(tmp_path, turns=turns)) as (app, pilot):
        await send(app, pilot, "first")
        await until(pilot, lambda: "line 59" in screen_text(app))
        await send(app, pilot, "queued words")
        await until(pilot, lambda: app.chat.turns.queued == ["queued words"])
        await pilot.press("pageup")
        place = app.chat.page.scroll_offset.y
        assert not app.chat.page.at_end
        hold.release()
        await second.reached.wait()
        await until(pilot, lambda: "queued words" in page_text(app))
        assert app.chat.page.scroll_offset.y == place
        await until(pilot, lambda: "1 new · end" in screen_text(app))
        second.release()
        await until(pilot, lambda: not app.chat.turns.busy)


async def test_who_reads_above_is_told_of_the_lines_of_an_answer_that_streams(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [TextDelta(text=LONG), hold, TextDelta(text=f"\n\n{LONG}"), *reply("")]
    async with chatting(FakeRuntime(tmp_path, turns=[turn])) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "line 59" in screen_text(app))
        await pilot.press("pageup")
        assert "more line" not in screen_text(app)
        hold.release()
        await until(pilot, lambda: "more lines · end" in screen_text(app))
        await pilot.press("ctrl+end")
        await until(pilot, lambda: "more line" not in screen_text(app))


def cards(app: ClawbotApp) -> list[ToolItem]:
    return [item for item in app.chat.page.stack.items if isinstance(item, ToolItem)]


@pytest.mark.usefixtures("chinese")
async def test_a_call_that_the_user_declines_has_not_failed(tmp_path: Path) -> None:
    output = "Not run. The user declined. Do not try the same again: find another way or ask."
    declined = ToolFinished(
        call_id="c1", name="shell", output=output, is_error=True, summary="declined", details={"declined": True}
    )
    async with chatting(FakeRuntime(tmp_path, turns=[[SHELL, declined, *reply("好的")]])) as (app, pilot):
        await send(app, pilot, "运行它")
        await until(pilot, lambda: not app.chat.turns.busy)
        assert cards(app)[0].state == "declined"
        assert "⊘ $ make" in page_text(app)
        assert "已拒绝" in page_text(app)
        assert "Do not try" not in page_text(app)


ANSWER = (
    "The proxy is at `10.0.0.3:8443`, see docs/a-b.md, 端口是对的。\n\nA second paragraph that is long "
    + "and long " * 20
)


def selected(app: ClawbotApp) -> str:
    return app.screen.get_selected_text() or ""


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("word", "times", "copied"),
    [
        ("proxy", 2, "proxy"),
        ("10.0.0.3", 2, "10.0.0.3:8443"),
        ("a-b.md", 2, "docs/a-b.md"),
        ("端口", 2, "端口是对的"),
        ("second", 3, ANSWER.partition("\n\n")[2].strip()),
        ("where", 3, "where is it?"),
    ],
)
async def test_two_clicks_select_a_word_and_three_a_paragraph(
    tmp_path: Path, word: str, times: int, copied: str
) -> None:
    async with chatting(FakeRuntime(tmp_path, turns=[reply(ANSWER)]), (90, 30)) as (app, pilot):
        await send(app, pilot, "where is it?")
        await until(pilot, lambda: not app.chat.turns.busy and word in page_text(app))
        page = app.chat.page
        row, text = next((row, text) for row, text in enumerate(page_text(app).split("\n")) if word in text)
        await pilot.click(page, Offset(text.index(word) + 1, row - page.scroll_offset.y), times=times)
        await until(pilot, lambda: selected(app) != "")
        assert " ".join(selected(app).split()) == copied


async def test_copying_leaves_out_times_and_lines(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(2))) as (app, pilot):
        await until(pilot, lambda: "Answer 1" in page_text(app))
        app.screen.selections = {app.chat.page: SELECT_ALL}
        assert selected(app) == "question 0\n\nAnswer 0, in a sentence.\n\nquestion 1\n\nAnswer 1, in a sentence."


async def test_growth_below_a_scroll_bar_draws_the_new_lines_and_lays_nothing_out(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(30))) as (app, pilot):
        page = app.chat.page
        await until(pilot, lambda: page.show_vertical_scrollbar and page.at_end)
        shown = page.render_lines(page.size.region)
        with patch.object(Screen, "_refresh_layout") as laid_out:
            page.append([MarkItem("one more line")])
            await until(pilot, lambda: "one more line" in screen_text(app))
        assert not laid_out.called
        assert page.at_end
        assert page.vertical_scrollbar.window_virtual_size == page.virtual_size.height == page.stack.height
        after = page.render_lines(page.size.region)
        assert all(line is other for line, other in zip(shown[1:], after, strict=False))
        assert "one more line" in after[-1].text
