"""Creates the memory of an agent from its settings, and probes once whether it works as configured."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from clawbot.clock import Clock
from clawbot.config.names import BUILTIN_BACKEND, MILVUS_BACKEND
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.memory.backend import BackendContext, IndexContext, IndexUnavailableError, MemoryBackend
from clawbot.memory.backends.guard import ScopeGuard
from clawbot.memory.backends.pool import BackendPool
from clawbot.memory.backends.self_healing import Primary, SelfHealingBackend, Surroundings
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import DocumentSource, MemoryDocuments
from clawbot.memory.documents.walking import Closed
from clawbot.memory.embeddings.cache import CachedEmbedder, CurrentCache
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.offline import PROVIDER as OFFLINE
from clawbot.memory.embeddings.offline import OfflineEmbedder, find_offline, offline_problem
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError, Purpose, Vectors
from clawbot.memory.index import AUTO, MemoryIndex
from clawbot.memory.search.protocols import RERANKER_GROUP, Complete, RerankerContext
from clawbot.memory.values import Reranker

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from clawbot.config.schema import Settings
    from clawbot.config.schema_agent import AgentSettings
    from clawbot.config.schema_memory import QuerySettings
    from clawbot.llm.embedding import LiteLLMEmbedder

OnProblem = Callable[[str], None]

NONE = "none"


class Listener(Struct, frozen=True):
    """Receives each problem of a memory once (`report`), and names the open sessions (`sessions`)."""

    report: OnProblem = lambda _: None
    sessions: Callable[[], frozenset[str]] = frozenset


SILENT = Listener()


def open_index(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    clock: Clock,
    *,
    long_lived: bool = False,
    rerank: Reranker | None = None,
    listener: Listener = SILENT,
) -> MemoryBackend | None:
    """The memory of `agent_id` with the configured backend; None if `memory_search.enabled` is off. Opens no file.

    `long_lived`: more than one search is expected. `rerank` orders results if the settings ask for it. An embedding
    provider that can't be used is not an error: search falls back to words, and search and status give the reason.
    While another backend than the builtin one can't be opened or fails, the builtin one answers, and `listener` is
    notified.
    Raises ConfigError for an unknown agent.
    """
    agent = settings.agent(agent_id)
    if not agent.memory_search.enabled:
        return None
    context = backend_context(settings, agent_id, paths, clock, long_lived=long_lived, rerank=rerank)
    broken = settings.memory.broken
    name = broken.name if broken is not None else settings.memory.backend
    return open_builtin(context) if name == BUILTIN_BACKEND else _self_healing(name, context, listener)


def backend_context(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    clock: Clock,
    *,
    long_lived: bool = False,
    rerank: Reranker | None = None,
) -> BackendContext:
    """What a backend gets to know of `agent_id`. Raises ConfigError for an unknown agent."""
    agent = settings.agent(agent_id)
    documents = memory_documents(settings, agent_id, paths)
    transcripts = _transcripts(agent, agent_id, paths, clock)
    if agent.memory_search.query.rerank == "onnx":
        rerank = open_reranker(agent.memory_search.query, paths)
    named = (documents, *transcripts) if "memory" in agent.memory_search.sources else transcripts
    return BackendContext(
        agent_id=agent_id,
        agent=agent,
        memory=settings.memory,
        paths=paths,
        clock=clock,
        documents=documents,
        sources=named,
        long_lived=long_lived,
        rerank=rerank,
    )


class BrokenReranker(Struct, frozen=True):
    """A `Reranker` that can't be opened; `reason` is a sentence."""

    reason: str

    async def order(self, queries: Sequence[str], texts: Sequence[str]) -> Sequence[int] | None:
        raise ClawbotError(self.reason)

    async def problem(self) -> str:
        return self.reason


def open_reranker(query: QuerySettings, paths: Paths, complete: Complete | None = None) -> Reranker:
    """Import and open the reranker of the settings, which asks a model through `complete`. Blocks."""
    # Deferred import: most searches do without the list of installed packages.
    from clawbot.entry_points import BrokenExtension, find

    context = RerankerContext(query, paths.models / "rerank", complete)
    opened: Reranker | BrokenExtension = find(RERANKER_GROUP, query.rerank).use(lambda point: point.load()(context))
    if isinstance(opened, BrokenExtension):
        return BrokenReranker(f"No model orders the results: {opened.problem}.")
    return opened


