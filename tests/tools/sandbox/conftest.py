"""A home with secrets, an agent's workspace in it, and what must not be touched beside them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct

from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import ShellSettings
from clawbot.tools.paths import COMMANDS, agent_fence
from clawbot.tools.protocol import ToolOutcome
from clawbot.tools.sandbox import command as commands
from clawbot.tools.sandbox.bwrap import Missing, probe
from clawbot.tools.sandbox.mounts import Mount
from clawbot.tools.sandbox.policy import Reach, SandboxView, sandbox_view
from tests.tools.conftest import box_of, call, nobody

SECRET = "s3cr3t-of-the-user"
KEPT = "as the user left it"
# Not /tmp, which a command in the sandbox does not see at all.
ROOM = Path("/var/tmp")
# Nor an environment that stands there: the interpreter itself.
PYTHON = os.path.realpath(sys.executable)


class World(Struct, frozen=True):
    """The home of a user. `outside` is a folder beside it, `workspace` the agent's, `state` clawbot's own."""

    home: Path
    state: Path
    workspace: Path
    outside: Path
    tcp: socket.socket
    abstract: socket.socket
    unix: socket.socket

    def run_settings(self, **shell: object) -> Settings:
        """The settings of two agents, main and other."""
        return Settings.model_validate(
            {
                "agents": {
                    "defaults": {"tools": {"shell": {"approval": "allow", "sandbox": "required", **shell}}},
                    "main": {"workspace": str(self.workspace)},
                    "other": {"workspace": str(self.state / "workspace-other")},
                },
                "hooks": {"entries": {"mine": {"enabled": True}, "later": {"enabled": True}}},
            },
            context={"home": self.state},
        )

    async def run(self, command: str, *, seconds: int = 30, **shell: object) -> ToolOutcome:
        """What comes of `command`, with the settings `shell` of the tool."""
        settings = self.run_settings(**shell)
        fence = agent_fence(settings, "main", Paths(self.state))
        toolbox = box_of(self.workspace, settings.agent("main"), fence=fence)
        return await toolbox.run(call("shell", {"command": command, "timeout": seconds}), nobody)

    def shell_settings(self) -> ShellSettings:
        """The settings of the tool, as they are without a word of the test."""
        return self.run_settings().agent("main").tools.shell

    def contents(self) -> dict[str, bytes | str | None]:
        """Everything but what commands may make in the workspace, and clawbot's record of them: path to content, or to
        where a link leads."""
        found: dict[str, bytes | str | None] = {}
        for folder, folders, names in os.walk(self.home.parent):
            here = Path(folder)
            for path in (here / name for name in (*folders, *names)):
                if path.is_relative_to(self.state / COMMANDS):
                    continue
                if (
                    path != self.workspace
                    and path.is_relative_to(self.workspace)
                    and not is_guarded(path.relative_to(self.workspace))
                ):
                    continue
                found[str(path)] = (
                    str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
                )
        return found


def fails_once(monkeypatch: pytest.MonkeyPatch, world: World) -> list[Mount]:
    """The next command meets a socket that goes while its walls are put up. Empty as soon as one has."""
    gone = [Mount(str(world.outside / "gone.sock"), "hidden", folder=False)]

    def surveying(reach: Reach) -> SandboxView:
        view = sandbox_view(reach)
        return msgspec.structs.replace(view, mounts=(*view.mounts, *([gone.pop()] if gone else [])))

    monkeypatch.setattr(commands, "sandbox_view", surveying)
    return gone


GUARDED = ("AGENTS.md", "SOUL.md", "TOOLS.md", "HEARTBEAT.md", "BOOT.md", "BOOTSTRAP.md", ".env")


def is_guarded(path: Path) -> bool:
    """Whether `path`, relative to the workspace, is not for commands to change."""
    return (
        str(path) in GUARDED
        or path.parts[:1] == ("hooks",)
        or path.parts[:2] in ((".git", "hooks"), (".git", "config"))
    )


def write(path: Path, text: str = SECRET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


SECRETS = (
    ".ssh/id_ed25519", ".aws/credentials", ".gnupg/private-keys-v1.d/k", ".config/gh/hosts.yml",
    ".config/gcloud/credentials.db", ".kube/config", ".docker/config.json", ".netrc", ".npmrc", ".pypirc",
    ".git-credentials", ".mozilla/firefox/p/logins.json", ".config/google-chrome/Default/Cookies", ".bash_history",
    ".python_history", ".env", ".cargo/credentials.toml", ".claude/.credentials.json", ".pgpass",
)  # fmt: skip
STATE = (
    "config.yaml", ".env", "logs/clawbot.log", "agents/main/sessions/a.jsonl", "memory/main.sqlite",
    "hooks/own/handler.py", "schedule.json", "workspace-other/AGENTS.md",
)  # fmt: skip


def furnish(top: Path) -> tuple[Path, Path, Path]:
    """Make home, state folder and workspace below `top`."""
    home = top / "home"
    state = home / ".clawbot"
    workspace = state / "workspace"
    for name in SECRETS:
        write(home / name)
    for name in STATE:
        write(state / name)
    write(workspace / ".env")
    write(workspace / "app" / ".env.local")
    for name in ("AGENTS.md", "SOUL.md", "TOOLS.md", "BOOTSTRAP.md", "hooks/mine/handler.py", ".git/hooks/pre-commit"):
        write(workspace / name, KEPT)
    write(workspace / ".git" / "config", "[core]\n\tbare = false")
    write(workspace / ".git" / "HEAD", "ref: refs/heads/main")
    for name in ("objects", "refs"):
        (workspace / ".git" / name).mkdir()
    write(workspace / "notes.md", "a note")
    (workspace / "keys").symlink_to("../../.ssh")
    write(top / "outside" / "open.txt", "can be read")
    return home, state, workspace


@pytest.fixture
async def walls() -> None:
    """Skips the test where the system offers no sandbox, and says what would offer one."""
    found = await probe()
    if isinstance(found, Missing):
        pytest.skip(f"no sandbox here ({found.reason}); to have it tested: {found.remedy}")


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that commands in the sandbox see."""
    folder = Path(tempfile.mkdtemp(prefix="clawbot-", dir=ROOM))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def world(top: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """The home, with somebody who listens on the network and on two kinds of sockets."""
    home, state, workspace = furnish(top)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAWBOT_HOME", str(state))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        abstract.bind(f"\0clawbot-{os.getpid()}-{top.name}")
        unix.bind(str(top / "outside" / "agent.sock"))
        for listener in (tcp, abstract, unix):
            listener.listen()
            listener.setblocking(False)
        yield World(home, state, workspace, top / "outside", tcp, abstract, unix)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the user, with a secret in its environment."""
    with subprocess.Popen(["sleep", "600"], env={"PATH": os.defpath, "KEY": SECRET}, start_new_session=True) as process:
        yield process
        process.kill()


def was_called(listener: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
