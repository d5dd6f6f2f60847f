"""Which lines of notes answered searches often, from the records of searches in the transcripts."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from pathlib import Path

from clawbot.files import read_plain

OFTEN = 3
"""So many searches with the same first result make a line worth an entry."""

_MAX_BYTES = 64 * 1024**2  # of a transcript
_SEARCH = b'"toolName":"memory_search"'


def often_found(transcripts: Path, since: float) -> frozenset[str]:
    """Return the positions (`memory/2026-03-09.md:1`) of the lines that were the first result of `OFTEN` searches in
    the transcripts of a folder that changed after `since`, in seconds since the epoch. Blocks. What can't be read is
    passed over: it is asked for again."""
    found: Counter[str] = Counter()
    for path in transcripts.glob("*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime >= since:
                found.update(filter(None, map(_first, read_plain(path, _MAX_BYTES).split(b"\n"))))
    return frozenset(position for position, count in found.items() if count >= OFTEN)


def _first(line: bytes) -> str:
    """Return the position of the first result of a search, "" for any other line."""
    if _SEARCH not in line:
        return ""
    try:
        first = json.loads(line)["message"]["details"]["results"][0]
        return f"{first['path']}:{first.get('line') or first['startLine']}"
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
