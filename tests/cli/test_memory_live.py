"""`clawbot memory` over a real index in a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PORT = "- the staging proxy moved to port 8443"

pytestmark = pytest.mark.e2e


@pytest.fixture
def notes() -> Path:
    """The folder of daily notes of a workspace with three files."""
    workspace = Path(os.environ["CLAWBOT_HOME"]) / "workspace"
    folder = workspace / "memory"
    folder.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text("# Memory\n- prefers tabs\n", encoding="utf-8")
    (folder / "2026-11-19.md").write_text(f"# Thursday\n\n{PORT}\n- 部署窗口改到周四晚上\n", encoding="utf-8")
    (folder / "2026-11-20.md").write_text("- Ada likes oolong\n", encoding="utf-8")
    return folder


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "clawbot", "memory", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", **options)


def run(*arguments: str) -> tuple[int, str, str]:
    process = start(*arguments)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_index_search_status_and_verify_agree(notes: Path) -> None:
    code, out, _ = run("index", "--json")
    [indexed] = json.loads(out)
    assert (code, indexed["error"], indexed["report"]["added"]) == (0, None, 3)
    assert run("index")[1].startswith("Memory index is up to date: 3 files.")
    [status] = json.loads(run("status", "--json")[1])
    assert (status["status"]["files"], status["status"]["pendingVectors"]) == (3, 0)
    assert status["status"]["remote"] is False
    code, out, _ = run("verify")
    assert (code, out.rpartition(": ")[2]) == (0, "agree.\n")


@pytest.mark.parametrize(
    ("query", "place", "text"),
    [
        ("which port does the proxy use?", "memory/2026-11-19.md:3-", PORT),
        ("部署窗口", "memory/2026-11-19.md:", "- 部署窗口改到周四晚上"),
    ],
)
def test_a_search_builds_the_index_it_lacks(notes: Path, query: str, place: str, text: str) -> None:
    code, out, err = run("search", query)
    score, _, found = out.splitlines()[0].partition(" ")
    assert (code, err) == (0, "")
    assert 0 < float(score) <= 1
    assert found.startswith(place)
    assert text in out


def test_what_was_written_a_moment_ago_is_found(notes: Path) -> None:
    run("index")
    (notes / "2026-11-21.md").write_text("- the spare key lies under the blue flowerpot\n", encoding="utf-8")
    assert "blue flowerpot" in run("search", "where is the spare key?", "--max-results", "1")[1]


def test_the_bounds_hold(notes: Path) -> None:
    _, out, _ = run("search", "proxy tabs oolong 部署", "--after", "2026-11-20", "--before", "2026-11", "--json")
    assert {hit["path"] for hit in json.loads(out)["results"]} == {"memory/2026-11-20.md"}
    _, out, _ = run("search", "proxy tabs oolong", "--path", "MEMORY.md", "--json")
    assert {hit["path"] for hit in json.loads(out)["results"]} == {"MEMORY.md"}


@pytest.fixture
def watching(notes: Path) -> Iterator[subprocess.Popen[str]]:
    process = start("index", "--watch", "--json", bufsize=1)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=100)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watching_follows_a_change_and_ends_with_a_signal(
    notes: Path, watching: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert watching.stdout is not None
    first = json.loads(watching.stdout.readline())
    assert first["report"]["added"] == 3
    (notes / "2026-11-22.md").write_text("- one more\n", encoding="utf-8")
    while json.loads(watching.stdout.readline())["status"]["files"] < 4:
        pass
    watching.send_signal(number)
    _, err = watching.communicate(timeout=100)
    assert (watching.returncode, err) == (0, "")
