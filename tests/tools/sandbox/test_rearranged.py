"""Folders that a command rearranges so that what is guarded, hidden or looked for would lie elsewhere."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import msgspec
import pytest
from pydantic import ValidationError

from clawbot.config.paths import Paths
from clawbot.config.schema_agent import ShellSettings
from clawbot.tools.paths import agent_fence
from clawbot.tools.sandbox import command as commands
from clawbot.tools.sandbox import mounts
from clawbot.tools.sandbox.mounts import walk
from clawbot.tools.sandbox.recovery import Watched, journal, put_right, recover, watched
from tests.tools.conftest import box_of, call, nobody
from tests.tools.sandbox.conftest import KEPT, PYTHON, SECRET, World, fails_once, write

pytestmark = [
    pytest.mark.usefixtures("walls"),
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux alone"),
]


def repository(folder: Path) -> Path:
    """A repository in `folder`; returns its store."""
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder / ".git"


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.few(3)
@pytest.mark.parametrize("way", ["write", "read"])
@pytest.mark.parametrize("where", ["home/pipe", "home/.app/pipe", "outside/a/b/pipe", "workspace/pipe", "home/a b\nc"])
async def test_a_named_pipe_of_the_user_leads_out_of_no_sandbox(world: World, where: str, way: str) -> None:
    top, _, rest = where.partition("/")
    pipe = getattr(world, top) / rest
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        if way == "write":
            await world.run(f"timeout 1 sh -c 'echo x > \"$0\"' {shlex.quote(str(pipe))}")
            with pytest.raises(BlockingIOError):
                os.read(held, 10)
        else:
            os.write(held, f"{SECRET}\n".encode())
            assert SECRET not in (await world.run(f"timeout 1 head -n 1 {shlex.quote(str(pipe))}")).text
    finally:
        os.close(held)


@pytest.mark.parametrize("where", ["pipe", ".app/pipe"])
async def test_nor_does_one_at_which_somebody_waits(world: World, where: str) -> None:
    pipe = world.home / where
    pipe.parent.mkdir(exist_ok=True)
    os.mkfifo(pipe)
    waiting = await asyncio.create_subprocess_exec("cat", str(pipe), stdout=asyncio.subprocess.PIPE)
    await world.run(f"timeout 1 sh -c 'echo x > {pipe}'")
    waiting.terminate()
    assert (await waiting.communicate())[0] == b""


async def test_a_pipe_of_a_command_is_there_for_the_next(world: World) -> None:
    await world.run("mkfifo p")
    assert "through" in (await world.run("echo through > p & cat p")).text


def seen(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_a_server_that_begins_to_listen_where_they_do_is_not_reached(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = world.home / "runtime"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    call = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{folder}/late'); print('connected')"
    command = f'touch started; while ! test -e go; do sleep .05; done; {PYTHON} -I -c "{call}"'
    running = asyncio.create_task(world.run(command))
    await asyncio.to_thread(seen, world.workspace / "started")
    with socket.socket(socket.AF_UNIX) as late:
        late.bind(f"{folder}/late")
        late.listen()
        (world.workspace / "go").touch()
        assert "FileNotFoundError" in (await running).text


class TestRights:
    @pytest.mark.parametrize(
        "command",
        [
            "chmod 000 .",
            "chmod a-x .",
            "chmod a-rwx $PWD; exit 1",
            "chmod u-w .",
            "mkdir -p a/b; chmod -R 000 .",
            "chmod 000 . & sleep 60",
            f"{sys.executable} -c 'import os; os.chmod(\".\", 0o100); os.kill(os.getpid(), 9)'",
            "chmod 000 ../cache .",
        ],
    )
    @pytest.mark.few(2)
    async def test_a_workspace_that_a_command_shut_is_open_to_the_next(self, world: World, command: str) -> None:
        cache = world.home / "cache"
        cache.mkdir()
        for folder in (world.workspace, cache):
            folder.chmod(0o750)
        for told in (f"{command}", f"cd {cache}; chmod 000 . {world.workspace}"):
            await world.run(told, seconds=1, sandbox_write=[str(cache)])
            for folder in (world.workspace, cache):
                assert folder.stat().st_mode & 0o777 == 0o750
        assert "still here" in (await world.run("echo still here > f; cat f")).text

    async def test_rights_that_a_command_adds_stay(self, world: World) -> None:
        world.workspace.chmod(0o700)
        await world.run("chmod 755 .")
        assert world.workspace.stat().st_mode & 0o777 == 0o755

    async def test_it_is_opened_after_a_kill_too(self, world: World) -> None:
        shut = [Watched(str(world.workspace), mode=0o755)]
        async with journal(world.state, world.workspace, 1) as record:
            record.record(shut)
        world.workspace.chmod(0)
        assert recover(world.state, world.workspace) == ""
        assert world.workspace.stat().st_mode & 0o777 == 0o755

    async def test_a_link_at_its_place_is_not_followed(self, world: World, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir(mode=0o700)
        (tmp_path / "w").symlink_to("other")
        put_right([Watched(str(tmp_path / "w"), mode=0o777)])
        assert (tmp_path / "other").stat().st_mode & 0o777 == 0o700


class TestPuttingRight:
    async def test_it_never_follows_a_folder_that_became_a_link(self, world: World) -> None:
        """What is moved and put back lies where it was looked for, not where a link leads by now."""
        store = world.workspace / "proj" / ".git"
        store.mkdir(parents=True)
        (store / "config").symlink_to(world.workspace / "evil")
        write(world.home / ".ssh" / "config", KEPT)
        before = list(watched([f"{store}/config", f"{store}/hooks"], removable=""))
        (world.workspace / "proj").rename(world.workspace / "p2")
        (world.workspace / "proj").mkdir()
        store.symlink_to(world.home / ".ssh")
        found = put_right(before)
        assert text(world.home / ".ssh" / "config") == f"{KEPT}\n"
        assert not (world.home / ".ssh" / "config").is_symlink()
        assert (found.moved, sorted(found.stuck)) == ([], [f"{store}/config", f"{store}/hooks"])

    async def test_nor_by_commands_one_after_the_other(self, world: World) -> None:
        write(world.home / ".ssh" / "config", KEPT)
        await world.run("echo evil > evil; mkdir -p proj/.git; ln -s $PWD/evil proj/.git/config")
        await world.run("mv proj p2; mkdir -p proj; ln -s ~/.ssh proj/.git")
        assert sorted(path.name for path in (world.home / ".ssh").iterdir()) == ["config", "id_ed25519"]
        assert text(world.home / ".ssh" / "config") == f"{KEPT}\n"

    async def test_names_that_are_taken_are_no_hindrance(self, tmp_path: Path) -> None:
        before = list(watched([f"{tmp_path}/a", f"{tmp_path}/b"], removable=""))
        for name in ("a", "b", "a.sandboxed", *(f"a.sandboxed{number}" for number in range(10_000))):
            (tmp_path / name).touch()
        assert len(put_right(before).moved) == 2
        assert not (tmp_path / "a").exists()
        assert not (tmp_path / "b").exists()

    async def test_a_huge_file_is_not_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "BOOTSTRAP.md"
        file.write_bytes(b"ritual")
        before = list(watched([str(file)], removable=str(file)))
        os.truncate(file, 6 << 30)
        modes: list[str] = []
        fdopen = os.fdopen

        def opening(descriptor: int, mode: str) -> IO[bytes]:
            modes.append(mode)
            return fdopen(descriptor, mode)

        monkeypatch.setattr("os.fdopen", opening)
        assert put_right(before).moved == [f"{file}.sandboxed"]
        assert modes == ["wb"]
        assert file.read_bytes() == b"ritual"

    @pytest.mark.parametrize("mode", [0o000, 0o311, 0o555, 0o1555])
    async def test_a_folder_that_was_shut_is_opened_for_it(self, world: World, ordinary: None, mode: int) -> None:
        folder = world.workspace / "made"
        folder.mkdir()
        before = list(watched([f"{folder}/HEARTBEAT.md"], removable=""))
        write(folder / "HEARTBEAT.md", "evil")
        folder.chmod(mode)
        assert put_right(before).moved == [f"{folder}/HEARTBEAT.md.sandboxed"]


@pytest.fixture
def ordinary(world: World) -> Iterator[None]:
    """As a user who is not root, to whom the world belongs."""
    if os.geteuid() != 0:
        yield
        return
    user = 65534
    for folder, _, names in os.walk(world.home.parent):
        for path in (folder, *(os.path.join(folder, name) for name in names)):  # noqa: PTH118
            os.chown(path, user, user, follow_symlinks=False)
    os.seteuid(user)
    yield
    os.seteuid(0)


class TestFoldersAbove:
    """A mount point can't be renamed; the folders above it could make room for another one."""

    async def test_of_a_repository(self, world: World) -> None:
        store = repository(world.workspace / "packages" / "a")
        before = text(store / "config")
        await world.run("mv packages p2; cp -r p2 packages; echo evil >> packages/a/.git/config")
        await world.run("mv packages/a a2; cp -r a2 packages/a; echo evil > packages/a/.git/hooks/pre-commit")
        assert text(store / "config") == before
        assert not (store / "hooks" / "pre-commit").exists()

    async def test_of_instructions_behind_a_link(self, world: World) -> None:
        (world.workspace / "SOUL.md").unlink()
        write(world.workspace / "docs" / "SOUL.md", KEPT)
        (world.workspace / "SOUL.md").symlink_to("docs/SOUL.md")
        await world.run("mv docs d2; mkdir docs; echo evil > docs/SOUL.md")
        assert text(world.workspace / "SOUL.md") == f"{KEPT}\n"

    async def test_of_a_file_of_settings(self, world: World) -> None:
        config = write(world.workspace / "conf" / "clawbot.yaml", KEPT)
        settings = world.run_settings()
        fence = agent_fence(settings, "main", Paths(world.state), config_file=config)
        toolbox = box_of(world.workspace, settings.agent("main"), fence=fence)
        command = "mv conf c2; mkdir conf; echo evil > conf/clawbot.yaml"
        await toolbox.run(call("shell", {"command": command}), nobody)
        assert text(config) == f"{KEPT}\n"

    async def test_of_the_home_that_is_the_workspace(self, world: World) -> None:
        write(world.home / ".config" / "git" / "config", KEPT)
        home = msgspec.structs.replace(world, workspace=world.home)
        await home.run(
            "mv .config c2; mkdir -p .config/git .config/autostart; echo evil > .config/git/config; "
            "echo evil > .config/autostart/a.desktop; mkdir -p .local/bin; echo evil > .local/bin/ls"
        )
        assert text(world.home / ".config" / "git" / "config") == f"{KEPT}\n"
        assert not (world.home / ".config" / "autostart").exists()
        assert not (world.home / ".local" / "bin" / "ls").exists()


