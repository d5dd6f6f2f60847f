"""`script:FILE` as a model: plays a script in this process, with the requests, answers and errors of a real model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from clawbot.clock import epoch_ms
from clawbot.llm.client import ClientOptions, with_retries
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import ModelError
from clawbot.llm.failures import Failure, to_error
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.scripted.engine import ScriptEngine
from clawbot.llm.scripted.replies import ScriptedFault
from clawbot.llm.wire import Speller

PROVIDER = "script"


class ScriptModel:
    """Answers with the turns of `engine`. Of `options` the clock and the retries count: a scripted fault is raised as
    the `llm.errors` of a real provider and repeated like it, a request that does not fit the script never is."""

    def __init__(self, engine: ScriptEngine, info: ModelInfo, options: ClientOptions) -> None:
        self.engine = engine
        self.info = info
        self._options = options
        self._speller = Speller()
        self._ref = f"{PROVIDER}/{engine.script.model}"

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request` with the next turn of the script. Raises ScriptMismatch and the scripted errors."""
        async with aclosing(with_retries(lambda: self._attempt(request), self._options.policy)) as parts:
            async for part in parts:
                yield part

    async def _attempt(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        model = self.engine.script.model
        now = self._options.clock.now()
        collector = DeltaCollector(
            provider=PROVIDER,
            model=model,
            answerer=PROVIDER,
            timestamp=epoch_ms(now),
            tools=request.tools,
            must_answer=request.purpose == "chat",
        )
        body = {"model": model, **self._speller.body(request, self._ref)}
        streaming = False
        async with aclosing(self.engine.reply(body)) as chunks:
            try:
                async for chunk in chunks:
                    for part in collector.feed(chunk):
                        streaming = True
                        yield part
                    if collector.looping:
                        break
            except ScriptedFault as fault:
                raise self._error(fault, streaming=streaming) from fault
        for last in collector.finish():
            yield last

    def _error(self, fault: ScriptedFault, *, streaming: bool) -> ModelError:
        failure = Failure(
            name="APIConnectionError" if fault.kind == "drop" else "",
            message=fault.message,
            status=fault.status,
            retry_after=fault.headers.get("Retry-After", ""),
            streaming=streaming,
        )
        return to_error(failure, ref=self._ref, now=self._options.clock.now())

    async def warm(self) -> None:
        """Nothing needs to be loaded."""

    async def aclose(self) -> None:
        """Raise ScriptMismatch for a request that did not fit, ScriptUnused for turns that are left."""
        self.engine.finish()
