"""Durable and private file writes: whole files by temp file and rename, new files by exclusive create; guarded reads.

Everything the program writes is 0600 and its folders 0700. All functions block and belong in a thread when they are
called from the event loop; they raise OSError with the file name set.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from clawbot.text.encoding import decoded

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
NO_PLAIN_FILE = "is no plain file"
MAX_GUARDED_BYTES = 2 * 1024 * 1024
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class RefusedFileError(Exception):
    """A file that must not be read into a prompt. The text says why."""


def ensure_private_dir(path: Path) -> Path:
    """Make `path` and its missing parents with mode 0700; an existing folder keeps its mode."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(20, "is a file, not a folder", str(path))
    return path


def write_atomic(path: Path, data: bytes, *, mode: int | None = None, lasting: bool = True) -> None:
    """Replace `path` by `data`: whole or not at all, on disk when the call returns. Not `lasting`: nobody waits for the
    disk, and a power cut may leave an empty file.

    `mode` None keeps the mode of a file that exists and makes a new one 0600. A symlink is followed, so that it
    stays a link. What is no plain file (a device, a pipe) is never replaced by one: OSError.
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
    """Write `data` where the user said: into a device or a pipe that is there, else as `write_atomic`. Blocks; raises
    OSError."""
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
    """All of the plain file at `path`, links followed. Blocks.

    Raises OSError, also for more than `limit` bytes, and for a device or a pipe, which is not waited for.
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
    """Write `data` to a new file. Returns False, and touches nothing, when `path` exists already."""
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
    """As `create_exclusive`, and nobody ever sees a part of it, also when the program is killed meanwhile: the file
    gets its name when it is complete. Where the file system knows no hard links, it is written in place."""
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
    """Give `path` the name `target` in the same folder. Returns False, and touches nothing, when that name is taken.

    There is one name at any time, also when the program is killed. All who rename by this function wait for each other;
    a file that another program makes under the name in the same instant would be lost.
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
    """Wait for the system's lock of `path` and hold it: of a folder, or of a file, which is made where it is missing
    and stays. For what takes milliseconds; who has to give up, or to say who holds it, uses filelock."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if path.is_dir() else os.O_CREAT), PRIVATE_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sync_dir(folder: Path) -> None:
    """Make a rename or a new name in `folder` survive a power cut; file systems without it are left alone."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an OSError say `path`: a failed write knows no name, and the name of a temporary file helps nobody."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def read_guarded(workspace: Path, name: str) -> str | None:
    """The text of `workspace/name`, None when there is no such file: UTF-8, or what its mark says. What can't be
    decoded is replaced.

    Raises RefusedFileError for what leads out of the workspace (by symlink or hard link), is no plain file, is larger
    than 2 MiB or cannot be read.
    """
    root = Path(os.path.realpath(workspace))
    real = Path(os.path.realpath(workspace / name))
    if root not in real.parents:
        raise RefusedFileError("is a symlink that leads out of the workspace")
    try:
        # O_NOFOLLOW: the real path was just found, so a link here was put in its place since.
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
