"""The set-up that `make` does by itself: which Python it takes, and what it does after it was cut off."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
MADE = ".venv/.made"
# Stands in for Python: fit to run clawbot, and quick at making environments.
FAKE = """#!/bin/sh
[ "$1" = -c ] && exit 0
echo "$@" >>runs
rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python
"""


pytestmark = pytest.mark.smoke


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "check out"
    folder.mkdir()
    shutil.copy(MAKEFILE, folder)
    _script(folder / "python", FAKE)
    return folder


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], check=False, cwd=folder, capture_output=True, text=True, timeout=60)


def _runs(folder: Path) -> list[str]:
    return (folder / "runs").read_text().splitlines()


def test_an_environment_is_made_once(checkout: Path) -> None:
    for _ in range(2):
        assert _make(checkout, MADE, "PYTHON=./python").returncode == 0

    assert _runs(checkout) == ["-m venv --clear .venv"]


def test_an_environment_that_was_cut_off_is_made_anew(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    _script(checkout / ".venv" / "bin" / "python", FAKE)

    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0

    assert _runs(checkout) == ["-m venv --clear .venv"]


def test_an_environment_whose_python_has_gone_is_made_anew(checkout: Path) -> None:
    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "bin" / "python").symlink_to("/nowhere/python3")

    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0

    assert len(_runs(checkout)) == 2


def test_an_environment_that_was_moved_is_made_anew(checkout: Path) -> None:
    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0
    moved = checkout.rename(checkout.with_name("moved"))

    assert _make(moved, MADE, "PYTHON=./python").returncode == 0

    assert len(_runs(moved)) == 2


@pytest.mark.parametrize("named", ["./old", "/nowhere/python3"])
def test_a_python_that_does_not_suit_is_named_and_leaves_nothing(checkout: Path, named: str) -> None:
    _script(checkout / "old", "#!/bin/sh\nexit 1\n")

    done = _make(checkout, MADE, f"PYTHON={named}")

    assert done.returncode == 2
    assert "needs Python 3.11 or newer" in done.stderr
    assert named in done.stderr
    assert not (checkout / ".venv").exists()


def test_what_had_the_old_name_goes_before_the_installation(checkout: Path) -> None:
    """Both have the command, which goes with the one that is removed."""
    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0
    for name in ("pyproject.toml", "requirements.lock"):
        (checkout / name).touch()
    _script(checkout / ".venv/bin/python", '#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "$@" >>runs\n')

    assert _make(checkout, ".venv/.runtime", "PYTHON=./python").returncode == 0

    pip, at = _runs(checkout)[1:], {}
    for number, words in enumerate(map(str.split, pip)):
        at[words[2], words[-1]] = number
    assert at["uninstall", "clawbot"] < at["install", "."]


def test_where_the_model_server_cannot_be_had_its_tests_are_skipped_aloud(checkout: Path) -> None:
    assert _make(checkout, MADE, "PYTHON=./python").returncode == 0
    (checkout / "tests" / "real").mkdir(parents=True)
    inputs = ("pyproject.toml", "requirements.lock", "requirements-dev.lock", "tests/real/requirements.lock")
    for name in (*inputs, MADE, ".venv/.runtime", ".venv/.dev"):
        with (checkout / name).open("a"):
            os.utime(checkout / name)
    reason = "ERROR: No matching distribution found for xllamacpp"
    _script(checkout / ".venv/bin/python", f'#!/bin/sh\n[ "$1" = -c ] && exit 0\necho {reason} >&2\nexit 1\n')

    done = _make(checkout, "test-real")

    assert done.returncode == 0, done.stderr
    assert "SKIPPED: tests/real" in done.stderr
    assert reason in done.stderr
