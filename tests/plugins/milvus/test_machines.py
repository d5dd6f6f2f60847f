"""Several machines on one memory: who writes what, who sees what, and what is left after a kill at each step."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from clawbot.memory.backend import IndexUnavailableError
from clawbot.memory.values import SearchRequest
from clawbot.plugins.milvus.collections import MilvusError
from clawbot.plugins.milvus.connection import LiteUser
from clawbot.plugins.milvus.lite_server import OWNER, USERS, side_file
from tests.plugins.milvus.stand_in import Machines

NOTE = "# Server\n\n- the staging server answers on port 8443\n- 数据库的密码在保险箱里\n"


def long_note(lines: int) -> str:
    return "".join(f"- entry number {line} of the log\n" for line in range(lines))


async def test_a_note_of_one_machine_is_found_on_another(machines: Machines) -> None:
    machines.note("home", "server.md", NOTE)
    await machines.synced("home")
    assert any(
        "8443" in text for text in await machines.found("laptop", "which port does the staging server answer on")
    )
    assert any("保险箱" in text for text in await machines.found("laptop", "数据库密码"))


async def test_own_writes_are_found_at_once(machines: Machines) -> None:
    machines.note("home", "a.md", "- first\n")
    memory = machines.open("home", staleness=3600)
    try:
        await memory.sync()
        await memory.search(SearchRequest(queries=("first",)))
        machines.note("home", "b.md", "- the harbour opens at noon\n")
        found = await memory.search(SearchRequest(queries=("harbour",)))
        assert [hit.path for hit in found.hits] == ["memory/b.md"]
    finally:
        await memory.close()


async def test_what_two_machines_have_is_written_once(machines: Machines) -> None:
    for machine in ("home", "laptop"):
        machines.note(machine, "server.md", NOTE)
        await machines.synced(machine)
    assert len(machines.milvus.written) == len(set(machines.milvus.written)) == 3
    assert sum("8443" in text for text in await machines.found("home", "staging server port 8443")) == 1


async def test_a_passage_lives_as_long_as_one_machine_has_it(machines: Machines) -> None:
    for machine in ("home", "laptop"):
        machines.note(machine, "server.md", NOTE)
        await machines.synced(machine)
    machines.note("home", "server.md", None)
    await machines.synced("home")
    assert len(machines.texts) == 3
    machines.note("laptop", "server.md", None)
    await machines.synced("laptop")
    assert machines.texts == []
    # What is left are the tombstones.
    assert {row["state"] for row in machines.milvus.rows.values()} == {"gone"}


async def test_a_file_that_grows_writes_its_last_block_alone(machines: Machines) -> None:
    machines.note("home", "log.md", long_note(100))
    await machines.synced("home")
    machines.milvus.written.clear()
    machines.note("home", "log.md", long_note(101))
    await machines.synced("home")
    assert len(machines.milvus.written) == 5
    assert len(machines.texts) == 101
    assert await machines.problems("home") == ()


async def test_an_agent_sees_its_own_and_those_allowed_by_name(machines: Machines) -> None:
    machines.note("lab", "plan.md", "- the violin is in the harbour\n")
    await machines.synced("lab", "research")
    await machines.synced("lab", "secret")
    question = "where is the violin"
    assert await machines.found("home", question) == []
    machines.milvus.asked.clear()
    assert await machines.found("home", question, agents={"main": ["research"]}) != []
    assert set(machines.milvus.asked) <= {frozenset({"main"}), frozenset({"main", "research"})}
    assert await machines.found("home", question, agents={"secret": ["research"]}) == []


async def test_a_kill_at_any_step_loses_and_doubles_nothing(machines: Machines) -> None:
    """The first version, a longer one, one without the middle, and its end: killed at each write of each."""
    milvus = machines.milvus
    versions: list[str | None] = [long_note(70), long_note(100), long_note(20) + long_note(60), None]
    kills = 0
    for text in versions:
        machines.note("home", "log.md", text)
        step = 1
        while True:
            milvus.writes, milvus.fails_at = 0, step
            try:
                await machines.synced("home")
                break
            except MilvusError:
                kills += 1
                step += 1
        milvus.fails_at = 0
        await machines.synced("home")
        assert machines.texts == sorted(line for line in (text or "").splitlines())
        assert await machines.problems("home") == ()
    assert kills > 10


async def test_verify_finds_and_mends_what_is_lost_and_what_is_left_over(machines: Machines) -> None:
    machines.note("home", "log.md", long_note(40))
    await machines.synced("home")
    milvus = machines.milvus
    lost = next(iter(milvus.passages))
    stray = {**milvus.passages.pop(lost), "id": 77, "block": 2}
    milvus.passages[77] = stray
    told = " ".join(await machines.problems("home"))
    assert "lost 1 passages" in told
    assert "belong to no file" in told
    await machines.problems("home", fix=True)
    assert await machines.problems("home") == ()
    assert machines.texts == sorted(long_note(40).splitlines())


async def test_a_block_that_another_machine_deletes_is_written_after_that(machines: Machines) -> None:
    machines.note("home", "server.md", NOTE)
    await machines.synced("home")
    machines.note("home", "server.md", None)
    # Killed between its tombstone and the deletion.
    milvus = machines.milvus
    milvus.writes, milvus.fails_at = 0, 2
    with pytest.raises(MilvusError):
        await machines.synced("home")
    milvus.fails_at = 0
    machines.note("laptop", "server.md", NOTE)
    await machines.synced("laptop")
    assert await machines.found("laptop", "staging server port 8443") == []
    await machines.synced("home")
    await machines.synced("laptop")
    assert await machines.problems("laptop") == ()
    assert sum("8443" in text for text in await machines.found("laptop", "staging server port 8443")) == 1


async def test_the_status_knows_what_another_process_wrote(machines: Machines) -> None:
    machines.note("home", "server.md", NOTE)
    await machines.synced("home")
    memory = machines.open("home")
    try:
        status = await memory.status()
        assert not status.dirty
        assert status.last_sync is not None
        machines.note("home", "server.md", f"{NOTE}- one more\n")
        assert (await memory.status()).dirty
    finally:
        await memory.close()


async def test_what_fails_is_an_error_of_ours_and_the_next_call_connects_anew(machines: Machines) -> None:
    machines.note("home", "server.md", NOTE)
    memory = machines.open("home")
    try:
        machines.milvus.fails_at = 1
        with pytest.raises(IndexUnavailableError, match="killed"):
            await memory.search(SearchRequest(queries=("port",)))
        assert "killed" in memory.problem
        assert (await memory.search(SearchRequest(queries=("port 8443",)))).hits
        assert memory.problem == ""
    finally:
        await memory.close()


@pytest.mark.parametrize("suffix", [USERS, OWNER, ".log"])
def test_a_full_disk_is_named_where_milvus_lite_would_be_started(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "milvus" / "memory.db"
    full = side_file(database, suffix)
    open_file = os.open

    def opened(path: Path, *how: int, **more: int) -> int:
        if path == full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return open_file(path, *how, **more)

    monkeypatch.setattr(os, "open", opened)
    user = LiteUser(database)
    with pytest.raises(MilvusError, match=r"memory\.db.*No space left on device\. Make room"):
        user.address()
    user.close()


@pytest.mark.parametrize("step", range(1, 4))
async def test_a_full_disk_leaves_what_was_written_and_the_next_sync_writes_the_rest(
    step: int, machines: Machines
) -> None:
    machines.note("home", "server.md", NOTE)
    await machines.synced("home")
    machines.note("home", "log.md", long_note(40))
    memory, milvus = machines.open("home"), machines.milvus
    try:
        milvus.writes, milvus.fails_at = 0, step
        with pytest.raises(MilvusError, match="failed to write"):
            await memory.sync()
        milvus.fails_at = 0
        assert (await memory.search(SearchRequest(queries=("staging server port 8443",)))).hits
        await memory.sync()
        assert (await memory.verify()).clean
        assert len(machines.texts) == 43
    finally:
        await memory.close()
