"""The benchmark of a long talk, for a few turns: that it ends by itself, and what it tells."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT

pytestmark = pytest.mark.e2e


def test_a_short_soak_tells_its_table_and_loses_nothing() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/soak.py"), "--seconds", "4", "--rate", "2", "--every", "1"]
    run = subprocess.run([*argv, "--warm-up", "1"], capture_output=True, text=True, timeout=150, check=False, cwd="/")
    assert run.returncode == 0, run.stderr
    *rows, stored, growth = run.stdout.splitlines()
    assert rows[0].startswith("| seconds | turns | main MB | own MB | worker MB |")
    last = [cell.strip() for cell in rows[-1].strip("|").split("|")]
    typed = int(last[1])
    assert typed > 0
    assert stored.startswith(f"typed {typed}, stored {typed}, twice 0;")
    assert re.match(r"after 1 turns: [+-]\d+\.\d\d kB a turn; descriptors \S+ -> \S+, threads \S+ -> \S+", growth)
