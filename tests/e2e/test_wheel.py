"""The wheel in an empty environment, far from the checkout, works like the checkout does."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.conftest import PIP_ENVIRONMENT, Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

CHECKOUT = Path(__file__).parents[2]


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip quietly, with the index that this machine is set up for."""
    done = subprocess.run(
        [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", *arguments],
        env={**PIP_ENVIRONMENT, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_wheel_carries_what_it_needs_and_runs_anywhere(machine: Machine, tmp_path: Path) -> None:
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(CHECKOUT))
    (wheel,) = tmp_path.glob("clawbot-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for shipped in (
        "config.yaml",
        "hooks/session-memory/HOOK.md",
        "hooks/session-memory/naming.py",
        "workspace_template/AGENTS.md",
    ):
        assert f"clawbot/shipped/{shipped}" in names
    assert "clawbot/tools/shell_reading.toml" in names
    assert "clawbot/locale/zh/LC_MESSAGES/clawbot.mo" in names
    # PEP 770 says where the bill of materials lies.
    (bill,) = [name for name in names if name.endswith(".dist-info/sboms/sbom.cdx.json")]
    assert zipfile.ZipFile(wheel).read(bill) == (CHECKOUT / "sbom.cdx.json").read_bytes()

    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    pip(python, "install", "--require-hashes", "-r", str(CHECKOUT / "requirements.lock"))
    pip(python, "install", "--no-deps", str(wheel))
    clawbot = tmp_path / "venv/bin/clawbot"
    env = {name: value for name, value in machine.env.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(clawbot), *arguments], env=env, cwd=machine.folder, capture_output=True, text=True, check=False
        )

    assert "Noted" in run("chat", "-p", "remember that I prefer tabs").stdout
    assert "I prefer tabs" in run("chat", "-p", "what do I prefer?").stdout
    assert (machine.workspace / "AGENTS.md").exists()
    assert run("config", "check").returncode == 0
    where = subprocess.run(
        [str(python), "-c", "import clawbot; print(clawbot.__file__)"],
        env=env, cwd=machine.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path) in where.stdout
