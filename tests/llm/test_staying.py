"""The worker that stays: who finds it, who is let in, and when it ends. Real processes, without litellm in them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from click.testing import CliRunner

from clawbot.cli.main import root
from clawbot.clock import SystemClock
from clawbot.llm import process, worker_reuse
from clawbot.llm.client import ClientOptions, LiteLLMModel, RetryPolicy, Target
from clawbot.llm.frames import Complete, Deltas, Ended, Report
from clawbot.llm.process import WorkerClient, WorkerLostError
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, RetryPart
from clawbot.messages import UserMessage
from tests.faults import seen_to_end

# A worker whose engine loads at once. It answers with the name of the model; the model `stall` never comes to an end.
WORKER = """
import asyncio
import clawbot.llm.worker as worker

class Engine:
    async def stream(self, call, out):
        out({"choices": [{"delta": {"content": call.arguments["model"]}}]})
        if call.arguments["model"] == "stall":
            await asyncio.Event().wait()
        out({"choices": [{"delta": {}, "finish_reason": "stop"}]})

worker._load_in_thread = lambda loaded: loaded.set_result(Engine())
worker.main()
"""
LONG = 600.0
KEY = "sk-a-key-that-no-file-may-hold"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a short name, since the system allows an address a hundred characters. What stays in it is ended."""
    command = (sys.executable, "-c", WORKER)
    monkeypatch.setattr(worker_reuse, "module_command", lambda *_: (*command, worker_reuse.REUSABLE))
    monkeypatch.setattr(process, "module_command", lambda *_: command)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("CLAWBOT_HOME", folder)
        yield Path(folder)
        worker_reuse.end_reusable_worker()


def a_client(linger: float = LONG) -> WorkerClient:
    client = WorkerClient()
    client.linger = linger
    return client


async def answer(client: WorkerClient, model: str = "m") -> list[Report]:
    call = Complete(await client.next_id(), {"model": model}, 1_000)
    return [report async for report in client.reports(call) if isinstance(report, Deltas | Ended)]


async def one_shot(client: WorkerClient) -> int:
    """Call, and leave; the process that answered."""
    said = await answer(client)
    assert isinstance(said[0], Deltas)
    assert isinstance(said[-1], Ended)
    pid = client.pid
    assert pid is not None
    await client.close()
    return pid


def written(home: Path) -> list[bytes]:
    return [file.read_bytes() for file in home.rglob("*") if file.is_file()]


async def test_the_next_program_finds_it_also_one_that_leaves_none(home: Path) -> None:
    first = await one_shot(a_client())
    assert await one_shot(a_client()) == await one_shot(a_client(linger=0.0)) == first
    assert worker_reuse.reusable_worker() == first
    apart = a_client()
    apart.alone = True
    assert await one_shot(apart) != first
    run = home / "run"
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert stat.S_IMODE((run / worker_reuse.SOCKET).stat().st_mode) == 0o600
    assert not any(KEY.encode() in data for data in written(home))
    async with seen_to_end(first):
        stopped = CliRunner().invoke(root, ["model", "stop"])
    assert str(first) in stopped.output
    assert worker_reuse.reusable_worker() is None


