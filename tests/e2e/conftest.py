"""Real processes: a home of their own, no keys, and a scripted model served on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
CLAWBOT = [sys.executable, "-m", "clawbot"]
# Taken before any test moves the environment away: what pip needs here to reach its index.
PIP_ENVIRONMENT = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))} | {
    "HOME": os.environ.get("HOME", "/")
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as `long`, except the smoke set."""
    for item in items:
        if item.path.parent == FOLDER and item.get_closest_marker("smoke") is None:
            item.add_marker("long")


@dataclass(frozen=True)
class Machine:
    """A user's machine: a home, a folder to stand in, and what can be run there."""

    home: Path
    folder: Path
    env: dict[str, str]
    stack: ExitStack

    @property
    def state(self) -> Path:
        """What clawbot wrote."""
        return self.home / ".clawbot"

    @property
    def workspace(self) -> Path:
        """The default workspace."""
        return self.state / "workspace"

    def configure(self, text: str) -> None:
        """Write the user's config.yaml."""
        self.state.mkdir(mode=0o700, exist_ok=True)
        (self.state / "config.yaml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a clawbot command to its end."""
        return subprocess.run(
            [*CLAWBOT, *arguments],
            input=stdin,
            env={**self.env, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )

    def open(self, *arguments: str, columns: int = 100, rows: int = 30) -> Terminal:
        """Open the chat in a terminal of its own."""
        log = self.state / "logs" / "clawbot.log"
        terminal = Terminal([*CLAWBOT, *arguments], env=self.env, cwd=self.folder, columns=columns, rows=rows, log=log)
        return self.stack.enter_context(terminal)

    def serve(self, script: Path, more: str = "") -> str:
        """Serve a script and use it as the model, with `more` settings of the agents; returns the URL."""
        process = subprocess.Popen(
            [*CLAWBOT, "script", "serve", str(script)],
            env=self.env,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        assert process.stdout is not None
        self.stack.callback(process.stdout.close)
        line = process.stdout.readline()
        url = line.rpartition(" ")[2].strip()
        assert url.startswith("http://127.0.0.1:"), line
        defaults = (
            f"model: openai/scripted, api_base: '{url}', api_key: test-key-123456, keep_client: 0{more and ', '}{more}"
        )
        self.configure(f"agents: {{defaults: {{{defaults}}}}}\n")
        return url


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A fresh machine without keys."""
    home = tmp_path / "home"
    folder = tmp_path / "folder"
    home.mkdir()
    folder.mkdir()
    # The checkout that these tests belong to, not the one that is installed.
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": str(ROOT)}
    with ExitStack() as stack:
        yield Machine(home, folder, env, stack)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a script file."""

    def write(text: str) -> Path:
        path = tmp_path / "script.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
