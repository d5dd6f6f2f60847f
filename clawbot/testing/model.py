"""The scripted model as a `ChatModel` in the test's own process: no litellm, no HTTP, no retries."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from clawbot.clock import Clock, SystemClock, epoch_ms
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import ModelError
from clawbot.llm.failures import Failure, to_error
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted import ScriptedFault, ScriptEngine
from clawbot.llm.wire import to_openai

PROVIDER = "script"


class ScriptedModel:
    """Answers with the turns of `engine`, through the same spelling of requests and the same collecting of pieces as
    a real model.

    Faults come out as the `llm.errors` that a real provider's would, each at once: nothing is tried again here. A
    request that does not fit the script raises ScriptMismatch. `requests` holds what the loop asked, in order.
    """

    def __init__(self, engine: ScriptEngine, *, clock: Clock | None = None) -> None:
        self.engine = engine
        self.requests: list[ChatRequest] = []
        self._clock = clock or SystemClock()
        self._ref = f"{PROVIDER}:{engine.script.path}"

    @property
    def info(self) -> ModelInfo:
        """The script's file, model name and window."""
        window = self.engine.script.window
        source = "from the script" if window else ""
        return ModelInfo(ref=self._ref, reason="scripted", window=window, window_source=source)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` with the next turn of the script."""
        self.requests.append(request)
        model = self.engine.script.model
        collector = DeltaCollector(provider=PROVIDER, model=model, timestamp=epoch_ms(self._clock.now()))
        body = {"model": model, **to_openai(request)}
        shown = False
        async with contextlib.aclosing(self.engine.reply(body)) as chunks:
            try:
                async for chunk in chunks:
                    for part in collector.feed(chunk):
                        shown = True
                        yield part
            except ScriptedFault as fault:
                raise self._error(fault, streaming=shown) from fault
        for last in collector.finish():
            yield last

    async def warm(self) -> None:
        """Nothing has to be loaded."""

    async def aclose(self) -> None:
        """Raise ScriptMismatch or ScriptUnused when the script was not followed to its end."""
        self.engine.finish()

    def _error(self, fault: ScriptedFault, *, streaming: bool) -> ModelError:
        failure = Failure(
            name="APIConnectionError" if fault.kind == "drop" else "",
            message=fault.message,
            status=fault.status,
            retry_after=fault.headers.get("Retry-After", ""),
            streaming=streaming,
        )
        return to_error(failure, ref=f"{PROVIDER}/{self.engine.script.model}", now=self._clock.now())
