"""Disables the garbage collector during imports, and freezes long-lived objects."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
