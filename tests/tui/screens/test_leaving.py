"""Leaving a screen at an unlucky moment: an answer that comes while its widgets go, a second key on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static

from clawbot.sessions.summary import SessionSummary
from clawbot.tui.screens.choices import ModelsScreen
from clawbot.tui.screens.common import AskScreen, HelpScreen, OverScreen
from clawbot.tui.screens.context import ContextScreen
from clawbot.tui.screens.editor import EditorScreen, FilesScreen
from clawbot.tui.screens.memory import MemoryScreen
from clawbot.tui.screens.passages import PassagePreview
from clawbot.tui.screens.sessions import SessionsScreen
from tests.tui.chat_host import PENDING, FixedClock, Runtime, showing, until
from tests.tui.fake_runtime import NOW, Hold, found, hit

WIDE = (120, 30)
NOTE = "memory/2026-10-02.md"


SUMMARY = SessionSummary(
    key="agent:main:main",
    name="main",
    session_id="0a1b2c3d",
    title="the proxy",
    updated_at=NOW,
    created_at=NOW,
    turns=1,
    tokens=10,
    ended="open",
    path=Path("/home/ada/0a1b2c3d.jsonl"),
    locked=False,
)


def below_screens() -> Runtime:
    """A runtime with one note and one session."""
    below = Runtime(files={NOTE: "- the proxy is on 8443\n"}, sessions=[SUMMARY])
    below.memories = {"proxy": found(hit(NOTE, 1, "- the proxy is on 8443", 0.9))}
    return below


class Last(Static):
    """The last widget of its screen to go: before it does, the answer comes and the workers take it."""

    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self.hold = hold

    async def on_unmount(self) -> None:
        screen = self.screen
        workers = [worker._task for worker in self.app.workers if worker.node is screen and worker._task]
        await asyncio.gather(*(child._task for child in screen.children if child is not self and child._task))
        self.hold.release()
        if workers:
            await asyncio.wait(workers)


async def leave(screen: Screen[Any], hold: Hold, pilot: Pilot[None]) -> None:
    await screen.mount(Last(hold))
    await pilot.press("escape")
    await until(pilot, lambda: not screen.is_attached)
    await pilot.pause()


MakeScreen = Callable[[Runtime], OverScreen[Any]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "make"),
    [
        ("search", lambda below: MemoryScreen(below, "proxy", clock=FixedClock())),
        ("files", lambda below: MemoryScreen(below, clock=FixedClock())),
        ("read_memory", lambda below: MemoryScreen(below, "proxy", clock=FixedClock())),
        ("sessions", lambda below: SessionsScreen(below, clock=FixedClock())),
        ("preview", lambda below: SessionsScreen(below, clock=FixedClock())),
        ("models", ModelsScreen),
        ("files", FilesScreen),
        ("read", lambda below: EditorScreen(below, NOTE)),
        ("count_tokens", lambda below: EditorScreen(below, NOTE)),
    ],
)
async def test_an_answer_that_comes_while_the_screen_goes_ends_nothing(method: str, make: MakeScreen) -> None:
    below = below_screens()
    hold = below.holds[method] = Hold()
    screen = make(below)
    async with showing(screen, WIDE) as (host, pilot):
        await hold.reached.wait()
        await leave(screen, hold, pilot)
        assert host.is_running
    assert not host.return_code


async def test_a_save_that_comes_back_while_the_editor_goes_ends_nothing() -> None:
    below = below_screens()
    screen = EditorScreen(below, NOTE)
    async with showing(screen, WIDE) as (host, pilot):
        await until(pilot, lambda: screen.on_disk is not None)
        hold = below.holds["read"] = Hold()
        await pilot.press("ctrl+s")
        await hold.reached.wait()
        await leave(screen, hold, pilot)
        assert host.is_running
    assert not host.return_code


async def test_keys_that_were_on_their_way_leave_only_once() -> None:
    screen = ModelsScreen(Runtime())
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: bool(screen.rows))
        screen.query_one(Input).post_message(Input.Submitted(screen.query_one(Input), ""))
        host.post_message(Key("escape", None))
        await until(pilot, lambda: not screen.is_attached)
        assert host.result is not PENDING
        assert host.is_running
    assert not host.return_code


@pytest.mark.long
@pytest.mark.parametrize(
    "make",
    [
        lambda below: MemoryScreen(below, "proxy", clock=FixedClock()),
        lambda below: SessionsScreen(below, clock=FixedClock()),
        ModelsScreen,
        FilesScreen,
        lambda below: EditorScreen(below, NOTE),
        HelpScreen,
        lambda below: ContextScreen(below, clock=FixedClock()),
        lambda below: AskScreen("Over it?", [("y", "yes")]),
    ],
)
async def test_a_screen_that_is_closed_before_it_is_made_ends_nothing(make: MakeScreen) -> None:
    below = Runtime()
    heard: list[bool] = []
    below.memory.on_progress = lambda: heard.append(True)
    screen = make(below)
    async with showing(HelpScreen(below)) as (host, pilot):
        host.push_screen(screen)
        screen.dismiss(None)
        screen.remove()
        await until(pilot, lambda: not screen.is_attached)
        await pilot.pause()
        assert host.is_running
        below.memory.on_progress()
        assert heard == [True]
    assert not host.return_code


@pytest.mark.few(1)
@pytest.mark.parametrize("action", ["move('cursor_up')", "choose", "preview_down", "back"])
async def test_a_key_that_is_quicker_than_the_screen_ends_nothing(action: str) -> None:
    screen = MemoryScreen(below_screens(), "proxy", clock=FixedClock())
    async with showing(HelpScreen(Runtime())) as (host, pilot):
        mounted = host.push_screen(screen)
        await screen.run_action(action)
        assert (host.screen is screen) == (action != "back")
        if action == "back":
            await until(pilot, lambda: not screen.is_attached)
        else:
            await mounted
            await until(pilot, lambda: bool(screen.rows))
        assert host.is_running
    assert not host.return_code


@pytest.mark.long
async def test_two_quick_keys_close_the_help_once() -> None:
    screen = HelpScreen(Runtime())
    async with showing(screen) as (host, pilot):
        for _ in range(2):
            screen.action_back()
        await until(pilot, lambda: not screen.is_attached)
        assert host.result is None
        assert host.is_running
    assert not host.return_code


async def test_a_second_answer_leaves_what_is_below_open() -> None:
    lower, upper = AskScreen("Below?", [("y", "yes")]), AskScreen("Over it?", [("y", "yes")])
    async with showing(lower) as (host, pilot):
        await host.push_screen(upper)
        for _ in range(2):
            upper.action_answer("y")
        await until(pilot, lambda: not upper.is_attached)
        assert (host.result, host.screen) == (PENDING, lower)


async def test_what_waits_for_a_refresh_of_a_screen_that_has_left_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = MemoryScreen(below_screens(), "proxy", clock=FixedClock())
    waiting: list[Callable[[], Any]] = []
    async with showing(screen, WIDE) as (host, pilot):
        await until(pilot, lambda: bool(screen.notes))
        # The screen below may have something to paint first: until then it keeps what it is to run.
        monkeypatch.setattr(host.screen_stack[0], "_invoke_later", lambda callback, _: waiting.append(callback))
        screen.action_back()
        screen.call_after_refresh(screen.query_one(PassagePreview).reveal)
        await until(pilot, lambda: not screen.is_attached)
        assert waiting
        assert not any(run() for run in waiting)