class TestRepositories:
    async def test_stores_inside_stores_and_elsewhere_are_guarded(self, world: World) -> None:
        modules = world.workspace / ".git" / "modules" / "group" / "lib"
        write(modules / "HEAD", "ref: refs/heads/main")
        write(world.workspace / ".git" / "worktrees" / "a" / "HEAD", "ref: refs/heads/a")
        write(world.workspace / "apart" / "HEAD", "ref: refs/heads/main")
        write(world.workspace / "sub" / ".git", "gitdir: ../apart")
        kept = [modules / "config", world.workspace / "apart" / "config", world.workspace / "h" / ".hg" / "hgrc"]
        for path in kept:
            write(path, KEPT)
        hooks = modules / "hooks" / "pre-commit"
        write(hooks, KEPT)
        new = world.workspace / ".git" / "worktrees" / "a" / "config.worktree"
        pointer = "echo 'gitdir: evil' > sub/.git; rm -f sub/.git; mv sub s2; "
        await world.run(pointer + " ".join(f"echo evil >> {path};" for path in (*kept, hooks, new)))
        assert [text(path) for path in (*kept, hooks)] == [f"{KEPT}\n"] * 4
        assert not new.exists()
        assert text(world.workspace / "sub" / ".git") == "gitdir: ../apart\n"

    @pytest.mark.parametrize("made", [".git", ".hg", ".jj", "HEAD"])
    async def test_nothing_makes_a_repository_of_the_workspace(self, world: World, made: str) -> None:
        shutil.rmtree(world.workspace / ".git")
        outcome = await world.run(f"mkdir {made}; echo evil > {made}/hgrc")
        assert f"{made}.sandboxed" in outcome.text
        assert not (world.workspace / made).exists()


