"""The transcripts in a folder of sessions: which of its files they are, and their state."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from clawbot.sessions.forgotten import read_forgotten
from clawbot.sessions.names import SUFFIX

# Related programs rename a transcript like this, followed by the time, when a session is reset.
_ARCHIVED = f"{SUFFIX}.reset."


class TranscriptFile(NamedTuple):
    """A transcript on disk: name in the folder, size in bytes, modification time, inode."""

    name: str
    size: int
    mtime_ns: int
    inode: int = 0


def list_transcripts(folder: Path) -> list[TranscriptFile]:
    """The transcripts in `folder` by name, including ended and reset sessions, without links and forgotten ones.
    Blocks.

    None if the folder does not exist. Raises OSError.
    """
    found = []
    forgotten = read_forgotten(folder)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                known = is_transcript(entry.name) and not forgotten.is_whole(entry.name)
                if known and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found.append(file_state(entry.name, entry.stat(follow_symlinks=False)))
    except FileNotFoundError:
        return []
    return sorted(found)


def file_state(name: str, found: os.stat_result) -> TranscriptFile:
    """The transcript `name` with the stat result `found`."""
    return TranscriptFile(name, found.st_size, found.st_mtime_ns, found.st_ino)


def is_transcript(name: str) -> bool:
    """Whether this is the file name of a transcript, also of a reset session."""
    return name.endswith(SUFFIX) or _ARCHIVED in name
