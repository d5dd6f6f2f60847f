"""The history of sent inputs (`history.jsonl`), and the texts put aside while they were written (`drafts.json`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from pathlib import Path

import msgspec

from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, read_plain, write_atomic
from clawbot.text.secrets import holds_secret

MAX_ENTRIES = 1000  # entries that are loaded, and that stay in memory
ENTRY_MAX = 20_000  # characters; a longer text is remembered until the end of the program only
READ_MAX = 2_000_000  # bytes read from the end of the file

log = logging.getLogger(__name__)


class PromptHistory:
    """Navigates earlier inputs; the draft is the last one."""

    def __init__(self) -> None:
        self.entries: list[str] = []
        self._place: int | None = None
        self._draft = ""

    def older(self, current: str) -> str | None:
        """The previous input, or None at the oldest. `current` is the content of the prompt."""
        if self._place is None:
            self._draft = current
        place = len(self.entries) if self._place is None else self._place
        while place > 0:
            place -= 1
            if self.entries[place] != current:
                self._place = place
                return self.entries[place]
        return None

    def newer(self) -> str | None:
        """The next input; after the newest, the draft. None if that is shown."""
        if self._place is None:
            return None
        self._place += 1
        if self._place >= len(self.entries):
            self._place = None
            return self._draft
        return self.entries[self._place]

    def leave(self) -> None:
        """The shown text was edited: it is now the draft."""
        self._place = None

    def add(self, text: str) -> bool:
        """Remember `text`. False when it repeats the last entry."""
        self._place = None
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return False
        self.entries.append(text)
        del self.entries[:-MAX_ENTRIES]
        return True

    def preload(self, entries: list[str]) -> None:
        self.entries[:0] = entries
        self._place = None


def load_history(path: Path) -> list[str]:
    """The last entries of the file, oldest first. Blocks. A line that can't be read is skipped and logged."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - READ_MAX))
            data = stream.read()
    except FileNotFoundError:
        return []
    except OSError as error:
        log.warning("The input history can't be read: %s", error)
        return []
    rows = data.decode(errors="replace").split("\n")
    if size > READ_MAX:
        del rows[0]
    entries = [entry for row in rows if row.strip() and (entry := _entry(row)) is not None]
    return entries[-MAX_ENTRIES:]


def _entry(row: str) -> str | None:
    with contextlib.suppress(ValueError):
        value = json.loads(row)
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            return str(value["text"])
    log.warning("A line of the input history is no entry and was skipped.")
    return None


def save_entry(path: Path, text: str) -> None:
    """Append `text` to a private file, unless it contains a secret: then it is remembered only until the program ends.
    Blocks. Failures are logged and do not stop the chat."""
    if len(text) > ENTRY_MAX or holds_secret(text):
        return
    row = json.dumps({"text": text}, ensure_ascii=False).encode(errors="replace") + b"\n"
    try:
        ensure_private_dir(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
        with os.fdopen(handle, "ab") as stream:
            stream.write(row)
    except OSError as error:
        log.warning("The input history can't be written: %s", error)


MAX_DRAFTS = 50  # texts in the file; the oldest ones go
MAX_DRAFT_BYTES = 8 * 1024**2


class Drafts:
    """A stack of texts. What holds a secret stays in memory, and so does what can't be written."""

    def __init__(self) -> None:
        self._unwritten: list[str] = []

    async def put(self, file: Path, text: str) -> None:
        if holds_secret(text) or not await asyncio.to_thread(_push, file, text):
            self._unwritten.append(text)

    async def take(self, file: Path) -> str:
        """The last text, which is not kept any more; "" where there is none."""
        return self._unwritten.pop() if self._unwritten else await asyncio.to_thread(_pop, file)


def _push(file: Path, text: str) -> bool:
    try:
        with locked(ensure_private_dir(file.parent)):
            _write(file, [*_read(file), text][-MAX_DRAFTS:])
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
        return msgspec.json.decode(read_plain(file, limit=MAX_DRAFT_BYTES), type=list[str])
    except FileNotFoundError:
        return []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s is damaged: %s", file, error)
        return []


def _write(file: Path, texts: list[str]) -> None:
    write_atomic(file, msgspec.json.encode(texts) + b"\n")
