from __future__ import annotations

import subprocess
import sys

import pytest

from clawbot.memory.arrays import are_among, numpy
from tests.tables import load_table

CODE = """
import os, sys
from clawbot.memory.arrays import numpy
assert "numpy" not in sys.modules
before = dict(os.environ)
numpy()
assert "numpy" in sys.modules
assert dict(os.environ) == before
"""


def test_numpy_is_imported_when_it_is_needed_and_leaves_no_trace_in_the_environment() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("ids", "wanted", "found"),
    load_table(__file__, "which_ids_are_among_others"),
)
def test_which_ids_are_among_others(ids: list[int], wanted: list[int], found: list[bool]) -> None:
    np = numpy()
    assert are_among(np.array(ids, np.int64), np.array(wanted, np.int64)).tolist() == found
