"""The path of a turn to the model and of a search stay within the limits of `.ci/house.toml`."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_ci import ROOT, script


@pytest.mark.e2e
@pytest.mark.timeout(400)
def test_a_turn_and_a_search_take_no_more_calls_and_files_than_allowed(tmp_path: Path) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/trace.py"), "--files", "--json"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures.keys() == {"turn_calls", "turn_files", "search_calls", "search_files"}
    house = script("house")
    limits = tomllib.loads((ROOT / ".ci/house.toml").read_text(encoding="utf-8"))
    found = house.House({figure: {"": number} for figure, number in figures.items()})
    assert list(house.too_much(found, limits)) == [], done.stdout
