"""The memory of an agent, those of other agents that it may search, and the memory as front ends use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from clawbot.clock import Clock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.errors import ClawbotError
from clawbot.indexing.opening import Listener, VectorProbe, open_index, open_reranker
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.search.protocols import Complete
from clawbot.memory.values import EVERY_SOURCE, Progress, SearchRequest, SearchResult, Source
from clawbot.text.interface import _
from clawbot.tools.memory import AgentMemory, Current, memory_tools
from clawbot.tools.protocol import AnyTool
from clawbot.tools.sessions import session_tools
from clawbot.tools.workspace_files import read_workspace_file

# Maximum length of a result on the search screen.
_RANGE_CHARS = 700


class AgentMemories:
    """`own` is the memory of the agent `agent_id`, None when it is off; `others` are those of other agents that it may
    search, each untouched until it is searched. `open_sessions` returns the ids of the open sessions; `ask` asks the
    model."""

    def __init__(
        self,
        settings: Settings,
        agent_id: str,
        paths: Paths,
        clock: Clock,
        *,
        long_lived: bool,
        open_sessions: Callable[[], frozenset[str]],
        ask: Complete,
    ) -> None:
        self._settings, self._agent_id, self._paths, self._clock = settings, agent_id, paths, clock
        self._open_sessions = open_sessions
        query = settings.agent(agent_id).memory_search.query
        self.own = open_index(
            settings,
            agent_id,
            paths,
            clock,
            long_lived=long_lived,
            rerank=open_reranker(query, paths, ask) if query.rerank == "model" else None,
            listener=self._listener(agent_id),
        )
        opened = {
            other: open_index(settings, other, paths, clock, listener=self._listener(other))
            for other in settings.allowed_agents(agent_id)
        }
        others = {other: index for other, index in opened.items() if index is not None}
        self._all = {agent_id: self.own, **others} if self.own is not None else others
        self.vectors = VectorProbe(agent_id, self._all)

    def _listener(self, agent_id: str) -> Listener:
        return Listener(lambda problem: self.vectors.report(agent_id, problem), self._open_sessions)

    def tools(self, current: Current) -> tuple[AnyTool, ...]:
        """Return the tools that search; `current` is the running conversation, as the index names it."""
        if self.own is None:
            return ()
        settings, agent = self._settings, self._settings.agent(self._agent_id)
        limit = agent.tools.output_max_chars
        memories = {
            agent_id: AgentMemory(index, settings.agent(agent_id).memory_search.query.max_injected_chars)
            for agent_id, index in self._all.items()
        }
        tools = memory_tools(self._agent_id, memories, limit, settings.memory.citations, current)
        if "sessions" not in agent.memory_search.sources:
            return tools
        folder, own = self._paths.sessions(self._agent_id), memories[self._agent_id]
        return *tools, *session_tools(own, folder, current, lambda: self._clock.now().tzinfo, limit)

    async def close(self) -> None:
        """Close all memories."""
        await asyncio.gather(*(memory.close() for memory in self._all.values()))


class Memory:
    """See MemoryApi. `index` is None when memory search is off: searches raise, and notes are read from disk."""

    def __init__(self, index: MemoryBackend | None, workspace: Path) -> None:
        self.index = index
        self.progress: Progress | None = None
        self.on_progress: Callable[[], None] | None = None
        self._workspace = workspace

    @property
    def generation(self) -> int:
        return self.index.generation if self.index is not None else 0

    def progressed(self, progress: Progress | None) -> None:
        """Store the progress of the index (None: idle) and notify the screen."""
        self.progress = progress
        if self.on_progress is not None:
            self.on_progress()

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        if self.index is None:
            raise ClawbotError(_("The memory index is off."), hint=_("Set memory_search.enabled in the settings."))
        request = SearchRequest(
            queries=(query,),
            max_results=limit,
            max_chars=limit * _RANGE_CHARS,
            sources=tuple(sources),
            prefix=True,
        )
        return await self.index.search(request)

    async def text(self, path: str) -> str:
        if self.index is None:
            return await asyncio.to_thread(read_workspace_file, self._workspace, path)
        return await self.index.text(path)
