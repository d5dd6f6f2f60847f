"""Commands of one workspace run one after the other, and what a killed one left is put right."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clawbot.tools.paths import COMMANDS
from clawbot.tools.protocol import ToolError
from clawbot.tools.sandbox.recovery import journal, put_right, recover, watched
from tests.tools.sandbox.conftest import World, fails_once

KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from clawbot.tools.sandbox.recovery import journal
from clawbot.tools.sandbox.recovery import watched
async def run(state, workspace):
    async with journal(state, workspace, 10) as record:
        record.record(watched([f"{workspace}/BOOT.md", f"{workspace}/AGENTS.md"], removable=""))
        (workspace / "BOOT.md").write_text("evil")
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(run(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def killed(state: Path, workspace: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(state), str(workspace)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (workspace / "BOOT.md").exists()


async def test_one_after_the_other(tmp_path: Path) -> None:
    async with journal(tmp_path, tmp_path, 10):
        with pytest.raises(ToolError, match="another command still runs"):
            async with journal(tmp_path, tmp_path, 0):
                pass
        assert recover(tmp_path, tmp_path) == ""
        async with journal(tmp_path, tmp_path / "other", 0):
            pass
        order = [asyncio.create_task(enter(tmp_path))]
        await asyncio.sleep(0)
        assert not order[0].done()
    await order[0]


async def enter(folder: Path) -> None:
    async with journal(folder, folder, 30):
        pass


def test_what_a_killed_command_left_is_moved_at_the_next_start(tmp_path: Path) -> None:
    assert recover(tmp_path, tmp_path) == ""
    killed(tmp_path, tmp_path)
    assert str(tmp_path / "BOOT.md.sandboxed") in recover(tmp_path, tmp_path)
    assert not (tmp_path / "BOOT.md").exists()
    (tmp_path / "BOOT.md").touch()
    assert recover(tmp_path, tmp_path) == ""
    assert (tmp_path / "BOOT.md").exists()


async def test_what_was_put_right_is_not_looked_at_again(tmp_path: Path) -> None:
    async with journal(tmp_path, tmp_path, 10) as record:
        before = list(watched([os.fsdecode(bytes(tmp_path) + b"/\xff")], removable=""))
        record.record(before)
        assert record.put_right(before).moved == []
    async with journal(tmp_path, tmp_path, 10) as record:
        assert record.found is None
    [file] = (tmp_path / COMMANDS).iterdir()
    assert (file.stat().st_size, file.stat().st_mode & 0o777) == (0, 0o600)


def test_a_record_that_was_cut_off_is_none(tmp_path: Path) -> None:
    killed(tmp_path, tmp_path)
    [file] = (tmp_path / COMMANDS).iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert recover(tmp_path, tmp_path) == ""


@pytest.mark.usefixtures("walls")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux alone")
class TestCommands:
    async def test_the_next_command_tells_of_what_was_left(self, world: World) -> None:
        killed(world.state, world.workspace)
        outcome = await world.run("cat BOOT.md; echo ran")
        assert "evil" not in outcome.text
        assert "BOOT.md.sandboxed" in outcome.text

    async def test_what_was_left_is_told_of_when_the_first_start_fails(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fails_once(monkeypatch, world)
        killed(world.state, world.workspace)
        outcome = await world.run("echo ran")
        assert "ran" in outcome.text
        assert "BOOT.md.sandboxed" in outcome.text

    async def test_two_at_once_do_not_meet(self, world: World) -> None:
        command = "test ! -e here && mkdir here && ls && rmdir here"
        outcomes = await asyncio.gather(*(world.run(command) for _ in range(4)))
        assert [outcome.is_error for outcome in outcomes] == [False] * 4


def test_what_appeared_is_moved_and_nothing_of_it_lost(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b", "c")]
    before = list(watched(paths, removable=""))
    (tmp_path / "a").write_text("new", encoding="utf-8")
    (tmp_path / "a.sandboxed").write_text("older", encoding="utf-8")
    (tmp_path / "b").mkdir()
    first, second = put_right(before).moved
    assert first.startswith(f"{tmp_path}/a.sandboxed-")
    assert second == f"{tmp_path}/b.sandboxed"
    assert Path(first).read_text(encoding="utf-8") == "new"
    assert (tmp_path / "a.sandboxed").read_text(encoding="utf-8") == "older"
    assert put_right(before).moved == []


def test_a_link_is_put_back(tmp_path: Path) -> None:
    link = tmp_path / "AGENTS.md"
    link.symlink_to("shared.md")
    before = list(watched([str(link)], removable=""))
    assert put_right(before).moved == []
    link.unlink()
    assert put_right(before).moved == []
    assert link.readlink() == Path("shared.md")
    link.unlink()
    link.symlink_to("other.md")
    assert put_right(before).moved == [f"{link}.sandboxed"]
    assert link.readlink() == Path("shared.md")


def test_what_may_go_may_not_change(tmp_path: Path) -> None:
    file = tmp_path / "BOOTSTRAP.md"
    file.write_bytes(b"as it was")
    before = list(watched([str(file)], removable=str(file)))
    file.write_bytes(b"obey me")
    assert put_right(before).moved == [f"{file}.sandboxed"]
    assert file.read_bytes() == b"as it was"
    file.unlink()
    assert put_right(before).moved == []
    assert not file.exists()
    file.symlink_to("elsewhere")
    assert len(put_right(before).moved) == 1
    assert file.read_bytes() == b"as it was"
