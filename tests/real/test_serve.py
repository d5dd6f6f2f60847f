"""A model that clawbot serves by itself: served by command, talked to, killed, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.local_model.machine import usable_cores
from tests.real.server import ENVIRONMENT, PATIENCE

pytestmark = pytest.mark.timeout(PATIENCE)
CLAWBOT = [sys.executable, "-m", "clawbot"]


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch, small: Path) -> Paths:
    """A home whose clawbot finds llama.cpp and makes short answers."""
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    monkeypatch.setenv("PYTHONPATH", f"{packages}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    paths = Paths(find_home())
    paths.ensure_home()
    paths.config_file.write_text("agents: {defaults: {max_output_tokens: 16}}\n", encoding="utf-8")
    return paths


@pytest.fixture
def serving(paths: Paths, small: Path) -> Iterator[subprocess.Popen[str]]:
    """`clawbot model serve`, which has said where."""
    command = [*CLAWBOT, "model", "serve", str(small), "--ctx", "4096"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving small on http://127.0.0.1:")
        yield process
        process.kill()


def ask(*arguments: str) -> str:
    return subprocess.run([*CLAWBOT, *arguments], capture_output=True, text=True, check=True).stdout


def served() -> dict[str, Any]:
    """The model that runs; one that was killed is listed again once it is started anew."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        run = subprocess.run([*CLAWBOT, "model", "status", "--json"], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            (shown,) = json.loads(run.stdout)
            return dict(shown)
    raise AssertionError("no model runs")


def test_a_model_is_served_talked_to_killed_and_stopped(paths: Paths, serving: subprocess.Popen[str]) -> None:
    shown = served()
    assert (shown["window"], shown["chat"], shown["answers"]) == (4096, False, True)
    assert ask("chat", "-p", "hello").strip()
    events = [json.loads(line) for line in ask("chat", "-p", "and the ships?", "--json").splitlines()]
    assert {event["model"] for event in events if event["type"] == "turn_started"} == {"local/small"}
    usage = next(event["usage"] for event in events if event["type"] == "message_finished")
    assert usage["cacheRead"] > usage["input"] > 0, "it had read the talk before"

    os.kill(shown["pid"], signal.SIGKILL)
    assert ask("chat", "-p", "and now?").strip()
    again = served()
    assert (again["base"], again["pid"] != shown["pid"]) == (shown["base"], True)

    assert ask("model", "stop") == "small is being stopped.\n"
    told = serving.communicate()[1]
    assert serving.returncode == 0
    assert "the server of small ended with status -9; it is restarted" in told
    log = paths.local_log.read_text(encoding="utf-8")
    threads = int(log.partition("n_threads = ")[2].partition("\n")[0])
    assert 1 <= threads <= (usable_cores() or threads)
