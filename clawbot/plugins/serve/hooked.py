"""A call of a tool outside a conversation, with the hooks `tool:before` and `tool:after` as in one."""

from __future__ import annotations

from typing import Any

from clawbot.hooks.api import HookServiceError
from clawbot.hooks.codec import RequestedServices, Service
from clawbot.hooks.events import ToolAfter, ToolBefore, common_fields
from clawbot.messages import ToolCallBlock
from clawbot.services import SharedServices
from clawbot.tools.protocol import Approver, ToolError, ToolOutcome
from clawbot.tools.registry import Toolbox


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
        services = self._services
        common = common_fields(services.agent_id, services.workspace, services.paths.home, services.clock.now())
        return {**common, "session_key": self._key}


class _NoTalk(RequestedServices):
    """What a hook can ask for where no conversation is open: nothing."""

    async def _call(self, name: Service, arguments: dict[str, Any]) -> Any:
        raise HookServiceError("a tool was called over HTTP, outside a conversation")
