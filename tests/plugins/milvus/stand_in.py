"""A Milvus in a dict, which can fail at any step, and machines that share it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.clock import SystemClock
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.indexing.opening import backend_context
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.embeddings.protocol import Embedder
from clawbot.memory.values import SearchRequest
from clawbot.plugins.milvus.backend import MilvusBackend
from clawbot.plugins.milvus.collections import Candidates, MilvusError
from clawbot.plugins.milvus.connection import Connection
from clawbot.plugins.milvus.passages import Claim, StoredPassage, decode_claim, encode_claim
from tests.memory.index_host import WordEmbedder

_NOT_READ = ("dense", "source", "block")


class StandIn:
    """What `Collections` is to the backend. The write `fails_at` (from 1; 0: none) fails, before it is done."""

    passages_name = "stand_in"
    has_vectors = True
    dimensions = 32

    def __init__(self) -> None:
        self.passages: dict[int, Mapping[str, Any]] = {}
        self.rows: dict[str, Mapping[str, Any]] = {}
        self.written: list[int] = []
        self.writes = 0
        self.fails_at = 0
        self.asked: list[frozenset[str]] = []

    def dimensions_there(self) -> int | None:
        return self.dimensions

    def prepare(self, dimensions: int) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def claims(
        self, agents: Collection[str], *, owner: str | None = None, paths: Sequence[str] | None = None, strong: bool
    ) -> list[Claim]:
        self.asked.append(frozenset(agents))
        found = map(decode_claim, self.rows.values())
        return [
            each
            for each in found
            if each.agent in agents and owner in (None, each.owner) and (paths is None or each.path in paths)
        ]

    def put_claims(self, claims: Iterable[Claim]) -> None:
        self._write()
        self.rows |= {claim.id: encode_claim(claim) for claim in claims}

    def remove_claims(self, agent: str, ids: Collection[str]) -> None:
        for one in ids:
            del self.rows[one]

    def put_passages(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """As in Milvus, a call that is cut off may have written a part."""
        new = list(rows)
        self.written += [row["id"] for row in new]
        self.passages |= {row["id"]: row for row in new[: len(new) // 2]}
        self._write()
        self.passages |= {row["id"]: row for row in new}

    def remove_blocks(self, agent: str, blocks: Collection[int]) -> None:
        self._write()
        gone = [one for one, row in self.passages.items() if row["agent"] == agent and row["block"] in blocks]
        for one in gone:
            del self.passages[one]

    def present(self, agents: Collection[str], ids: Sequence[int]) -> set[int]:
        return {one for one in ids if one in self.passages and self.passages[one]["agent"] in agents}

    def every_passage(self, agent: str) -> list[int]:
        return [one for one, row in self.passages.items() if row["agent"] == agent]

    def read(self, agents: Collection[str], ids: Sequence[int], *, strong: bool) -> list[StoredPassage]:
        self.asked.append(frozenset(agents))
        rows = [self.passages[one] for one in ids if one in self.present(agents, ids)]
        return [_passage(row) for row in rows]

    def hybrid(self, agents: Collection[str], wanted: Candidates, *, strong: bool) -> list[int]:
        self.asked.append(frozenset(agents))
        words, vector = set(wanted.words.split()), wanted.vector
        scores = {}
        for one, row in self._of(agents, wanted.source):
            near = sum(a * b for a, b in zip(row["dense"], vector, strict=True)) if vector is not None else 0.0
            scores[one] = len(words & set(row["words"].split())) + near
        return sorted((one for one in scores if scores[one] > 0), key=lambda one: -scores[one])[: wanted.most]

    def rarities(
        self, agents: Collection[str], source: str, terms: Sequence[str], limit: int, *, strong: bool
    ) -> list[tuple[float, list[int]]]:
        rows = self._of(agents, source)
        found = []
        for term in terms:
            ids = [one for one, row in rows if term in row["words"].split()]
            rarity = math.log((len(rows) + 1) / (len(ids) + 0.5)) if ids else 0.0
            found.append((rarity, ids[:limit]))
        return found

    def _of(self, agents: Collection[str], source: str) -> list[tuple[int, Mapping[str, Any]]]:
        return [(one, row) for one, row in self.passages.items() if row["agent"] in agents and row["source"] == source]

    def _write(self) -> None:
        self.writes += 1
        if self.writes == self.fails_at:
            raise MilvusError("Milvus failed to write (killed).")


class Machines:
    """State folders side by side, each a machine with a workspace, on one stand-in."""

    def __init__(self, root: Path, milvus: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.milvus = milvus
        self.embedder = WordEmbedder()
        self._root = root
        monkeypatch.setattr(Connection, "_connected", lambda *_: milvus)

    def note(self, machine: str, name: str, text: str | None) -> None:
        """Write a note of `machine`; None deletes it."""
        path = self._root / machine / "workspace" / "memory" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text, "utf-8")

    def open(self, machine: str, agent: str = "main", **milvus: Any) -> MemoryBackend:
        """The memory of `agent` on `machine`."""
        paths = Paths(self._root / machine)
        overrides = {
            "agents": {
                "defaults": {"workspace": str(paths.home / "workspace"), "timezone": "UTC"},
                "research": {"workspace": str(paths.home / "workspace")},
                "secret": {"workspace": str(paths.home / "workspace")},
            },
            "memory": {"backend": "milvus", "milvus": {"uri": "http://localhost:1", "staleness": 0, **milvus}},
        }
        settings = load_settings(paths, overrides=overrides).settings
        context = backend_context(settings, agent, paths, SystemClock(), long_lived=True)
        return MilvusBackend(context, EmbedderHandle("words", self._opened, SystemClock()))

    async def _opened(self) -> Embedder:
        return self.embedder

    async def synced(self, machine: str, agent: str = "main") -> None:
        """Sync once in a process of its own. Raises MilvusError."""
        memory = self.open(machine, agent)
        try:
            await memory.sync()
        finally:
            await memory.close()

    async def found(self, machine: str, question: str, agent: str = "main", **milvus: Any) -> list[str]:
        """The snippets that `agent` on `machine` finds."""
        memory = self.open(machine, agent, **milvus)
        try:
            return [hit.snippet for hit in (await memory.search(SearchRequest(queries=(question,)))).hits]
        finally:
            await memory.close()

    async def problems(self, machine: str, *, fix: bool = False) -> tuple[str, ...]:
        """What `verify` finds."""
        memory = self.open(machine)
        try:
            return (await memory.verify(fix=fix)).problems
        finally:
            await memory.close()

    @property
    def texts(self) -> list[str]:
        """The text of all passages that are stored."""
        return sorted(str(row["text"]) for row in self.milvus.passages.values())


def _passage(row: Mapping[str, Any]) -> StoredPassage:
    plain = {name: value for name, value in row.items() if name not in _NOT_READ}
    return msgspec.convert({**plain, "vector": array("f", row["dense"]).tobytes()}, StoredPassage)
