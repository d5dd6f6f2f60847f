"""The benchmark that ends the screen at random moments, for a few of them: nothing is lost, nothing is said twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import check
from tests.e2e.conftest import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


def test_a_few_ends_at_random_moments_lose_and_double_nothing() -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/kills.py"), "--kills", "4", "--seed", "7"]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, cwd="/")
    assert run.returncode == 0, run.stdout + run.stderr
    [table] = check.printed(run.stdout)
    cells = table.rows[-1]
    assert cells[:2] == ("all", "")
    ends, typed, told, said, waiting, lost, doubled, _ = map(int, cells[2:])
    assert (ends, lost, doubled) == (4, 0, 0)
    assert typed >= said + waiting >= told > 0
    assert run.stdout.endswith("problems: 0\n")
