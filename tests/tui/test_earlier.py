"""A long talk on the screen: what has gone far up is let go of, and read again when the reader goes there."""

from __future__ import annotations

import asyncio
import re
import sys
from functools import partial
from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from clawbot.collector import trim_heaps
from clawbot.tui import earlier
from clawbot.tui.app import ClawbotApp
from clawbot.tui.widgets.line_view import BAR
from clawbot.tui.widgets.transcript import LINES_ABOVE
from tests.tui.chat_host import chatting, page_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, conversation

MOST, KEPT = 60, 40


@pytest.fixture(autouse=True)
def _small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "MAX_ITEMS", MOST)
    monkeypatch.setattr(earlier, "KEPT_ITEMS", KEPT)
    monkeypatch.setattr(earlier, "PAGE_OF_HISTORY", 20)


def storing(home: Path, turns: int = 0) -> FakeRuntime:
    runtime = FakeRuntime(home, history=conversation(turns))
    runtime.stores = True
    return runtime


async def talk(app: ClawbotApp, pilot: Pilot[object], first: int, last: int) -> int:
    """Send `question N` for each number; the most items that the page held."""
    most = 0
    for number in range(first, last):
        await send(app, pilot, f"question {number}")
        await until(pilot, lambda: not app.chat.turns.busy)
        most = max(most, len(app.chat.page.stack))
    return most


def asked(app: ClawbotApp) -> list[int]:
    """The questions on the page, from top to bottom."""
    return [int(found) for found in re.findall(r"^ ▌ question (\d+)$", page_text(app), re.MULTILINE)]


async def go_up(app: ClawbotApp, pilot: Pilot[object]) -> None:
    """Go to the top until nothing more comes from there."""
    while app.chat.earlier.has_more:
        has_come = partial(has_grown, app, app.chat.page.stack.height)
        app.chat.page.go_to_end()
        app.chat.page.scroll_home(animate=False)
        await until(pilot, has_come)


def has_grown(app: ClawbotApp, height: int) -> bool:
    return app.chat.page.stack.height > height or not app.chat.earlier.has_more


@pytest.mark.long
async def test_the_page_of_a_long_talk_is_bounded_and_all_of_it_can_be_read(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path, turns=10)) as (app, pilot):
        most = await talk(app, pilot, 10, 70)
        assert most < MOST + 10
        assert asked(app)[-1] == 69
        assert 0 not in asked(app)
        assert app.chat.page.at_end
        await go_up(app, pilot)
        assert asked(app) == list(range(70))


async def test_the_key_for_the_start_goes_to_the_beginning_and_the_page_says_that_there_is_more(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path, turns=90)) as (app, pilot):
        assert page_text(app).count(earlier.ABOVE) == 1
        await pilot.press("ctrl+home")
        await until(pilot, lambda: not app.chat.earlier.has_more and app.chat.page.scroll_offset.y == 0)
        assert asked(app) == list(range(90))
        assert earlier.ABOVE not in page_text(app)
        await talk(app, pilot, 90, 91)
        await pilot.press("ctrl+end")
        await talk(app, pilot, 91, 93)
        assert page_text(app).count(earlier.ABOVE) == 1


async def test_who_goes_to_the_end_meanwhile_stays_there(tmp_path: Path) -> None:
    runtime = storing(tmp_path, turns=90)
    async with chatting(runtime) as (app, pilot):
        runtime.holds["history"] = Hold()
        await pilot.press("ctrl+home", "ctrl+end")
        runtime.holds["history"].release()
        await until(pilot, lambda: all(each.is_finished for each in app.workers if each.group == "message"))
        assert app.chat.page.at_end


async def test_what_was_read_above_goes_again_with_the_next_turn(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path, turns=60)) as (app, pilot):
        await go_up(app, pilot)
        assert asked(app) == list(range(60))
        await talk(app, pilot, 60, 61)
        assert len(app.chat.page.stack) < MOST
        await go_up(app, pilot)
        assert asked(app) == list(range(61))


