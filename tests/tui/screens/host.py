"""An app that shows one screen and remembers what it gave back, and the way to wait for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from clawbot.tui.themes import DARK, LIGHT
from tests.tui.chat_host import screen_text as seen
from tests.tui.chat_host import until
from tests.tui.fake_runtime import NOW, FakeRuntime

__all__ = ["HOME", "PENDING", "FixedClock", "Host", "Runtime", "seen", "showing", "until"]

PENDING = object()
HOME = Path("/home/ada/.clawbot")


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


class Host(App[None]):
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
