"""The note of a session that ended: `memory/YYYY-MM-DD-slug.md`, one for each session, never over another file.

Which note is a session's is told by its id in the first lines, so that it is found again after a crash, a new name or
the user's own (reference sheet 11.1).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from clawbot.errors import ClawbotError
from clawbot.files import create_whole, ensure_private_dir, rename_exclusive, write_atomic
from clawbot.sessions.audit import MemoryWrite
from clawbot.tools.additions import described

FOLDER = "memory"
LONGEST_SLUG = 80  # characters, and less than 200 bytes: with a date and a number it stays a file name everywhere
_LONGEST_BYTES = 200
_HEAD_BYTES = 2_048  # where the id of a session stands
_MOST_NAMES = 1_000
_LEFT_SECONDS = 3_600.0
_NAME = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})-(?P<slug>.+)\.md")
BeforeWrite = Callable[[MemoryWrite], None]


class NoteError(ClawbotError):
    """A note could not be kept or renamed."""


class Kept(Struct, frozen=True):
    """A note on disk: `path` below the workspace. `write` is what was written, None when it stood there already."""

    path: str
    write: MemoryWrite | None = None


class NoteRequest(Struct, frozen=True):
    """What is to be kept: `text` of the session `session_id`, which began at `since` (seconds since the epoch); `slug`
    is its name, `at` the moment in the user's zone. A note whose SHA-256 is one of `ours` was not edited since."""

    session_id: str
    since: float
    text: str
    slug: str
    at: datetime
    ours: Collection[str] = ()


def keep_note(workspace: Path, request: NoteRequest, before_write: BeforeWrite) -> Kept:
    """Write the one note of a session. Blocks. Raises NoteError, and what `before_write` raises.

    A note that is there already stays when it says the same below its first lines. One that nobody edited is replaced
    by a text that says all of it, and else gets what it does not say yet; an edited one gets the text at its end.
    `before_write` is told what is about to be written.
    """
    data = _with_id(request.text, request.session_id).encode("utf-8", "replace")
    try:
        folder = _folder(workspace)
        _sweep(folder, request.at.timestamp())
        if (found := find_note(folder, request.session_id, request.since)) is not None:
            return _again(found, data, request, before_write)
        stem = f"{request.at:%Y-%m-%d}-{safe_slug(request.slug) or f'{request.at:%H%M}'}"
        for name in _names(stem):
            if os.path.lexists(folder / name):
                continue
            write = described(f"{FOLDER}/{name}", data, 0, data)
            before_write(write)
            if create_whole(folder / name, data):
                return Kept(write.path, write)
    except OSError as error:
        raise _explained(error) from error
    raise NoteError(f"There are {_MOST_NAMES} notes named {stem} in {FOLDER} already.")


def rename_note(workspace: Path, path: str, slug: str) -> str:
    """Give the note `path` another slug and return its path. Blocks. Raises NoteError when it is gone."""
    slug = safe_slug(slug)
    place = Path(path)
    named = _NAME.fullmatch(place.name)
    if place.parts[:-1] != (FOLDER,) or named is None:
        raise NoteError(f"{path} is no note of a session.")
    if not slug or slug == named["slug"]:
        return path
    try:
        folder = _folder(workspace)
        for name in _names(f"{named['date']}-{slug}"):
            if name == place.name or rename_exclusive(folder / place.name, folder / name):
                return f"{FOLDER}/{name}"
    except OSError as error:
        raise _explained(error) from error
    return path


def find_note(folder: Path, session_id: str, since: float) -> Path | None:
    """The note of a session that began at `since`; None when there is none. Blocks. Raises OSError."""
    wanted = session_id.encode()
    first_day = _first_day(since)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name < first_day or not _NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            try:
                if entry.stat(follow_symlinks=False).st_mtime < since - 1:
                    continue
                with Path(entry.path).open("rb") as stream:
                    if wanted in _head(stream.read(_HEAD_BYTES)):
                        return Path(entry.path)
            except FileNotFoundError:
                continue
    return None


def locate_note(workspace: Path, path: str, session_id: str, since: float) -> str:
    """Where the note is now that a session (see `find_note`) knows as `path`: there, or under a name that it was given
    since. Blocks. Raises OSError."""
    folder = workspace / FOLDER
    if not _NAME.fullmatch(Path(path).name) or (workspace / path).exists() or not folder.is_dir():
        return path
    found = find_note(folder, session_id, since)
    return f"{FOLDER}/{found.name}" if found is not None else path


