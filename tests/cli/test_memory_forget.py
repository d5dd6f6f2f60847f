"""What `clawbot memory forget` prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["memory", "forget", *arguments])


@pytest.fixture
def memory() -> Path:
    home = Paths(find_home()).home
    folder = home / "workspace" / "memory"
    folder.mkdir(parents=True)
    (folder / "trip.md").write_text("# Trip\n\n- the Xylophonia\n- a tent\n- 花生酱\n", "utf-8")
    (home / "notes.txt").write_text("about the Xylophonia\n", "utf-8")
    return folder


@pytest.mark.parametrize("arguments", [[], ["words", "--session", "main"], [" "]])
def test_either_words_or_a_session_are_asked_for(memory: Path, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "either QUERY" in result.stderr


def test_each_place_is_told_and_the_words_are_not_repeated(memory: Path) -> None:
    dry = run("the", "xylophonia", "--dry-run")
    assert "the Xylophonia" in (memory / "trip.md").read_text("utf-8")
    done = run("the", "xylophonia")
    assert (done.exit_code, done.stderr) == (0, "")
    assert (
        done.stdout
        == dry.stdout.replace("would be ", "").replace("would remain", "still there")
        == (
            "memory/trip.md:3: removed\n"
            "memory index: synchronised and rewritten\n"
            f"still there: {memory.parents[1]}/notes.txt:1 (edit or delete it by hand)\n"
        )
    )
    assert dry.stdout.startswith("memory/trip.md:3: would be removed\nmemory index: would be ")
    assert "Nothing was changed" in dry.stderr
    assert (memory / "trip.md").read_text("utf-8") == "# Trip\n\n- a tent\n- 花生酱\n"


def test_what_is_only_still_there_is_told_and_what_is_nowhere_is_an_error(memory: Path) -> None:
    run("xylophonia")
    again = run("xylophonia")
    assert (again.exit_code, "Nothing left to do" in again.stderr) == (0, True)
    nothing = run("nobody")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "memory search" in nothing.stderr


def test_json_has_the_same(memory: Path) -> None:
    told = json.loads(run("花生酱", "--json").stdout)
    assert told == {
        "agentId": "main",
        "dryRun": False,
        "done": [
            {"path": "memory/trip.md", "what": "removed", "lines": [5]},
            {"path": "memory index", "what": "synchronised and rewritten", "lines": []},
        ],
        "stillThere": [],
        "complete": True,
    }


def test_another_agent_has_its_own_memory(memory: Path) -> None:
    config = Paths(find_home()).config_file
    config.write_text("agents: {work: {}}\n", "utf-8")
    other = Paths(find_home()).workspace("work") / "memory"
    other.mkdir(parents=True)
    (other / "a.md").write_text("- the Xylophonia\n- b\n", "utf-8")
    told = run("xylophonia").stdout
    assert f"still there: {other}/a.md:1 (--agent work forgets it there)" in told
    assert run("xylophonia", "--agent", "work").exit_code == 0
    assert (other / "a.md").read_text("utf-8") == "- b\n"
    assert run("x y", "--agent", "nobody").exit_code == 1


def test_an_unknown_session_is_an_error(memory: Path) -> None:
    result = run("--session", "nobody")
    assert (result.exit_code, "no session" in result.stderr) == (1, True)
