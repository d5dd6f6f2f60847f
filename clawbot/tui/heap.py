"""What holds on to memory that was let go of: in a program that runs for days it must not grow with that.

Textual remembers how 16,384 styles are written to the terminal. A style on the page names its line, for selecting, so
those of lines that are gone are never asked for again.

glibc gives each thread a heap of its own, and gives pages back at the end of a heap only: what lives long, between what
is let go of, keeps it all. Two heaps are enough for a program whose threads mostly wait. Other systems do better.
"""

from __future__ import annotations

import ctypes
import sys

from textual.strip import Strip

_ARENA_MAX = -8  # M_ARENA_MAX in malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """Have the threads that start from now on share their heaps."""
    if mallopt := _function("mallopt"):
        mallopt(_ARENA_MAX, _HEAPS)


def give_back() -> None:
    """Forget what is remembered of lines that are gone, and give the system the pages that hold nothing. Blocks:
    milliseconds."""
    Strip.render_ansi.cache_clear()
    if malloc_trim := _function("malloc_trim"):
        malloc_trim(0)


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
