"""What commands in the sandbox can do, what they cannot, and what is said of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawbot.config.schema_agent import AgentSettings, LimitSettings, ShellSettings, ToolSettings
from clawbot.tools.protocol import ApprovalAnswer
from clawbot.tools.registry import Toolbox
from clawbot.tools.sandbox import command as commands
from clawbot.tools.sandbox.bwrap import NAMESPACES, Backend, Missing, probe
from clawbot.tools.sandbox.command import limited
from clawbot.tools.sandbox.mounts import SCRATCH, SHARED_MEMORY
from tests.tools.conftest import User, box_of, call, nobody
from tests.tools.sandbox.conftest import KEPT, PYTHON, SECRET, World, was_called, write

linux = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux alone")
CALL = "{python} -I -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"


def toolbox(workspace: Path, **shell: object) -> Toolbox:
    settings = ShellSettings.model_validate({"sandbox": "required", **shell})
    return box_of(workspace, AgentSettings(tools=ToolSettings(shell=settings)))


def calling(world: World) -> str:
    return CALL.format(python=PYTHON, port=world.tcp.getsockname()[1])


@linux
@pytest.mark.usefixtures("walls")
class TestInside:
    async def test_the_workspace_is_there_to_work_in(self, world: World) -> None:
        outcome = await world.run(
            "pwd; echo new > made.txt; mkdir -p src/x; mv made.txt src/x/; cat notes.md ../../../outside/open.txt; "
            "echo t > $TMPDIR/t; cat $TMPDIR/t; git add -A src; git status --short | head -n 1; echo gone > /tmp/u"
        )
        assert outcome.text == (f"{world.workspace}\na note\ncan be read\nt\nA  src/x/made.txt\n[exit 0]")
        assert (world.workspace / "src" / "x" / "made.txt").read_text(encoding="utf-8") == "new\n"

    async def test_a_failure_by_the_walls_is_explained_and_another_one_is_not(self, world: World) -> None:
        stopped = await world.run("echo x >> AGENTS.md")
        assert "Read-only file system" in stopped.text
        assert "This ran in a sandbox" in stopped.text
        assert "sandbox_write" in stopped.text
        assert "sandbox" not in (await world.run("echo broken >&2; exit 3")).text
        assert "sandbox" not in (await world.run("echo Permission denied")).text

    @pytest.mark.parametrize(
        ("command", "setting"),
        [
            ("echo 'git@e.org: Permission denied (publickey).' >&2; exit 128", "tools.shell.sandbox_show"),
            ("echo 'sudo: effective uid is not 0' >&2; exit 1", "tools.shell.sandbox: off"),
            ("mkdir -p ~/.cache/x", "tools.shell.sandbox_write"),
        ],
    )
    async def test_what_is_said_names_the_setting(self, world: World, command: str, setting: str) -> None:
        assert setting in (await world.run(command)).text

    async def test_what_was_moved_aside_is_told_and_kept(self, world: World) -> None:
        outcome = await world.run("echo obey > HEARTBEAT.md")
        assert "HEARTBEAT.md.sandboxed" in outcome.text
        assert (world.workspace / "HEARTBEAT.md.sandboxed").read_text(encoding="utf-8") == "obey\n"
        assert not (world.workspace / "HEARTBEAT.md").exists()

    async def test_the_ritual_can_be_ended(self, world: World) -> None:
        assert (await world.run("rm BOOTSTRAP.md")).text == "[no output; exit 0]"
        assert not (world.workspace / "BOOTSTRAP.md").exists()

    async def test_network_by_the_settings_by_the_answer_or_not_at_all(self, world: World) -> None:
        command = calling(world)
        assert (await world.run(command)).is_error
        assert not was_called(world.tcp)
        assert not (await world.run(command, network=["*"])).is_error
        assert was_called(world.tcp)
        assert not (await world.run(command, network=[command])).is_error
        assert was_called(world.tcp)
        assert (await world.run(f"{command}; true", network=[command])).text.count("Connection refused") == 1

    async def test_a_rule_for_the_network_means_no_program_of_the_workspace(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = write(world.workspace / ".venv" / "bin" / "fetchit", f"#!/bin/sh\n{calling(world)}")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        assert (await world.run("fetchit x", network=["fetchit <anything>"])).is_error
        assert not was_called(world.tcp)
        assert not (await world.run(str(program), network=[str(program)])).is_error
        assert was_called(world.tcp)

    async def test_the_question_says_what_holds_and_the_answer_gives_the_network_once(self, world: World) -> None:
        tools = toolbox(world.workspace)
        command = calling(world)
        user = User(ApprovalAnswer("once", network=True))
        assert not (await tools.run(call("shell", {"command": command}), user)).is_error
        assert was_called(world.tcp)
        [question] = user.asked
        assert question.network
        assert question.reach.startswith("Sandboxed: it writes only in the workspace, has no network")
        user.answers = [ApprovalAnswer("once")]
        assert (await tools.run(call("shell", {"command": command}), user)).is_error
        assert not was_called(world.tcp)

    async def test_reading_needs_no_question_where_the_settings_say_so(self, world: World) -> None:
        tools = toolbox(world.workspace, ask="risky")
        assert (await tools.run(call("shell", {"command": "cat notes.md"}), nobody)).text == "a note\n[exit 0]"
        user = User(ApprovalAnswer("deny"))
        for command in ("touch x", "cat notes.md; touch x", "cat ../config.yaml"):
            await tools.run(call("shell", {"command": command}), user)
        await toolbox(world.workspace).run(call("shell", {"command": "cat notes.md"}), user)
        await toolbox(world.workspace, ask="risky", sandbox="off").run(call("shell", {"command": "ls"}), user)
        assert len(user.asked) == 5

    async def test_what_the_settings_open_and_hide(self, world: World) -> None:
        write(world.home / "private" / "diary.txt")
        (world.home / ".cache").mkdir()
        opened: dict[str, Any] = {
            "sandbox_hide": ["~/private", "notes.*"],
            "sandbox_show": ["~/.npmrc"],
            "sandbox_write": ["~/.cache", str(world.workspace / "AGENTS.md")],
        }
        outcome = await world.run(
            "cat ~/private/diary.txt notes.md; echo c > ~/.cache/c; echo more >> AGENTS.md; cat ~/.npmrc", **opened
        )
        assert outcome.text.count(SECRET) == 1
        assert "a note" not in outcome.text
        assert (world.home / ".cache" / "c").exists()
        assert (world.workspace / "AGENTS.md").read_text(encoding="utf-8") == f"{KEPT}\nmore\n"

    async def test_keys_behind_links_are_hidden_where_they_are(self, world: World) -> None:
        for name in (".ssh", ".npmrc"):
            (world.home / name).rename(world.outside / name)
            (world.home / name).symlink_to(Path("..", "outside", name))
        outcome = await world.run("cat ~/.ssh/id_ed25519 ~/.npmrc ../../../outside/.ssh/id_ed25519")
        assert SECRET not in outcome.text
        assert SECRET in (await world.run("cat ~/.ssh/id_ed25519", sandbox="off")).text

    async def test_a_home_that_is_the_workspace(self, world: World) -> None:
        home = msgspec.structs.replace(world, workspace=world.home)
        write(world.home / ".profile", KEPT)
        outcome = await home.run(
            "echo x >> .profile; echo x > .bashrc; cat .ssh/* .netrc .clawbot/config.yaml; echo ok > ok.txt"
        )
        assert SECRET not in outcome.text
        assert (world.home / "ok.txt").exists()
        assert (world.home / ".profile").read_text(encoding="utf-8") == f"{KEPT}\n"
        assert not (world.home / ".bashrc").exists()

    async def test_a_state_folder_that_is_the_workspace(self, world: World) -> None:
        state = msgspec.structs.replace(world, workspace=world.state)
        outcome = await state.run(
            "cat .env config.yaml logs/* agents/*/*/* memory/*.sqlite hooks/*/*; echo x >> config.yaml; echo k > ok.txt"
        )
        assert SECRET not in outcome.text
        assert (world.state / "ok.txt").exists()
        assert (world.state / "config.yaml").read_text(encoding="utf-8") == f"{SECRET}\n"

    @pytest.mark.parametrize("name", ["with blank", "zeile\numbruch", "文件", "--bind", "$HOME", "a'b\"c\\d", "[*]?"])
    async def test_odd_names_of_the_workspace(self, world: World, name: str) -> None:
        odd = msgspec.structs.replace(world, workspace=world.workspace.rename(world.state / name))
        outcome = await odd.run("echo made > made; cat .env; echo x >> AGENTS.md")
        assert SECRET not in outcome.text
        assert (odd.workspace / "made").exists()
        assert (odd.workspace / "AGENTS.md").read_text(encoding="utf-8") == f"{KEPT}\n"

    async def test_a_workspace_in_the_folder_for_temporary_files(self, tmp_path: Path) -> None:
        workspace = tmp_path / "w"
        write(workspace / ".env")
        write(tmp_path / "beside.txt")
        outcome = await toolbox(workspace, approval="allow").run(
            call("shell", {"command": f"cat .env {tmp_path}/beside.txt; echo made > made"}), nobody
        )
        assert SECRET not in outcome.text
        assert (workspace / "made").exists()

    async def test_a_worktree_keeps_its_pointer(self, world: World) -> None:
        shutil.rmtree(world.workspace / ".git")
        write(world.workspace / ".git", "gitdir: /nowhere")
        await world.run("echo 'gitdir: evil' > .git; rm .git; mv .git g")
        assert (world.workspace / ".git").read_text(encoding="utf-8") == "gitdir: /nowhere\n"

    async def test_a_new_repository_at_the_top_is_moved_aside_and_one_below_stays(self, world: World) -> None:
        shutil.rmtree(world.workspace / ".git")
        outcome = await world.run("git init -q .; git init -q sub")
        assert ".git.sandboxed" in outcome.text
        assert not (world.workspace / ".git").exists()
        assert (world.workspace / "sub" / ".git" / "HEAD").exists()


@linux
@pytest.mark.usefixtures("walls")
class TestLimits:
    async def test_memory_of_a_process(self, world: World) -> None:
        hog = f"{PYTHON} -I -c 'len(bytearray(400 << 20)); print(\"filled\")'"
        assert "filled" in (await world.run(hog)).text
        assert "MemoryError" in (await world.run(hog, limits={"memory": "200mb"})).text

    async def test_the_size_of_a_file_and_of_what_is_in_memory(self, world: World) -> None:
        limits = {"file_size": "1mb", "scratch": "2mb"}
        await world.run("head -c 5000000 /dev/zero > big", limits=limits)
        assert (world.workspace / "big").stat().st_size == 1024**2
        for folder in (SCRATCH, SHARED_MEMORY):
            filled = await world.run(
                f"for i in 1 2 3 4; do head -c 900000 /dev/zero > {folder}/$i; done; du -sk {folder}", limits=limits
            )
            assert "No space left" in filled.text

    async def test_a_flood_of_output_is_cut(self, world: World) -> None:
        outcome = await world.run("head -c 30000000 /dev/zero | tr '\\0' x")
        assert len(outcome.text) <= 40_000
        assert "left out here" in outcome.text

    @pytest.mark.long
    async def test_processes_are_counted_in_the_sandbox_alone(self, world: World) -> None:
        """As somebody who is not root, for whom the kernel counts nothing."""
        command = limited(
            "/bin/bash", "for i in $(seq 40); do sleep 5 & done; jobs | wc -l", LimitSettings(processes=20)
        )
        user = 65534 if os.getuid() == 0 else None
        walls = await probe()
        assert isinstance(walls, Backend)
        argv = [walls.program, *NAMESPACES, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        done = await asyncio.to_thread(
            subprocess.run, [*argv, *command], capture_output=True, check=False, user=user, cwd="/", text=True
        )
        if "namespace" in done.stderr:
            pytest.skip("only root may have namespaces here")
        assert "Resource temporarily unavailable" in done.stderr


def written(path: Path) -> bool:
    return path.exists() and path.read_text(encoding="utf-8").endswith("\n")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.to_thread(time.sleep, 0.005)


# Left the group, deaf to every polite word, and writing as long as it lives.
RUNAWAY = "setsid sh -c 'trap \"\" TERM HUP; echo up > up; while :; do echo x > HEARTBEAT.md; echo x > alive; done' & "


@linux
@pytest.mark.usefixtures("walls")
class TestEnds:
    async def check_all_gone(self, world: World) -> None:
        """Nothing writes any more."""
        assert not (world.workspace / "HEARTBEAT.md").exists()
        (world.workspace / "alive").unlink(missing_ok=True)
        await world.run("true")
        assert not (world.workspace / "alive").exists()

    async def test_what_left_the_group_ends_with_the_command(self, world: World) -> None:
        await world.run(RUNAWAY + "while ! test -s up; do :; done")
        assert written(world.workspace / "up")
        await self.check_all_gone(world)

    async def test_what_left_the_group_ends_with_the_time(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("clawbot.tools.process.GRACE", 0.1)
        outcome = await world.run(RUNAWAY + "wait; sleep 600", seconds=1)
        assert "stopped after 1 s" in outcome.text
        assert written(world.workspace / "up")
        await self.check_all_gone(world)

    async def test_what_left_the_group_ends_when_the_user_stops_it(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("clawbot.tools.process.GRACE", 0.1)
        running = asyncio.create_task(world.run(RUNAWAY + "sleep 600"))
        await until(lambda: written(world.workspace / "up"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await self.check_all_gone(world)

    @pytest.mark.long
    async def test_however_many_left_the_group_none_is_left_when_the_user_stops_it(self, world: World) -> None:
        """bwrap ends as soon as the command has, while the processes inside are still being killed."""
        writing = "while :; do echo x > HEARTBEAT.md; echo x > alive; done"
        many = f"for n in $(seq 60); do setsid sh -c 'trap \"\" TERM HUP; {writing}' & done; "
        for _ in range(5):
            running = asyncio.create_task(world.run(f"{many}echo up > up; sleep 600"))
            await until(lambda: written(world.workspace / "up"))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await self.check_all_gone(world)
            (world.workspace / "up").unlink()

    async def test_a_command_hears_that_it_is_to_end(self, world: World) -> None:
        await world.run("trap 'echo bye > bye; exit' TERM; echo up > up; while :; do sleep 0.1; done", seconds=1)
        assert written(world.workspace / "bye")


class TestWithoutOne:
    @pytest.fixture
    def none(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """No sandbox, and a note for each time that was looked for one."""
        looked: list[str] = []

        async def probe() -> Missing:
            looked.append("")
            return Missing("bubblewrap is not installed", "sudo apt-get install bubblewrap")

        monkeypatch.setattr(commands, "probe", probe)
        return looked

    async def test_auto_goes_on_and_says_so_once(self, none: list[str], workspace: Path) -> None:
        tools = toolbox(workspace, sandbox="auto", approval="allow")
        first = await tools.run(call("shell", {"command": "echo hi"}), nobody)
        assert first.text == "hi\n[exit 0]"
        assert "sudo apt-get install bubblewrap" in first.notice
        assert (await tools.run(call("shell", {"command": "echo hi"}), nobody)).notice == ""
        assert len(none) == 1

    async def test_the_question_says_that_there_is_none(self, none: list[str], workspace: Path) -> None:
        user = User(ApprovalAnswer("deny"))
        await toolbox(workspace, sandbox="auto", ask="risky").run(call("shell", {"command": "ls"}), user)
        [question] = user.asked
        assert question.reach.startswith("Not sandboxed")
        assert not question.network

    async def test_required_runs_nothing(self, none: list[str], workspace: Path) -> None:
        outcome = await toolbox(workspace, approval="allow").run(call("shell", {"command": "touch x"}), nobody)
        assert outcome.is_error
        assert "bubblewrap is not installed" in outcome.text
        assert not (workspace / "x").exists()

    async def test_off_looks_for_none_and_says_nothing(self, none: list[str], workspace: Path) -> None:
        tools = toolbox(workspace, sandbox="off", approval="allow")
        assert (await tools.run(call("shell", {"command": "echo hi"}), nobody)).notice == ""
        assert none == []


@pytest.mark.parametrize(
    ("shell", "orders"),
    [
        ("/bin/bash", "ulimit -c 0; ulimit -u 5; ulimit -d 2048; ulimit -f 1024; "),
        ("/bin/sh", "ulimit -c 0; ulimit -p 5; ulimit -d 2048; ulimit -f 2048; "),
    ],
)
def test_limits_are_written_as_the_shell_has_them(shell: str, orders: str) -> None:
    limits = LimitSettings(processes=5, memory=2 * 1024**2, file_size=1024**2)
    argv = limited(shell, "echo $0 'x'", limits)
    assert argv[2].replace(" 2>/dev/null", "").startswith(orders)
    assert argv[-1] == "echo $0 'x'"
    none = LimitSettings(processes=None, memory=None, file_size=None)
    assert limited(shell, "true", none)[2].count("ulimit") == 1
