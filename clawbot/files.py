"""Durable and private file writes (atomic replacement, exclusive creation), guarded reads, and digests.

Files are written with mode 0600, folders with 0700. All functions block: call them in a thread from the event loop.
They raise OSError with the file name set.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clawbot.locks import wait_for_lock
from clawbot.text.encoding import decoded

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
NO_PLAIN_FILE = "is no plain file"
MAX_GUARDED_BYTES = 2 * 1024 * 1024
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class RefusedFileError(Exception):
    """A file that must not be read into a prompt; the text says why."""


def digest_of(data: bytes) -> str:
    """The SHA-256 of the bytes as hex, which identifies a version of a file."""
    return hashlib.sha256(data).hexdigest()


def ensure_private_dir(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700; an existing folder keeps its mode. Raises
    NotADirectoryError and other OSErrors."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(20, "is a file, not a folder", str(path))
    return path


def write_atomic(path: Path, data: bytes, *, mode: int | None = None, lasting: bool = True) -> None:
    """Replace `path` with `data` atomically; the data is on disk when the call returns. Not `lasting`: without fsync,
    so a power cut may leave an empty file.

    `mode` None keeps the mode of an existing file and creates new ones with 0600. A symlink is followed and stays a
    link. Raises OSError, also if `path` is a device or a pipe: these are never replaced.
    """
    target = path.resolve()
    with _naming(target):
        if target.exists() and not target.is_file():
            raise OSError(errno.EINVAL, NO_PLAIN_FILE)
        if mode is None:
            mode = target.stat().st_mode & 0o777 if target.exists() else PRIVATE_FILE
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                if lasting:
                    os.fsync(stream.fileno())
                os.fchmod(stream.fileno(), mode)
            Path(name).replace(target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        if lasting:
            sync_dir(target.parent)


def write_out(path: Path, data: bytes) -> None:
    """Write `data` to a path given by the user: into an existing device or pipe, else like `write_atomic`. Blocks;
    raises OSError."""
    try:
        written_through = not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    except FileNotFoundError:
        written_through = False
    if not written_through:
        write_atomic(path, data)
        return
    with _naming(path), path.open("wb", buffering=0) as stream:
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) or 0 :]


def read_plain(path: Path, limit: int) -> bytes:
    """The content of the regular file at `path`, following links. Blocks.

    Raises OSError, also for more than `limit` bytes, and for a device or a pipe (without waiting for it).
    """
    with _naming(path):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, NO_PLAIN_FILE)
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"is larger than {limit / 2**20:.3g} MiB")
        return data


def create_exclusive(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
    """Write `data` to a new file. Returns False and changes nothing if `path` exists."""
    with _naming(path):
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            return False
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_dir(path.parent)
        return True


def create_whole(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
    """Like `create_exclusive`, but the file gets its name only when it is complete, so that a partial file is never
    visible, not even after a kill. On file systems without hard links it is written in place."""
    with _naming(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                os.fchmod(stream.fileno(), mode)
            try:
                os.link(name, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                return create_exclusive(path, data, mode=mode)
        finally:
            Path(name).unlink(missing_ok=True)
        sync_dir(path.parent)
        return True


def rename_exclusive(path: Path, target: Path) -> bool:
    """Rename `path` to `target` in the same folder. Returns False and changes nothing if `target` exists.

    Exactly one of the names exists at any time, also after a kill. Callers of this function exclude each other; a file
    that another program creates as `target` at the same instant would be overwritten.
    """
    with _naming(path):
        with locked(path.parent):
            if os.path.lexists(target):
                return False
            path.rename(target)
        sync_dir(path.parent)
        return True


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
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    undecodable bytes are replaced.

    Raises RefusedFileError for a file that leads out of the workspace (by symlink or hard link), is not a regular file,
    is larger than 2 MiB or cannot be read.
    """
    root = Path(os.path.realpath(workspace))
    real = Path(os.path.realpath(workspace / name))
    if root not in real.parents:
        raise RefusedFileError("is a symlink that leads out of the workspace")
    try:
        # O_NOFOLLOW: `real` was resolved a moment ago, so a link here has been swapped in since.
        handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _demand_own_file(os.fstat(handle))
            with os.fdopen(handle, "rb", closefd=False) as stream:
                data = stream.read(MAX_GUARDED_BYTES + 1)
        finally:
            os.close(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedFileError(f"cannot be read ({error.strerror})") from error
    if len(data) > MAX_GUARDED_BYTES:
        raise RefusedFileError(f"is larger than {MAX_GUARDED_BYTES // 2**20} MiB")
    return decoded(data, errors="replace")


def _demand_own_file(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError("is no plain file")
    if status.st_nlink > 1:
        raise RefusedFileError("is a hard link, whose other name may lie outside the workspace")
