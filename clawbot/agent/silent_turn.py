"""Memory as the gate knows it: the silent turn of a model that writes down what must be remembered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from clawbot.agent.boundary import BeforeWrite
from clawbot.agent.flush import FlushOutcome, FlushParts, FlushRequest, run_flush
from clawbot.agent.scope import Scope
from clawbot.agent.viewing import Viewing
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.detached import Detached
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ChatModel
from clawbot.tools.registry import Toolbox


class SilentTurnParts(Struct, frozen=True):
    """What a silent turn works with. `model` is the one that answers now; `open_model` opens the one of a reference."""

    viewing: Viewing
    settings: AgentSettings
    workspace: Path
    tools: Toolbox
    clock: Clock
    model: Callable[[], ChatModel]
    open_model: Callable[[str], Awaitable[ChatModel]]


class SilentTurn:
    """Takes offers with a flush (reference sheet 8)."""

    name = "flush"

    def __init__(self, parts: SilentTurnParts) -> None:
        self._parts = parts
        self._settings = parts.settings.compaction.memory_flush

    @property
    def model(self) -> str:
        """The model that is asked: one for this alone, or the one that answers the user."""
        return self._settings.model or self._parts.model().info.ref

    async def take(self, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        """Let the model write down what must be remembered of `copy`."""
        ref = self._settings.model
        if ref is None:
            return await self._flush(self._parts.model(), copy, before_write, scope)
        try:
            model = await self._parts.open_model(ref)
        except ClawbotError as error:
            return FlushOutcome(result="failed", error=str(error))
        try:
            return await self._flush(model, copy, before_write, scope)
        finally:
            await model.aclose()

    async def _flush(self, model: ChatModel, copy: Detached, before_write: BeforeWrite, scope: Scope) -> FlushOutcome:
        parts = self._parts
        built = parts.viewing.built
        request = FlushRequest(
            system=built.prompt.text if built else "",
            stable_prefix=built.prompt.stable_prefix if built else 0,
            messages=copy.messages,
            now=parts.clock.now(),
        )
        flush = FlushParts(
            model=model,
            read_tools=parts.tools.read_only,
            workspace=parts.workspace,
            settings=self._settings,
            timeout=parts.settings.compaction.timeout,
            clock=parts.clock,
            output_max_chars=parts.settings.tools.output_max_chars,
            before_write=before_write,
        )
        return await run_flush(request, flush, scope.cancel)
