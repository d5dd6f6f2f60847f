"""A package of somebody else's brings a tool, a memory backend, a hook and a command into a chat."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Machine

pytestmark = pytest.mark.e2e

TURNS = """
turns:
  - expect: {user: roll and remember}
    reply: {tool_calls: [{name: roll, arguments: {sides: 20}}]}
  - expect: {tool_result: "One of 20 in workspace: 4."}
    reply: {tool_calls: [{name: memory_search, arguments: {query: tabs}}]}
  - expect: {tool_result: "the user prefers tabs"}
    reply: Done.
"""


def installed_beside(folder: Path, package: Path) -> Path:
    """The clawbot of a new environment in `folder` that has `package` of its own and all else from this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    libraries = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(libraries, "beside.pth").write_text("\n".join([*site.getsitepackages(), str(ROOT)]), encoding="utf-8")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "-qq", "--disable-pip-version-check"),
            *("install", "--no-deps", "--no-index", "--no-build-isolation", str(package)),
        ],
        check=True,
    )
    return python


def test_a_package_adds_a_tool_a_backend_a_hook_and_a_command(
    machine: Machine, script: Callable[[str], Path], tmp_path: Path
) -> None:
    package = shutil.copytree(Path(__file__).parent / "acme", tmp_path / "acme")
    python = installed_beside(tmp_path / "venv", package)
    machine.configure("memory: {backend: lines}\n")
    machine.workspace.mkdir(mode=0o700)
    (machine.workspace / "MEMORY.md").write_text("- the user prefers tabs\n", encoding="utf-8")

    def clawbot(*arguments: str) -> str:
        done = subprocess.run(
            [str(python), "-m", "clawbot", *arguments],
            env=machine.env,
            cwd=machine.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    model = f"script:{script(TURNS)}"
    assert clawbot("chat", "-p", "roll and remember", "--model", model) == "Done.\n"
    assert (machine.workspace / "heard.md").read_text("utf-8") == "roll and remember"
    assert clawbot("chat", "-p", "/shout hello") == "HELLO!\n"
