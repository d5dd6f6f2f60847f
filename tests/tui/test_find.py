"""The search in the page: what it finds, where it leads, and that the reader comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from clawbot.agent.events import ApprovalRequested, Event, TextDelta, ToolFinished, ToolStarted
from clawbot.config.schema import Settings
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.tui import page_search
from clawbot.tui.app import ClawbotApp
from clawbot.tui.render.cards import ToolItem
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation, reply


def bar_text(app: ClawbotApp) -> str:
    return screen_text(app).splitlines()[-1]


def keys(text: str) -> list[str]:
    return ["space" if character == " " else character for character in text]


async def find(app: ClawbotApp, pilot: Pilot[Any], text: str, told: str) -> None:
    """Search for `text` and wait for what is `told` of it."""
    if not app.chat.bar.display:
        await pilot.press("ctrl+underscore")
    await pilot.press(*keys(text))
    await until(pilot, lambda: told in bar_text(app))


def said(*texts: str) -> list[HistoryItem]:
    kinds = (UserMessage, lambda text: AssistantMessage([TextBlock(text)]))
    return [HistoryItem(f"h{number}", 1, kinds[number % 2](text)) for number, text in enumerate(texts)]


async def test_the_whole_conversation_is_searched_and_esc_goes_back(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(200)), (100, 24)) as (app, pilot):
        await until(pilot, lambda: "Answer 199" in screen_text(app))
        await find(app, pilot, "ANSWER 7,", "nothing found")
        await pilot.press(*["backspace"] * 9)
        await find(app, pilot, "answer 7,", "1 of 1 ")
        assert "Answer 7," in screen_text(app)
        await pilot.press("escape")
        await until(pilot, lambda: "Answer 199" in screen_text(app) and not app.chat.bar.display)
        assert app.focused is app.chat.composer.prompt
        assert app.chat.page.at_end


async def test_enter_and_arrows_go_round_and_what_was_entered_is_stayed_at(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(40)), (100, 24)) as (app, pilot):
        await until(pilot, lambda: "Answer 39" in screen_text(app))
        await find(app, pilot, "answer 2", "11 of 11")
        await pilot.press("down")
        await until(pilot, lambda: "1 of 11" in bar_text(app) and "Answer 2," in screen_text(app))
        await pilot.press("up", "up")
        await until(pilot, lambda: "10 of 11" in bar_text(app) and "Answer 28" in screen_text(app))
        assert "back to where you were" in bar_text(app)
        await pilot.press("shift+enter")
        await until(pilot, lambda: "9 of 11" in bar_text(app) and "stays here" in bar_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.bar.display)
        assert "Answer 27" in screen_text(app)
        assert "Answer 39" not in screen_text(app)


async def test_the_key_pressed_again_stays_and_the_words_are_there_the_next_time(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(40)), (100, 24)) as (app, pilot):
        await find(app, pilot, "answer 3,", "1 of 1 ")
        await pilot.press("ctrl+underscore")
        await until(pilot, lambda: not app.chat.bar.display)
        assert "Answer 3," in screen_text(app)
        await pilot.press("f4")
        await until(pilot, lambda: "answer 3,   " in bar_text(app) and "1 of 1 " in bar_text(app))
        await pilot.press(*keys("question 5"))
        await until(pilot, lambda: "/ question 5 " in bar_text(app))


async def test_marks_stand_on_what_is_found_and_go_with_the_search(tmp_path: Path) -> None:
    history = said("the target", "A *target*, **Target** and 目标，目标。")
    async with chatting(FakeRuntime(tmp_path, history=history), (100, 24)) as (app, pilot):

        def marked() -> list[tuple[str, bool]]:
            page = app.chat.page
            strips = [page.render_line(y) for y in range(page.size.height)]
            return [
                (part.text, bool(part.style.reverse))
                for strip in strips
                for part in strip
                if part.style and part.style.bold and (part.style.underline or part.style.reverse)
            ]

        await find(app, pilot, "target", "1 of 3")
        assert marked() == [("target", True), ("target", False), ("Target", False)]
        await pilot.press("enter", "enter")
        await until(pilot, lambda: marked() == [("target", False), ("target", False), ("Target", True)])
        app.chat.bar.field.text = "目标"
        await until(pilot, lambda: marked() == [("目标", True), ("目标", False)])
        await pilot.press("escape")
        await until(pilot, lambda: not marked())


async def test_what_a_folded_call_hides_is_found_and_folded_again(tmp_path: Path) -> None:
    call = ToolCallBlock("c1", "shell", {"command": "make"})
    history = [
        HistoryItem("u", 1, UserMessage("build it")),
        HistoryItem("a", 1, AssistantMessage([call])),
        HistoryItem("t", 1, ToolResultMessage("c1", "shell", [TextBlock("the needle\nis here")])),
        HistoryItem("b", 1, AssistantMessage([TextBlock("Done, with a needle.")])),
    ]
    async with chatting(FakeRuntime(tmp_path, history=history), (100, 24)) as (app, pilot):
        await until(pilot, lambda: "Done" in screen_text(app))
        assert "needle\n" not in screen_text(app)
        await find(app, pilot, "needle", "1 of 2")
        await until(pilot, lambda: "the needle" in screen_text(app))
        card = next(item for item in app.chat.page.stack.items if isinstance(item, ToolItem))
        assert card.unfolded
        await pilot.press("down")
        await until(pilot, lambda: "2 of 2" in bar_text(app) and not card.unfolded)
        await pilot.press("up")
        await until(pilot, lambda: card.unfolded)
        await pilot.press("escape")
        await until(pilot, lambda: not card.unfolded)
        # What is seen anyway is not unfolded.
        await find(app, pilot, "make", "1 of ")
        assert not card.unfolded


async def test_what_streams_in_is_searched_and_the_reader_stays(tmp_path: Path) -> None:
    more, last = Hold(), Hold()
    turn: list[Event | Hold] = [
        TextDelta(text="A needle"),
        more,
        TextDelta(text=" and a needle.\n\n" + "\n\n".join(f"needle {n}" for n in range(40))),
        last,
        *reply(""),
    ]
    async with chatting(FakeRuntime(tmp_path, turns=[turn]), (100, 24)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "A needle" in screen_text(app))
        await find(app, pilot, "needle", "1 of 1 ")
        more.release()
        await until(pilot, lambda: "1 of 42" in bar_text(app))
        assert "A needle and" in screen_text(app)
        await pilot.press("down", "down")
        await until(pilot, lambda: "3 of 42" in bar_text(app))
        # Esc ends the search first, then the turn.
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.bar.display and "needle 39" in screen_text(app))
        assert app.chat.turns.busy
        last.release()
        await until(pilot, lambda: not app.chat.turns.busy)


async def test_a_question_ends_the_search_and_the_reader_stays(tmp_path: Path) -> None:
    hold = Hold()
    turn: list[Event | Hold] = [
        ToolStarted(call_id="c1", name="shell", title="shell make", arguments={"command": "make"}),
        hold,
        ApprovalRequested(request_id="r", tool="shell", command="make", folder="/w", pattern="", call_id="c1"),
        ToolFinished(call_id="c1", name="shell", summary="exit 0", is_error=False, duration_ms=1, output="made"),
        *reply("done"),
    ]
    async with chatting(FakeRuntime(tmp_path, history=conversation(40), turns=[turn]), (100, 30)) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, hold.reached.is_set)
        await find(app, pilot, "answer 3,", "1 of 1 ")
        hold.release()
        await until(pilot, lambda: app.chat.approval.request is not None)
        assert not app.chat.bar.display
        assert "Answer 3," in screen_text(app)
        await pilot.press("ctrl+underscore")
        await pilot.pause()
        assert app.focused is app.chat.approval


async def test_the_page_is_searched_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two items the loop is free: so a key comes through while there is more to look through."""
    monkeypatch.setattr(page_search, "SLICE", 0.0)
    async with chatting(FakeRuntime(tmp_path, history=conversation(20)), (100, 24)) as (app, pilot):
        await until(pilot, lambda: "Answer 19" in screen_text(app))
        app.chat.search.open()
        app.chat.search.search("answer")
        counts = {0}
        while (count := sum(app.chat.page.stack.found)) < 20:
            counts.add(count)
            await asyncio.sleep(0)
        assert len(counts) > 10