def _first_day(since: float) -> str:
    """The earliest date of a note of a session that began at `since`: it was no earlier day anywhere on earth. By that
    most of many notes are passed over without a look into them. "" for a time that cannot be right."""
    try:
        return (datetime.fromtimestamp(since, UTC) - timedelta(days=1)).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""


def safe_slug(slug: str) -> str:
    """`slug` as a part of a file name: letters and digits of any script with dashes between; "" when nothing is
    left."""
    plain = unicodedata.normalize("NFC", slug).strip().lower()
    words = "".join(char if _is_wordly(char) else "-" for char in plain).split("-")
    words = [word for word in words if word]
    short = "-".join(words)[:LONGEST_SLUG]
    return short.encode()[:_LONGEST_BYTES].decode(errors="ignore").strip("-")


def _is_wordly(char: str) -> bool:
    """Letters, digits, and the marks that some scripts write on letters."""
    return unicodedata.category(char)[0] in "LNM"


def _names(stem: str) -> Iterator[str]:
    yield f"{stem}.md"
    for number in range(2, _MOST_NAMES):
        yield f"{stem}-{number}.md"


def _folder(workspace: Path) -> Path:
    """The folder of the notes; it must not be a link that leads elsewhere. Raises OSError, NoteError."""
    folder = workspace / FOLDER
    ensure_private_dir(folder)
    if Path(os.path.realpath(folder)) != Path(os.path.realpath(workspace)) / FOLDER:
        raise NoteError(f"{folder} is a link that leads elsewhere.", hint="Make it a folder of the workspace.")
    return folder


def _sweep(folder: Path, now: float) -> None:
    """Remove what a kill in the middle of writing a note left, once it is old enough to be nobody's work."""
    for left in folder.glob(".????-??-??*.md.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if now - left.lstat().st_mtime > _LEFT_SECONDS:
                left.unlink()


def _with_id(text: str, session_id: str) -> str:
    text = text.rstrip() + "\n"
    if session_id.encode() in _head(text.encode("utf-8", "replace")):
        return text
    return f"<!-- session {session_id} -->\n\n{text}"


def _head(data: bytes) -> bytes:
    """Where a note says whose it is: before the first chapter, in which any session may be spoken of."""
    return data[:_HEAD_BYTES].partition(b"\n## ")[0]


def _again(path: Path, data: bytes, request: NoteRequest, before_write: BeforeWrite) -> Kept:
    """The session has its note already: bring it up to date."""
    before, shown = path.read_bytes(), f"{FOLDER}/{path.name}"
    session_id = request.session_id.encode()
    body = _body(data, session_id)
    if body in before:
        return Kept(shown)
    after, start = before.rstrip() + b"\n\n" + data, len(before.rstrip()) + 2
    if hashlib.sha256(before).hexdigest() in request.ours:
        earlier, now = _blocks(_body(before, session_id)), _blocks(body)
        common = _overlap(earlier, now)
        grown = before.rstrip() + b"\n\n" + b"\n\n".join(now[common:]) + b"\n"
        # The end of a long session does not hold what the note kept of its beginning.
        after, start = data if common == len(earlier) else grown, 0
    write = described(shown, after, start, after[start:])
    before_write(write)
    write_atomic(path, after)
    return Kept(write.path, write)


def _body(data: bytes, session_id: bytes) -> bytes:
    """What `data` says below the lines about its session: those tell the time, which is another one each time."""
    body = data.partition(session_id)[2].partition(b"\n\n")[2]
    return body if body.strip() else data


def _blocks(body: bytes) -> list[bytes]:
    """What `body` says, block by block, without the headings before the first one."""
    return list(itertools.dropwhile(lambda block: block.startswith(b"#"), body.strip().split(b"\n\n")))


def _overlap(earlier: list[bytes], now: list[bytes]) -> int:
    """How many blocks at the end of `earlier` are those that `now` begins with."""
    most = min(len(earlier), len(now))
    return next((count for count in range(most, 0, -1) if earlier[-count:] == now[:count]), 0)


def _explained(error: OSError) -> NoteError:
    return NoteError(
        f"{error.filename or FOLDER}: {error.strerror or error}.", hint="The transcript keeps what was said."
    )
