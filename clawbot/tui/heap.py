"""Limits memory growth in programs that run for days.

Textual caches how 16,384 styles are written to the terminal. Styles on the page contain their line, for selection, so
those of removed lines are never used again.

glibc has a heap per thread and only returns pages at a heap's end, so long-lived objects between freed ones keep all of
it. Two heaps are enough for threads that mostly wait. Other systems don't need this.
"""

from __future__ import annotations

import ctypes
import sys

from textual.strip import Strip

_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """Let threads started from now on share their heaps."""
    if mallopt := _function("mallopt"):
        mallopt(_ARENA_MAX, _HEAPS)


def give_back() -> None:
    """Drop cached styles of removed lines, and return free pages to the system. Blocks: milliseconds."""
    Strip.render_ansi.cache_clear()
    if malloc_trim := _function("malloc_trim"):
        malloc_trim(0)


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
