"""A model that is a list of models: when one fails in a way that another may not, the next one answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from clawbot.clock import Clock
from clawbot.llm.errors import ContextOverflowError, ModelError, RefusedError
from clawbot.llm.protocol import ChatModel, ChatRequest, FallbackPart, ModelInfo, StreamPart, TextPart, ToolCallPart

RETURN_SECONDS = 300.0
"""How long a fallback stays in charge: after that the first model is tried again."""
_logger = logging.getLogger(__name__)


class FallbackModel:
    """Answers with the first of `models` that can.

    On anything but an overflow (compaction's to solve) and a refusal (another model would be asked for what the first
    one declined) the next model is asked, and a FallbackPart says so: with `discard` when text of the one that failed
    was already shown. `models` must not be empty; they are closed together.
    """

    def __init__(self, models: Sequence[ChatModel], clock: Clock) -> None:
        self._models = list(models)
        self._clock = clock
        self._current = 0
        self._changed_at = 0.0

    @property
    def info(self) -> ModelInfo:
        """What is known of the model that answers at present."""
        return self._models[self._current].info

    async def warm(self) -> None:
        """Load what the model that answers at present needs."""
        await self._models[self._current].warm()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`. Raises the error of the last model when all have failed."""
        if self._current and self._clock.monotonic() - self._changed_at >= RETURN_SECONDS:
            self._current = 0
            yield FallbackPart(self.info.ref, "it is tried again")
        while True:
            shown = False
            try:
                async with aclosing(self._models[self._current].stream(request)) as parts:
                    async for part in parts:
                        shown = shown or isinstance(part, TextPart | ToolCallPart)
                        yield part
                return
            except ModelError as error:
                if not self._advance(error):
                    raise
                reason = str(error)
            yield FallbackPart(self.info.ref, reason, discard=shown)

    def _advance(self, error: ModelError) -> bool:
        """Put the next model in charge; False when there is none, or `error` is not to be answered so."""
        if isinstance(error, ContextOverflowError | RefusedError):
            return False
        if self._current + 1 >= len(self._models):
            # All have failed: the next call begins at the first one again, instead of staying with the last.
            self._changed_at = float("-inf")
            return False
        failed = self.info.ref
        self._current += 1
        _logger.warning("%s failed (%s), %s goes on", failed, error.kind, self.info.ref)
        self._changed_at = self._clock.monotonic()
        return True

    async def aclose(self) -> None:
        """Close all models; raises what the first one that raises does."""
        results = await asyncio.gather(*(model.aclose() for model in self._models), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
