"""The real qmd: it finds what the stand-in promises, and dies, hangs and goes away without anybody noticing much."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest

from clawbot.memory.backends.self_healing import SelfHealingBackend
from clawbot.memory.values import SearchResult
from clawbot.plugins.qmd import asking
from clawbot.plugins.qmd.program import QmdPaths, own_environment
from tests.indexing.test_transcripts import talk
from tests.memory.index_host import until
from tests.plugins.qmd.stand_in import Machine, ask, places
from tests.plugins.qmd.test_backend import processes_of

INSTALLED = Path(__file__).parents[2] / ".venv-qmd" / "node_modules"

pytestmark = pytest.mark.skipif(not INSTALLED.exists(), reason="qmd is not installed: `make test-qmd` does that")


class RealMachine(Machine):
    """Its program is the real one, by links that can be taken away."""

    def install(self) -> None:
        [node] = INSTALLED.glob("node-*/bin/node")
        for name, target in {"qmd": INSTALLED / "@tobilu/qmd/bin/qmd", "node": node}.items():
            (self.bin / name).unlink(missing_ok=True)
            (self.bin / name).symlink_to(target)


@pytest.fixture
def machine(tmp_path: Path) -> RealMachine:
    return RealMachine(tmp_path)


def running() -> list[int]:
    """The processes of qmd itself."""
    return [int(process.name) for process in processes_of(str(INSTALLED / "@tobilu/qmd/dist/cli/qmd.js"))]


async def test_notes_talks_and_what_was_just_written_are_found(machine: RealMachine) -> None:
    path = talk(machine.paths.sessions("main"), "the ferry leaves at nine", "Noted.")
    memory = machine.memory()
    assert places(await ask(memory, "where does the staging proxy listen?"))[0] == "memory/2026-11-20.md#L1-L3"
    assert places(await ask(memory, "部署窗口改到什么时候?"))[0] == "memory/2026-11-20.md#L2-L3"
    assert (await ask(memory, "when does the ferry leave")).hits[0].path == f"sessions/{path.name}"
    assert (await ask(memory, "submarine")).hits == ()
    for odd in (
        '"moved to" 8443',
        "-proxy",
        "--json",
        "a; rm -rf /",
        "lex: x\nvec: y",
        'it"s *(proxy)* ^ {',
        "\x00\ud800",
    ):
        assert (await ask(memory, odd)).fallback is None, odd
    machine.write("memory/My Notes 中文 #1%20.md", "- the umbrella is blue\n")
    found = await ask(memory, "umbrella")
    assert places(found) == ["memory/My Notes 中文 #1%20.md#L1"]
    status = await memory.status()
    assert (status.files, status.total_files, status.fallback) == (4, 4, None)
    assert status.identity.startswith("qmd 2.")
    (machine.workspace / "memory" / "2026-11-20.md").unlink()
    await memory.sync()
    assert await memory.scrub()
    assert "8444" not in (machine.paths.home / "memory/qmd/main/index.sqlite").read_bytes().decode("latin-1")
    await memory.close()


async def struck(memory: SelfHealingBackend, blow: signal.Signals) -> SearchResult:
    """A search whose process of qmd gets `blow`, again until one was quick enough to hit."""
    while True:
        search = asyncio.create_task(ask(memory))
        while not search.done():
            for process in running():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, blow)
            await asyncio.sleep(0)
        found = await search
        if found.fallback is not None:
            return found


@pytest.mark.parametrize(
    ("blow", "why"), [(signal.SIGKILL, "ended by signal 9"), (signal.SIGSTOP, "longer than 4 s")], ids=["kill", "hang"]
)
async def test_killed_or_stopped_in_the_middle_the_builtin_index_answers(
    machine: RealMachine, blow: signal.Signals, why: str
) -> None:
    first = machine.memory()
    assert (await ask(first)).fallback is None
    await first.close()
    memory = machine.memory(timeout_ms=4_000)
    found = await struck(memory, blow)
    assert places(found)[0].startswith("MEMORY.md")
    assert found.fallback is not None
    assert why in found.fallback.reason
    assert (await ask(memory)).fallback == found.fallback
    assert len(machine.told) == 1
    await memory.close()
    await until(lambda: running() == [])


async def test_taken_away_and_put_back_and_with_a_broken_database(machine: RealMachine) -> None:
    memory = machine.memory()
    assert (await ask(memory)).fallback is None
    machine.remove()
    away = await ask(memory)
    assert away.hits
    assert away.fallback is not None
    assert "npm install -g @tobilu/qmd" in away.fallback.reason
    machine.install()
    machine.talk = "two"
    assert (await ask(memory)).fallback is None
    database = machine.paths.home / "memory/qmd/main/index.sqlite"
    for file in database.parent.glob("index.sqlite-*"):
        file.unlink()
    database.write_bytes(b"garbage" * 5_000)
    broken = await ask(memory)
    assert broken.hits
    assert broken.fallback is not None
    machine.talk = "three"
    await memory.sync(force=True)
    assert (await ask(memory)).fallback is None
    assert len(machine.told) == 2
    await memory.close()


async def test_its_server_is_used_where_it_runs(machine: RealMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "CHECK_SECONDS", 30.0)  # a machine under load
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = machine.memory()
    await first.sync()
    await first.close()
    program = machine.bin / "qmd"
    folder = machine.paths.home / "memory/qmd/main"
    environment = own_environment(os.environ, QmdPaths(folder, folder), program)
    command = (str(program), "mcp", "--http", "--port", str(port))
    log = folder / "server.log"
    with log.open("wb") as stream:
        server = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd=folder, stdout=stream, stderr=stream
        )
    try:
        await until(lambda: b"listening on" in log.read_bytes())
        memory = machine.memory(daemon_port=port)
        assert places(await ask(memory, "staging proxy"))[0] == "memory/2026-11-20.md#L1-L3"
        # It answers before it logs.
        await until(lambda: b"POST /query" in log.read_bytes())
        await memory.close()
    finally:
        for process in running():
            os.kill(process, signal.SIGKILL)
        await server.wait()
