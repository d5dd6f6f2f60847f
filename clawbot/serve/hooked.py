"""A call of a tool outside a conversation, with the hooks `tool:before` and `tool:after` as in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.hooks.api import HookServiceError, Said
from clawbot.hooks.events import ToolAfter, ToolBefore
from clawbot.messages import ToolCallBlock
from clawbot.services import SharedServices
from clawbot.tools.protocol import Approver, ToolError, ToolOutcome
from clawbot.tools.registry import Toolbox

_NO_TALK = "a tool was called over HTTP, outside a conversation"


class RefusedCallError(ToolError):
    """A hook refused the call."""


class HookedCalls:
    """Runs calls for the session `key` of the agent of `services`."""

    def __init__(self, services: SharedServices, toolbox: Toolbox, key: str) -> None:
        self._services = services
        self._toolbox = toolbox
        self._key = key

    async def run(self, call: ToolCallBlock, approve: Approver) -> ToolOutcome:
        """Run one call. Raises RefusedCallError, ToolError for what the tool does not take, and what a tool raises."""
        hooks, clock = self._services.hooks, self._services.clock
        called: dict[str, Any] = {"call_id": call.id, "tool": call.name, "arguments": dict(call.arguments)}
        if hooks is not None and hooks.wants("tool:before"):
            asked = await hooks.run(ToolBefore(**self._common(), **called), _NoTalk())
            if asked.refusal:
                raise RefusedCallError(f"The call was refused by a hook: {asked.refusal}")
        began = clock.monotonic()
        outcome = await self._toolbox.attempt(call, approve)
        if hooks is not None and hooks.wants("tool:after"):
            done: dict[str, Any] = {"output": outcome.text, "is_error": outcome.is_error}
            took = round((clock.monotonic() - began) * 1000)
            hooks.notify(ToolAfter(**self._common(), **called, **done, duration_ms=took), _NoTalk())
        return outcome

    def _common(self) -> dict[str, Any]:
        services, now = self._services, self._services.clock.now()
        return {
            "agent_id": services.agent_id,
            "workspace": str(services.workspace),
            "home": str(services.paths.home),
            "timestamp": now,
            "zone": now.tzinfo.key if isinstance(now.tzinfo, ZoneInfo) else now.tzname() or "",
            "session_key": self._key,
        }


class _NoTalk:
    """What a hook can ask for where no conversation is open: nothing. Implements `hooks.api.Services`."""

    async def said(self, limit: int, role: str) -> list[Said]:
        raise HookServiceError(_NO_TALK)

    async def overview(self) -> list[Said]:
        raise HookServiceError(_NO_TALK)

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        raise HookServiceError(_NO_TALK)

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        raise HookServiceError(_NO_TALK)

    async def rename_note(self, path: str, slug: str) -> str:
        raise HookServiceError(_NO_TALK)

    async def run(self, prompt: str, *, session: str) -> str:
        raise HookServiceError(_NO_TALK)

    async def tell(self, text: str, *, level: str, path: str) -> None:
        raise HookServiceError(_NO_TALK)
