"""Creates the memory of an agent from its settings, and probes once whether it works as configured."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_memory import BUILTIN_BACKEND
from clawbot.indexing.packages import open_packaged
from clawbot.memory.backend import BackendContext, MemoryBackend
from clawbot.memory.documents.library import Library
from clawbot.memory.documents.memory_files import DocumentSource, MemoryDocuments
from clawbot.memory.documents.walking import Closed
from clawbot.memory.embeddings.cache import CachedEmbedder, CurrentCache
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.offline import PROVIDER as OFFLINE
from clawbot.memory.embeddings.offline import OfflineEmbedder, find_offline, offline_problem
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError
from clawbot.memory.index import AUTO, MemoryIndex
from clawbot.memory.index_context import IndexContext
from clawbot.memory.values import Reranker
from clawbot.tools.agent_fence import foreign_fence
from clawbot.tools.fence import Bounds

if TYPE_CHECKING:
    from clawbot.indexing.remote import RemoteEmbedder
    from clawbot.llm.embedding import LiteLLMEmbedder

NONE = "none"


def open_index(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    clock: Clock,
    *,
    long_lived: bool = False,
    rerank: Reranker | None = None,
) -> MemoryBackend | None:
    """The memory of `agent_id` with the configured backend; None if `memory_search.enabled` is off. Touches no file
    yet.

    `long_lived`: more than one search is expected. `rerank` orders results if the settings ask for it. An embedding
    provider that can't be used is not an error: search falls back to words, and search and status say why. A packaged
    backend that can't be opened reports the reason when it is used. Raises ConfigError for an unknown agent.
    """
    agent = settings.agent(agent_id)
    if not agent.memory_search.enabled:
        return None
    documents = memory_documents(settings, agent_id, paths)
    transcripts = _transcripts(agent, agent_id, paths, clock)
    named = (documents, *transcripts) if "memory" in agent.memory_search.sources else transcripts
    context = BackendContext(
        agent_id=agent_id,
        agent=agent,
        paths=paths,
        clock=clock,
        documents=documents,
        sources=named,
        long_lived=long_lived,
        rerank=rerank,
    )
    name = settings.memory.backend
    return open_builtin(context) if name == BUILTIN_BACKEND else open_packaged(name, context)


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
    handle = EmbedderHandle(search.provider, _opener(context.agent, context.paths, clock, cache), clock)
    return MemoryIndex(index_context, handle, long_lived=context.long_lived, rerank=context.rerank)


def memory_documents(settings: Settings, agent_id: str, paths: Paths) -> MemoryDocuments:
    """The memory files of `agent_id`, with or without an index. Raises ConfigError."""
    agent = settings.agent(agent_id)
    return MemoryDocuments(agent.workspace, agent.memory_search.extra_paths, _closed(settings, agent_id, paths))


def _closed(settings: Settings, agent_id: str, paths: Paths) -> Callable[[], Closed] | None:
    """The folders of other agents; None if there is only one agent."""
    if len(settings.agent_ids) < 2:
        return None

    def closed() -> Closed:
        """Blocks."""
        fence = foreign_fence(settings, agent_id, paths)
        return Bounds(settings.agent(agent_id).workspace, fence).why_denied

    return closed


def _transcripts(agent: AgentSettings, agent_id: str, paths: Paths, clock: Clock) -> tuple[DocumentSource, ...]:
    if "sessions" not in agent.memory_search.sources:
        return ()
    # Deferred import: only few configurations index transcripts.
    from clawbot.indexing.transcripts import TranscriptDocuments

    return (TranscriptDocuments(paths.sessions(agent_id), agent.memory_search.sync.sessions, clock.now().tzinfo),)


def _opener(
    agent: AgentSettings, paths: Paths, clock: Clock, cache: CurrentCache
) -> Callable[[], Awaitable[Embedder | None]]:
    provider = agent.memory_search.provider

    async def opener() -> Embedder | None:
        if provider == NONE:
            return None
        if provider in (AUTO, OFFLINE):
            return await asyncio.to_thread(_offline)
        embedder = await _remote(agent, paths, clock)
        return CachedEmbedder(embedder, cache) if agent.memory_search.cache.enabled else embedder

    return opener


def _offline() -> Embedder:
    """Blocks. Raises EmbeddingError."""
    files = find_offline()
    if files is None:
        raise EmbeddingError(offline_problem(), hint="Searches use words alone meanwhile.")
    return OfflineEmbedder(files)


async def _remote(agent: AgentSettings, paths: Paths, clock: Clock) -> Embedder:
    """Raises ModelError."""
    adapt, open_embedder = await asyncio.to_thread(_remote_parts)
    return adapt(open_embedder(agent.memory_search, agent, clock=clock, log_path=paths.log_file))


def _remote_parts() -> tuple[type[RemoteEmbedder], Callable[..., LiteLLMEmbedder]]:
    """Blocks."""
    # Deferred import: local embeddings do without the llm package.
    from clawbot.indexing.remote import RemoteEmbedder
    from clawbot.llm.embedding import open_embedder

    return RemoteEmbedder, open_embedder


log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Time limit at close for a probe that sends nothing, so that even a one-shot command reports its result."""


class VectorProbe:
    """Probes the `memories` (by agent id; `agent_id` is the active one) in the background.

    Belongs to the event loop. Nothing waits for it.
    """

    def __init__(self, agent_id: str, memories: Mapping[str, MemoryBackend]) -> None:
        self._agent_id = agent_id
        self._memories = dict(memories)
        self._task: asyncio.Task[None] | None = None
        self._patience = 0.0

    @property
    def problem(self) -> str:
        """Why the active agent searches by words alone, if known; empty if it does not."""
        memory = self._memories.get(self._agent_id)
        return memory.problem if memory is not None else ""

    def start(self, tell: Callable[[str], None], *, deep: bool) -> None:
        """Probe in the background and `tell` about each memory whose provider can't work. `deep`: send it one word;
        otherwise only local problems are found."""
        self._patience = 0.0 if deep else LOOK_SECONDS
        self._task = asyncio.get_running_loop().create_task(self._run(tell, deep=deep))

    async def close(self) -> None:
        """Cancel the probes that have not finished."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._patience)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, tell: Callable[[str], None], *, deep: bool) -> None:
        for agent_id, memory in self._memories.items():
            try:
                problem = await memory.probe(deep=deep)
            except Exception:
                log.exception("the memory of %s could not be probed", agent_id)
                continue
            if problem:
                tell(f"{'memory' if agent_id == self._agent_id else f'memory of {agent_id}'}: {problem}")
