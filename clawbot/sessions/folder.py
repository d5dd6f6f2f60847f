"""The files in a folder of sessions: which of them are transcripts, known by their content, and what the others are.

Other programs, editors and sync programs leave files there too. Only transcripts are listed, indexed and written to,
and of several copies of one session a single file.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clawbot.sessions.forgotten import FILE_NAME as FORGOTTEN_FILE
from clawbot.sessions.forgotten import read_forgotten, session_of
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.names import SUBAGENTS, SUFFIX

if TYPE_CHECKING:
    from clawbot.sessions.entries import Header
    from clawbot.sessions.offsets import SeenFile

# Related programs rename a transcript like this, followed by the time, when a session is reset.
_ARCHIVED = f"{SUFFIX}.reset."
# Files of this program among the transcripts. A link, a pipe or a folder of such a name is listed all the same.
_OWN_FILE = re.compile(
    rf"sessions\.json(?:\.lock|\.bad-.*)?|{re.escape(FORGOTTEN_FILE)}(?:\.lock)?|.*\.unsent(?:\.lock)?"
    r"|\..*\.(?:[0-9a-f]{32}|import)\.tmp"
    rf"|.*{re.escape(SUFFIX)}(?:\..*)?(?:\.lock|\.lock\.json|\.torn(?:\.\d+)?)"
)


class TranscriptFile(NamedTuple):
    """A transcript on disk: name in the folder, size in bytes, modification time, inode."""

    name: str
    size: int
    mtime_ns: int
    inode: int = 0


class FolderContent(NamedTuple):
    """The files in a folder of sessions. `headers` are those of the transcripts by file name, including archived ones
    (None: the header is lost); `copies` names for each copy of a session the file that is used; `foreign` is the
    kind of each of the others."""

    headers: dict[str, Header | None]
    copies: dict[str, str]
    foreign: dict[str, str]


UNREADABLE = "files that can't be read"
_DELETED = "deleted sessions of OpenClaw"

# By path and inode: a transcript only grows at its end, so its first lines are read once.
_SEEN: dict[tuple[str, int], SeenFile] = {}
_MAX_SEEN = 50_000
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
# Two files that agree in this many bytes before the end of the shorter one agree up to there.
_COMPARED_BYTES = 4096


def names_in(folder: Path) -> frozenset[str]:
    """The names of all files in `folder`; none if it does not exist. Raises OSError."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries)
    except FileNotFoundError:
        return frozenset()


def read_folder(folder: Path, names: Iterable[str] | None = None, *, every: bool = False) -> FolderContent:
    """Recognise the transcripts among the files `names` (None: all) of `folder` by their first lines. With `every`,
    files whose names no transcript can have are examined too. Blocks. Raises OSError."""
    names = names_in(folder) if names is None else names
    seen = {name: _inspect(f"{folder}/{name}") for name in sorted(names) if is_transcript(name)}
    foreign = {name: each.kind for name, each in seen.items() if each.kind}
    found = {name: each for name, each in seen.items() if not each.kind}
    copies = _copies(folder, found)
    for name in sorted(names) if every else ():
        if name != SUBAGENTS and not is_transcript(name) and not _OWN_FILE.fullmatch(name):
            other = _inspect(f"{folder}/{name}")
            if kind := other.kind or (_DELETED if f"{SUFFIX}.deleted." in name else ""):
                foreign[name] = kind
            else:
                copies[name] = f"{other.header.id if other.header else session_of(name)}{SUFFIX}"
    return FolderContent({name: each.header for name, each in found.items() if name not in copies}, copies, foreign)


def list_transcripts(folder: Path) -> list[TranscriptFile]:
    """The transcripts in `folder` by name, including ended and reset sessions, without copies, links and forgotten
    ones; none if the folder does not exist. Blocks. Raises OSError."""
    found = []
    forgotten = read_forgotten(folder)
    for name in sorted(read_folder(folder).headers):
        try:
            if not forgotten.is_whole(name):
                found.append(file_state(name, (folder / name).stat(follow_symlinks=False)))
        except FileNotFoundError:
            continue
    return found


def file_state(name: str, found: os.stat_result) -> TranscriptFile:
    """The transcript `name` with the stat result `found`."""
    return TranscriptFile(name, found.st_size, found.st_mtime_ns, found.st_ino)


def is_transcript(name: str) -> bool:
    """Whether a transcript may have this file name, also that of a reset session."""
    known = name.lower().endswith(SUFFIX) or _ARCHIVED in name
    return known and not name.startswith(".") and not _OWN_FILE.fullmatch(name)


def foreign_kind(path: Path) -> str:
    """What the file at `path` is if it is no transcript; "" for a transcript, and for an empty file, which may become
    one. Blocks."""
    seen = _inspect(str(path))
    return "" if seen.is_empty else seen.kind


def _inspect(path: str) -> SeenFile:
    """Recognise the file at `path`, without opening links, devices and pipes."""
    # Deferred import: a folder without transcripts needs none of what reads them.
    from clawbot.sessions.offsets import SeenFile, recognise

    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            link, folder = stat.S_ISLNK(found.st_mode), stat.S_ISDIR(found.st_mode)
            return SeenFile("links" if link else "folders" if folder else "pipes and devices")
        known = _SEEN.get((path, found.st_ino))
        if known is not None and found.st_size >= known.size:
            return known._replace(size=found.st_size)
        with ByteSource(os.open(path, _FLAGS)) as source:
            seen = recognise(source, found.st_size, path.rpartition("/")[2])
    except OSError:
        return SeenFile(UNREADABLE)
    if seen.first:
        if len(_SEEN) >= _MAX_SEEN:
            _SEEN.clear()
        _SEEN[path, found.st_ino] = seen
    return seen


def _copies(folder: Path, found: dict[str, SeenFile]) -> dict[str, str]:
    """The copies among the transcripts `found`, each with the one that is used instead: the longest that contains the
    one with the session's own name. Files that share nothing but the id in their headers are no copies."""
    groups: dict[str, list[str]] = {}
    for name, seen in found.items():
        if seen.header is not None:
            groups.setdefault(seen.header.id, []).append(name)
    forgotten = read_forgotten(folder)
    copies: dict[str, str] = {}
    for session, names in groups.items():
        names.sort(key=lambda name: (session_of(name) != session, _ARCHIVED in name, len(name), name))
        used, others = names[0], names[1:]
        if session in forgotten.sessions and session_of(used) != session:
            copies[used] = f"{session}{SUFFIX}"
        same = [name for name in others if len({found[used].first, found[name].first, ""}) < 3]
        # What was forgotten of a session is recorded under the name of its file.
        for name in same if not forgotten.is_whole(used) and not forgotten.mark(used) else ():
            if found[name].size > found[used].size and contains(folder / name, folder / used):
                used = name
        copies |= {name: used for name in (names[0], *same) if name != used}
    return copies


def contains(longer: Path, shorter: Path) -> bool:
    """Whether `longer` begins with the complete lines of `shorter`. Transcripts only grow at their end, so comparing
    the last ones is enough."""
    try:
        with ByteSource.open(longer) as long, ByteSource.open(shorter) as short:
            start = max(0, short.size - _COMPARED_BYTES)
            end = short.read(start, start + _COMPARED_BYTES)
            lines = end[: end.rfind(b"\n") + 1] or end
            return long.read(start, start + len(lines)) == lines
    except OSError:
        return False
