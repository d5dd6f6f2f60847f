"""State folders side by side, each a machine with a workspace, on one Milvus. As a module: one sync, to be killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import open_index
from clawbot.indexing.opening import backend_context
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest, SearchResult
from clawbot.plugins.milvus.backend import MilvusBackend, open_milvus

URI = "CLAWBOT_MILVUS_URI"


class Machines:
    """The machines of one test."""

    def __init__(self, root: Path, uri: str, collection: str) -> None:
        self.root, self.uri, self.collection = root, uri, collection

    def note(self, machine: str, name: str, text: str) -> Path:
        """Write a note of `machine`."""
        path = self.root / machine / "workspace" / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def open(self, machine: str, agent: str = "main", **milvus: Any) -> MemoryBackend:
        """The memory of `agent` on `machine`, without the builtin index behind it."""
        paths = Paths(self.root / machine)
        return open_milvus(backend_context(self._settings(paths, milvus), agent, paths, SystemClock(), long_lived=True))

    def open_whole(self, machine: str, **milvus: Any) -> MemoryBackend:
        """The memory as the program opens it."""
        paths = Paths(self.root / machine)
        memory = open_index(self._settings(paths, milvus), "main", paths, SystemClock(), long_lived=True)
        assert memory is not None
        return memory

    def open_builtin(self, machine: str) -> MemoryBackend:
        """The builtin index over the same notes."""
        paths = Paths(self.root / machine)
        settings = load_settings(paths, overrides=self._agents(paths)).settings
        memory = open_index(settings, "main", paths, SystemClock(), long_lived=True)
        assert memory is not None
        return memory

    async def found(self, machine: str, question: str, agent: str = "main", **milvus: Any) -> SearchResult:
        """What `agent` on `machine` finds, in a process of its own."""
        memory = self.open(machine, agent, **milvus)
        try:
            return await memory.search(SearchRequest(queries=(question,)))
        finally:
            await memory.close()

    async def synced(self, machine: str, agent: str = "main") -> None:
        """Sync once."""
        memory = self.open(machine, agent)
        try:
            await memory.sync()
        finally:
            await memory.close()

    async def problems(self, machine: str) -> tuple[str, ...]:
        """What `verify` finds."""
        memory = self.open(machine)
        try:
            return (await memory.verify()).problems
        finally:
            await memory.close()

    async def drop(self) -> None:
        """Delete the collections."""
        memory = self.open("cleaner")
        assert isinstance(memory, MilvusBackend)
        try:
            collections = await memory.connection.open()
            await asyncio.to_thread(collections.drop)
        finally:
            await memory.close()

    def start(self, machine: str) -> subprocess.Popen[bytes]:
        """One sync in a process of its own."""
        command = [sys.executable, "-m", "tests.milvus.machines", str(self.root), self.uri, self.collection, machine]
        return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})

    def _agents(self, paths: Paths) -> dict[str, Any]:
        here = {"workspace": str(paths.home / "workspace"), "timezone": "UTC"}
        same = {"workspace": here["workspace"]}
        return {"agents": {"defaults": here, "research": same, "secret": same}}

    def _settings(self, paths: Paths, milvus: dict[str, Any]) -> Settings:
        where = {"uri": self.uri, "collection": self.collection, "staleness": 0, **milvus}
        overrides = {**self._agents(paths), "memory": {"backend": "milvus", "milvus": where}}
        return load_settings(paths, overrides=overrides).settings


if __name__ == "__main__":
    asyncio.run(Machines(Path(sys.argv[1]), sys.argv[2], sys.argv[3]).synced(sys.argv[4]))
