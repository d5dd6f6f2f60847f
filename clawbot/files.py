"""Durable and private file writes (atomic replacement, exclusive creation), guarded reads, and digests.

Files are written with mode 0600, folders with 0700. All functions block: call them in a thread from the event loop.
They raise OSError with the file name set.

`below` is a folder in which commands may plant a link at any time: from there on none is followed, not at the path
itself either, and missing folders are created.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from clawbot.locks import try_lock, wait_for_lock
from clawbot.text.encoding import decoded
from clawbot.text.patterns import lazy_re

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
NO_PLAIN_FILE = "is no plain file"
MAX_GUARDED_BYTES = 2 * 1024 * 1024
LINK_ERRORS = (errno.ELOOP, errno.EMLINK)  # the errors of O_NOFOLLOW for a link, on Linux and BSD
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_ASIDE = lazy_re(r"\..*\.[0-9a-f]{32}\.tmp", re.DOTALL)
_KEPT_BYTES = 150  # of a file's name in that of its temporary file; with 38 more it is short enough everywhere
_LOCK_TRIES, _LOCK_PAUSE = 100, 0.01  # a second: whoever holds the lock is about to write one file
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class ChangedFileError(OSError):
    """A file became another one since it was read: it was not replaced."""


class RefusedFileError(Exception):
    """A file that must not be read into a prompt; the text says why."""


def digest_of(data: bytes) -> str:
    """The SHA-256 of the bytes as hex, which identifies a version of a file."""
    return hashlib.sha256(data).hexdigest()


def version_of(data: bytes) -> str:
    """The BLAKE2b digest of 16 bytes as hex, by which a version of a file is compared with what was indexed or seen."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def ensure_private_dir(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700; an existing folder keeps its mode. Raises
    NotADirectoryError and other OSErrors."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(20, "is a file, not a folder", str(path))
    return path


@contextlib.contextmanager
def open_folder(root: Path, parts: Sequence[str], *, create: bool = False, real: bool = False) -> Iterator[int]:
    """A descriptor of the folder `parts` below `root`. No link below `root` is followed, nor `root` itself if it is
    `real`; `create` creates missing folders with mode 0700.

    Raises OSError with the path of the folder that cannot be opened, NotADirectoryError for a link.
    """
    with _naming(root):
        current = os.open(root, _FOLDER | (os.O_NOFOLLOW if real else 0))
    try:
        for depth, name in enumerate(parts):
            with _naming(root.joinpath(*parts[: depth + 1])):
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, PRIVATE_DIR, dir_fd=current)
                try:
                    inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
                except OSError as error:
                    if error.errno not in (errno.ENOTDIR, *LINK_ERRORS):
                        raise
                    raise NotADirectoryError(errno.ENOTDIR, f"{name} is a link or a file, not a folder") from error
            os.close(current)
            current = inner
        yield current
    finally:
        os.close(current)


def parts_below(root: Path, path: Path) -> tuple[str, ...]:
    """`path` relative to the folder `root`, from where it first enters that, by whatever name; empty if it does not.
    Links on the rest of it are not followed. Blocks."""
    real, plain = os.path.realpath(root), Path(os.path.normpath(path.absolute()))
    for folder in reversed(plain.parents):
        inside = Path(os.path.realpath(folder))
        if inside.is_relative_to(real):
            return (*inside.relative_to(real).parts, *plain.relative_to(folder).parts)
    return ()


@contextlib.contextmanager
def _folder_of(path: Path, below: Path | None, *, create: bool = True) -> Iterator[int]:
    """A descriptor of the folder of `path`. Errors name `path`."""
    with _naming(path):
        parts = parts_below(below, path) if below else ()
        root = below if below and parts else path.parent
        if below and create:
            ensure_private_dir(root)
        with open_folder(root, parts[:-1], create=create) as folder:
            yield folder


def _write_aside(folder: int, name: str, data: bytes, mode: int, *, lasting: bool = True) -> str:
    """Write a temporary file that is to become `name`; returns its own name."""
    aside = f".{os.fsencode(name)[:_KEPT_BYTES].decode(errors='ignore')}.{uuid.uuid4().hex}.tmp"
    _create(folder, aside, data, mode, lasting=lasting)
    return aside


