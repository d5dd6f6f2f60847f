"""Unfolding: the line that was unfolded stays in view, and a key with nothing to open changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from clawbot.agent.events import CompactionFinished
from clawbot.tui.app import ClawbotApp
from tests.tui.chat_host import chatting, screen_text, send, until
from tests.tui.fake_runtime import FakeRuntime, conversation, reply

LONG = "\n\n".join(f"## Heading {number}\n\n- entry {number}" for number in range(20))
SHORT = "## Heading 0\n\n- entry 0"
DIVIDER = "earlier turns summarised"


def compacted(summary: str) -> CompactionFinished:
    return CompactionFinished(
        trigger="threshold", status="done", tokens_before=182_000, tokens_after=41_200, summary=summary
    )


async def talked(app: ClawbotApp, pilot: Pilot[object]) -> None:
    """A turn with a summary stands at the end of the page, which is longer than the screen."""
    await send(app, pilot, "go")
    await until(pilot, lambda: "Here it is." in screen_text(app) and not app.chat.turns.busy)
    assert app.chat.page.at_end
    assert app.chat.page.max_scroll_y > 0


@pytest.mark.parametrize("keys", [("f6", "enter"), ("ctrl+o",)], ids=["one", "all"])
async def test_a_long_summary_at_the_end_is_read_from_its_line_on(keys: tuple[str, ...], tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(10), turns=[[compacted(LONG), *reply("Here it is.")]])
    async with chatting(runtime) as (app, pilot):
        await talked(app, pilot)
        await pilot.press(*keys)
        await until(pilot, lambda: "entry 0" in screen_text(app))
        assert DIVIDER in screen_text(app)
        assert "Heading 3" in screen_text(app)
        await pilot.press(keys[-1])
        await until(pilot, lambda: "entry 0" not in screen_text(app))
        assert "Here it is." in screen_text(app)
        app.chat.writer.divider("elsewhere")
        await until(pilot, lambda: "elsewhere" in screen_text(app))


@pytest.mark.parametrize("keys", [("f6", "enter"), ("ctrl+o",)], ids=["one", "all"])
async def test_a_short_summary_leaves_the_reader_at_the_end(keys: tuple[str, ...], tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, history=conversation(10), turns=[[compacted(SHORT), *reply("Here it is.")]])
    async with chatting(runtime) as (app, pilot):
        await talked(app, pilot)
        await pilot.press(*keys)
        await until(pilot, lambda: "entry 0" in screen_text(app))
        assert DIVIDER in screen_text(app)
        assert "Here it is." in screen_text(app)
        assert app.chat.page.at_end


async def test_what_follows_an_unfolded_summary_does_not_move_it(tmp_path: Path) -> None:
    turns = [[compacted(LONG), *reply("Here it is.")]]
    async with chatting(FakeRuntime(tmp_path, history=conversation(10), turns=turns)) as (app, pilot):
        await talked(app, pilot)
        await pilot.press("ctrl+o")
        await until(pilot, lambda: "entry 0" in screen_text(app))
        before = app.chat.page.scroll_offset.y
        app.chat.writer.divider("elsewhere")
        await pilot.pause()
        assert app.chat.page.scroll_offset.y == before


async def test_with_nothing_to_open_in_view_shift_tab_does_nothing(tmp_path: Path) -> None:
    async with chatting(FakeRuntime(tmp_path, history=conversation(20))) as (app, pilot):
        await until(pilot, lambda: app.chat.page.at_end and app.chat.page.max_scroll_y > 0)
        before = app.chat.page.scroll_offset.y
        await pilot.press("f6")
        assert app.chat.page.scroll_offset.y == before
        assert app.focused is app.chat.composer.prompt
        await send(app, pilot, "go")
        await until(pilot, lambda: "You said: go" in screen_text(app))


async def test_shift_tab_comes_back_to_where_it_was(tmp_path: Path) -> None:
    runtime = FakeRuntime(tmp_path, turns=[[compacted(SHORT), *reply("Here it is.")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, lambda: "Here it is." in screen_text(app) and not app.chat.turns.busy)
        await pilot.press("f6", "f6", "f6", "enter")
        await until(pilot, lambda: "entry 0" in screen_text(app))