_POOL = BackendPool()


def _self_healing(name: str, context: BackendContext, listener: Listener) -> MemoryBackend:
    """The backend `name`, with the builtin one behind it."""
    query = context.agent.memory_search.query
    key = (
        name,
        context.agent_id,
        context.paths.home,
        context.agent.model_dump_json(),
        context.memory.model_dump_json(),
        context.long_lived,
        context.rerank,
    )
    return SelfHealingBackend(
        Primary(name, lambda: open_configured(context), key, _POOL),
        lambda: open_builtin(context),
        ScopeGuard(context.documents, context.sources, query.max_injected_chars, has_others=name == MILVUS_BACKEND),
        Surroundings(clock=context.clock, limit=query.timeout, notify=listener.report, conversations=listener.sessions),
    )


def embedder_handle(context: BackendContext, cache: CurrentCache) -> EmbedderHandle:
    """Return the handle of the configured embedding provider, opened when it is used; `cache` serves known vectors."""
    search = context.agent.memory_search

    async def opener() -> Embedder | None:
        if search.provider == NONE:
            return None
        if search.provider in (AUTO, OFFLINE):
            return await asyncio.to_thread(_offline)
        embedder = await _remote(context)
        return CachedEmbedder(embedder, cache) if search.cache.enabled else embedder

    return EmbedderHandle(search.provider, opener, context.clock)


def open_builtin(context: BackendContext) -> MemoryBackend:
    """The SQLite index. Implements `BackendFactory`."""
    search, clock = context.agent.memory_search, context.clock
    cache = CurrentCache()
    index_context = IndexContext(
        context.paths.memory_db(context.agent_id),
        context.agent.workspace,
        context.documents,
        Library(context.sources),
        search,
        clock,
        cache,
    )
    return MemoryIndex(
        index_context, embedder_handle(context, cache), long_lived=context.long_lived, rerank=context.rerank
    )


def memory_documents(settings: Settings, agent_id: str, paths: Paths) -> MemoryDocuments:
    """The memory files of `agent_id`, with or without an index. Raises ConfigError."""
    agent = settings.agent(agent_id)
    search = agent.memory_search
    zone = None
    if agent.timezone is not None:
        # Deferred import: most go by the machine's zone.
        from zoneinfo import ZoneInfo

        zone = ZoneInfo(agent.timezone)
    closed = _closed(settings, agent_id, paths)
    return MemoryDocuments(agent.workspace, search.extra_paths, closed, watch=search.sync.watch, zone=zone)


def _closed(settings: Settings, agent_id: str, paths: Paths) -> Callable[[], Closed] | None:
    """The folders of other agents; None if there is only one agent."""
    if len(settings.agent_ids) < 2:
        return None

    def closed() -> Closed:
        """Blocks."""
        # Deferred import: one agent alone needs no fence.
        from clawbot.tools.paths import Bounds, foreign_fence

        fence = foreign_fence(settings, agent_id, paths)
        return Bounds(settings.agent(agent_id).workspace, fence).why_denied

    return closed


def _transcripts(agent: AgentSettings, agent_id: str, paths: Paths, clock: Clock) -> tuple[DocumentSource, ...]:
    if "sessions" not in agent.memory_search.sources:
        return ()
    # Deferred import: only few configurations index transcripts.
    from clawbot.indexing.transcripts import TranscriptDocuments

    return (TranscriptDocuments(paths.sessions(agent_id), agent.memory_search.sync.sessions, clock.now().tzinfo),)


def _offline() -> Embedder:
    """Blocks. Raises EmbeddingError."""
    files = find_offline()
    if files is None:
        raise EmbeddingError(offline_problem(), hint="Searches use words alone meanwhile.")
    return OfflineEmbedder(files)


async def _remote(context: BackendContext) -> Embedder:
    """Raises ModelError."""
    # Deferred import, in a thread: local embeddings do without the llm package.
    await asyncio.to_thread(importlib.import_module, "clawbot.llm.embedding")
    from clawbot.llm.embedding import open_embedder

    agent, log_path = context.agent, context.paths.log_file
    return RemoteEmbedder(open_embedder(agent.memory_search, agent, clock=context.clock, log_path=log_path))


