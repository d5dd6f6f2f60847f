"""What was put aside while it was written: in `drafts.json` (0600), so that it is there after a restart."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from clawbot.files import ensure_private_dir, locked, read_plain, write_atomic
from clawbot.text.secrets import holds_secret

KEPT = 50  # texts in the file; the oldest ones go
_MOST_BYTES = 8 * 1024**2

log = logging.getLogger(__name__)


class Drafts:
    """A stack of texts. What holds a secret stays in memory, and so does what can't be written."""

    def __init__(self) -> None:
        self._unwritten: list[str] = []

    async def put(self, file: Path, text: str) -> None:
        """Keep `text`."""
        if holds_secret(text) or not await asyncio.to_thread(_push, file, text):
            self._unwritten.append(text)

    async def take(self, file: Path) -> str:
        """The last text, which is not kept any more; "" where there is none."""
        return self._unwritten.pop() if self._unwritten else await asyncio.to_thread(_pop, file)


def _push(file: Path, text: str) -> bool:
    try:
        with locked(ensure_private_dir(file.parent)):
            _write(file, [*_read(file), text][-KEPT:])
    except OSError as error:
        log.warning("What was put aside can't be written: %s", error)
        return False
    return True


def _pop(file: Path) -> str:
    try:
        with locked(ensure_private_dir(file.parent)):
            *rest, last = _read(file) or [""]
            if last:
                _write(file, rest)
    except OSError as error:
        log.warning("What was put aside can't be taken back: %s", error)
        return ""
    return last


def _read(file: Path) -> list[str]:
    """The texts, the oldest first; a damaged file holds none."""
    try:
        return msgspec.json.decode(read_plain(file, limit=_MOST_BYTES), type=list[str])
    except FileNotFoundError:
        return []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s is damaged: %s", file, error)
        return []


def _write(file: Path, texts: list[str]) -> None:
    write_atomic(file, msgspec.json.encode(texts) + b"\n")
