"""The kinds of moments at which kills.py ends the program, one kill of each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
KINDS = ("plain", "stream", "flush", "import", "pull", "dream")


def test_a_kill_of_each_kind_loses_and_doubles_nothing() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/kills.py"), "--kinds", ",".join(KINDS), "--seed", "7"]
    run = subprocess.run(
        [*argv, "--kills", str(len(KINDS))], capture_output=True, text=True, timeout=380, check=False, cwd="/"
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert all(f" {kind}" in run.stdout for kind in KINDS)
    assert run.stdout.endswith("problems: 0\n")


def test_a_kind_that_does_not_exist_is_refused() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/kills.py"), "--kinds", "flush,sleep"]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False, cwd="/")
    assert run.returncode == 2
    assert "no kinds of moments: sleep" in run.stderr