async def test_only_so_much_is_read_unasked_and_more_on_the_way_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_search, "MAX_LOADED", 1)
    async with chatting(FakeRuntime(tmp_path, history=conversation(100)), (100, 24)) as (app, pilot):
        await find(app, pilot, "answer", "of 50+")
        app.chat.search.step(-49, False)
        await pilot.press("up", "up")
        await until(pilot, lambda: "of 75+" in bar_text(app))


async def test_other_keys_open_it_and_ctrl_c_closes_it(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(5))
    runtime.settings = Settings.model_validate({"tui": {"keys": {"find": "ctrl+b", "stop": "ctrl+k"}}})
    async with chatting(runtime, (100, 24)) as (app, pilot):
        await send(app, pilot, "")
        await pilot.press("d", "ctrl+b", "x")
        await until(pilot, lambda: app.chat.bar.field.text == "x")
        await pilot.press("ctrl+k")
        await until(pilot, lambda: not app.chat.bar.display)
        await pilot.press("ctrl+b", "ctrl+c")
        await until(pilot, lambda: not app.chat.bar.display)
        assert app.chat.composer.prompt.text == "d"


@pytest.mark.long
async def test_the_palette_opens_it(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(5)), (100, 30)) as (app, pilot):
        await pilot.press("f2", *keys("search in the page"))
        await until(pilot, lambda: "Search in the page" in screen_text(app) and "ctrl+/" in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is app.chat and app.chat.bar.field.has_focus)
        await pilot.press(*keys("answer 3"))
        await until(pilot, lambda: "1 of 1" in bar_text(app))


async def test_on_a_small_screen_the_count_goes_before_the_keys(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(5)), (40, 12)) as (app, pilot):
        await find(app, pilot, "answer", "of 5")
        assert "enter next" not in bar_text(app)
        assert "/ answer" in bar_text(app)
