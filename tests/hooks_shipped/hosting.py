"""Runs a shipped hook as the program does, with services that remember what they were asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from clawbot.config.paths import shipped
from clawbot.hooks import Hook, HookEvent, HookServiceError, Said
from clawbot.hooks.loading import Loaded

BERLIN = ZoneInfo("Europe/Berlin")
E = TypeVar("E", bound=HookEvent)


class FakeServices:
    """What the program would do. `answer` is the model's, or the error that it ends in; `notes` are kept by path."""

    def __init__(self, said: list[Said] | None = None, *, answer: str | HookServiceError = "", reply: str = "") -> None:
        self.texts = said or []
        self.answer = answer
        self.reply = reply
        self.notes: dict[str, str] = {}
        self.prompts: list[tuple[str, str]] = []
        self.runs: list[tuple[str, str]] = []
        self.lines: list[tuple[str, str]] = []

    async def said(self, limit: int, role: str) -> list[Said]:
        return [text for text in self.texts if role in ("", text.role)][-limit:]

    async def overview(self) -> list[Said]:
        return await self.said(100_000, "user")

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        self.prompts.append((system, prompt))
        if isinstance(self.answer, HookServiceError):
            raise self.answer
        return self.answer

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        self.held = list(holds)
        path = f"memory/2026-11-20-{slug}.md"
        self.notes[path] = text
        return path

    async def rename_note(self, path: str, slug: str) -> str:
        renamed = f"memory/2026-11-20-{slug}.md"
        self.notes[renamed] = self.notes.pop(path)
        return renamed

    async def run(self, prompt: str, *, session: str) -> str:
        self.runs.append((prompt, session))
        return self.reply

    async def tell(self, text: str, *, level: str, path: str) -> None:
        self.lines.append((level, text))


class ShippedHook:
    """The hook `name`, loaded; `later` is the work that it left for later."""

    def __init__(self, name: str, settings: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.settings = settings or {}
        self.loaded = Loaded(shipped("hooks") / name)
        self.later: list[Coroutine[Any, Any, None]] = []

    def module(self, name: str) -> ModuleType:
        """A sibling of handler.py, or handler.py itself ("")."""
        own = str(self.loaded.handle.__module__)
        return sys.modules[f"{own}.{name}" if name else own]

    async def handle(self, event: E, services: FakeServices) -> E:
        """Let the hook handle `event`, but not what it leaves for later."""
        event.__dict__["hook"] = Hook(self.name, self.settings, services, self.later.append)
        await self.loaded.handle(event)
        return event

    async def finish(self) -> None:
        """Do what was left for later."""
        while self.later:
            await self.later.pop(0)


def make_event(kind: Callable[..., E], folder: Path = Path("/nowhere"), **fields: Any) -> E:
    """An event of the session main, on 20 November 2026 at 16:12 in Berlin."""
    common = {
        "agent_id": "main",
        "workspace": str(folder / "workspace"),
        "home": str(folder / "home"),
        "timestamp": datetime(2026, 11, 20, 16, 12, 5, tzinfo=BERLIN),
        "zone": "Europe/Berlin",
        "session_key": "agent:main:main",
        "session_id": "0b5ce1de",
    }
    return kind(**{**common, **fields})


def user(text: str) -> Said:
    return Said("user", text)


def agent(text: str) -> Said:
    return Said("assistant", text)
