"""A server in a process of its own: found with its key, started anew, shared, ended; with a stand-in for llama.cpp."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace

from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.extras import install_command
from clawbot.llm import process
from clawbot.llm.errors import RefusedError, UnreachableError
from clawbot.llm.factory import ServedModel, open_model
from clawbot.llm.models import find_models
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, LoadingPart, RetryPart, StreamPart
from clawbot.llm.servers import find_local
from clawbot.local_model import machine, register
from clawbot.local_model import process as serving
from clawbot.local_model.machine import free_cores, usable_cores
from clawbot.local_model.process import LocalModelError, ServerProcess
from clawbot.local_model.register import Running, add_running, answers, read_running
from clawbot.messages import UserMessage
from tests.local_model.hosts import head, small_model

STAND_IN = Path(__file__).parent / "stand_in"
SETTINGS = AgentSettings()


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children import the stand-in; this process only asks whether there is a package."""
    monkeypatch.setenv("PYTHONPATH", f"{STAND_IN}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(serving, "find_spec", lambda _: object())


@pytest.fixture
def paths() -> Paths:
    return Paths(find_home())


@pytest.fixture
def file(paths: Paths) -> Path:
    return small_model(paths.models / "tiny.gguf")


@pytest.fixture
async def kept(paths: Paths) -> AsyncIterator[Callable[..., ServerProcess]]:
    made: list[ServerProcess] = []

    def make(file: Path, *, chat: bool = True, window: int | None = None, threads: int | None = None) -> ServerProcess:
        made.append(ServerProcess(paths, file, chat=chat, window=window, threads=threads))
        return made[-1]

    yield make
    for keeper in made:
        await keeper.close()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def until(condition: Callable[[], bool]) -> None:
    def wait() -> None:
        while not condition():
            time.sleep(0.02)

    await asyncio.to_thread(wait)


def asked(text: str) -> ChatRequest:
    return ChatRequest(system="", messages=(UserMessage(text),))


async def said(model: ChatModel, text: str = "hello") -> str:
    async with aclosing(model.stream(asked(text))) as parts:
        found = [part async for part in parts]
    assert isinstance(found[-1], FinalPart)
    return "".join(getattr(block, "text", "") for block in found[-1].message.content)


async def test_a_server_is_written_down_privately_and_goes_with_its_keeper(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess]
) -> None:
    running = await kept(file).endpoint()
    assert read_running(paths.local_file) == [running]
    assert [mode_of(each) for each in (paths.local_file, paths.local_log)] == [0o600, 0o600]
    assert running.base.startswith("http://127.0.0.1:")
    assert running.window == 8192
    assert answers(running)
    assert not answers(replace(running, key="other")), "it asks for its key"
    log = text_of(paths.local_log)
    assert f"loading {file}" in log
    for place in (log, text_of(Path(f"/proc/{running.pid}/cmdline")), text_of(Path(f"/proc/{running.pid}/environ"))):
        assert running.key not in place

    found = await find_local()
    assert [(model.ref, model.window) for model in found] == [("local/tiny", 8192)]


async def killed(paths: Paths, keeper: ServerProcess) -> Running:
    """The server that ran, and is gone from the register."""
    running = await keeper.endpoint()
    os.kill(running.pid, signal.SIGKILL)
    await until(lambda: running not in read_running(paths.local_file))
    return running


async def test_one_that_runs_is_not_started_anew(file: Path, kept: Callable[..., ServerProcess]) -> None:
    keeper = kept(file)
    running = await keeper.endpoint()
    tasks = asyncio.all_tasks()
    keeper.begin()
    assert asyncio.all_tasks() == tasks
    assert await keeper.endpoint() == running


async def test_one_that_dies_comes_back_at_the_same_place_and_not_for_ever(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess]
) -> None:
    keeper = kept(file)
    first = await killed(paths, keeper)
    second = await killed(paths, keeper)
    assert second.pid != first.pid
    assert (second.base, second.key) == (first.base, first.key)
    await killed(paths, keeper)
    await keeper.over.wait()
    assert keeper.died_too_often


TWIN = """
import asyncio, sys
from pathlib import Path
from clawbot.config.paths import Paths, find_home
from clawbot.local_model import process as serving

async def main():
    serving.find_spec = lambda _: object()
    kept = serving.ServerProcess(Paths(find_home()), Path(sys.argv[1]))
    print("asks", flush=True)
    print((await kept.endpoint()).pid, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await kept.close()

asyncio.run(main())
"""


