"""Memory of the C library that holds nothing goes back to the system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.style import Style
from textual.strip import Strip

from clawbot.tui.earlier import give_back

HELD = 64  # MiB
PIECE = 1024 * 64


def own_memory() -> int:
    """MiB of this process that map no file."""
    rows = Path("/proc/self/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("RssAnon:")) // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_trim is glibc's, and memory is read in /proc")
def test_what_lies_between_what_lives_is_given_back() -> None:
    pieces = [bytearray(PIECE) for _ in range(HELD * 1024 * 1024 // PIECE)]
    last = bytearray(PIECE)
    full = own_memory()
    del pieces
    give_back()
    assert own_memory() < full - HELD // 2
    assert len(last) == PIECE


def test_how_lines_that_are_gone_were_written_is_forgotten() -> None:
    for line in range(100):
        Strip.render_ansi(Style.from_meta({"offset": (0, line)}), None)
    assert Strip.render_ansi.cache_info().currsize >= 100
    give_back()
    assert Strip.render_ansi.cache_info().currsize == 0
