"""The app over a scripted runtime, and ways to wait for what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from clawbot.api import RuntimeApi
from clawbot.tui.app import ClawbotApp
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


async def send(app: ClawbotApp, pilot: Pilot[object], text: str) -> None:
    """Type `text` and press Enter."""
    app.chat.composer.prompt.take(text)
    await pilot.press("enter")
