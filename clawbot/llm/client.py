"""The language model behind litellm: a `ChatModel` in the main process whose calls run in the worker process.

A call that failed before anything of its answer was visible is repeated, and each wait is reported.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from clawbot.clock import Clock, epoch_ms
from clawbot.llm.collect import DeltaCollector
from clawbot.llm.errors import (
    BadResponseError,
    LoadingError,
    ModelError,
    PoorAnswerError,
    RateLimitError,
    UnreachableError,
)
from clawbot.llm.failures import is_unreadable_reasoning, missing_field, to_error
from clawbot.llm.frames import CallFailed, Complete, Deltas
from clawbot.llm.process import WorkerClient, WorkerLostError, acquire_worker, release_worker
from clawbot.llm.protocol import (
    CAPPED,
    ChatRequest,
    FinalPart,
    LoadingPart,
    ModelInfo,
    ReadingPart,
    ReasoningPart,
    RetryPart,
    StreamPart,
    WithdrawnPart,
)
from clawbot.llm.providers import LLAMA_CPP, answerer, base_of_environment, is_loopback, key_names, provider_name
from clawbot.llm.tokens import Prices
from clawbot.llm.wire import Speller
from clawbot.text.interface import _
from clawbot.text.secrets import remember_secret

if TYPE_CHECKING:
    from pydantic import SecretStr

    from clawbot.config.schema_agent import AgentSettings

MAX_ASKED_WAIT = 90.0
"""Seconds. Quotas by the minute ask for up to 60; a provider that asks for more than this is not waited for."""
_LOADING_WAIT = 2.0
"""Seconds between two questions to a server that loads its model, which costs it nothing to refuse."""
_QUESTIONS = 2
"""How often a server is asked for a window that it does not report."""
_JITTER = 0.5
"""Seconds at most: clients that failed together should not come back together."""
_logger = logging.getLogger(__name__)

Attempt = Callable[[], AsyncGenerator[StreamPart, None]]
Sleep = Callable[[float], Awaitable[None]]


class RetryPolicy(Struct, frozen=True):
    """`attempts` calls altogether; `first_wait` seconds before the second, then doubled each time up to `max_wait`.
    A server that loads its model is waited for, `loading` seconds altogether."""

    attempts: int = 4
    first_wait: float = 1.0
    max_wait: float = 30.0
    loading: float = 120.0


async def with_retries(
    attempt: Attempt, policy: RetryPolicy, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[StreamPart, None]:
    """Yield the parts of `attempt()`, beginning again after a retryable error that came before any visible part.
    Visible are text and tool calls; reasoning may come again after the RetryPart. A server that loads its model is
    asked until it has, which is reported once and counts for no attempt. Raises what the last attempt raised, and any
    error after visible text."""
    retries, reported = Retries(policy), False
    while True:
        visible = False
        try:
            async with aclosing(attempt()) as parts:
                async for part in parts:
                    hidden = isinstance(part, ReasoningPart | ReadingPart | FinalPart)
                    visible = not isinstance(part, WithdrawnPart) and (visible or not hidden)
                    yield part
            return
        except ModelError as error:
            wait = None if visible else retries.after(error)
            if wait is None:
                raise
            loads = isinstance(error, LoadingError)
            if not (loads and reported):
                yield RetryPart(retries.number + loads, wait, error.message)
            reported = reported or loads
        await sleep(wait)


class Retries:
    """The attempts of one call; `number` is that of the next one, or of the one that runs."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._patience = policy.loading
        self.number = 1

    def after(self, error: ModelError) -> float | None:
        """Return the seconds to wait after `error`; None to give up. Loading counts for no attempt."""
        if isinstance(error, LoadingError):
            wait = min(_LOADING_WAIT, self._patience)
            self._patience -= wait
            return wait or None
        pause = wait_before_next(error, self.number, self._policy)
        if pause is not None:
            _logger.info("attempt %d failed (%s), the next follows in %.1f s", self.number, error.kind, pause)
            self.number += 1
        return pause


def wait_before_next(error: ModelError, number: int, policy: RetryPolicy) -> float | None:
    """Seconds to wait after attempt `number` failed with `error`; None when there is to be no other."""
    if not error.retryable or number >= policy.attempts or (isinstance(error, UnreachableError) and error.dead):
        return None
    if isinstance(error, PoorAnswerError) and number > 1:
        return None
    if isinstance(error, RateLimitError) and error.exhausted:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= MAX_ASKED_WAIT else None
    return _backoff(number, policy)


