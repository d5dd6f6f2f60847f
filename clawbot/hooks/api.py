"""What a hook can do: `event.hook`, the same in the program's own process and in one of the hook's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

SLUG_SECONDS = 15.0  # a model that has not answered by then is not worth waiting for


class HookServiceError(Exception):
    """What the hook asked for could not be done. The text says why, without secrets."""


class Said(Struct, frozen=True, rename="camel"):
    """A text of the conversation: `role` is `user` or `assistant`, `timestamp` in milliseconds since the epoch,
    `entry_id` its entry in the transcript."""

    role: str
    text: str
    timestamp: int = 0
    entry_id: str = ""


class Services(Protocol):
    """What the program does for the hooks of one event. All of it may raise HookServiceError."""

    async def said(self, limit: int, role: str) -> list[Said]:
        """The last `limit` texts in the event's session, oldest first, of `role` ("": of user and assistant): no tools,
        no slash commands, no silent replies."""
        ...

    async def overview(self) -> list[Said]:
        """About a hundred texts of the user from all of the event's session, oldest first, shortened to 2,000
        characters: all of a short session, of a long one the first, the last, and others at even distances."""
        ...

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        """What `model` ("": the one that answers the user) says to `prompt` within `seconds`, outside the conversation
        and without tools."""
        ...

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        """Write `text` to `memory/DATE-SLUG.md`, the one note of the event's session, and return the path below the
        workspace. DATE is the day of the user's last words. A name that is taken gets a number; a session that has its
        note already gets no second one, and the note keeps its name. `holds` are the entries whose texts stand in it:
        memory is not asked about those."""
        ...

    async def rename_note(self, path: str, slug: str) -> str:
        """Give a note that `keep_note` wrote another slug, and return where it is now."""
        ...

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn of its own in the session `session`, and return what it said; "" for a silent
        reply."""
        ...

    async def tell(self, text: str, *, level: str, path: str) -> None:
        """Show the user a line; `path`, a file of the workspace, opens from it."""
        ...


Later = Callable[[Coroutine[Any, Any, None]], None]


class Hook:
    """The hook that handles an event. `name` is its name, `settings` its entry in the config without `enabled`, `log`
    goes to the program's log file."""

    def __init__(self, name: str, settings: Mapping[str, Any], services: Services, later: Later) -> None:
        self.name = name
        self.settings = dict(settings)
        self.log = logging.getLogger(f"clawbot.hooks.{name}")
        self._services = services
        self._later = later

    async def said(self, limit: int = 15, role: Literal["", "user", "assistant"] = "") -> list[Said]:
        """The last `limit` texts in the event's session, oldest first, of `role` or of both. Raises HookServiceError,
        as all of these do."""
        return await self._services.said(limit, role)

    async def overview(self) -> list[Said]:
        """What the user talked about in the whole session, however long it was: about a hundred of the user's texts,
        oldest first, each shortened to 2,000 characters; the first and the last are among them."""
        return await self._services.overview()

    async def ask(self, prompt: str, *, system: str = "", seconds: float = SLUG_SECONDS) -> str:
        """What the agent's model, or the one of the hook's setting `model`, answers to `prompt` within `seconds`,
        outside the conversation and without tools."""
        model = str(self.settings.get("model") or "")
        return await self._services.ask(prompt, system=system, seconds=seconds, model=model)

    async def keep_note(self, text: str, slug: str, texts: Sequence[Said] = ()) -> str:
        """Write the session's note to `memory/DATE-SLUG.md`, by the day of the user's last words, and return its path
        below the workspace; there is never a second one for a session.

        `texts` are those, of what `said` gave, that stand in the note word for word. The others are offered to memory
        in a silent turn when the session has ended.
        """
        holds = [said.entry_id for said in texts if said.entry_id]
        return await self._services.keep_note(text, slug, holds)

    async def rename_note(self, path: str, slug: str) -> str:
        """Give the note at `path` another slug, and return where it is now."""
        return await self._services.rename_note(path, slug)

    async def run(self, prompt: str, *, session: str) -> str:
        """Let the agent take a turn in the session `session`, and return what it said; "" for a silent reply."""
        return await self._services.run(prompt, session=session)

    async def tell(self, text: str, *, level: str = "info", path: str = "") -> None:
        """Show the user a line; `path`, a file of the workspace, opens from it."""
        await self._services.tell(text, level=level, path=path)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Go on with `work` after the handler has returned, so that nobody waits for it. The end of the program waits a
        few seconds for it."""
        self._later(work)
