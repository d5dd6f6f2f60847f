"""The note of a session that ended: `memory/YYYY-MM-DD-slug.md`, one for each session, never over another file.

Which note is a session's is stated by its id in the first lines, so it is found again after a crash, a new name or
the user's own.
"""

from __future__ import annotations

import contextlib
import fnmatch
import itertools
import os
import re
import stat
import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, structs

from clawbot.errors import ClawbotError
from clawbot.files import LEFT_SECONDS, digest_of
from clawbot.guarded import ChangedFileError, GuardedFolder, SpecialFileError, open_regular
from clawbot.sessions.entries import MemoryWrite
from clawbot.text.names import on_disk
from clawbot.text.secrets import MARK, find_secrets, without_secrets
from clawbot.tools.append_only import BeforeWrite, described

FOLDER = "memory"
MAX_SLUG = 80  # characters, and less than 200 bytes: with a date and a number it is a valid file name everywhere
_MAX_SLUG_BYTES = 200
_HEAD_BYTES = 2_048  # which hold the id of a session
_MAX_NAMES = 1_000
_MAX_BYTES = 20 * 1024**2  # of a note that is brought up to date; the index takes no larger one
_NAME = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})-(?P<slug>.+)\.md")
_STAMP = re.compile(rb"\A(?:(?:\d{4}-\d{2}-\d{2} )?\d{2}:(?P<minute>\d{2}) )?(?=(?:user|assistant):)")
_ZONE_MINUTES = 15  # offsets of all time zones are multiples


class NoteError(ClawbotError):
    """A note could not be kept or renamed."""


class KeptNote(Struct, frozen=True):
    """A note on disk: `path` below the workspace. `write` is what was written, None when it was there already."""

    path: str
    write: MemoryWrite | None = None


class NoteRequest(Struct, frozen=True):
    """What is to be kept: `text` of the session `session_id`, which began at `since`; `slug` is its name, `at` the
    moment of the user's last words in the user's zone, by which it is dated. A note whose SHA-256 is one of `ours` was
    not edited since. `secrets` are those that occurred in the session. `since` and `now` are in seconds since the
    epoch."""

    session_id: str
    since: float
    text: str
    slug: str
    at: datetime
    now: float
    ours: Collection[str] = ()
    secrets: Collection[str] = ()


def keep_note(workspace: Path, request: NoteRequest, before_write: BeforeWrite) -> KeptNote:
    """Write the one note of a session. Blocks. Raises NoteError, and what `before_write` raises.

    An existing note is unchanged when it has the same text below its first lines. One that nobody edited is replaced
    by a text that has all of it, and else gets what it does not have yet; an edited one gets the text at its end.
    `before_write` receives what is about to be written. Secrets in `text` are left out of the note.
    """
    text, _ = without_secrets(request.text, request.secrets)
    data = _with_id(text, request.session_id).encode("utf-8", "replace")
    try:
        files = GuardedFolder(workspace)
        with files.folder(FOLDER, create=True):
            _sweep(files, request.now)
        if found := find_note(workspace, request.session_id, request.since):
            with contextlib.suppress(ChangedFileError):
                return _again(files, found, data, request, before_write)
            return _again(files, found, data, request, before_write)
        stem = f"{request.at:%Y-%m-%d}-{_named(request.slug, request.secrets) or f'{request.at:%H%M}'}"
        for name in _names(stem):
            if files.state(on_disk(workspace / FOLDER / name)):
                continue
            write = _described(f"{FOLDER}/{name}", data, 0)
            before_write(write)
            if files.create(write.path, data):
                return KeptNote(write.path, write)
    except OSError as error:
        raise _explained(error) from error
    raise NoteError(f"There are {_MAX_NAMES} notes named {stem} in {FOLDER} already.")


def rename_note(workspace: Path, path: str, slug: str, secrets: Collection[str] = ()) -> str:
    """Give the note `path` another slug and return its path; one that holds a secret, or one of `secrets`, changes
    nothing. Blocks. Raises NoteError when it is gone."""
    slug = _named(slug, secrets)
    parsed = Path(path)
    named = _NAME.fullmatch(parsed.name)
    if parsed.parts[:-1] != (FOLDER,) or named is None:
        raise NoteError(f"{path} is no note of a session.")
    if not slug or slug == named["slug"]:
        return path
    try:
        files = GuardedFolder(workspace)
        for name in _names(f"{named['date']}-{slug}"):
            is_free = not files.state(on_disk(workspace / FOLDER / name))
            if name == parsed.name or (is_free and files.rename(path, name)):
                return f"{FOLDER}/{name}"
    except OSError as error:
        raise _explained(error) from error
    return path


def find_note(workspace: Path, session_id: str, since: float) -> str:
    """The path of the note of a session that began at `since`; "" when there is none. Blocks. Raises OSError."""
    wanted, first_day = session_id.encode(), _first_day(since)
    with GuardedFolder(workspace).folder(FOLDER) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if entry.name < first_day or not _NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            try:
                if entry.stat(follow_symlinks=False).st_mtime < since - 1:
                    continue
                with os.fdopen(open_regular(folder, entry.name), "rb") as stream:
                    if wanted in _head(stream.read(_HEAD_BYTES)):
                        return f"{FOLDER}/{entry.name}"
            except (FileNotFoundError, IsADirectoryError, SpecialFileError):
                continue
    return ""


