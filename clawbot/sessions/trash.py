"""Deleted sessions: each in a folder of its own beside the sessions, with its transcript and its record in the index,
until it is brought back or the user removes the folder. All calls block; they raise SessionStoreError."""

from __future__ import annotations

from pathlib import Path

import msgspec

from clawbot.files import PRIVATE_FILE, ensure_private_dir, sync_dir, write_atomic
from clawbot.sessions.errors import UnknownSessionError, store_errors
from clawbot.sessions.folder import read_folder
from clawbot.sessions.index import IndexState, SessionRecord
from clawbot.sessions.names import SUBAGENTS, SUFFIX, is_session_id
from clawbot.sessions.rotation import file_of

_RECORD = "record.json"


class Trash:
    """The deleted sessions of one agent, whose sessions are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.parent / "trash"

    def take(self, record: SessionRecord, transcript: Path) -> Path:
        """Move `transcript` with `record` here; returns the folder that holds them."""
        place = self.folder / record.session_id
        with store_errors("move away", transcript):
            ensure_private_dir(self.folder)
            ensure_private_dir(place)
            write_atomic(place / _RECORD, msgspec.json.encode(record) + b"\n", mode=PRIVATE_FILE)
            # Copies of it would be listed in its place.
            copies = read_folder(transcript.parent).copies
            for name in (*(copy for copy, used in copies.items() if used == transcript.name), transcript.name):
                (transcript.parent / name).rename(place / name)
            _move(transcript.parent / SUBAGENTS / record.session_id, place / SUBAGENTS)
            sync_dir(place)
        return place

    def settle(self, state: IndexState) -> None:
        """Complete deletions that a kill interrupted: drop from the settled `state` what lies here and no longer there.

        Otherwise a list shows an empty session, which starts over under the old name when it is opened."""
        for record in [record for record in state.records.values() if file_of(record) not in state.names]:
            if self._record(self.folder / record.session_id) is not None:
                state.drop(record.key)

    def records(self) -> list[SessionRecord]:
        """The records of the deleted sessions, the one last used first."""
        with store_errors("read", self.folder):
            found = [self._record(path.parent) for path in self.folder.glob(f"*/{_RECORD}")]
        return sorted((record for record in found if record), key=lambda record: record.said_at, reverse=True)

    def give_back(self, session_id: str, target: Path) -> SessionRecord:
        """Move the transcript of `session_id` back into the folder `target`; returns its record."""
        place = self.folder / session_id
        record = self._record(place) if is_session_id(session_id) else None
        transcript = place / f"{session_id}{SUFFIX}"
        if record is None:
            raise UnknownSessionError(f"No deleted session {session_id!r}.", hint=f"They are in {self.folder}.")
        with store_errors("bring back", transcript):
            for file in list(place.glob(f"*{SUFFIX}*")) or [transcript]:
                file.rename(target / file.name)
            _move(place / SUBAGENTS, target / SUBAGENTS / session_id)
            (place / _RECORD).unlink()
            place.rmdir()
        return record

    def _record(self, place: Path) -> SessionRecord | None:
        """The record in `place`; None without its transcript: a kill came before that was here, or behind it was
        back."""
        try:
            record = msgspec.json.decode((place / _RECORD).read_bytes(), type=SessionRecord)
        except (FileNotFoundError, ValueError):
            return None
        return record if next(place.glob(f"*{SUFFIX}"), None) is not None else None


def _move(folder: Path, target: Path) -> None:
    """Move what the sub-agents of a session did, if there is any. Raises OSError."""
    if folder.is_dir():
        ensure_private_dir(target.parent)
        folder.rename(target)
