"""The door to numpy, which is slow to import and starts threads that get in each other's way."""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType

# Products of a matrix and one vector are over before a second thread has woken up; its spinning costs 10 ms at p95.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@cache
def numpy() -> ModuleType:
    """The module numpy, with one thread unless the environment says otherwise. Blocks: 65 ms of CPU the first time."""
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        import numpy as np
    finally:
        # It looks at them once. Commands that are started later are somebody else's.
        for name in added:
            os.environ.pop(name, None)
    return np