def locate_note(workspace: Path, path: str, session_id: str, since: float) -> str:
    """Where the note is now that a session (see `find_note`) knows as `path`: there, or under a name that it was given
    since. Blocks. Raises OSError."""
    files = GuardedFolder(workspace)
    if not _NAME.fullmatch(Path(path).name) or files.state(path) or not files.state(FOLDER):
        return path
    return find_note(workspace, session_id, since) or path


def _first_day(since: float) -> str:
    """The earliest date of a note of a session that began at `since`: it was no earlier day anywhere on earth. By that
    most of many notes are passed over without being read. "" for a time that cannot be right."""
    try:
        return (datetime.fromtimestamp(since, UTC) - timedelta(days=1)).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return ""


def _named(slug: str, secrets: Collection[str]) -> str:
    """`slug` as a part of a file name, "" when it holds a secret."""
    return "" if find_secrets(slug, secrets) else safe_slug(slug)


def safe_slug(slug: str) -> str:
    """`slug` as a part of a file name: letters and digits of any script with dashes between; "" when nothing is
    left."""
    plain = unicodedata.normalize("NFC", slug).strip().lower()
    # Letters, digits, and the marks that some scripts write on letters.
    words = "".join(char if unicodedata.category(char)[0] in "LNM" else " " for char in plain).split()
    short = "-".join(words)[:MAX_SLUG]
    return short.encode()[:_MAX_SLUG_BYTES].decode(errors="ignore").strip("-")


def _names(stem: str) -> list[str]:
    return [f"{stem}.md", *(f"{stem}-{number}.md" for number in range(2, _MAX_NAMES))]


def _sweep(files: GuardedFolder, now: float) -> None:
    """Remove what a kill in the middle of writing a note left, once it is old enough to be nobody's work."""
    for name in fnmatch.filter(files.names(FOLDER), ".????-??-??*.tmp"):
        left = f"{FOLDER}/{name}"
        if (found := files.state(left)) and now - found.st_mtime > LEFT_SECONDS and stat.S_ISREG(found.st_mode):
            files.erase(left)


def _with_id(text: str, session_id: str) -> str:
    text = text.rstrip() + "\n"
    if session_id.encode() in _head(text.encode("utf-8", "replace")):
        return text
    return f"<!-- session {session_id} -->\n\n{text}"


def _head(data: bytes) -> bytes:
    """The part of a note that identifies its session: before the first chapter, which may mention any session."""
    return data[:_HEAD_BYTES].partition(b"\n## ")[0]


def _again(files: GuardedFolder, path: str, data: bytes, request: NoteRequest, before_write: BeforeWrite) -> KeptNote:
    """The session has its note already: bring it up to date."""
    before = files.read(path, _MAX_BYTES)
    session_id = request.session_id.encode()
    body = _body(data, session_id)
    if body in before:
        return KeptNote(path)
    after, start = before.rstrip() + b"\n\n" + data, len(before.rstrip()) + 2
    if digest_of(before) in request.ours:
        (_, earlier), (head, now) = _parts(before, session_id), _parts(data, session_id)
        common = _overlap(earlier, now)
        # The end of a long session does not hold what the note kept of its beginning.
        after, start = b"\n\n".join([head, *earlier, *now[common:]]) + b"\n", 0
    write = _described(path, after, start)
    before_write(write)
    files.replace_known(path, before, after)
    return KeptNote(write.path, write)


def _described(path: str, after: bytes, start: int) -> MemoryWrite:
    added = after[start:]
    return structs.replace(described(path, after, start, added), secrets=added.count(MARK.encode()))


def _body(data: bytes, session_id: bytes) -> bytes:
    """Return the text of `data` below the lines about its session: those hold the time, which differs each time."""
    body = data.partition(session_id)[2].partition(b"\n\n")[2]
    return body if body.strip() else data


def _parts(data: bytes, session_id: bytes) -> tuple[bytes, list[bytes]]:
    """The first lines of a note with the headings below them, and then the messages, block by block."""
    body = _body(data, session_id)
    above = data[: len(data) - len(body)].rstrip()
    blocks = body.strip().split(b"\n\n")
    messages = list(itertools.dropwhile(lambda block: block.startswith(b"#"), blocks))
    headings = blocks[: len(blocks) - len(messages)]
    return b"\n\n".join([above, *headings] if above else headings), messages


def _overlap(earlier: list[bytes], now: list[bytes]) -> int:
    """How many blocks at the end of `earlier` are those that `now` begins with."""
    limit = min(len(earlier), len(now))
    return next((count for count in range(limit, 0, -1) if all(map(_is_same, earlier[-count:], now))), 0)


def _is_same(earlier: bytes, now: bytes) -> bool:
    """Whether two blocks are the same text. The day is given only where it changes, the hour is that of the user's
    zone then, and older notes give no time."""
    if not (first := _STAMP.match(earlier)) or not (second := _STAMP.match(now)):
        return earlier == now
    minutes = [int(found["minute"]) % _ZONE_MINUTES for found in (first, second) if found["minute"]]
    return len({*minutes}) < 2 and earlier[first.end() :] == now[second.end() :]


def _explained(error: OSError) -> NoteError:
    is_link = isinstance(error, NotADirectoryError)
    hint = "Make it a folder of the workspace." if is_link else "The transcript keeps what was said."
    return NoteError(f"{error.filename or FOLDER}: {error.strerror or error}.", hint=hint)