log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
"""Time limit at close for a probe that sends nothing, so that even a one-shot command reports its result."""


class VectorProbe:
    """Probes the `memories` (by agent id; `agent_id` is the active one) in the background. Belongs to the event loop.
    Nothing waits for it."""

    def __init__(self, agent_id: str, memories: Mapping[str, MemoryBackend]) -> None:
        self._agent_id = agent_id
        self._memories = dict(memories)
        self._task: asyncio.Task[None] | None = None
        self._patience = 0.0
        self._report: OnProblem | None = None
        self._reported: set[tuple[str, str]] = set()

    def start(self, report: OnProblem, *, deep: bool) -> None:
        """Probe in the background, and `report` each memory whose provider can't work. `deep`: send it one word;
        otherwise only local problems are found."""
        self._patience = 0.0 if deep else CHECK_SECONDS
        self._report = report
        self._task = asyncio.get_running_loop().create_task(self._run(deep=deep))

    async def close(self) -> None:
        """Cancel the probes that have not finished."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._patience)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, *, deep: bool) -> None:
        for agent_id, memory in self._memories.items():
            try:
                problem = await memory.probe(deep=deep)
            except Exception:
                log.exception("the memory of %s could not be probed", agent_id)
                continue
            self.report(agent_id, problem)

    def report(self, agent_id: str, problem: str) -> None:
        """Report a problem of the memory of `agent_id` once. Before `start` this is left to the probe."""
        if problem and self._report is not None and (agent_id, problem) not in self._reported:
            self._reported.add((agent_id, problem))
            self._report(f"{'memory' if agent_id == self._agent_id else f'memory of {agent_id}'}: {problem}")


class RemoteEmbedder:
    """An `Embedder` over `inner`."""

    remote = True

    def __init__(self, inner: LiteLLMEmbedder) -> None:
        self.provider, self.model, self.identity = inner.provider, inner.model, inner.identity
        self.address = inner.address
        self._inner = inner

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """float32 vectors, one row for each text. Raises EmbeddingError."""
        # Deferred import, as above.
        from clawbot.llm.errors import ModelError

        try:
            found = await self._inner.embed(texts, purpose)
        except ModelError as error:
            named = str(error).removesuffix(error.hint).rstrip()
            raise EmbeddingError(named, hint=error.hint, retryable=error.retryable) from error
        return Vectors(found.dimensions, found.data)

    async def aclose(self) -> None:
        """Stop the worker process, unless a language model uses it."""
        await self._inner.aclose()


_HINT = "Update or repair the package, or set memory.backend to builtin."


def open_configured(context: BackendContext) -> MemoryBackend:
    """The backend of the settings, other than the builtin one. Imports it: blocks. Raises IndexUnavailableError with
    the reason if it can't be opened."""
    if (broken := context.memory.broken) is not None:
        raise IndexUnavailableError(f"{broken.reason}.", hint="`clawbot config check` checks the settings.")
    name = context.memory.backend
    # Deferred import: the builtin index does without the list of installed packages.
    from clawbot.config.schema import BACKEND_GROUP
    from clawbot.entry_points import BrokenExtension, find

    backend = find(BACKEND_GROUP, name).use(lambda point: _opened(point, context))
    if isinstance(backend, BrokenExtension):
        raise IndexUnavailableError(f"The memory backend {name} can't be opened: {backend.problem}.", hint=_HINT)
    return backend


def _opened(point: EntryPoint, context: BackendContext) -> MemoryBackend:
    """Raises TypeError if the result is not a backend, and whatever the package raises."""
    import inspect

    backend: MemoryBackend = point.load()(context)
    members = sorted(name for name in (*vars(MemoryBackend), "on_progress") if not name.startswith("_"))
    absent = object()
    # Evaluates no property.
    if lacking := [name for name in members if inspect.getattr_static(backend, name, absent) is absent]:
        raise TypeError(f"it made a {type(backend).__name__}, which lacks {', '.join(lacking)}")
    return backend
