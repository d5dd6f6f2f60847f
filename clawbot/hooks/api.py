"""What a hook can do: `event.hook`, the same whether it runs in the program's process or in its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

SLUG_SECONDS = 15.0  # no model is worth waiting for longer


class HookServiceError(Exception):
    """A request of the hook failed. The text is the reason, without secrets."""


class Said(Struct, frozen=True, rename="camel"):
    """A text of the conversation: `role` is `user` or `assistant`, `timestamp` is in milliseconds since the epoch,
    `entry_id` is its entry in the transcript."""

    role: str
    text: str
    timestamp: int = 0
    entry_id: str = ""


class Services(Protocol):
    """What the program offers to the hooks of one event. Every method may raise HookServiceError."""

    async def said(self, limit: int, role: str) -> list[Said]:
        """The last `limit` texts of `role` ("": user and assistant) in the event's session, oldest first, without tool
        calls, slash commands and silent replies."""

    async def overview(self) -> list[Said]:
        """About a hundred user texts of the event's session, oldest first, truncated to 2,000 characters each: all of a
        short session; the first, the last and evenly spaced others of a long one."""

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        """Return the answer of `model` ("": the one that answers the user) to `prompt` within `seconds`, outside the
        conversation and without tools."""

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        """Write `text` to `memory/DATE-SLUG.md`, the only note of the event's session, and return the path relative to
        the workspace. DATE is the day of the user's last message. A name in use gets a number; if the session already
        has a note, that note and its name are kept. `holds` are the entries quoted in the note: they are not offered to
        memory again."""

    async def rename_note(self, path: str, slug: str) -> str:
        """Change the slug of a note written by `keep_note`; returns its new path."""

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn in the session `session` and return its reply ("" if silent)."""

    async def tell(self, text: str, *, level: str, path: str) -> None:
        """Show the user a line; `path`, a file of the workspace, can be opened from it."""


Later = Callable[[Coroutine[Any, Any, None]], None]


class Hook:
    """The running hook. `name` is its name, `settings` its entry in the config without `enabled`; `log` writes to the
    program's log file. Every async method may raise HookServiceError."""

    def __init__(self, name: str, settings: Mapping[str, Any], services: Services, later: Later) -> None:
        self.name = name
        self.settings = dict(settings)
        self.log = logging.getLogger(f"clawbot.hooks.{name}")
        self._services = services
        self._later = later

    async def said(self, limit: int = 15, role: Literal["", "user", "assistant"] = "") -> list[Said]:
        """Return the last `limit` texts of `role`, or of both, in the event's session, oldest first."""
        return await self._services.said(limit, role)

    async def overview(self) -> list[Said]:
        """What the user wrote about in the entire session: about a hundred user texts, oldest first, truncated to 2,000
        characters each; the first and the last are included."""
        return await self._services.overview()

    async def ask(self, prompt: str, *, system: str = "", seconds: float = SLUG_SECONDS) -> str:
        """The answer of the agent's model (or the one in the hook's setting `model`) to `prompt` within `seconds`,
        outside the conversation and without tools."""
        model = str(self.settings.get("model") or "")
        return await self._services.ask(prompt, system=system, seconds=seconds, model=model)

    async def keep_note(self, text: str, slug: str, texts: Sequence[Said] = ()) -> str:
        """Write the session's note to `memory/DATE-SLUG.md`, dated by the user's last message, and return its path
        relative to the workspace. A session never gets a second note.

        `texts` are those results of `said` that the note quotes word for word. Only the others are offered to memory
        when the session has ended.
        """
        holds = [said.entry_id for said in texts if said.entry_id]
        return await self._services.keep_note(text, slug, holds)

    async def rename_note(self, path: str, slug: str) -> str:
        """Change the slug of the note at `path`; returns its new path."""
        return await self._services.rename_note(path, slug)

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn in the session `session` and return its reply ("" if silent)."""
        return await self._services.run(prompt, session=session)

    async def tell(self, text: str, *, level: str = "info", path: str = "") -> None:
        """Show the user a line; `path`, a file of the workspace, can be opened from it."""
        await self._services.tell(text, level=level, path=path)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Continue with `work` in the background after the handler has returned. At exit the program waits a few
        seconds for it."""
        self._later(work)