def test_two_chats_that_begin_together_get_one_server(paths: Paths, file: Path) -> None:
    hold = Path(f"{file}.hold")
    hold.touch()
    command = [sys.executable, "-c", TWIN, str(file)]
    with ExitStack() as stack:
        twins = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(2)
        ]
        said = [twin.stdout for twin in twins if twin.stdout is not None]
        assert [each.readline() for each in said] == ["asks\n", "asks\n"]
        while "loading" not in text_of(paths.local_log):
            assert all(twin.poll() is None for twin in twins)
        hold.unlink()
        first, second = (each.readline() for each in said)
        assert int(first) == int(second)
        assert [running.pid for running in read_running(paths.local_file)] == [int(first)]
        assert text_of(paths.local_log).count("loading") == 1
        for twin in twins:
            twin.communicate()
    assert read_running(paths.local_file) == []


async def test_a_full_disk_is_told_and_what_is_written_down_stays(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Running("other", "/x", "http://127.0.0.1:1/v1", "k", 1, os.getpid(), os.getpid(), True)
    add_running(paths.local_file, other)
    started: list[int] = []

    def full(_path: Path, data: bytes, **_: object) -> None:
        started.extend(each["pid"] for each in json.loads(data))
        raise OSError(errno.ENOSPC, "No space left on device")

    keeper = kept(file)
    with monkeypatch.context() as patched:
        patched.setattr(register, "write_atomic", full)
        with pytest.raises(LocalModelError, match=r"local\.json can't be written: No space left.*Make room"):
            await keeper.endpoint()
    assert started[0] == os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(started[1], 0)
    assert read_running(paths.local_file) == [other]
    assert await keeper.endpoint() in read_running(paths.local_file)


async def test_as_many_threads_as_cores_are_free(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "usable_cores", lambda: 8)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "getloadavg", lambda: (4.2, 9.0, 9.0))
    await kept(file).endpoint()
    assert "with 6 threads, 8 readers" in text_of(paths.local_log)
    await kept(small_model(file.with_name("other.gguf")), threads=3).endpoint()
    assert "with 3 threads, 3 readers" in text_of(paths.local_log)


@pytest.mark.parametrize(
    ("usable", "load", "free"), [(8, 0.0, 8), (8, 3.9, 4), (8, 90.0, 4), (1, 5.0, 1), (2, 0.2, 2), (2, 1.0, 1)]
)
def test_a_load_takes_half_of_the_cores_at_most(usable: int, load: float, free: int) -> None:
    assert free_cores(usable, load, usable) == free


def test_the_second_thread_of_a_core_and_what_a_container_may_not_use_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_CORES", tmp_path)
    monkeypatch.setattr(machine, "_GROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert usable_cores() == 8
    for number in range(8):
        siblings = tmp_path / f"cpu{number}" / "topology" / "thread_siblings_list"
        siblings.parent.mkdir(parents=True)
        siblings.write_text(f"{number % 4},{number % 4 + 4}\n", encoding="ascii")
    assert usable_cores() == 4
    for quota, cores in (("max 100000", 4), ("150000 100000", 2), ("900000 100000", 4)):
        (tmp_path / "cpu.max").write_text(f"{quota}\n", encoding="ascii")
        assert usable_cores() == cores


async def test_closing_ends_the_process_and_the_entry(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess]
) -> None:
    keeper = kept(file)
    running = await keeper.endpoint()
    await keeper.close()
    assert not text_of(paths.local_file)
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [(b"broken", "llama.cpp can't load it"), (b"dies", "its process ended with status 3")],
)
async def test_what_can_not_be_served_is_told_with_the_log(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess], more: bytes, words: str
) -> None:
    small_model(file, more)
    with pytest.raises(LocalModelError, match=rf"tiny\.gguf can't be served: {words}.*local-model\.log"):
        await kept(file).endpoint()
    assert not text_of(paths.local_file)


