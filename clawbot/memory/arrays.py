"""The only import of numpy, which is slow to load and starts threads that slow each other down; and the names of
arrays.

Docstrings give shapes: `(n,)` has one entry for each of n lines or chunks, `(n, d)` a row of d dimensions for each.
Vectors have unit length (zeros for text without meaning), so a dot product is a cosine, from -1 to 1.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from clawbot.collector import collecting_later

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


def distinct(ids: Ids) -> Ids:
    """Return the different `ids` `(n,)`, ascending: `(m,)`. numpy's own function hashes them, which takes ten times as
    long for ids that are nearly sorted."""
    np = numpy()
    ordered = np.sort(ids)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    found: Ids = ordered[is_new]
    return found


def are_among(ids: Ids, wanted: Ids) -> Bools:
    """Return which of `ids` `(n,)` are one of `wanted` `(m,)`, both in any order: `(n,)`. For large numbers that are
    far apart numpy's own function loads its masked arrays, which takes a command 10 ms."""
    np = numpy()
    found: Bools = np.zeros(len(ids), np.bool_)
    if len(wanted):
        ordered = wanted if (wanted[1:] >= wanted[:-1]).all() else np.sort(wanted)
        nearest = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        np.equal(ordered[nearest], ids, out=found)
    return found


def positions_in(stretches: Sequence[Ids], ids: Ids) -> tuple[Ids, Bools]:
    """Return the position of each of the ascending `ids` `(m,)` in the concatenated `stretches`, ascending as well, and
    which are in them: both `(m,)`."""
    np = numpy()
    positions, there = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.bool_)
    start = 0
    for each in stretches:
        if not len(each):
            continue
        mine = slice(*np.searchsorted(ids, (each[0], each[-1] + 1)).tolist())
        found = np.searchsorted(each, ids[mine])
        there[mine] = each[found] == ids[mine]
        positions[mine] = found + start
        start += len(each)
    return positions, there


@cache
def numpy() -> ModuleType:
    """Return numpy, single-threaded unless the environment sets a number. Blocks: 65 ms of CPU the first time."""
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(added, "1"))
    try:
        with collecting_later():
            import numpy as np
    finally:
        # numpy reads them once; child processes must not inherit them.
        for name in added:
            os.environ.pop(name, None)
    return np
