"""The folder with an agent's transcripts: which there are, and where the one of a record or of a header lies."""

from __future__ import annotations

from pathlib import Path

from clawbot.sessions.entries import Header
from clawbot.sessions.index import SessionRecord
from clawbot.sessions.names import is_session_id
from clawbot.sessions.transcript import SUFFIX


def transcripts_in(folder: Path) -> list[Path]:
    """The transcripts in `folder`, in the order of their names; none when there is no folder. Raises OSError."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [folder / name for name in names if is_session_id(name.removesuffix(SUFFIX)) and (folder / name).is_file()]


def transcript_of(folder: Path, record: SessionRecord) -> Path:
    """The transcript of `record`: always in `folder`, wherever the record says that it lies."""
    name = Path(record.session_file).name if record.session_file else ""
    if name.endswith(SUFFIX) and is_session_id(name):
        return folder / name
    return folder / f"{record.session_id}{SUFFIX}"


def parent_of(folder: Path, header: Header | None) -> Path | None:
    """The transcript that the one with `header` follows, in `folder` as well, wherever that was then."""
    return folder / Path(header.parent_session).name if header and header.parent_session else None
