"""One command at a time in a workspace, and a record of what is to be checked when clawbot is killed with it.

What a command swaps while another one is prepared would be elsewhere by the time that one starts. The record is
in clawbot's own state, which commands don't see, in a file of the workspace that is locked as long as a command runs:
one that is not locked and not empty is that of somebody who could not put right what its command made.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from io import FileIO
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.deadline import deadline
from clawbot.files import ensure_private_dir
from clawbot.locks import try_lock
from clawbot.tools.paths import COMMANDS
from clawbot.tools.protocol import ToolError

ASIDE = ".sandboxed"
# A folder that is only a way to others.
_PASSING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class Watched(Struct, frozen=True):
    """How `path`, in whose folder there are no links, was before: a folder with the rights `mode`, a link to `link`, a
    file with `data` that may go but not change, or not there."""

    path: str
    link: str | None = None
    data: bytes | None = None
    mode: int | None = None


class PutRight(Struct, frozen=True):
    """The paths to which things were `moved`, and those of what is not as it was and could not be mended (`stuck`)."""

    moved: list[str]
    stuck: list[str]


def watched(paths: Iterable[str], *, removable: str) -> Iterator[Watched]:
    """What of `paths` is to be watched: what is not there, what is a link, and the file `removable`. Blocks."""
    for path in paths:
        if Path(path).is_symlink():
            yield Watched(path, link=str(Path(path).readlink()))
        elif not os.path.lexists(path):
            yield Watched(path)
        elif path == removable and Path(path).is_file():
            yield Watched(path, data=Path(path).read_bytes())


def put_right(before: Iterable[Watched]) -> PutRight:
    """Move aside what is not as it was, and put back what was there. Never raises OSError. Blocks."""
    found = PutRight([], [])
    for one in before:
        try:
            with _folder_of(one.path) as folder:
                aside = _put_right_in(one, folder)
        except FileNotFoundError:
            continue  # Its folder is gone, and nothing can be in it.
        except OSError:
            found.stuck.append(one.path)
            continue
        if aside:
            found.moved.append(str(Path(one.path).with_name(aside)))
    return found


def _put_right_in(one: Watched, folder: int) -> str:
    name = Path(one.path).name
    if one.mode is not None:
        _give_back(one.mode, name, folder)
        return ""
    try:
        return _put_right(one, name, folder)
    except PermissionError:
        _unshut(folder)
        return _put_right(one, name, folder)


def _give_back(mode: int, name: str, folder: int) -> None:
    """Add the rights `mode` to the folder `name`, if it is one still."""
    seen = _seen(name, folder)
    if seen is not None and stat.S_ISDIR(seen.st_mode) and mode & ~seen.st_mode:
        os.chmod(name, stat.S_IMODE(seen.st_mode) | mode, dir_fd=folder)


def _unshut(folder: int) -> None:
    """Give the user, to whom it belongs, `folder` again that a command has shut."""
    Path(f"/proc/self/fd/{folder}").chmod(stat.S_IRWXU)


def _put_right(one: Watched, name: str, folder: int) -> str:
    """Make `name` in `folder` what it was; returns the name that what was there has now, "" where there was nothing."""
    if _is_as_before(one, name, folder):
        return ""
    aside = ""
    if _seen(name, folder) is not None:
        aside = _free_name(name, folder)
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
    if one.link is not None:
        os.symlink(one.link, name, dir_fd=folder)
    elif one.data is not None:
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), "wb") as file:
            file.write(one.data)
    return aside


@contextmanager
def _folder_of(path: str) -> Iterator[int]:
    """The folder of `path`, reached without following a link. Raises OSError."""
    folder = os.open("/", _PASSING)
    try:
        for part in Path(path).parent.parts[1:]:
            try:
                inner = os.open(part, _PASSING, dir_fd=folder)
            except PermissionError:
                _unshut(folder)
                inner = os.open(part, _PASSING, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


def _seen(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_as_before(one: Watched, name: str, folder: int) -> bool:
    seen = _seen(name, folder)
    if seen is None:
        return one.link is None
    if stat.S_ISLNK(seen.st_mode):
        return one.link is not None and os.readlink(name, dir_fd=folder) == one.link
    if one.data is None or not stat.S_ISREG(seen.st_mode) or seen.st_size != len(one.data):
        return False
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return file.read(len(one.data) + 1) == one.data


def _free_name(name: str, folder: int) -> str:
    plain = f"{name}{ASIDE}"
    return plain if _seen(plain, folder) is None else f"{plain}-{uuid.uuid4().hex}"


PAUSE = 0.05  # seconds between two attempts to get a lock that others hold


class Journal:
    """The record of one workspace, held by whoever has this. `found` is what an earlier command left, by now mended."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.found = _mended(file)

    def record(self, watched: Iterable[Watched]) -> None:
        # `json` keeps the bytes of names that are not UTF-8.
        _write(self._file, json.dumps(msgspec.to_builtins(list(watched))).encode())

    def put_right(self, watched: Iterable[Watched]) -> PutRight:
        """Put `watched` right, and strike it out. Raises OSError. Blocks."""
        found = put_right(watched)
        _write(self._file, b"")
        return found


@asynccontextmanager
async def journal(state: Path, workspace: Path, seconds: float) -> AsyncIterator[Journal]:
    """The record of `workspace`, once no other command runs there. Raises OSError, and ToolError after `seconds`."""
    with await asyncio.to_thread(_open, state, workspace) as file:
        try:
            async with deadline(seconds):
                while True:
                    if try_lock(file):
                        break
                    await asyncio.sleep(PAUSE)
        except TimeoutError:
            raise ToolError(
                f"Not run: another command still runs in {workspace}, and they run one after the other. Try later."
            ) from None
        yield await asyncio.to_thread(Journal, file)


def recover(state: Path, workspace: Path) -> str:
    """Restore what a command killed together with clawbot left in `workspace`. Returns a notice for the user, ""
    where nothing is to be done or a command runs there now. Blocks."""
    try:
        if not _file(state, workspace).exists():
            return ""
        with _open(state, workspace) as file:
            found = Journal(file).found if try_lock(file) else None
    except OSError as error:
        return f"What a killed command left in {workspace} could not be checked: {error}."
    paths = [*found.moved, *found.stuck] if found else []
    if not paths:
        return ""
    return f"A command that was killed left, or somebody made since, what commands must not make: {', '.join(paths)}."


def _file(state: Path, workspace: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:24]
    return state / COMMANDS / f"{name}.json"


def _open(state: Path, workspace: Path) -> FileIO:
    path = _file(state, workspace)
    ensure_private_dir(state)
    ensure_private_dir(path.parent)
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+")


def _write(file: FileIO, record: bytes) -> None:
    file.truncate(0)
    file.seek(0)
    file.write(record)


def _mended(file: FileIO) -> PutRight | None:
    """Restore what the interrupted command had swapped. An incomplete record means that the command never started."""
    record = file.readall()
    if not record:
        return None
    try:
        before = msgspec.convert(json.loads(record), list[Watched])
    except ValueError:
        before = []
    found = put_right(before)
    _write(file, b"")
    return found