def is_aside(name: str) -> bool:
    """Whether a file is a temporary one that this program writes: others have `.NAME.tmp` as well."""
    return _ASIDE.fullmatch(name) is not None


def _create(folder: int, name: str, data: bytes, mode: int, *, lasting: bool = True) -> None:
    """Write a new file. Raises FileExistsError; other errors leave no file."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            if lasting:
                os.fsync(handle)
            if mode != PRIVATE_FILE:
                os.fchmod(handle, mode)
    except BaseException:
        _unlink(folder, name)
        raise


def _unlink(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _mode_of(folder: int, name: str) -> int:
    """The `st_mode` of the entry, 0 if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def write_atomic(
    path: Path,
    data: bytes,
    *,
    mode: int | None = None,
    lasting: bool = True,
    below: Path | None = None,
    check: Callable[[], None] | None = None,
) -> None:
    """Replace `path` with `data` atomically; the data is on disk when the call returns. Not `lasting`: without fsync,
    so a power cut may leave an empty file.

    `mode` None keeps the mode of an existing file and creates new ones with 0600. A symlink is followed and stays a
    link, unless `below` is given. `check` is called last of all, with the lock of the folder, and may raise. Raises
    OSError, also if `path` is a device or a pipe: these are never replaced.
    """
    target = path if below else path.resolve()
    with _folder_of(target, below) as folder:
        found = _mode_of(folder, target.name)
        if found and not stat.S_ISREG(found):
            raise OSError(errno.ELOOP if stat.S_ISLNK(found) else errno.EINVAL, NO_PLAIN_FILE)
        if mode is None:
            mode = found & 0o777 if found else PRIVATE_FILE
        aside = _write_aside(folder, target.name, data, mode, lasting=lasting)
        try:
            if check is not None:
                hold_folder(folder)
                check()
            os.replace(aside, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            _unlink(folder, aside)
            raise
        if lasting:
            _sync(folder)


def replace_known(path: Path, before: bytes, after: bytes | None, *, below: Path | None = None) -> None:
    """Replace the content `before` of `path` with `after` (None: delete the file). Raises ChangedFileError if the
    content is another one by now."""

    def demand_unchanged() -> None:
        try:
            now = read_plain(path, len(before), below=below)
        except OSError:
            now = None  # gone, longer, or not a file
        if now != before:
            raise ChangedFileError(errno.EBUSY, "was changed by another program meanwhile", str(path))

    if after is not None:
        write_atomic(path, after, below=below, check=demand_unchanged)
        return
    demand_unchanged()
    erase(path, below=below)


def hold_folder(folder: int) -> None:
    """Lock the open folder until it is closed, so that our own processes exclude each other where they change a file
    that they have read. Gives up after a second: a command may hold the lock for ever, and some file systems have
    none."""
    with contextlib.suppress(OSError):
        for _ in range(_LOCK_TRIES):
            if try_lock(folder):
                return
            time.sleep(_LOCK_PAUSE)


def write_out(path: Path, data: bytes, workspace: Path) -> None:
    """Write `data` to a path given by the user: into an existing device or pipe outside `workspace`, else like
    `write_atomic`. Blocks; raises OSError."""
    below = workspace if parts_below(workspace, path) else None
    try:
        written_through = not below and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except FileNotFoundError:
        written_through = False
    if not written_through:
        write_atomic(path, data, below=below)
        return
    with _naming(path), path.open("wb", buffering=0) as stream:
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) or 0 :]


