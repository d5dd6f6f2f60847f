"""Tells the hooks what happens in one conversation, and asks those that may change it."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from msgspec import structs

from clawbot.agent.hook_services import HookingParts, SessionServices
from clawbot.agent.scope import Scope
from clawbot.agent.views import HookStatus
from clawbot.context.bootstrap import BootstrapFile, NamedText
from clawbot.hooks.discovery import FoundHook
from clawbot.hooks.dispatch import Dispatcher, LastRun
from clawbot.hooks.events import AgentBootstrap, HookEvent, InjectedFile, RuntimeStop

log = logging.getLogger(__name__)

E = TypeVar("E", bound=HookEvent)


class Hooking:
    """The hooks of one conversation. Without a dispatcher, and for topics that nobody wants, nothing happens."""

    def __init__(self, parts: HookingParts) -> None:
        self.parts = parts

    def wants(self, topic: str) -> bool:
        """Whether a hook listens to `topic`."""
        return self.parts.dispatcher is not None and self.parts.dispatcher.wants(topic)

    def is_ready(self, name: str, topic: str) -> bool:
        """Whether the hook `name` is there, can run, and listens to `topic`."""
        dispatcher = self.parts.dispatcher
        found = next((hook for hook in dispatcher.hooks if hook.name == name), None) if dispatcher else None
        return found is not None and found.ready and found.manifest.wants(topic)

    def last_run(self, name: str) -> LastRun | None:
        """How the hook `name` did when it ran last; None when it never did."""
        return self.parts.dispatcher.results.get(name) if self.parts.dispatcher else None

    def make(self, kind: type[E], **fields: Any) -> E:
        """An event of the session that is open now, unless `fields` name another."""
        parts, now = self.parts, self.parts.clock.now()
        common = {
            "agent_id": parts.agent_id,
            "workspace": str(parts.workspace),
            "home": str(parts.home),
            "timestamp": now,
            "zone": now.tzinfo.key if isinstance(now.tzinfo, ZoneInfo) else now.tzname() or "",
            "session_key": parts.conversation.session.record.key,
            "session_id": parts.conversation.session_id,
        }
        return kind(**{**common, **fields})

    def tell(self, event: HookEvent) -> None:
        """Let the hooks know of `event`; nobody waits for them."""
        if self.parts.dispatcher is not None and self.wants(event.topic):
            self.parts.dispatcher.notify(event, SessionServices(self.parts, event))

    async def ask(self, event: E, scope: Scope | None = None, services: SessionServices | None = None) -> E:
        """Run the hooks of `event` one after the other and return it as they leave it. Raises InterruptedTurnError when
        `scope` is stopped meanwhile."""
        dispatcher = self.parts.dispatcher
        if dispatcher is None or not self.wants(event.topic):
            return event
        run = functools.partial(dispatcher.run, event, services or SessionServices(self.parts, event))
        return await (run() if scope is None else scope.cancel.run(run))

    async def change_files(self, files: Sequence[BootstrapFile]) -> Sequence[NamedText]:
        """The workspace files of a prompt as the hooks leave them."""
        if not self.wants("agent:bootstrap"):
            return files
        shown = [InjectedFile(file.name, file.text) for file in files]
        return (await self.ask(self.make(AgentBootstrap, files=shown))).files

    async def stop(self, patience: float) -> None:
        """The program ends: tell the hooks, wait `patience` seconds for all that they do, and end it."""
        dispatcher = self.parts.dispatcher
        if dispatcher is None:
            return
        began = self.parts.clock.monotonic()
        try:
            async with asyncio.timeout(patience):
                await self.ask(self.make(RuntimeStop))
        except TimeoutError:
            log.warning("the hooks at the end of the program were not done after %g seconds", patience)
        await dispatcher.close(max(0.0, patience - (self.parts.clock.monotonic() - began)))


async def hook_status(dispatcher: Dispatcher) -> list[HookStatus]:
    """The hooks as they lie on disk now, and how each did last."""
    await dispatcher.load()
    return [_status(hook, dispatcher.results.get(hook.name)) for hook in dispatcher.hooks]


def _status(hook: FoundHook, last: LastRun | None) -> HookStatus:
    found = HookStatus(
        name=hook.name,
        description=hook.manifest.description,
        source=hook.source,
        folder=str(hook.folder),
        events=hook.manifest.events,
        enabled=hook.enabled,
        ready=hook.ready,
        missing=hook.missing,
        problem=hook.problem,
    )
    if last is None:
        return found
    return structs.replace(
        found, topic=last.topic, status=last.status, error=last.error, duration_ms=last.duration_ms, at=last.at
    )
