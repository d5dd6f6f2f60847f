"""Puts together the memory of an agent from its settings, and looks once whether it finds as they ask for."""

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
    """The memory of `agent_id`, by the backend of the settings; None when `memory_search.enabled` is off. Does nothing
    yet: no file is touched.

    `long_lived` says that more than one search is to be expected. `rerank` orders results where the settings ask for
    it. A provider of vectors that can't be used is no error: words go on, and search and status say why. Nor is a
    backend of a package that can't be opened: what is asked of it says why. Raises ConfigError for an unknown agent.
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
    """The index in SQLite. Implements `BackendFactory`."""
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
    """The memory files of `agent_id`, whether there is an index over them or not. Raises ConfigError."""
    agent = settings.agent(agent_id)
    return MemoryDocuments(agent.workspace, agent.memory_search.extra_paths, _closed(settings, agent_id, paths))


def _closed(settings: Settings, agent_id: str, paths: Paths) -> Callable[[], Closed] | None:
    """What belongs to other agents, who are only there when there are several."""
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
    # Deferred: reading transcripts is a package of its own, and few index them.
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
        raise EmbeddingError(offline_problem(), hint="Searches go by words alone meanwhile.")
    return OfflineEmbedder(files)


async def _remote(agent: AgentSettings, paths: Paths, clock: Clock) -> Embedder:
    """Raises ModelError."""
    adapt, open_embedder = await asyncio.to_thread(_remote_parts)
    return adapt(open_embedder(agent.memory_search, agent, clock=clock, log_path=paths.log_file))


def _remote_parts() -> tuple[type[RemoteEmbedder], Callable[..., LiteLLMEmbedder]]:
    """Blocks."""
    # Deferred: the rooms of the language models, which offline vectors do without.
    from clawbot.indexing.remote import RemoteEmbedder
    from clawbot.llm.embedding import open_embedder

    return RemoteEmbedder, open_embedder


log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""What a look that sends nothing may take at the end: it is told of even if the program does one thing alone."""


class VectorProbe:
    """Probes the `memories` (by the agents' ids; `agent_id` is the one that talks) in the background.

    Belongs to the event loop. Nothing waits for it.
    """

    def __init__(self, agent_id: str, memories: Mapping[str, MemoryBackend]) -> None:
        self._agent_id = agent_id
        self._memories = dict(memories)
        self._task: asyncio.Task[None] | None = None
        self._patience = 0.0

    @property
    def problem(self) -> str:
        """Why the agent that talks finds notes by words alone, as far as is known; empty while it does not."""
        memory = self._memories.get(self._agent_id)
        return memory.problem if memory is not None else ""

    def start(self, tell: Callable[[str], None], *, deep: bool) -> None:
        """Look in the background, and `tell` of each memory whose provider can't work. `deep`: one word is sent to it,
        else only what is missing here is found."""
        self._patience = 0.0 if deep else LOOK_SECONDS
        self._task = asyncio.get_running_loop().create_task(self._run(tell, deep=deep))

    async def close(self) -> None:
        """Give up what is not answered yet."""
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