def read_plain(path: Path, limit: int, *, below: Path | None = None, linked: bool = True) -> bytes:
    """The content of the regular file at `path`, following links unless `below` is given. Blocks.

    Raises OSError, also for more than `limit` bytes, for a device or a pipe (without waiting for it), and if not
    `linked` for a hard link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    with _naming(path):
        if below is None:
            handle = os.open(path, flags)
        else:
            with _folder_of(path, below, create=False) as folder:
                handle = os.open(path.name, flags | os.O_NOFOLLOW, dir_fd=folder)
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(errno.EINVAL, NO_PLAIN_FILE)
            if found.st_nlink > 1 and not linked:
                raise OSError(errno.EINVAL, "is a hard link, whose other name may lie outside the workspace")
            data = stream.read(limit + 1) or b""  # None: files of the system that have nothing to read yet
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"is larger than {limit / 2**20:.3g} MiB")
        return data


def create_exclusive(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, below: Path | None = None) -> bool:
    """Write `data` to a new file. Returns False and changes nothing if `path` exists."""
    with _folder_of(path, below) as folder:
        try:
            _create(folder, path.name, data, mode)
        except FileExistsError:
            return False
        _sync(folder)
        return True


def create_whole(path: Path, data: bytes, *, mode: int = PRIVATE_FILE, below: Path | None = None) -> bool:
    """Like `create_exclusive`, but the file gets its name only when it is complete, so that a partial file is never
    visible, not even after a kill. On file systems without hard links it is written in place."""
    with _folder_of(path, below) as folder:
        aside = _write_aside(folder, path.name, data, mode)
        try:
            os.link(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return create_exclusive(path, data, mode=mode, below=below)
        finally:
            _unlink(folder, aside)
        _sync(folder)
        return True


def rename_exclusive(path: Path, target: Path, *, below: Path | None = None) -> bool:
    """Rename `path` to `target` in the same folder. Returns False and changes nothing if `target` exists.

    Exactly one of the names exists at any time, also after a kill. Callers of this function exclude each other; a file
    that another program creates as `target` at the same instant would be overwritten.
    """
    with _folder_of(path, below) as folder:
        wait_for_lock(folder)
        if _mode_of(folder, target.name):
            return False
        os.rename(path.name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        _sync(folder)
        return True


def erase(path: Path, *, below: Path | None = None) -> None:
    """Delete the file `path`, if it exists."""
    with _folder_of(path, below) as folder:
        _unlink(folder, path.name)
        _sync(folder)


def unreported(file: Path, lines: Sequence[str], now: datetime) -> Sequence[str]:
    """Return `lines`, or none if they are the ones reported last, today; `file` holds their digest."""
    reported = f"{now.date()} {digest_of(repr(lines).encode(errors='replace'))}\n".encode()
    with contextlib.suppress(OSError):
        if not lines or (file.is_file() and read_plain(file, limit=1024) == reported):
            return ()
        write_atomic(file, reported, mode=PRIVATE_FILE)
    return lines


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for and hold the system's lock of `path`: a folder, or a file, which is created if missing and stays. For
    locks held for milliseconds; use filelock to give up after a time or to report the holder."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if path.is_dir() else os.O_CREAT), PRIVATE_FILE)
    try:
        wait_for_lock(handle)
        yield
    finally:
        os.close(handle)


def sync_dir(folder: Path) -> None:
    """Make a rename or a new name in `folder` survive a power cut; does nothing on file systems that can't."""
    with open_folder(folder, ()) as descriptor:
        _sync(descriptor)


def _sync(folder: int) -> None:
    with contextlib.suppress(OSError):
        os.fsync(folder)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Set `path` as the file name of an OSError: a failed write has none, and that of a temporary file is no help."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def read_guarded(workspace: Path, name: str) -> str | None:
    """The text of `workspace/name`, None if it does not exist. UTF-8, or the encoding of its byte order mark;
    undecodable bytes are replaced. Raises RefusedFileError as `guarded_bytes`."""
    data = guarded_bytes(workspace, name)
    return None if data is None else decoded(data, errors="replace")


def guarded_bytes(workspace: Path, name: str) -> bytes | None:
    """The content of `workspace/name`, None if it does not exist.

    Raises RefusedFileError for a file that leads out of the workspace (by symlink or hard link), is not a regular file,
    is larger than 2 MiB or cannot be read.
    """
    root = Path(os.path.realpath(workspace))
    real = Path(os.path.realpath(workspace / name))
    if root not in real.parents:
        raise RefusedFileError("is a symlink that leads out of the workspace")
    try:
        return read_plain(real, MAX_GUARDED_BYTES, below=root, linked=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        own = error.errno in (errno.EINVAL, errno.EFBIG)
        raise RefusedFileError(error.strerror if own else f"cannot be read ({error.strerror})") from error
