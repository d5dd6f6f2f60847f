"""`clawbot model`: in real processes, with a stand-in for llama.cpp (tests/real has the real one)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home
from clawbot.extras import install_command
from clawbot.local_model import process as model_process
from clawbot.local_model.register import Running, add_running
from tests.local_model.hosts import SMALL, FileHost, serving, small_model

ROOT = Path(__file__).parents[2]
STAND_IN = ROOT / "tests" / "local_model" / "stand_in"
CLAWBOT = [sys.executable, "-m", "clawbot", "model"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["model", *arguments])


@pytest.fixture
def paths() -> Paths:
    return Paths(find_home())


def environment(*folders: Path) -> dict[str, str]:
    """That of a child, which finds the modules in `folders` first."""
    more = [each for each in [os.environ.get("PYTHONPATH")] if each]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, (*folders, ROOT)), *more])}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLAWBOT, *arguments], env=environment(STAND_IN), capture_output=True, text=True, check=False, timeout=100
    )


@pytest.fixture
def serve() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended whatever happens."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def start(started: list[subprocess.Popen[str]], folders: Sequence[Path], *arguments: str) -> str:
    """Start `serve` and return its first line."""
    process = subprocess.Popen(
        [*CLAWBOT, "serve", *arguments], env=environment(*folders), stdout=subprocess.PIPE, text=True
    )
    started.append(process)
    assert process.stdout is not None
    return process.stdout.readline()


def test_a_pull_that_was_killed_goes_on_where_it_was(paths: Paths) -> None:
    data = SMALL + os.urandom(3_000_000)
    host = FileHost(data)
    release = threading.Event()
    host.hold = (1_000_000, release)
    with serving(host):
        process = subprocess.Popen([*CLAWBOT, "pull", host.url], env=environment())
        part = paths.models / "tiny.gguf.part"
        assert host.cut.wait(60)
        while not part.exists() or part.stat().st_size < 900_000:
            assert process.poll() is None
        process.kill()
        process.wait()
        release.set()
        there = part.stat().st_size
        assert not (paths.models / "tiny.gguf").exists()
        host.hold = None
        done = invoke("pull", host.url)
    assert done.exit_code == 0, done.output
    assert host.asked == [None, f"bytes={there}-"]
    assert (paths.models / "tiny.gguf").read_bytes() == data
    assert "local/tiny is here: 3 MB, SHA-256 " in done.stdout
    assert "clawbot model use tiny" in done.stderr


def test_the_list_says_what_is_here_and_what_can_be_had(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "find_spec", lambda _: None)
    empty = invoke("list").stdout
    assert "There is no model in" in empty
    assert "qwen3-4b     2.5 GB download · 8 GB of memory · Apache-2.0 · huggingface.co" in empty
    assert f": {install_command('local')}\n" in empty
    small_model(paths.models / "tiny.gguf")
    listed = json.loads(invoke("list", "--json").stdout)
    assert listed["models"] == [{"name": "tiny", "bytes": len(SMALL), "served": False}]
    assert listed["installed"] is False


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "tiny"], install_command("local")),
        (["use", "tiny"], install_command("local")),
        (["serve", "none"], "There is no model none in"),
        (["serve", "/nowhere/x.gguf"], "/nowhere/x.gguf: No such file"),
        (["stop"], "No model is served here"),
        (["pull", "none"], "no name of a model and no address"),
        (["pull", "file:///nowhere/x.gguf"], "/nowhere/x.gguf: No such file"),
    ],
)
def test_what_can_not_be_done_is_one_line(
    paths: Paths, arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_process, "find_spec", lambda _: None)
    small_model(paths.models / "tiny.gguf")
    done = invoke(*arguments)
    assert done.exit_code == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_serve_status_use_and_stop(paths: Paths, serve: list[subprocess.Popen[str]]) -> None:
    file = small_model(paths.models / "tiny.gguf")
    line = start(serve, [STAND_IN], str(file), "--ctx", "4096")
    assert line.startswith("serving tiny on http://127.0.0.1:")
    assert "window 4,096 tokens" in line
    (shown,) = json.loads(invoke("status", "--json").stdout)
    assert (shown["name"], shown["window"], shown["chat"], shown["answers"]) == ("tiny", 4096, False, True)
    assert "key" not in shown
    assert "by clawbot model serve: answers" in invoke("status").stdout
    port = shown["base"].rpartition(":")[2].partition("/")[0]
    other = small_model(paths.models / "other.gguf")
    taken = run("serve", str(other), "--port", port)
    assert (taken.returncode, f"Port {port} of 127.0.0.1 can't be had" in taken.stderr) == (1, True), taken.stderr
    again = run("serve", "tiny")
    assert (again.returncode, "tiny is served already on" in again.stderr) == (1, True)
    used = run("use", "tiny")
    assert used.returncode == 0, used.stderr
    assert "local/tiny" in used.stdout
    assert invoke("stop").stdout == "tiny is being stopped.\n"
    assert serve[0].wait(60) == 0
    assert invoke("status").exit_code == 1
    assert not paths.local_file.exists()


def test_a_chats_own_server_is_left_alone(paths: Paths) -> None:
    own = os.getpid()
    add_running(paths.local_file, Running("tiny", "/x", "http://127.0.0.1:1/v1", "k", 1, own, own, True))
    assert f"is served by a chat, and ends with it (process {own})" in invoke("stop", "tiny").stdout
    assert "by a chat: does not answer" in invoke("status").stdout
    add_running(paths.local_file, Running("deaf", "/y", "http://127.0.0.1:1/v1", "k", 1, own, own, False))
    assert f"deaf does not answer: if process {own} is a clawbot, end that." in invoke("stop", "deaf").stdout


def test_serve_ends_with_its_signal(paths: Paths, serve: list[subprocess.Popen[str]]) -> None:
    small_model(paths.models / "tiny.gguf")
    start(serve, [STAND_IN], "tiny")
    serve[0].send_signal(signal.SIGINT)
    assert serve[0].wait(60) == 0
    assert not paths.local_file.exists()
