"""Embedding models behind litellm, opened by the names in the settings: texts go to the worker process in
batches, unit vectors come back.

A batch that a provider refuses as too large is sent again in smaller ones, and a text that is too long is cut.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.deadline import deadline
from clawbot.llm.client import (
    LOADING_SECONDS,
    ClientOptions,
    Retries,
    Target,
    client_options,
    target_for,
)
from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    LoadingError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.failures import Failure, stated_limit, stated_size, to_error
from clawbot.llm.frames import CallFailed, Embed, Embedded
from clawbot.llm.models import is_own
from clawbot.llm.process import WorkerClient, WorkerLostError, acquire_worker, release_worker
from clawbot.llm.providers import (
    EMBEDDERS,
    EMBEDDING_PREFIXES,
    OLLAMA,
    EmbeddingProvider,
    embedding_provider,
    is_loopback,
    key_names,
    local_server,
    title_of,
)
from clawbot.llm.vectors import FLOAT_BYTES, Batches, BatchText, Excess

if TYPE_CHECKING:
    from clawbot.config.schema_agent import AgentSettings
    from clawbot.config.schema_memory import MemorySearchSettings

QUERY_SECONDS = 10.0
"""The longest a question may take, with repeating: somebody waits for the search."""
BATCH_SECONDS = 60.0
"""The longest one call for documents may take."""
QUERY_ATTEMPTS = 2
MAX_QUERY_WAIT = 3.0
"""Seconds between the two: a provider that asks a question to wait longer is not waited for."""
CONCURRENT = 4
"""Calls for documents at once; one to a server on this machine, which would only divide its time."""
_TOO_LARGE = re.compile(r"too (?:large|long|many|big)|at most|max(?:imum|_|\b)|exceed|limit|batch size", re.IGNORECASE)
ELSEWHERE = "memory_search.provider: offline needs no provider."
"""The way out that every error names."""
_PROBE = -1
"""The position of a word that only asks whether the model takes any."""
_KNOCK_SECONDS = 0.5
_FORM = re.compile(r"encoding_format|base64")
# litellm takes a text for Gemini that begins so for the address of a file, and would send that instead.
_ADDRESS = re.compile(r"data:|files/|gs://|https://generativelanguage\.")
_logger = logging.getLogger(__name__)

Purpose = Literal["document", "query"]


class EmbeddedTexts(Struct, frozen=True):
    """One row of `dimensions` little-endian float32 for each text, of unit length; all zeros for a blank text."""

    dimensions: int
    data: bytes


class _TooLargeError(Exception):
    """The provider refused a batch for its size; `error` is what to raise when it cannot be made smaller, `excess` what
    is known of by how much."""

    def __init__(self, error: ModelError, excess: Excess) -> None:
        super().__init__(str(error))
        self.error = error
        self.excess = excess


class _UnpackedError(Exception):
    """The server does not know the packed form of vectors, and is asked for figures from now on."""


class LiteLLMEmbedder:
    """An embedding model. The worker process is shared with the language models of this event loop."""

    remote = True

    def __init__(self, target: Target, options: ClientOptions, provider: EmbeddingProvider) -> None:
        """Starts nothing. Needs a running event loop. `target.ref` is `provider/model`."""
        self._target = target
        self._options = options
        self._known = provider
        self._limits = provider.limits
        self._resume_at = 0.0
        # As base64: reading figures from JSON costs the SDK 4 ms a vector, and stalls the answers sent during that.
        self._packed = self.provider == "openai"
        self._worker: WorkerClient | None = acquire_worker()

    @property
    def provider(self) -> str:
        return self._target.ref.partition("/")[0]

    @property
    def model(self) -> str:
        return self._target.ref.partition("/")[2]

    @property
    def identity(self) -> str:
        """Provider, model and the address when it is not the provider's own; without keys and passwords."""
        return f"{self._target.ref} at {self.address}" if self.address else self._target.ref

    @property
    def address(self) -> str:
        """Where the texts go, without keys and passwords; "" for the provider's own address."""
        return _bare(self._target.base) if self._target.base else ""

    @property
    def worker(self) -> WorkerClient:
        if self._worker is None:
            raise UnreachableError("the embedding model is closed.", provider=self._target.answerer)
        return self._worker

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> EmbeddedTexts:
        """Return one row for each text, in their order; too long texts are cut. A query is given up QUERY_SECONDS after
        litellm is loaded, documents are repeated as the settings require. Raises ModelError."""
        batches = Batches([self._prepared(text, purpose) for text in texts], self._limits)
        rows: dict[int, bytes] = {}
        if purpose == "query":
            await self._knock()
            await self._load()
            async with self._within(QUERY_SECONDS):
                await self._work(batches, purpose, rows)
        else:
            await self._work_together(batches, rows)
        self._limits = batches.limits
        return self._joined(rows, len(texts))

    async def aclose(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await release_worker(worker)

    async def _work_together(self, batches: Batches, rows: dict[int, bytes]) -> None:
        """Run several calls at once; the first error ends them all."""
        base = self._target.base
        count = 1 if base is not None and is_loopback(base) else CONCURRENT
        tasks = [asyncio.create_task(self._work(batches, "document", rows)) for _ in range(count)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, batches: Batches, purpose: Purpose, rows: dict[int, bytes]) -> None:
        while batch := batches.take():
            try:
                found = await self._persistently(batch, purpose)
            except _TooLargeError as refused:
                if not batches.put_back(batch, refused.excess):
                    await self._without(batch[0], refused, purpose, rows)
            else:
                rows.update(zip((entry.position for entry in batch), found, strict=True))

    async def _without(
        self, entry: BatchText, refused: _TooLargeError, purpose: Purpose, rows: dict[int, bytes]
    ) -> None:
        """Leave `entry` without a vector, never to be tried again. Raises the refusal where the model accepts no other
        text either."""
        if not rows:
            try:
                (rows[_PROBE],) = await self._persistently([BatchText(_PROBE, "a")], purpose)
            except _TooLargeError:
                raise refused.error from refused
        _logger.warning("a text of %d characters has no vector: %s", len(entry.text), refused.error)

    async def _persistently(self, batch: Sequence[BatchText], purpose: Purpose) -> list[bytes]:
        retries = Retries(self._options.policy)
        while True:
            if purpose == "document":
                await asyncio.sleep(self._resume_at - asyncio.get_running_loop().time())
            try:
                return await self._call([entry.text for entry in batch], purpose)
            except _UnpackedError:
                continue
            except ModelError as error:
                wait = self._wait_after(error, retries, purpose)
                if wait is None:
                    raise
            await asyncio.sleep(wait)

    def _wait_after(self, error: ModelError, retries: Retries, purpose: Purpose) -> float | None:
        """Return the seconds to wait; None to give up. A rate limit delays all calls for documents."""
        wait = retries.after(error)
        if wait is None:
            return None
        if purpose == "query":
            if isinstance(error, LoadingError):
                return None
            return wait if retries.number <= QUERY_ATTEMPTS and wait <= MAX_QUERY_WAIT else None
        if isinstance(error, RateLimitError):
            self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + wait)
        return wait

    async def _knock(self) -> None:
        """Raise UnreachableError if no server of this machine listens; loading litellm to learn it would take longer
        than a search may."""
        base = self._target.base
        if base is None or not is_loopback(base):
            return
        parts = urlsplit(base)
        try:
            async with deadline(_KNOCK_SECONDS):
                _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writer.close()
        except TimeoutError:
            return  # it is busy, and may answer all the same
        except OSError as error:
            raise self._worded(Failure("APIConnectionError", str(error), refused=True)) from error

    async def _load(self) -> None:
        async with self._within(LOADING_SECONDS):
            await self.worker.warm()

    async def _call(self, texts: list[str], purpose: Purpose) -> list[bytes]:
        """Raises ModelError, _TooLargeError, _UnpackedError."""
        await self._load()
        data = bytearray()
        dimensions = 0
        async with self._within(BATCH_SECONDS):
            request = Embed(await self.worker.next_id(), self._arguments(texts, purpose))
            async with aclosing(self.worker.reports(request)) as reports:
                async for report in reports:
                    if isinstance(report, CallFailed):
                        raise self._error(report.failure, request)
                    if isinstance(report, Embedded):
                        dimensions = report.dimensions
                        data += report.data
        size = dimensions * FLOAT_BYTES
        return [bytes(data[start : start + size]) for start in range(0, len(data), size)] if size else []

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncGenerator[None, None]:
        """Limit what is done inside to `seconds`. Raises UnreachableError for that, and for a lost worker."""
        try:
            async with deadline(seconds):
                yield
        except WorkerLostError as error:
            where = f" The log says more: {self._options.log_path}" if self._options.log_path else ""
            raise UnreachableError(
                "the process that talks to the embedding model ended unexpectedly.",
                provider=self._target.answerer,
                hint=f"It is started anew with the next call.{where}",
            ) from error
        except TimeoutError as error:
            hint = f"Is the server at {self.address} running? {ELSEWHERE}" if self.address else ELSEWHERE
            what = f"no vectors within {seconds:.0f} seconds."
            raise UnreachableError(what, provider=self._target.answerer, hint=hint) from error

    def _arguments(self, texts: list[str], purpose: Purpose) -> dict[str, Any]:
        named = self._known.query if purpose == "query" else self._known.document
        # litellm's clients get the time too, so that none of them waits for minutes after this one has left.
        seconds = QUERY_SECONDS if purpose == "query" else BATCH_SECONDS
        form = {"encoding_format": "base64"} if self._packed else {}
        return {**named, **form, **self._target.arguments(), "input": texts, "timeout": seconds}

    def _prepared(self, text: str, purpose: Purpose) -> str:
        if not text.strip():
            return ""
        for part, document, query in EMBEDDING_PREFIXES:
            if part in self.model.lower():
                return (query if purpose == "query" else document) + text
        return f" {text}" if self.provider == "gemini" and _ADDRESS.match(text) else text

    def _joined(self, rows: dict[int, bytes], count: int) -> EmbeddedTexts:
        sizes = {len(row) for row in rows.values()}
        if len(sizes) > 1:
            kinds = " and ".join(str(size // FLOAT_BYTES) for size in sorted(sizes))
            raise BadResponseError(
                f"the vectors of {self.model} differ in size: {kinds} figures.",
                provider=self._target.answerer,
                hint=ELSEWHERE,
            )
        size = sizes.pop() if sizes else 0
        return EmbeddedTexts(
            size // FLOAT_BYTES, b"".join(rows.get(position, bytes(size)) for position in range(count))
        )

    def _error(self, failure: Failure, request: Embed) -> Exception:
        if "encoding_format" in request.arguments and failure.status in (400, 422) and _FORM.search(failure.message):
            self._packed = False
            return _UnpackedError()
        error = self._worded(failure)
        if not _is_too_large(error, failure):
            return error
        limit = stated_limit(failure.message)
        return _TooLargeError(error, Excess(limit, stated_size(failure.message)))

    def _worded(self, failure: Failure) -> ModelError:
        ref, base = self._target.ref, self._target.base
        error = to_error(failure, ref=ref, base=base, now=self._options.clock.now())
        error.hint = _hint(error, failure, self._target)
        return error


def _is_too_large(error: ModelError, failure: Failure) -> bool:
    if isinstance(error, ContextOverflowError):
        return True
    refused = isinstance(error, RefusedError) and failure.status in (400, 413, 422)
    return refused and (failure.status == 413 or bool(_TOO_LARGE.search(failure.message)))


def _hint(error: ModelError, failure: Failure, target: Target) -> str:
    if isinstance(error, AuthenticationError):
        key = target.key_names[0] if target.key_names else "the variable in memory_search.remote.api_key_env"
        return f"Set {key} to a valid key. {ELSEWHERE}"
    if isinstance(error, RateLimitError):
        what = "Look at the account's plan and billing." if error.exhausted else "It is tried again later."
        return f"{what} {ELSEWHERE}"
    if isinstance(error, UnreachableError) and target.base and not failure.status:
        return f"Is the server at {_bare(target.base)} running? {ELSEWHERE}"
    if isinstance(error, RefusedError) and (failure.status == 404 or "model" in failure.message.lower()):
        return f"Is the name right? memory_search.model names another. {ELSEWHERE}"
    return ELSEWHERE


def _bare(base: str) -> str:
    """Return the address without user, password and query, which may hold a key."""
    parts = urlsplit(base)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path.rstrip('/')}"


def open_embedder(
    settings: MemorySearchSettings, agent: AgentSettings, *, clock: Clock, log_path: Path | None = None
) -> LiteLLMEmbedder:
    """The embedding model that the settings name; `agent` gives the rules for repeating, and its key and address when
    its own model is of the same provider. Needs a running event loop; starts nothing.

    Raises RefusedError where no model can be named, AuthenticationError that names the key that is missing.
    """
    name, _, of_provider = settings.provider.partition("/")
    known = embedding_provider(name) or EmbeddingProvider(name, title_of(name), key_names(name), "")
    model = (settings.model or of_provider).removeprefix(f"{name}/") or known.default
    ref = f"{name}/{model}"
    if not model:
        raise RefusedError(
            f"no embedding model of {known.title} is known.",
            provider=known.title,
            hint="Name one in memory_search.model.",
        )
    target = _target(ref, settings, agent)
    if known.keys and "api_key" not in target.arguments():
        raise AuthenticationError(
            f"{target.key_names[0]} is not set.",
            provider=known.title,
            hint=f"Set it to a key of {known.title}. {ELSEWHERE}",
        )
    return LiteLLMEmbedder(target, client_options(agent, clock, log_path), known)


def embedding_keys() -> dict[str, str]:
    """The embedding providers whose key is in the environment, each with the variable that holds it."""
    return {
        provider.name: found
        for provider in EMBEDDERS
        if (found := next((name for name in provider.keys if os.environ.get(name, "").strip()), None))
    }


def _target(ref: str, settings: MemorySearchSettings, agent: AgentSettings) -> Target:
    remote = settings.remote
    own = remote.api_base is None and is_own(ref, agent)
    server = OLLAMA if ref.startswith("ollama/") else local_server(ref)
    base = remote.api_base or (agent.api_base if own else None) or (server.base if server else None)
    secret = remote.api_key or (agent.api_key if own else None)
    key_env = remote.api_key_env or (agent.api_key_env if own else None)
    return target_for(ref, ref, base=base, secret=secret, key_env=key_env)
