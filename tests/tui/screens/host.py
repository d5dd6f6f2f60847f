"""An app that shows one screen and remembers what it gave back, and the way to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from clawbot.tui.themes import DARK, LIGHT
from tests.tui.fake_runtime import NOW, FakeRuntime

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


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app work until `condition` holds; a test that waits in vain fails by name."""
    async with asyncio.timeout(20):
        while not condition():
            await pilot.pause()


def seen(host: App[Any]) -> str:
    """The text on the screen, line by line."""
    lines = [host.screen._compositor.render_strips()[y] for y in range(host.size.height)]
    return "\n".join("".join(segment.text for segment in strip) for strip in lines)


class Runtime(FakeRuntime):
    """The fake runtime with faults: an exception in `faults` is raised by the method of that name."""

    def __init__(self, **values: Any) -> None:
        super().__init__(HOME, **values)
        self.faults: dict[str, Exception] = {}
        self.previewed: list[str] = []
        self.counted: list[str] = []
        self.reads: list[str] = []

    async def context_report(self) -> Any:
        self._fail("context_report")
        return await super().context_report()

    def _fail(self, method: str) -> None:
        if fault := self.faults.get(method):
            raise fault

    async def sessions(self) -> list[Any]:
        self._fail("sessions")
        return await super().sessions()

    async def preview(self, session_id: str, limit: int = 20) -> list[Any]:
        self.previewed.append(session_id)
        self._fail("preview")
        return await super().preview(session_id, limit)

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        self._fail("export")
        return await super().export(form, path, session=session)

    async def models(self) -> list[Any]:
        self._fail("models")
        return await super().models()

    async def save_key(self, name: str, value: str) -> None:
        self._fail("save_key")
        await super().save_key(name, value)

    async def read_workspace_file(self, name: str) -> str:
        self._fail("read")
        if name not in self.files:
            raise FileNotFoundError(2, "No such file", name)
        return self.files[name]

    async def write_workspace_file(self, name: str, text: str) -> None:
        self._fail("write")
        await super().write_workspace_file(name, text)

    async def search_memory(self, query: str, limit: int = 30) -> Any:
        self._fail("search")
        return await super().search_memory(query, limit)

    async def read_memory(self, path: str) -> str:
        self.reads.append(path)
        self._fail("read_memory")
        return await super().read_memory(path)

    async def count_tokens(self, text: str) -> int:
        self.counted.append(text)
        return await super().count_tokens(text)
