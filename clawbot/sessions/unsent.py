"""What the user said and no transcript holds yet: a small file for each session key, beside the transcripts.

A message that waits for its turn, and the words behind a `/new`, stand here on disk from the moment in which the
screen shows them until a transcript holds them. The message in the transcript carries the id that it had here, so
that one which was killed between the two is known, and is never said twice.

All calls block; from the event loop they belong in a thread. Who writes holds the session's lock (`locks.py`).
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
from clawbot.sessions.errors import store_error
from clawbot.sessions.lines import LineAppender
from clawbot.sessions.names import short_name

SUFFIX = ".unsent"
# A file name holds 255 bytes, and the name of a key that was spelled out may be longer than that.
_LONGEST_STEM = 150


class Unsent(Struct, frozen=True, omit_defaults=True):
    """A text that was not sent: `at` is when it was typed, in milliseconds since the epoch. A `draft` stood in the
    prompt and was never entered."""

    id: str
    text: str
    at: int = 0
    draft: bool = False


class _Gone(Struct, frozen=True):
    gone: str


_TEXTS = msgspec.json.Decoder(Unsent)
_GONE = msgspec.json.Decoder(_Gone)


class UnsentFile:
    """The file of one session key: a line for each text, and one more when it is gone. It is removed with the last."""

    def __init__(self, folder: Path, key: str) -> None:
        stem = quote(short_name(key), safe="")
        if len(stem) > _LONGEST_STEM:
            stem = hashlib.sha256(key.encode()).hexdigest()
        self.path = folder / f"{stem}{SUFFIX}"

    def read(self) -> list[Unsent]:
        """What stands in it, in the order in which it was typed. A damaged line is passed over: it was torn while it
        was written, so nobody was told that it is kept. Raises SessionStoreError."""
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
        """Add `texts`, on disk when this returns, in the place of those with the ids `instead_of`. Raises
        SessionStoreError."""
        self._append([*map(msgspec.json.encode, texts), *_lines_of(instead_of)], sync=True)

    def drop(self, ids: Collection[str]) -> None:
        """Take these out, and the file away when it holds no more. Not fsynced: what a transcript holds is known by its
        id. Raises SessionStoreError."""
        if not self.path.exists():
            return
        self._append(_lines_of(ids), sync=False)
        if not self.read():
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise store_error("remove", self.path, error) from error

    def _append(self, lines: Iterable[bytes], *, sync: bool) -> None:
        data = b"".join(line + b"\n" for line in lines)
        if not self.path.exists():
            LineAppender.create(self.path, data).close()
            return
        with contextlib.closing(LineAppender(self.path)) as appender:
            appender.append(data, sync=sync)


def said_before(texts: Iterable[Unsent], entries: Iterable[Entry]) -> set[str]:
    """The ids of those of `texts` that `entries` of the transcript hold."""
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
