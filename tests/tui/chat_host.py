"""The app over a scripted runtime, an app that shows one screen, and ways to wait for what they show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen
from textual.timer import Timer

from clawbot.api import RuntimeApi
from clawbot.tui.app import ClawbotApp
from clawbot.tui.themes import DARK, LIGHT, ResizedApp
from tests.tui.fake_runtime import NOW, FakeRuntime


class StepClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return self.seconds


def make_app(runtime: FakeRuntime) -> ClawbotApp:
    async def open_runtime(agent: str | None = None) -> RuntimeApi:
        return runtime

    return ClawbotApp(open_runtime, theme="dark", clock=StepClock())


@asynccontextmanager
async def chatting(
    runtime: FakeRuntime, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[ClawbotApp, Pilot[object]]]:
    """The app with its runtime open."""
    app = make_app(runtime)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: bool(app.chat.header.right_text))
        yield app, pilot


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Let the app work until `condition` holds; a test that waits in vain fails with what the screen shows."""
    try:
        async with asyncio.timeout(100):
            while not condition():
                await pilot.pause()
    except TimeoutError:
        pytest.fail(f"waited in vain; the screen:\n{screen_text(pilot.app)}")


def page_text(app: ClawbotApp) -> str:
    """All lines of the transcript, in view or not."""
    stack = app.chat.page.stack
    return "\n".join(line.text.rstrip() for index in range(len(stack)) for line in stack.lines(index))


def screen_text(app: App[Any]) -> str:
    """The text on the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


seen = screen_text


async def send(app: ClawbotApp, pilot: Pilot[object], text: str) -> None:
    """Type `text` and press Enter."""
    app.chat.composer.prompt.take(text)
    await pilot.press("enter")


PENDING = object()
HOME = Path("/home/ada/.clawbot")


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def skip_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip each timer that runs once: Textual does so if its thread is stopped for as long as that waits."""
    run = Timer._run

    async def skipping(self: Timer) -> None:
        if self._repeat != 0:
            await run(self)

    monkeypatch.setattr(Timer, "_run", skipping)


class Host(ResizedApp[None]):
    """Pushes `screen` at once; `result` is what it was dismissed with."""

    def __init__(self, screen: Screen[Any], theme: str = "textual-dark") -> None:
        super().__init__()
        for own in (DARK, LIGHT):
            self.register_theme(own)
        self.theme = theme
        self.shown = screen
        self.result: Any = PENDING
        self.notices: list[str] = []

    async def on_mount(self) -> None:
        await self.push_screen(self.shown, callback=lambda result: setattr(self, "result", result))

    def notify(self, message: str, *, title: str = "", **options: Any) -> None:
        self.notices.append(f"{title}: {message}" if title else message)


@asynccontextmanager
async def showing(screen: Screen[Any], size: tuple[int, int] = (80, 24)) -> AsyncIterator[tuple[Host, Pilot[None]]]:
    host = Host(screen)
    async with host.run_test(size=size) as pilot:
        yield host, pilot


class Runtime(FakeRuntime):
    """The fake runtime, at home in a folder that is not there."""

    def __init__(self, **values: Any) -> None:
        super().__init__(HOME, **values)
