"""What a model gets from a memory whose backend fails: results, and why they come from elsewhere; never an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.context.privacy import privacy_of
from clawbot.indexing import VectorProbe
from clawbot.memory.backend import IndexUnavailableError
from clawbot.memory.values import Hit, SearchResult
from clawbot.tools.memory import AgentMemory, MemorySearchTool
from tests.memory.backends.test_self_healing import Home
from tests.memory.index_host import until
from tests.plugins.qmd.stand_in import Machine

Ask = Callable[..., Any]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def answer_of(home: Home, session: str = "main", **arguments: Any) -> dict[str, Any]:
    """The answer of `memory_search` in `session`."""
    tool = MemorySearchTool(AgentMemory(home.memory, 4_000), 16_000, "auto", lambda: None)
    outcome = await tool.for_session(privacy_of(session)).run({"query": "proxy", **arguments})
    assert not outcome.is_error
    found: dict[str, Any] = outcome.structured or msgspec.json.decode(outcome.text)
    return found


async def test_it_says_what_the_builtin_index_stands_in_for(home: Home) -> None:
    home.primaries.fault = IndexUnavailableError("qmd died.")
    found = await answer_of(home)
    assert [hit["snippet"] for hit in found["results"]] == ["from the builtin index"]
    assert (found["fallback"]["from"], found["fallback"]["reason"]) == ("qmd", "qmd died.")
    assert found["fallback"]["since"].endswith("Z")
    await home.memory.close()


async def test_an_error_of_both_disables_it_for_this_answer(home: Home) -> None:
    home.primaries.fault = IndexUnavailableError("qmd died.")
    home.builtin_answer = RuntimeError("cosmic ray")
    found = await answer_of(home)
    assert (found["results"], found["disabled"]) == ([], True)
    assert "nothing" not in found["warning"].lower()
    await home.memory.close()


@pytest.mark.parametrize("session", ["agent:main:group:friends", "agent:main:subagent:1", "telegram:channel:news"])
async def test_a_session_out_of_scope_gets_an_empty_list_and_no_error(home: Home, session: str) -> None:
    found = await answer_of(home, session)
    assert (found["results"], home.primaries.made) == ([], [])
    assert "disabled" not in found
    await home.memory.close()


async def test_a_scheduled_session_gets_notes_and_no_talks(home: Home) -> None:
    talk = Hit("sessions/a.jsonl", 1, 1, 0.9, "said", "sessions")
    home.primaries.answer = SearchResult((talk, *home.primaries.answer.hits), "fts-only", "none", "")
    found = await answer_of(home, "agent:main:cron:daily")
    assert [hit["path"] for hit in found["results"]] == ["MEMORY.md"]
    assert home.primaries.made[0].requests[0].sources == ("memory",)
    await home.memory.close()


async def test_large_results_are_cut(home: Home) -> None:
    long = Hit("MEMORY.md", 1, 1, 0.9, "长" * 9_000, "memory", 1)
    home.primaries.answer = SearchResult((long, long), "fts-only", "none", "")
    found = await answer_of(home)
    assert sum(len(hit["snippet"]) for hit in found["results"]) <= 4_000
    await home.memory.close()


async def test_the_probe_at_the_start_reveals_broken_vectors(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    before = machine.memory()
    await before.sync()
    await before.close()
    script = (
        (machine.bin / "qmd").read_text().replace("case $1 in\n", 'case $1 in\nvsearch) echo "no vec0" >&2; exit 1;;\n')
    )
    (machine.bin / "qmd").write_text(script)
    memory = machine.memory(search_mode="vsearch")
    told: list[str] = []
    probe = VectorProbe("main", {"main": memory})
    probe.start(told.append, deep=True)
    await until(lambda: bool(told))
    assert "qmd vsearch exited with 1: no vec0." in told[0]
    assert told == [f"memory: {memory.problem}"]
    await probe.close()
    await memory.close()
