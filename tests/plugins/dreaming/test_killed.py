"""`kill -9` at every step of a dream and of what it writes: each file is whole, and the next dream ends the work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.history import history_of
from clawbot.plugins.dreaming.book import Book
from clawbot.plugins.dreaming.dream import accept, context_of, dream
from clawbot.plugins.dreaming.offline import propose
from clawbot.plugins.dreaming.proposals import SourceLine
from clawbot.plugins.dreaming.rules import check
from tests.clocks import StillClock
from tests.faults import kill_at_each

IMPORTS = """
    from tests.plugins.dreaming.test_killed import warm
    warm()
"""
STORY = """
    from pathlib import Path
    from tests.plugins.dreaming.test_killed import run_dream
    run_dream(Path.cwd(), arm)
"""
MEMORY = """\
# What stays true

- My dentist is Dr. Kim (since 2026-01-10)
- I live in Porto (since 2026-01-02)
- The blog uses MySQL as its database (since 2025-11-01, until 2026-01-05)
- Anna likes tea
- Tea is what Anna likes
- The spare key is under the blue pot, behind the shed of the neighbour (since 2025-01-01)
"""
NOTES = {
    "2026-03-08": ["My dentist is now Dr. Okafor", "Had soup for lunch", "My cat is called Pixel"],
    "2026-03-09": ["I moved to Lisbon", "I prefer metric units", "Rain all day"],
}


def run_dream(home: Path, armed: Callable[[], None] = lambda: None) -> None:
    """Dream in `home` and write all that waits; `armed` is called before."""
    memory = {"dream": {"max_tokens": 100}}
    agents = {"defaults": {"workspace": str(home / "workspace")}}
    settings = Settings.model_validate({"agents": agents, "memory": memory})
    clock = StillClock()
    context = context_of(settings, Paths(home), "main", clock)
    armed()
    outcome = asyncio.run(dream(context))
    accept(context, history_of(settings, Paths(home), "main", clock), outcome.pending)


def warm() -> None:
    """Compile what a dream needs, without a thread, so that each process that is killed has it."""
    lines = [SourceLine("memory/2026-03-08.md", 1, NOTES["2026-03-08"][0], date(2026, 3, 8))]
    entries = [SourceLine("MEMORY.md", number, line, None) for number, line in enumerate(MEMORY.split("\n"), 1)]
    book = Book(
        {"MEMORY.md": tuple(MEMORY.split("\n"))}, tuple(lines), {each.source: each for each in lines + entries[2:]}
    )
    for each in propose(book):
        check(each, book)


def files_of(home: Path) -> dict[str, str]:
    """Return the memory files of `home`."""
    folder = home / "workspace"
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*.md")}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A home in which each kind of proposal but a merge is made."""
    memory = tmp_path / "home/workspace/memory"
    memory.mkdir(parents=True)
    (memory.parent / "MEMORY.md").write_text(MEMORY, "utf-8")
    for day, lines in NOTES.items():
        (memory / f"{day}.md").write_text("".join(f"- {line}\n" for line in lines), "utf-8")
    return tmp_path / "home"


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_a_kill_at_any_step_is_made_good_by_the_next_dream(place: Path, tmp_path: Path) -> None:
    *killed, undisturbed = kill_at_each(IMPORTS, STORY, place=place, into=tmp_path / "steps")
    assert len(killed) >= 100
    done = files_of(undisturbed)
    kinds = {step["proposal"]["kind"] for step in steps_of(undisturbed) if "proposal" in step}
    assert kinds == {"add", "supersede", "drop", "move"}
    allowed = {line for text in (*done.values(), *files_of(place).values()) for line in text.split("\n")}
    for home in killed:
        for text in files_of(home).values():
            lines = [line for line in text.split("\n") if line]
            assert set(lines) <= allowed, home
            assert len(set(lines)) == len(lines), home
        run_dream(home)
        assert files_of(home) == done, home
        proposed = [step["proposal"]["id"] for step in steps_of(home) if "proposal" in step]
        assert len(set(proposed)) == len(proposed), home


def steps_of(home: Path) -> list[dict[str, dict[str, str]]]:
    """Return the lines of the record that are whole."""
    found: list[dict[str, dict[str, str]]] = []
    for line in (home / "dreams/main/proposals.jsonl").read_text("utf-8").splitlines():
        if line.endswith("}"):
            found.append(json.loads(line))
    return found


def test_an_undisturbed_dream_is_done_once(place: Path) -> None:
    run_dream(place)
    done = files_of(place)
    run_dream(place)
    assert files_of(place) == done
    assert "- I live in Lisbon (since 2026-03-09)" in done["MEMORY.md"]
    assert "until 2026-01-05" in done["memory/earlier.md"]