@pytest.mark.parametrize("change", ["key", "code", "folder"])
async def test_other_surroundings_have_another_and_the_old_one_ends(
    change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = await one_shot(a_client())
    monkeypatch.setenv("TERM", "another-terminal")
    assert await one_shot(a_client()) == first
    if change == "key":
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    elif change == "code":
        monkeypatch.setattr(worker_reuse, "__file__", str(tmp_path / "staying.py"))
    else:
        monkeypatch.chdir(tmp_path)
    async with seen_to_end(first):
        other = await one_shot(a_client())
    assert other != first
    assert await one_shot(a_client()) == other


@pytest.mark.parametrize("change", ["", "key"])
async def test_one_that_was_begun_is_taken_unless_the_surroundings_have_changed(
    change: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAWBOT_HOME", str(home / "nowhere"))
    worker_reuse.begin()
    assert not worker_reuse.begun
    monkeypatch.setenv("CLAWBOT_HOME", str(home))
    worker_reuse.begin()
    [begun] = worker_reuse.begun
    client = a_client()
    if change:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
        async with seen_to_end(begun.pid):
            assert await one_shot(client) != begun.pid
    else:
        assert await one_shot(client) == begun.pid == await one_shot(a_client())
        worker_reuse.begin()
        assert not worker_reuse.begun  # one is running


async def test_it_ends_when_nobody_comes(home: Path) -> None:
    client = a_client(linger=0.01)
    await answer(client)
    assert client.pid is not None
    async with seen_to_end(client.pid):
        await client.close()
    assert not (home / "run" / worker_reuse.SOCKET).exists()


async def test_a_kill_fails_the_call_and_the_next_one_has_another(home: Path) -> None:
    first = await one_shot(a_client())
    client = a_client(linger=0.0)
    call = Complete(await client.next_id(), {"model": "stall"}, 1_000)
    async with aclosing(client.reports(call)) as reports:
        async for report in reports:
            if isinstance(report, Deltas):
                break
        assert client.pid == first
        os.kill(first, signal.SIGKILL)
        with pytest.raises(WorkerLostError):
            await anext(reports)
    assert (home / "run" / worker_reuse.SOCKET).exists()
    assert await one_shot(client) != first
    later = await one_shot(a_client())
    assert await one_shot(a_client()) == later, "the address of one that was killed is taken over"


async def test_one_that_is_launched_in_vain_ends(home: Path) -> None:
    """Its client is killed before it says from where it comes."""
    ours, theirs = socket.socketpair()
    pid = worker_reuse._spawn(theirs)
    theirs.close()
    async with seen_to_end(pid):
        ours.close()


async def test_of_two_at_once_one_stays() -> None:
    clients = [a_client(), a_client()]
    await asyncio.gather(*map(answer, clients))
    found = worker_reuse.reusable_worker()
    [other] = [client for client in clients if client.pid != found]
    assert other.pid is not None
    async with seen_to_end(other.pid):
        await asyncio.gather(*(client.close() for client in clients))
    assert await one_shot(a_client()) == found


@pytest.mark.parametrize("how", ["hangs up", "is silent"])
async def test_one_that_ends_at_the_moment_of_a_call_is_passed_by(
    how: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_reuse, "WELCOME_SECONDS", 0.05 if how == "is silent" else 30.0)
    (home / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "run" / worker_reuse.SOCKET))
        listener.listen()
        hanging_up = asyncio.to_thread(lambda: listener.accept()[0].close() if how == "hangs up" else None)
        pid, _ = await asyncio.gather(one_shot(a_client(linger=0.0)), hanging_up)
    assert pid != os.getpid()


async def test_a_folder_that_others_can_write_in_is_not_trusted(home: Path) -> None:
    first = await one_shot(a_client())
    (home / "run").chmod(0o770)
    assert await one_shot(a_client()) != first
    (home / "run").chmod(0o700)


async def test_a_call_at_the_moment_in_which_the_worker_is_retired_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ClientOptions(SystemClock(), RetryPolicy(attempts=2, first_wait=0.0))
    model = LiteLLMModel(Target("openai/m", "openai/m"), ModelInfo("openai/m"), options)
    next_id = model.worker.next_id

    async def retired() -> int:
        monkeypatch.setattr(model.worker, "next_id", next_id)
        identity = await next_id()
        model.worker._retire()
        return identity

    monkeypatch.setattr(model.worker, "next_id", retired)
    parts = [part async for part in model.stream(ChatRequest("", (UserMessage("hello"),)))]
    assert isinstance(parts[0], RetryPart)
    assert isinstance(parts[-1], FinalPart)
    assert parts[-1].message.text == "openai/m"
    await model.aclose()
