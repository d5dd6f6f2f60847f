"""The index of an agent holds nothing of another one, whatever its extra paths and folders lead to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import open_index
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.documents.memory_files import ForbiddenPathError
from clawbot.memory.values import SearchRequest
from tests.tables import load_table


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "state")
    put(paths.workspace("main") / "MEMORY.md", "- the kettle is green\n")
    put(paths.workspace("research") / "memory" / "2026-11-20.md", "- der Kessel ist geheim\n")
    put(paths.sessions("research") / "talk.md", "- geheim besprochen\n")
    return paths


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@asynccontextmanager
async def index(
    paths: Paths, *extra: str, allowed: list[str] | None = None, research: Path | None = None
) -> AsyncIterator[MemoryBackend]:
    agents: dict[str, Any] = {
        "defaults": {"memory_search": {"provider": "none"}},
        "main": {
            "workspace": str(paths.workspace("main")),
            "memory_search": {"extra_paths": list(extra)},
            "tools": {"agents": allowed or []},
        },
        "research": {"workspace": str(research or paths.workspace("research"))},
    }
    settings = Settings.model_validate({"agents": agents}, context={"home": paths.home})
    opened = open_index(settings, "main", paths, SystemClock())
    assert opened is not None
    try:
        yield opened
    finally:
        await opened.close()


async def found(opened: MemoryBackend) -> set[str]:
    result = await opened.search(SearchRequest(queries=("geheim",)))
    return {hit.path for hit in result.hits}


@pytest.mark.parametrize(
    "extra",
    load_table(__file__, "extra_paths_that_lead_to_another_agent_are_left_out_and_told"),
)
async def test_extra_paths_that_lead_to_another_agent_are_left_out_and_told(paths: Paths, extra: str) -> None:
    (paths.workspace("main") / "link").symlink_to(paths.workspace("research"))
    async with index(paths, extra) as opened:
        report = await opened.sync()
        assert await found(opened) == set()
        (issue,) = (await opened.status()).issues
    assert report.added == 1
    assert "research" in issue.text
    assert "agents.main.tools.agents" in issue.text


async def test_a_folder_that_contains_another_agents_is_indexed_without_it(paths: Paths) -> None:
    put(paths.home / "notes.md", "- nicht geheim\n")
    async with index(paths, "..") as opened:
        await opened.sync()
        assert await found(opened) == {"../notes.md"}


async def test_another_workspace_within_the_notes_is_not_indexed(paths: Paths) -> None:
    inner = paths.workspace("main") / "memory" / "研究"
    put(inner / "memory" / "2026-11-20.md", "- geheim\n")
    put(inner.parent / "own.md", "- own, not geheim\n")
    async with index(paths, research=inner) as opened:
        await opened.sync()
        assert await found(opened) == {"memory/own.md"}
        for path in ("memory/研究/memory/2026-11-20.md", str(inner / "memory" / "2026-11-20.md")):
            with pytest.raises(ForbiddenPathError, match="belongs to agent research"):
                await opened.read(path)


async def test_what_was_indexed_before_goes_when_it_becomes_another_agents(paths: Paths) -> None:
    inner = paths.workspace("main") / "memory" / "team"
    put(inner / "plan.md", "- geheim\n")
    async with index(paths) as opened:
        await opened.sync()
        assert await found(opened) == {"memory/team/plan.md"}
    async with index(paths, research=inner) as opened:
        await opened.sync()
        assert await found(opened) == set()


@pytest.mark.parametrize("extra", ["../workspace-research", "../agents/research/sessions"])
async def test_what_is_allowed_by_name_is_indexed(paths: Paths, extra: str) -> None:
    async with index(paths, extra, allowed=["research"]) as opened:
        await opened.sync()
        assert len(await found(opened)) == 1
        assert (await opened.status()).issues == ()