async def test_who_reads_above_keeps_all_that_is_on_the_page(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path, turns=60)) as (app, pilot):
        await go_up(app, pilot)
        page = app.chat.page
        page.scroll_to(y=20, animate=False)
        await until(pilot, lambda: page.scroll_offset.y == 20)
        line, items = page.stack.line(20).text, len(page.stack)
        app.chat.earlier.shorten()
        assert (len(page.stack), page.stack.line(page.scroll_offset.y).text) == (items, line)


async def test_what_is_selected_stays_selected(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path, turns=60)) as (app, pilot):
        await go_up(app, pilot)
        page = app.chat.page
        page.go_to_end()
        app.chat.selections = {page: Selection(Offset(0, page.stack.height - 3), Offset(20, page.stack.height - 1))}
        selected = app.chat.get_selected_text()
        assert selected
        items = len(page.stack)
        app.chat.earlier.shorten()
        assert (len(page.stack), app.chat.get_selected_text()) == (items, selected)


@pytest.mark.long
async def test_a_turn_that_begins_while_older_ones_are_fetched_leaves_no_gap(tmp_path: Path) -> None:
    runtime = storing(tmp_path, turns=60)
    async with chatting(runtime) as (app, pilot):
        await talk(app, pilot, 60, 69)
        hold = runtime.holds["history"] = Hold()
        fetching = asyncio.create_task(app.chat.earlier.more())
        await until(pilot, hold.reached.is_set)
        await talk(app, pilot, 69, 80)
        hold.release()
        await fetching
        numbers = asked(app)
        assert numbers == list(range(numbers[0], 80))


@pytest.mark.long
async def test_a_command_is_no_place_to_begin_at(tmp_path: Path) -> None:
    async with chatting(storing(tmp_path)) as (app, pilot):
        for _ in range(MOST):
            await send(app, pilot, "/status")
            await until(pilot, lambda: not app.chat.turns.busy)
        await talk(app, pilot, 0, 3)
        await go_up(app, pilot)
        assert asked(app) == [0, 1, 2]


async def test_a_place_far_above_is_shown_and_marked(tmp_path: Path) -> None:
    runtime = storing(tmp_path, turns=60)
    wanted = next(item for item in runtime.items if "question 5" in getattr(item.message, "text", ""))
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: app.chat.earlier.has_more)
        assert 5 not in asked(app)
        await app.chat.earlier.go_to(wanted.entry_id, "question")
        await pilot.pause()
        page = app.chat.page
        lines = [page.render_line(row) for row in range(page.size.height)]
        marked = [line for line in lines if line.text.startswith(BAR) and line.text.strip(f" {BAR}")]
        assert [line.text[1:].split()[-2:] for line in marked] == [[marked[0].text.split()[-1]], ["question", "5"]]
        colour = page.named("pointed").color
        told = [segment.text for segment in marked[1] if segment.style and segment.style.color == colour]
        assert told == [BAR, "question"]
        assert lines.index(marked[0]) <= LINES_ABOVE + 1
        page.clear()
        assert page.pointed is None


async def test_a_place_that_is_not_there_leaves_the_page_as_it_was(tmp_path: Path) -> None:
    runtime = storing(tmp_path, turns=3)
    async with chatting(runtime) as (app, pilot):
        await until(pilot, lambda: 3 in asked(app) or 2 in asked(app))
        await app.chat.earlier.go_to("ffffffff", "question")
        assert app.chat.page.pointed is None
        assert app.chat.page.at_end


HELD = 64  # MiB
PIECE = 1024 * 64


def own_memory() -> int:
    """MiB of this process that map no file."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("RssAnon:")) // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's, and memory is read in /proc")
def test_what_lies_between_what_lives_is_given_back() -> None:
    pieces = [bytearray(PIECE) for _ in range(HELD * 1024 * 1024 // PIECE)]
    last = bytearray(PIECE)
    full = own_memory()
    del pieces
    trim_heaps()
    assert own_memory() < full - HELD // 2
    assert len(last) == PIECE
