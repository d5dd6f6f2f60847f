"""User messages that are not in a transcript yet: a small file for each session key, next to the transcripts.

A message that waits for its turn, and the text after a `/new`, are stored here from the time when the screen shows them
until they are in a transcript. The message in the transcript has the same id, so after a kill in between it is
recognised and not sent twice.

All calls block; call them in a thread from the event loop. Writing requires the session's lock (`locks.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from clawbot.messages import UserMessage
from clawbot.sessions.entries import Entry, MessageEntry
from clawbot.sessions.errors import store_error, store_errors
from clawbot.sessions.lines import LineAppender
from clawbot.sessions.names import short_name

SUFFIX = ".unsent"
# A file name has at most 255 bytes, and an escaped key may be longer.
_MAX_STEM = 150


class Unsent(Struct, frozen=True, omit_defaults=True):
    """An unsent text: `at` is when it was typed, in milliseconds since the epoch. A `draft` was in the prompt and never
    submitted."""

    id: str
    text: str
    at: int = 0
    draft: bool = False


class _Gone(Struct, frozen=True):
    gone: str


_TEXTS = msgspec.json.Decoder(Unsent)
_GONE = msgspec.json.Decoder(_Gone)


class UnsentFile:
    """The file of one session key: one line for each text, and another when it is dropped. Removed with the
    last text."""

    def __init__(self, folder: Path, key: str) -> None:
        stem = quote(short_name(key), safe="")
        if len(stem) > _MAX_STEM:
            stem = hashlib.sha256(key.encode()).hexdigest()
        self.path = folder / f"{stem}{SUFFIX}"

    def read(self) -> list[Unsent]:
        """The texts in the order in which they were typed. Damaged lines are skipped: they were not written
        completely, and nobody was notified that they are stored. Raises SessionStoreError."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise store_error("read", self.path, error) from error
        found: dict[str, Unsent] = {}
        for line in data.split(b"\n"):
            with contextlib.suppress(msgspec.DecodeError):
                unsent = _TEXTS.decode(line)
                found[unsent.id] = unsent
                continue
            with contextlib.suppress(msgspec.DecodeError):
                found.pop(_GONE.decode(line).gone, None)
        return list(found.values())

    def keep(self, texts: Sequence[Unsent], instead_of: Collection[str] = ()) -> None:
        """Add `texts` in place of those with the ids `instead_of`; on disk when this returns. Raises
        SessionStoreError."""
        self._append([*map(msgspec.json.encode, texts), *_lines_of(instead_of)], sync=True)

    def drop(self, ids: Collection[str]) -> None:
        """Remove these, and the file if it is empty then. Not fsynced: texts in a transcript are recognised by their
        ids. Raises SessionStoreError."""
        if not self.path.exists():
            return
        self._append(_lines_of(ids), sync=False)
        if not self.read():
            with store_errors("remove", self.path):
                self.path.unlink(missing_ok=True)

    def _append(self, lines: Iterable[bytes], *, sync: bool) -> None:
        data = b"".join(line + b"\n" for line in lines)
        if not self.path.exists():
            LineAppender.create(self.path, data).close()
            return
        with contextlib.closing(LineAppender(self.path)) as appender:
            appender.append(data, sync=sync)


def stored_ids(texts: Iterable[Unsent], entries: Iterable[Entry]) -> set[str]:
    """The ids of `texts` that are in `entries` of the transcript."""
    ids = {unsent.id for unsent in texts}
    return {
        entry.message.unsent_id
        for entry in entries
        if isinstance(entry, MessageEntry)
        and isinstance(entry.message, UserMessage)
        and isinstance(entry.message.unsent_id, str)
        and entry.message.unsent_id in ids
    }


def _lines_of(ids: Iterable[str]) -> list[bytes]:
    return [msgspec.json.encode(_Gone(ident)) for ident in ids]
