"""A stage for hooks: handlers as files, services that write down what they are asked for, and a dispatcher that is
closed at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any

from clawbot.clock import SystemClock
from clawbot.config.schema_extensions import HookSettings
from clawbot.config.switches import Switches
from clawbot.extensions.manifest import Source
from clawbot.hooks import AgentBootstrap, CommandNew, HookServiceError, InjectedFile, Said, ToolBefore
from clawbot.hooks.discovery import discover
from clawbot.hooks.dispatch import Dispatcher
from clawbot.hooks.loading import code_digest

HOSTS = ["shipped", "home"]
"""The sources whose handlers run in this process and in one of their own."""


def write_hook(place: Path, name: str, handler: str, *, head: str = "events: [command, tool, agent]") -> Path:
    """A hook in the folder `place`; returns its own folder."""
    folder = place / name
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("HOOK.md").write_text(f"---\n{dedent(head)}\n---\n# {name}\n", encoding="utf-8")
    write_handler(folder, handler)
    return folder


def write_handler(folder: Path, handler: str) -> None:
    folder.joinpath("handler.py").write_text(dedent(handler), encoding="utf-8")


def trusting(*folders: Path) -> Switches:
    """Hooks of workspaces as they are now, trusted by the user."""
    return Switches(trusted={os.path.realpath(folder): code_digest(folder) for folder in folders})


def settings(**entries: dict[str, Any]) -> HookSettings:
    return HookSettings.model_validate({"entries": {name.replace("_", "-"): each for name, each in entries.items()}})


Places = list[tuple[Source, Path]]


def places(root: Path, *, dirs: Sequence[Path] = (), home: Path | None = None, workspace: Path | None = None) -> Places:
    own: Places = [("home", home or root / "home"), ("shipped", root / "shipped")]
    own += [("dir", folder) for folder in reversed(dirs)]
    return [*own, ("workspace", workspace)] if workspace is not None else own


class Services:
    """Writes down what it is asked for. `tell` waits while `gate` is closed."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.asked: list[tuple[Any, ...]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._heard = asyncio.Condition()

    async def said(self, limit: int, role: str) -> list[Said]:
        return [Said("user", f"最近 {limit} 条", 1), Said("assistant", "好的 \ud83d", 2)]

    async def overview(self) -> list[Said]:
        return [Said("user", "最初", 1), Said("user", "最后", 2)]

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        self.asked.append(("ask", prompt, system, seconds))
        return f"answer to {prompt}"

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        self.asked.append(("keep_note", text, slug, *holds))
        return f"memory/2026-03-04-{slug}.md"

    async def rename_note(self, path: str, slug: str) -> str:
        raise HookServiceError(f"{path} 不存在")

    async def run(self, prompt: str, *, session: str) -> str:
        if session == "broken":
            raise RuntimeError("inner words that are nobody's business")
        return f"{session}: {prompt}"

    async def tell(self, text: str, *, level: str, path: str) -> None:
        async with self._heard:
            self.told.append(text)
            self._heard.notify_all()
        await self.gate.wait()

    async def heard(self, count: int) -> None:
        """Wait until so many lines were told."""
        async with self._heard:
            await self._heard.wait_for(lambda: len(self.told) >= count)


@asynccontextmanager
async def dispatching(
    where: Places, config: HookSettings | Callable[[], HookSettings] | None = None, *, limit: float = 60.0
) -> AsyncIterator[Dispatcher]:
    """A loaded dispatcher for the hooks in `where`."""
    own = config if callable(config) else lambda: config or HookSettings()
    dispatcher = Dispatcher(lambda: discover(where, own()), SystemClock(), timeout=limit)
    await dispatcher.load()
    try:
        yield dispatcher
    finally:
        await dispatcher.close(0)


def _common() -> dict[str, Any]:
    return {
        "agent_id": "main",
        "workspace": "/work/空间",
        "home": "/home",
        "timestamp": datetime(2026, 3, 4, 12, 0, tzinfo=UTC),
        "zone": "Asia/Shanghai",
        "session_id": "s1",
    }


def command(text: str = "") -> CommandNew:
    return CommandNew(text=text, **_common())


def tool() -> ToolBefore:
    return ToolBefore(call_id="c1", tool="bash", arguments={"command": "rm -rf /"}, **_common())


def bootstrap(*names: str) -> AgentBootstrap:
    return AgentBootstrap(files=[InjectedFile(name, f"text of {name}") for name in names], **_common())
