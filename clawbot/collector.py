"""Memory of the process: the garbage collector, off during imports, and the heaps of the C library."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """Disable the garbage collector during imports: their objects remain, and scanning them repeatedly takes 20 ms of a
    command. What exists at the end is never scanned again."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # Otherwise the first object after the imports would start a scan of all of them.
        gc.freeze()
        if collecting:
            gc.enable()


_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """Let threads started from now on share their heaps."""
    if mallopt := _function("mallopt"):
        mallopt(_ARENA_MAX, _HEAPS)


def trim_heaps() -> None:
    """Return free pages to the system. Blocks: milliseconds."""
    if malloc_trim := _function("malloc_trim"):
        malloc_trim(0)


def _function(name: str) -> Any:
    # Deferred: commands that end at once do without it.
    import ctypes

    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