async def test_without_the_extra_it_says_how_to_install_it(
    file: Path, kept: Callable[..., ServerProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda _: None)
    with pytest.raises(LocalModelError, match=re.escape(install_command("local"))):
        await kept(file).endpoint()
    assert [info.ref for info in await find_models(SETTINGS)] == ["offline"]
    model = await open_model("local/tiny", SETTINGS, clock=SystemClock())
    try:
        with pytest.raises(UnreachableError, match=r"The local model: Local models need one package"):
            await said(model)
    finally:
        await model.aclose()


async def test_what_does_not_fit_is_told(file: Path, kept: Callable[..., ServerProcess]) -> None:
    with pytest.raises(Exception, match=r"tiny\.gguf needs .* of memory with a window of 9,000,000,000 tokens"):
        await kept(file, window=9_000_000_000).endpoint()


@pytest.mark.long
async def test_a_chat_starts_it_talks_to_it_and_ends_it(
    paths: Paths, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [info.ref for info in await find_models(SETTINGS)] == ["local/tiny", "offline"]
    model = await open_model("local/tiny", SETTINGS, clock=SystemClock())
    other = await open_model("local/tiny", SETTINGS, clock=SystemClock())
    assert isinstance(model, ServedModel)
    try:
        assert (model.info.ref, model.info.window) == ("local/tiny", 8192)
        await until(lambda: bool(read_running(paths.local_file)))
        assert await said(model) == "tiny says hello"
        (running,) = read_running(paths.local_file)
        assert running.chat
        await other.aclose()
        assert read_running(paths.local_file) == [running], "the first one uses it still"
        worker = model._model.worker.pid if model._model else None
        os.kill(running.pid, signal.SIGKILL)
        assert await said(model) == "tiny says hello", "it is there again for the next message"
        assert model._model is not None
        assert model._model.worker.pid == worker, "the process that talks to it stays"

        hold = small_model(file.with_name("tiny.gguf.hold"))
        seen: list[StreamPart] = []
        async with aclosing(model.stream(asked("die once"))) as parts:
            async for part in parts:
                seen.append(part)
                if not isinstance(part, RetryPart) or "loads" in part.reason:
                    await asyncio.to_thread(hold.unlink, missing_ok=True)
        assert isinstance(seen[0], RetryPart), "it died while it read the prompt"
        assert seen[1:3] == [LoadingPart("tiny"), LoadingPart("tiny", done=True)]
        assert isinstance(seen[-1], FinalPart)

        monkeypatch.setattr(process, "IDLE_SECONDS", 0.0)
        assert await said(model) == "tiny says hello"
        await until(lambda: model._model is not None and model._model.worker.pid is None)
        os.kill(read_running(paths.local_file)[0].pid, signal.SIGKILL)
        assert await said(model) == "tiny says hello", "both processes are started anew"
    finally:
        await model.aclose()
    assert read_running(paths.local_file) == []


async def test_a_template_without_tools_gets_none(paths: Paths) -> None:
    for name, template in (("plain", "{{ messages }}"), ("able", "{% if tools %}{{ tools }}{% endif %}")):
        file = paths.models / f"{name}.gguf"
        small_model(file).write_bytes(head(general__architecture="tiny", tokenizer__chat_template=template))
    found = {info.ref: info.supports_tools for info in await find_models(SETTINGS)}
    assert (found["local/plain"], found["local/able"]) == (False, True)


async def test_a_server_that_was_back_before_it_was_asked_for_is_taken(
    file: Path, kept: Callable[..., ServerProcess]
) -> None:
    keeper = kept(file)
    died = await keeper.endpoint()
    os.kill(died.pid, signal.SIGKILL)
    await until(lambda: keeper._running is not None and keeper._running.pid != died.pid)
    following = await keeper.revived(died, refused=True)
    assert following is not None
    assert (following.base, following.pid != died.pid) == (died.base, True)
    assert await keeper.revived(following, refused=False) is None


@pytest.mark.long
async def test_auto_takes_what_another_clawbot_serves_with_its_key(
    paths: Paths, file: Path, kept: Callable[..., ServerProcess]
) -> None:
    running = await kept(file, chat=False).endpoint()
    # As if it were another process that keeps it.
    add_running(paths.local_file, replace(running, owner=os.getppid()))
    model = await open_model("auto", SETTINGS, clock=SystemClock())
    try:
        assert model.info.ref == "local/tiny"
        assert await said(model) == "tiny says hello"
        assert {each.pid for each in read_running(paths.local_file)} == {running.pid}, "no second one was started"
    finally:
        await model.aclose()


async def test_a_name_that_is_no_model_is_refused(paths: Paths) -> None:
    for name in ("local/none", "local/../x", "local/"):
        with pytest.raises(RefusedError, match=r"no model|no name of a model"):
            await open_model(name, SETTINGS, clock=SystemClock())
