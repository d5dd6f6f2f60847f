"""Puts together the memory index of an agent from its settings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import AgentSettings
from clawbot.memory.documents.memory_files import DocumentSource
from clawbot.memory.documents.walking import Closed
from clawbot.memory.embeddings.cache import CachedEmbedder
from clawbot.memory.embeddings.current_cache import CurrentCache
from clawbot.memory.embeddings.offline import PROVIDER as OFFLINE
from clawbot.memory.embeddings.offline import OfflineEmbedder, find_offline, offline_problem
from clawbot.memory.embeddings.protocol import Embedder, EmbeddingError
from clawbot.memory.embeddings.supply import Supply
from clawbot.memory.index import MemoryIndex
from clawbot.memory.place import IndexPlace
from clawbot.memory.search.rerank import Reranker
from clawbot.tools.agent_fence import foreign_fence
from clawbot.tools.fence import Bounds

if TYPE_CHECKING:
    from clawbot.indexing.remote import RemoteEmbedder
    from clawbot.llm.embedding import LiteLLMEmbedder

AUTO = "auto"
NONE = "none"


def open_index(
    settings: Settings,
    agent_id: str,
    paths: Paths,
    clock: Clock,
    *,
    long_lived: bool = False,
    rerank: Reranker | None = None,
) -> MemoryIndex | None:
    """The memory index of `agent_id`; None when `memory_search.enabled` is off. Does nothing yet: no file is touched.

    `long_lived` says that more than one search is to be expected. `rerank` orders results where the settings ask for
    it. A provider of vectors that can't be used is no error: words go on, and search and status say why. Raises
    ConfigError for an unknown agent.
    """
    agent = settings.agent(agent_id)
    search = agent.memory_search
    if not search.enabled:
        return None
    sources = _more_sources(agent, agent_id, paths, clock)
    closed = _closed(settings, agent_id, paths)
    place = IndexPlace.of(paths.memory_db(agent_id), agent.workspace, search, clock, sources, closed=closed)
    supply = Supply(search.provider, _opener(agent, paths, clock, place.cache), clock)
    return MemoryIndex(place, supply, long_lived=long_lived, rerank=rerank)


def _closed(settings: Settings, agent_id: str, paths: Paths) -> Callable[[], Closed] | None:
    """What belongs to other agents, who are only there when there are several."""
    if len(settings.agent_ids) < 2:
        return None

    def closed() -> Closed:
        """Blocks."""
        fence = foreign_fence(settings, agent_id, paths)
        return Bounds(settings.agent(agent_id).workspace, fence).why_denied

    return closed


def _more_sources(agent: AgentSettings, agent_id: str, paths: Paths, clock: Clock) -> tuple[DocumentSource, ...]:
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
