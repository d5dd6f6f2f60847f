from __future__ import annotations

import subprocess
import sys

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