def _backoff(number: int, policy: RetryPolicy) -> float:
    # Deferred: 25 ms of import that a start without a failure does not need.
    from tenacity import RetryCallState, Retrying, wait_exponential, wait_random

    state = RetryCallState(retry_object=Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = number
    rising = wait_exponential(multiplier=policy.first_wait, max=policy.max_wait)
    return (rising + wait_random(0, min(_JITTER, policy.first_wait)))(state)


MAX_ANSWER_CHARS = 1_000_000
"""An answer is cut off here, with stop reason `length`: about twice what the longest output limits (128k tokens) allow,
so only a model that has lost its way gets there."""
LOADING_SECONDS = 60.0
"""What the worker may be silent for on top of the request timeout: litellm may have to be loaded first, from a slow
disk. Once it is, the worker reports that the call goes on, and notices a silent server by itself."""
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

    @property
    def answerer(self) -> str:
        return answerer(self.ref, self.base)

    def arguments(self) -> dict[str, Any]:
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


def target_for(ref: str, model: str, *, base: str | None, secret: SecretStr | None, key_env: str | None) -> Target:
    """Return where `model` is called: at `base`, or the address of the environment; with the key of the settings
    (`secret`, or the variable `key_env`), else with one of the environment that is its provider's. A server on this
    machine has no use for that, unless the environment names both."""
    usual = () if base and is_loopback(base) else key_names(model)
    base = base or base_of_environment(model)
    return Target(
        ref=ref,
        model=model,
        base=base,
        key=secret.get_secret_value() if secret else None,
        key_names=(key_env,) if key_env else usual,
        keyless=base is not None,
    )


class ClientOptions(Struct, frozen=True):
    """What all models of an agent share.

    `timeout` is how many seconds a model may send nothing, `max_chars` where an answer is cut off. `max_output` caps an
    answer in tokens; None: `reserve` does where the model is on this machine. `log_path` is named when the worker
    process itself fails.
    """

    clock: Clock
    policy: RetryPolicy = RetryPolicy()
    timeout: float = 120.0
    log_path: Path | None = None
    max_chars: int = MAX_ANSWER_CHARS
    max_output: int | None = None
    reserve: int | None = None


def client_options(settings: AgentSettings, clock: Clock, log_path: Path | None) -> ClientOptions:
    """The options that the settings of an agent hold."""
    retries = settings.retries
    policy = RetryPolicy(retries.attempts, retries.first_wait, retries.max_wait, loading=settings.request_timeout)
    room = settings.compaction
    return ClientOptions(
        clock,
        policy,
        settings.request_timeout,
        log_path,
        max_output=settings.max_output_tokens,
        reserve=max(room.reserve_tokens, room.reserve_tokens_floor),
    )


def answer_cap(options: ClientOptions, base: str | None, window: int | None) -> int | None:
    """The most tokens of an answer of the model at `base` with that window; None: as many as the model likes. The
    reserve is a quarter of the window at most, as in compaction."""
    if options.max_output is not None or base is None or not is_loopback(base):
        return options.max_output
    return min(options.reserve, window // 4) if options.reserve and window else options.reserve


Ask = Callable[[], Awaitable[tuple[Target, ModelInfo]]]
"""Asks a server for the facts of its model, and how it is called then. Raises LoadingError while it loads."""


class LiteLLMModel:
    """A model that litellm calls, in the worker process. To be made in a running event loop. `prices` None: unknown.
    While its window is unknown, `wait_ready` calls `ask` for it after an answer, a few times. Not `ready`: its server
    reported nothing of the model when it was opened, and is asked before the first request, too."""

    def __init__(
        self,
        target: Target,
        info: ModelInfo,
        options: ClientOptions,
        *,
        prices: Prices | None = None,
        ask: Ask | None = None,
        ready: bool = True,
    ) -> None:
        self._target = target
        self.info = info
        self._options = options
        self._prices = prices
        self._speller = Speller()
        self._again = ask
        self._ready = ready or ask is None
        self._questions = _QUESTIONS
        self._policy = options.policy
        self._worker: WorkerClient | None = acquire_worker()

    @property
    def worker(self) -> WorkerClient:
        """Raises UnreachableError after `aclose`."""
        if self._worker is None:
            raise UnreachableError(_("the model is closed."), provider=self._target.answerer)
        return self._worker

    async def warm(self) -> None:
        await self.worker.warm()

    async def wait_ready(self) -> AsyncGenerator[LoadingPart, None]:
        """Wait until the server has loaded the model, as long as `stream` would."""
        if self._ready:
            return
        waiting = False
        try:
            async with aclosing(with_retries(self._ask, self._options.policy)) as retries:
                async for _retry in retries:
                    waiting = True
                    yield LoadingPart(self.info.ref)
        except LoadingError:
            self._policy = replace(self._policy, loading=0.0)
        if waiting:
            yield LoadingPart(self.info.ref, done=True)

    async def _ask(self) -> AsyncGenerator[StreamPart, None]:
        if self._again is not None:
            self._target, self.info = await self._again()
            self._questions -= 1
        return
        yield  # makes it a generator

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`, repeating the call as the settings require. Raises ModelError."""
        policy, self._policy = self._policy, self._options.policy
        async with aclosing(with_retries(lambda: self._attempt(request), policy)) as parts:
            async for part in parts:
                if not isinstance(part, RetryPart):
                    assumed = self.info.window is None or self.info.window_source == CAPPED
                    self._ready = self._again is None or not assumed or self._questions <= 0
                yield part

    async def _attempt(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        collector = DeltaCollector(
            provider=provider_name(self._target.ref),
            model=self._target.ref.partition("/")[2],
            answerer=self._target.answerer,
            prices=self._prices,
            timestamp=epoch_ms(self._options.clock.now()),
            tools=request.tools,
            must_answer=request.purpose == "chat",
        )
        started = False
        try:
            call = await self._call(request)
            async with aclosing(self.worker.reports(call, self._options.timeout + LOADING_SECONDS)) as reports:
                async for report in reports:
                    if isinstance(report, CallFailed):
                        raise self._error(report)
                    if isinstance(report, Deltas):
                        started = True
                        for shown in (each for chunk in report.chunks for each in collector.feed(chunk)):
                            yield shown
                        if collector.looping:
                            break
        except WorkerLostError as error:
            raise self._lost(started) from error
        except TimeoutError as error:
            raise UnreachableError(
                _("nothing was heard for {timeout:.0f} seconds.").format(timeout=self._options.timeout),
                provider=self._target.answerer,
                hint=_("Try again, or raise agents.defaults.request_timeout."),
            ) from error
        for part in collector.finish():
            yield part

    async def _call(self, request: ChatRequest) -> Complete:
        identity = await self.worker.next_id()
        body = self._speller.body(request, self._target.ref, self._target.base, tools=self.info.supports_tools)
        if cap := answer_cap(self._options, self._target.base, self.info.window):
            body["max_tokens"] = min(cap, body.get("max_tokens", cap))
        arguments = {**body, **self._target.arguments(), "timeout": self._options.timeout}
        if self.info.local == LLAMA_CPP.title:
            arguments["extra_body"] = {"return_progress": True, **arguments.get("extra_body", {})}
        return Complete(identity, arguments, self._options.max_chars)

    def _error(self, report: CallFailed) -> ModelError:
        if self._speller.thoughts and is_unreadable_reasoning(report.failure.message):
            self._speller.thoughts = False
            what = _("the vendor cannot read the earlier reasoning; it is left out now.")
            return BadResponseError(what, provider=self._target.answerer, hint=_("Send the message again."))
        error = to_error(report.failure, ref=self._target.ref, base=self._target.base, now=self._options.clock.now())
        missing = missing_field(f"{error.message} {report.failure.message}")
        if missing and missing not in self._speller.required:
            self._speller.required += (missing,)
            return BadResponseError(error.message, provider=error.provider, hint=_("Send the message again."))
        return error

    def _lost(self, started: bool) -> ModelError:
        hint = _("Send the message again; it is started anew.")
        if self._options.log_path:
            hint += " " + _("The log says more: {file}").format(file=self._options.log_path)
        kind = BadResponseError if started else UnreachableError
        return kind(
            _("the process that talks to the model ended unexpectedly."),
            provider=self._target.answerer,
            hint=hint,
        )

    async def aclose(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await release_worker(worker)
