"""Memory as the gate knows it: the silent turn of a model that writes down what must be remembered."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from clawbot.agent.boundary import BeforeWrite
from clawbot.agent.cancel import InterruptedTurnError
from clawbot.agent.flush import FlushOutcome, FlushParts, FlushRequest, run_flush
from clawbot.agent.scope import Scope
from clawbot.agent.viewing import Viewing
from clawbot.clock import Clock
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.counting import TokenCounter
from clawbot.context.detached import Detached, detach
from clawbot.errors import ClawbotError
from clawbot.llm.protocol import ChatModel
from clawbot.sessions.conversation import ContextItem

_LEAST_COPY = 500  # tokens of a copy: less shows nothing
_TOOLS_AND_PROMPT = 1_500  # tokens of a silent turn beside the system prompt and the copy


class SilentTurnParts(Struct, frozen=True):
    """What a silent turn works with. `model` is the one that answers now; `open_model` opens the one of a reference."""

    viewing: Viewing
    settings: AgentSettings
    workspace: Path
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
            model = await scope.cancel.run(functools.partial(self._parts.open_model, ref))
        except InterruptedTurnError:
            return FlushOutcome(result="interrupted")
        except ClawbotError as error:
            return FlushOutcome(result="failed", error=str(error))
        try:
            return await self._flush_by(model, copy, before_write, scope)
        finally:
            await model.aclose()

    async def _flush_by(
        self, model: ChatModel, copy: Detached, before_write: BeforeWrite, scope: Scope
    ) -> FlushOutcome:
        """The same by a model of its own, whose window may be smaller: in as many turns as that takes."""
        whole = FlushOutcome(result="nothing")
        for part in await asyncio.to_thread(self._fitting, copy, model):
            outcome = await self._flush(model, part, before_write, scope)
            whole = joined(whole, outcome)
            if outcome.result in ("failed", "interrupted"):
                break
        return whole

    def _fitting(self, copy: Detached, model: ChatModel) -> list[Detached]:
        counter = TokenCounter(ref=model.info.ref)
        items = [ContextItem("", message) for message in copy.messages]
        tokens = [counter.of(item.message) for item in items]
        built = self._parts.viewing.built
        fixed = counter.text(built.prompt.text) if built else 0
        window = self._parts.viewing.windows.of(model.info).tokens
        allowed = max(_LEAST_COPY, window * 3 // 4 - fixed - _TOOLS_AND_PROMPT)
        return detach(items, tokens, 0, len(items), allowed=allowed)

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
            read_tools=parts.viewing.toolbox.read_only,
            workspace=parts.workspace,
            settings=self._settings,
            timeout=parts.settings.compaction.timeout,
            clock=parts.clock,
            output_max_chars=parts.settings.tools.output_max_chars,
            before_write=before_write,
        )
        return await run_flush(request, flush, scope.cancel)


def joined(before: FlushOutcome, after: FlushOutcome) -> FlushOutcome:
    """What two silent turns, one after the other, came to. Once something was written, it is not to be written again,
    so that counts before a failure."""
    writes = (*before.writes, *after.writes)
    result = after.result if after.result == "interrupted" or not writes else "written"
    return FlushOutcome(result, writes, after.reply, after.error or before.error, before.tokens + after.tokens)
