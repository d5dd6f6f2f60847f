"""The language model behind litellm: a `ChatModel` in the main process whose calls run in the worker process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from clawbot.clock import Clock, epoch_ms
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import BadResponseError, ModelError, UnreachableError
from clawbot.llm.failures import to_error
from clawbot.llm.frames import Call, Deltas, Failed
from clawbot.llm.process import Worker, WorkerLostError, acquire_worker, release_worker
from clawbot.llm.protocol import ChatRequest, ModelInfo, StreamPart
from clawbot.llm.providers import provider_name, title_of
from clawbot.llm.retry import RetryPolicy, with_retries
from clawbot.llm.usage import Prices
from clawbot.llm.wire import to_openai
from clawbot.logs import remember_secret

MAX_ANSWER_CHARS = 1_000_000
"""An answer is cut off here, with stop reason `length`: about twice what the longest output limits (128k tokens) allow,
so only a model that has lost its way gets there."""
LOADING_SECONDS = 60.0
"""What a call may take on top of the request timeout: litellm may have to be loaded first, from a slow disk."""
NO_KEY = "not-needed"
"""What servers get that want no key; litellm's clients insist on one, and must not take one from the environment."""


class Target(Struct, frozen=True):
    """Where a model is called.

    `ref` is the model as the user writes it, `model` as litellm wants it. `base` None is the provider's own address.
    `key` is a key from the settings; without one the first of `key_names` that the environment holds is taken, at the
    time of the call, so that a key that was just entered counts. `keyless`: a server that wants none. `options` are
    further arguments for litellm.
    """

    ref: str
    model: str
    base: str | None = None
    key: str | None = None
    key_names: tuple[str, ...] = ()
    keyless: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """The part of litellm's arguments that says where to call."""
        found: dict[str, Any] = {**self.options, "model": self.model}
        if self.base:
            found["api_base"] = self.base
        key = self.key or next((os.environ[name] for name in self.key_names if os.environ.get(name)), None)
        if key:
            remember_secret(key)
            found["api_key"] = key
        elif self.keyless:
            found["api_key"] = NO_KEY
        return found

    def __repr__(self) -> str:
        return f"Target({self.ref!r}, base={self.base!r})"


class ClientOptions(Struct, frozen=True):
    """What all models of an agent share.

    `timeout` is how many seconds a model may send nothing, `max_chars` where an answer is cut off. `log_path` is named
    when the worker process itself fails.
    """

    clock: Clock
    policy: RetryPolicy = RetryPolicy()
    timeout: float = 120.0
    log_path: Path | None = None
    max_chars: int = MAX_ANSWER_CHARS


class LiteLLMModel:
    """A model that litellm calls, in the worker process.

    To be made in a running event loop. `prices` None: what it costs is unknown.
    """

    def __init__(
        self, target: Target, info: ModelInfo, options: ClientOptions, *, prices: Prices | None = None
    ) -> None:
        self._target = target
        self._info = info
        self._options = options
        self._prices = prices
        self._worker: Worker | None = acquire_worker()

    @property
    def info(self) -> ModelInfo:
        """What is known of the model."""
        return self._info

    @property
    def worker(self) -> Worker:
        """The worker process. Raises UnreachableError after `aclose`."""
        if self._worker is None:
            raise UnreachableError("the model is closed.", provider=title_of(self._target.ref))
        return self._worker

    async def warm(self) -> None:
        """Load litellm. A failure to do so is told by the first call."""
        await self.worker.warm()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`, repeating the call as the settings say. Raises ModelError."""
        async with aclosing(with_retries(lambda: self._attempt(request), self._options.policy)) as parts:
            async for part in parts:
                yield part

    async def _attempt(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        collector = DeltaCollector(
            provider=provider_name(self._target.ref),
            model=self._target.ref.partition("/")[2],
            prices=self._prices,
            timestamp=epoch_ms(self._options.clock.now()),
        )
        started = False
        try:
            call = await self._call(request)
            async with aclosing(self.worker.reports(call, self._options.timeout + LOADING_SECONDS)) as reports:
                async for report in reports:
                    if isinstance(report, Failed):
                        raise self._error(report)
                    if isinstance(report, Deltas):
                        started = True
                        for piece in (piece for chunk in report.chunks for piece in collector.feed(chunk)):
                            yield piece
        except WorkerLostError as error:
            raise self._lost(started) from error
        except TimeoutError as error:
            raise UnreachableError(
                f"nothing was heard for {self._options.timeout:.0f} seconds.",
                provider=title_of(self._target.ref),
                hint="Try again, or raise agents.defaults.request_timeout.",
            ) from error
        for part in collector.finish():
            yield part

    async def _call(self, request: ChatRequest) -> Call:
        """The call for the worker, which runs after this."""
        return Call(await self.worker.next_id(), self._arguments(request), self._options.max_chars)

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        body = to_openai(request, self._target.ref)
        return {**body, **self._target.arguments(), "timeout": self._options.timeout}

    def _error(self, report: Failed) -> ModelError:
        return to_error(report.failure, ref=self._target.ref, base=self._target.base, now=self._options.clock.now())

    def _lost(self, started: bool) -> ModelError:
        where = f" The log says more: {self._options.log_path}" if self._options.log_path else ""
        kind = BadResponseError if started else UnreachableError
        return kind(
            "the process that talks to the model ended unexpectedly.",
            provider=title_of(self._target.ref),
            hint=f"Send the message again; it is started anew.{where}",
        )

    async def aclose(self) -> None:
        """End the worker process, unless another model uses it."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await release_worker(worker)
