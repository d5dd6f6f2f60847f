"""The only import of numpy, which is slow to load and starts threads that slow each other down; and the names of
arrays.

Docstrings give shapes: `(n,)` has one entry for each of n lines or chunks, `(n, d)` a row of d dimensions for each.
Vectors have unit length (zeros for text without meaning), so a dot product is a cosine, from -1 to 1.
"""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    """Cosines, weights and scores `(n,)`; vectors `(n, d)`."""
    Ids = NDArray[np.int64]
    """Ids of chunks, usually ascending, or positions of lines in a table (from 0): `(n,)`."""
    Bools = NDArray[np.bool_]
    """A mask over n entries: `(n,)`."""
    Levels = NDArray[np.int8]
    """Quantised vectors as integers, from -7 to 7 in steps of two: `(n, d)`."""

# Matrix-vector products finish before a second thread wakes up; its spinning costs 10 ms at p95.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@cache
def numpy() -> ModuleType:
    """The module numpy, single-threaded unless the environment says otherwise. Blocks: 65 ms of CPU the first time."""
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        import numpy as np
    finally:
        # numpy reads them once; child processes must not inherit them.
        for name in added:
            os.environ.pop(name, None)
    return np
