"""The benchmark of a long talk, for a few turns: that it ends by itself, and what it tells."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks import check
from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.e2e


def test_a_short_soak_tells_its_table_and_loses_nothing() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/soak.py"), "--seconds", "4", "--rate", "2", "--every", "1"]
    run = subprocess.run([*argv, "--warm-up", "1"], capture_output=True, text=True, timeout=150, check=False, cwd="/")
    assert run.returncode == 0, run.stderr
    first, second = check.printed(run.stdout)
    assert first.columns[:5] == ("seconds", "turns", "main MB", "own MB", "worker MB")
    typed = int(first.rows[-1][1])
    assert typed > 0
    assert second.rows[0] == ("turns typed; stored; stored twice", f"{typed}; {typed}; 0")
    assert re.fullmatch(r"[+-]\d+\.\d\d kB a turn", second.rows[2][1])
