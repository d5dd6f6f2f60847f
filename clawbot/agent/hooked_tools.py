"""The tools of a turn with the hooks around each call: one may refuse it, all hear what came of it."""

from __future__ import annotations

from clawbot.agent.hooking import Hooking
from clawbot.hooks.events import ToolAfter, ToolBefore
from clawbot.messages import ToolCallBlock
from clawbot.tools.protocol import Approver, ToolOutcome
from clawbot.tools.registry import Toolbox

_BEFORE, _AFTER = "tool:before", "tool:after"


class HookedTools:
    """`tools` as a turn sees them."""

    def __init__(self, tools: Toolbox, hooking: Hooking) -> None:
        self._tools = tools
        self._hooking = hooking

    def title(self, call: ToolCallBlock) -> str:
        """One line that names the call; never raises."""
        return self._tools.title(call)

    async def run(self, call: ToolCallBlock, approve: Approver) -> ToolOutcome:
        """Run one call, unless a hook refuses it. Raises nothing but CancelledError."""
        hooking = self._hooking
        if hooking.wants(_BEFORE):
            event = hooking.make(ToolBefore, call_id=call.id, tool=call.name, arguments=dict(call.arguments))
            if refusal := (await hooking.ask(event)).refusal:
                return ToolOutcome(f"The call was refused by a hook: {refusal}", is_error=True, summary="refused")
        began = hooking.parts.clock.monotonic()
        outcome = await self._tools.run(call, approve)
        if hooking.wants(_AFTER):
            seconds = hooking.parts.clock.monotonic() - began
            hooking.tell(
                hooking.make(
                    ToolAfter,
                    call_id=call.id,
                    tool=call.name,
                    arguments=dict(call.arguments),
                    output=outcome.text,
                    is_error=outcome.is_error,
                    duration_ms=round(seconds * 1000),
                )
            )
        return outcome