class TestLooking:
    async def test_many_files_hide_nothing(self, world: World) -> None:
        (world.workspace / "0").mkdir()
        for number in range(20_050):
            (world.workspace / "0" / str(number)).touch()
        assert str(world.workspace / "app" / ".env.local") in walk(str(world.workspace)).secrets

    async def test_what_was_found_once_stays_hidden(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = world.run_settings()
        write(world.workspace / "node_modules" / "a" / ".env")
        toolbox = box_of(world.workspace, settings.agent("main"))
        read = call("shell", {"command": "cat node_modules/a/.env"})
        assert SECRET not in (await toolbox.run(read, nobody)).text
        monkeypatch.setattr(mounts, "MAX_PACKED", 0)
        assert SECRET not in (await toolbox.run(read, nobody)).text

    async def test_what_was_not_searched_is_open_to_no_command(self, world: World) -> None:
        for name in ("a", "b", "c"):
            (world.workspace / name / "x").mkdir(parents=True)
        command = "echo ran; mkdir -p z/.git; echo evil > z/.git/config"
        outcome = await world.run(command, sandbox_folders=4)
        assert outcome.is_error
        assert not (world.workspace / "z").exists()
        for said in (str(world.workspace), f"{world.workspace}/c", "tools.shell.sandbox_folders", "sandbox: off"):
            assert said in outcome.text
        assert not (await world.run("echo ran", sandbox_folders=20)).is_error

    @pytest.mark.parametrize("folder", ["node_modules/a", "node_modules/@b/c", ".venv", "__pycache__", "."])
    @pytest.mark.parametrize("name", [".env", ".ENV", ".env~", ".Env.Local"])
    async def test_files_with_variables(self, world: World, folder: str, name: str) -> None:
        write(world.workspace / folder / name)
        assert str(world.workspace / folder / name) in walk(str(world.workspace)).secrets

    async def test_a_folder_that_nobody_can_look_into_is_hidden(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "app" and access(path, mode))
        assert SECRET not in (await world.run("chmod 755 app; cat app/.env.local")).text
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "workspace" and access(path, mode))
        assert "chmod u+rwx" in (await world.run("cat .env")).text

    async def test_links_in_guarded_places_show_nothing(self, world: World) -> None:
        names = ("config", "hooks", "commondir", "config.worktree")
        targets = (".ssh/id_ed25519", ".clawbot/logs", ".clawbot/workspace-other/AGENTS.md", ".netrc")
        store = world.workspace / "p" / ".git"
        store.mkdir(parents=True)
        for name, target in zip(names, targets, strict=True):
            (store / name).symlink_to(world.home / target)
        read = " ".join(f"{world.home}/{target}" for target in targets)
        outcome = await world.run(f"cat {read} {world.home}/.clawbot/logs/* p/.git/* p/.git/hooks/*; echo ran")
        assert SECRET not in outcome.text
        assert "ran" in outcome.text

    async def test_links_in_hidden_folders(self, world: World) -> None:
        write(world.home / "dotfiles" / "key")
        (world.home / ".aws" / "sso").mkdir()
        (world.home / ".aws" / "sso" / "key").symlink_to(world.home / "dotfiles" / "key")
        assert SECRET not in (await world.run("cat ~/dotfiles/key")).text

    async def test_too_much_to_hide_is_said(self, world: World) -> None:
        for number in range(commands.MAX_HIDDEN_FILES + 1):
            (world.workspace / f".env.{number}").touch()
        outcome = await world.run("echo ran")
        assert outcome.is_error
        assert "The user has to remove some" in outcome.text
        assert str(world.workspace) in outcome.text

    async def test_descriptors_are_not_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[int] = []
        closed: list[int] = []

        def open_some(path: str, flags: int) -> int:
            if len(opened) == 3:
                raise OSError(24, "Too many open files")
            opened.append(len(opened))
            return opened[-1]

        monkeypatch.setattr("os.open", open_some)
        monkeypatch.setattr("os.close", closed.append)
        with pytest.raises(OSError, match="Too many"):
            commands._nothing(5)
        assert closed == opened == [0, 1, 2]

    @pytest.mark.parametrize("name", [b"a\nb.sock", b"a  b.sock", b"a\xff.sock", b"plain.sock"])
    async def test_sockets_with_odd_names(self, world: World, name: bytes) -> None:
        path = os.fsencode(world.outside) + b"/" + name
        program = "import os, socket; socket.socket(socket.AF_UNIX).connect(bytes.fromhex('{}'))"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            server.setblocking(False)
            await world.run(f'{sys.executable} -I -c "{program.format(path.hex())}"')
            with pytest.raises(BlockingIOError):
                await asyncio.to_thread(server.accept)

    async def test_what_vanishes_before_the_start_is_no_failure(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = fails_once(monkeypatch, world)
        outcome = await world.run("echo once >> ran; cat ran")
        assert outcome.text == "once\n[exit 0]"
        assert gone == []

    async def test_a_name_with_brackets_can_be_hidden(self, world: World) -> None:
        write(world.home / "vault" / "k[1]")
        outcome = await world.run("cat ~/vault/*; echo ran", sandbox_hide=["~/vault/k[1]"])
        assert outcome.text == "ran\n[exit 0]"


class TestHomes:
    async def test_of_the_user_database_too(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        other = world.outside / "ada"
        write(other / ".ssh" / "id_ed25519")
        monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_dir=str(other)))
        outcome = await world.run(f"cat {other}/.ssh/* ~/.ssh/*; echo ran")
        assert SECRET not in outcome.text
        assert "ran" in outcome.text

    @pytest.mark.parametrize(
        ("variable", "name"), [("XDG_CONFIG_HOME", "gh/hosts.yml"), ("XDG_DATA_HOME", "atuin/history.db")]
    )
    async def test_folders_that_lie_elsewhere(
        self, world: World, monkeypatch: pytest.MonkeyPatch, variable: str, name: str
    ) -> None:
        write(world.outside / "xdg" / name)
        monkeypatch.setenv(variable, str(world.outside / "xdg"))
        outcome = await world.run(f"cat {world.outside}/xdg/{name}; echo ran")
        assert SECRET not in outcome.text
        assert "ran" in outcome.text

    @pytest.mark.parametrize("name", [".config/sops/age/keys.txt", ".terraformrc", ".cursor/x", ".ollama/id_ed25519"])
    async def test_more_secrets(self, world: World, name: str) -> None:
        write(world.home / name)
        assert SECRET not in (await world.run(f"cat ~/{name}")).text

    @pytest.mark.parametrize("glob", ["/", "//", "/*", "/**", "*"])
    def test_to_hide_everything_is_refused(self, glob: str) -> None:
        with pytest.raises(ValidationError, match="would hide everything"):
            ShellSettings.model_validate({"sandbox_hide": [glob]})
