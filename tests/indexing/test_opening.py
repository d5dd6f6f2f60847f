"""Opening the index of an agent as its settings say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clawbot.clock import SystemClock
from clawbot.config.errors import ConfigError
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import open_index, opening
from clawbot.memory.backend import MemoryBackend
from clawbot.memory.values import SearchRequest


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "MEMORY.md").write_text(
        "- the proxy moved to port 8443\n- 喜欢乌龙茶\n", encoding="utf-8"
    )
    return Paths(tmp_path / "state")


def opened(paths: Paths, agent_id: str = "main", **search: Any) -> MemoryBackend | None:
    workspace = str(paths.home.parent / "workspace")
    settings = Settings.model_validate({"agents": {"defaults": {"workspace": workspace, "memory_search": search}}})
    return open_index(settings, agent_id, paths, SystemClock())


async def ask(index: MemoryBackend | None, text: str) -> Any:
    assert index is not None
    try:
        return await index.search(SearchRequest(queries=(text,)))
    finally:
        await index.close()


def test_a_memory_that_is_switched_off_has_no_index(paths: Paths) -> None:
    assert opened(paths, enabled=False) is None


def test_an_unknown_agent_is_an_error(paths: Paths) -> None:
    with pytest.raises(ConfigError, match="nobody"):
        opened(paths, "nobody")


async def test_opening_touches_no_file(paths: Paths) -> None:
    index = opened(paths, provider="openai")
    assert index is not None
    await index.close()
    assert not paths.home.exists()


@pytest.mark.parametrize("provider", ["auto", "offline"])
async def test_vectors_are_made_here(paths: Paths, provider: str) -> None:
    found = await ask(opened(paths, provider=provider), "乌龙茶")
    assert found.hits[0].snippet.endswith("喜欢乌龙茶")
    assert (found.mode, found.provider, found.fallback) == ("hybrid", "offline", None)
    assert paths.memory_db("main").stat().st_mode & 0o777 == 0o600


async def test_words_alone(paths: Paths) -> None:
    found = await ask(opened(paths, provider="none"), "proxy")
    assert (found.mode, found.provider, found.fallback) == ("fts-only", "none", None)


async def test_a_missing_key_is_named_and_words_go_on(paths: Paths) -> None:
    found = await ask(opened(paths, provider="openai"), "proxy")
    assert found.hits
    assert found.fallback is not None
    assert found.fallback.from_ == "openai"
    assert "OPENAI_API_KEY" in found.fallback.reason


async def test_missing_offline_files_are_named_and_words_go_on(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "find_offline", lambda: None)
    monkeypatch.setattr(opening, "offline_problem", lambda: "The package wordllama is not installed.")
    found = await ask(opened(paths), "proxy")
    assert found.hits
    assert found.fallback is not None
    assert "wordllama" in found.fallback.reason


async def test_sessions_are_a_source_when_the_settings_say_so(paths: Paths) -> None:
    index = opened(paths, sources=["memory", "sessions"])
    assert index is not None
    status = await index.status()
    await index.close()
    assert status.sources == ("memory", "sessions")


def test_opening_an_index_loads_neither_numpy_nor_the_language_models() -> None:
    heavy = "{'numpy', 'apsw', 'watchdog', 'litellm', 'tokenizers', 'filelock', 'clawbot.llm.embedding', 'markdown_it'}"
    code = f"import sys, clawbot.indexing; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_a_sync_with_nothing_to_do_loads_no_numpy_and_touches_no_database(paths: Paths) -> None:
    workspace = str(paths.home.parent / "workspace")
    code = f"""
import asyncio, sys
from pathlib import Path
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.indexing import open_index

async def sync():
    settings = Settings.model_validate({{"agents": {{"defaults": {{"workspace": {workspace!r}}}}}}})
    index = open_index(settings, "main", Paths(Path({str(paths.home)!r})), SystemClock())
    report = await index.sync()
    await index.close()
    print(report.added, sorted({{"numpy", "markdown_it", "filelock", "watchdog"}} & set(sys.modules)))

asyncio.run(sync())
"""

    def run() -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    (paths.home.parent / "workspace" / "MEMORY.md").touch()
    os.utime(paths.home.parent / "workspace" / "MEMORY.md", (1_700_000_000, 1_700_000_000))
    assert run().startswith("1 ")
    written = paths.memory_db("main").stat().st_mtime_ns
    assert run() == "0 []"
    assert paths.memory_db("main").stat().st_mtime_ns == written
