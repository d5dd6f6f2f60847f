"""Going back to an earlier message: Esc twice, the choice, and what is in the prompt then."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.sessions.errors import SessionStoreError
from tests.tui.chat_host import StepClock, chatting, page_text, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation

TITLE = "Go back to · 3"


def runtime(home: Path) -> FakeRuntime:
    return FakeRuntime(home, history=conversation(3))


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 36), (50, 14)])
async def test_esc_twice_lists_the_messages_and_says_what_becomes_of_the_rest(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with chatting(runtime(tmp_path), size) as (app, pilot):
        await pilot.press("escape")
        await until(pilot, lambda: "esc again" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: "question 0" in screen_text(app) and "nothing is deleted" in screen_text(app))

        def rows() -> list[str]:
            frame = app.screen.query_one("#frame").region
            return [line[: frame.right].rstrip(" │") for line in screen_text(app).splitlines()[frame.y : frame.bottom]]

        def row() -> str:
            return next(line for line in rows() if "question 1" in line)

        assert "\n".join(rows()).index("question 2") < "\n".join(rows()).index("question 1")
        # Its age stands at the end of the row, once the frame is laid out.
        await until(pilot, lambda: min(size[0], 104) - 10 < len(row()) and not row().endswith("…"))


async def test_the_chosen_message_is_in_the_prompt_and_the_page_ends_before_it(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.chat.composer.prompt.text == "question 1")
        assert "question 0" in page_text(app)
        assert "question 1" not in page_text(app)
        assert "files are unchanged" in page_text(app)
        await pilot.press(*" again", "enter")
        await until(pilot, lambda: below.submitted == ["question 1 again"])


async def test_esc_leaves_the_list_and_the_conversation_as_it_was(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await send(app, pilot, "/rewind")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.chat)
        assert len(below.items) == 6
        assert app.chat.composer.is_empty


async def test_two_esc_that_are_far_apart_do_nothing(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        assert isinstance(app.clock, StepClock)
        await pilot.press("escape")
        app.clock.seconds += 5
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat


async def test_esc_that_stops_a_turn_is_not_the_first_of_two(tmp_path: Path) -> None:
    hold = Hold()
    below = FakeRuntime(tmp_path, turns=[[hold]])
    async with chatting(below, (100, 30)) as (app, pilot):
        await send(app, pilot, "hello")
        await until(pilot, hold.reached.is_set)
        await pilot.press("escape")
        await until(pilot, lambda: not app.chat.turns.busy)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.chat


async def test_with_text_in_the_prompt_esc_twice_does_nothing(tmp_path: Path) -> None:
    async with chatting(runtime(tmp_path), (100, 30)) as (app, pilot):
        await pilot.press(*"abc", "escape", "escape")
        await pilot.pause()
        assert app.screen is app.chat
        assert app.chat.composer.prompt.text == "abc"


async def test_what_can_not_be_done_is_said(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.faults["rewind"] = SessionStoreError("The disk is full.")
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "The disk is full." in screen_text(app))
        assert "question 2" in page_text(app)


@pytest.mark.parametrize("keys", [("down", "ctrl+b"), ("down", "tab", "f")])
async def test_a_fork_begins_before_the_chosen_message(tmp_path: Path, keys: tuple[str, ...]) -> None:
    below = runtime(tmp_path)
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app) and "fork here" in screen_text(app))
        await pilot.press(*keys)
        await until(pilot, lambda: app.chat.composer.prompt.text == "question 1")
        assert len(below.forked) == 1
        assert "question 0" in page_text(app)
        assert "question 1" not in page_text(app)
        assert "Continuing from here" not in page_text(app)


async def test_a_fork_that_fails_says_why(tmp_path: Path) -> None:
    below = runtime(tmp_path)
    below.faults["rewind"] = SessionStoreError("The disk is full.")
    async with chatting(below, (100, 30)) as (app, pilot):
        await pilot.press("escape", "escape")
        await until(pilot, lambda: TITLE in screen_text(app))
        await pilot.press("ctrl+b")
        await until(pilot, lambda: "The disk is full." in screen_text(app))
        assert "question 2" in page_text(app)
