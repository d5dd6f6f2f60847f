"""The one way to files in a folder that commands write in, such as a workspace: by descriptor, and through no link.

A command may put a link, a pipe or a folder in place of any file, at any time. So nothing below such a folder is
opened by its full path: `GuardedFolder` opens each part relative to the one before, and regular files only.

Files are written with mode 0600, folders with 0700. All functions block: call them in a thread from the event loop.
They raise OSError with the path that is wrong.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from clawbot.authors import changing
from clawbot.locks import try_lock, wait_for_lock
from clawbot.text.encoding import decoded
from clawbot.text.patterns import lazy_re

PRIVATE_FILE = 0o600
PRIVATE_DIR = 0o700
NO_PLAIN_FILE = "is no plain file"
MAX_GUARDED_BYTES = 2 * 1024 * 1024
MAX_RECORDED_BYTES = 20 * 1024 * 1024  # of a memory file; the index takes no larger one
LINK_ERRORS = (errno.ELOOP, errno.EMLINK)  # the errors of O_NOFOLLOW for a link, on Linux and BSD
# Without O_NONBLOCK, opening a FIFO would wait for a writer.
OPEN_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASIDE = lazy_re(r"\..*\.[0-9a-f]{32}\.tmp", re.DOTALL)
_KEPT_BYTES = 150  # of a file's name in that of its temporary file; with 38 more it is short enough everywhere
_LOCK_TRIES, _LOCK_PAUSE = 100, 0.01  # a second: whoever holds the lock is about to write one file
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class ChangedFileError(OSError):
    """A file became another one since it was read: it was not replaced."""


class SpecialFileError(OSError):
    """Not a regular file: a link, a pipe, a socket or a device. `mode` is its `st_mode`."""

    mode = 0


class RefusedFileError(Exception):
    """A file that must not be read into a prompt; the text is the reason."""


class GuardedFolder:
    """The files below the folder `root`. Paths are relative to it, or absolute ones that enter it (see `parts_below`).

    No link below `root` is followed, nor one that replaces `root` itself if that is a `real` path. Raises
    NotADirectoryError for a link (ELOOP) or a file (ENOTDIR) on the way, SpecialFileError for a link in place of a
    file.
    """

    def __init__(self, root: Path, *, real: bool = False) -> None:
        self.root = root
        self._real = real

    @contextlib.contextmanager
    def folder(self, path: str | Path = "", *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder `path`; `create` creates missing ones, and the root unless that is real."""
        folder = self._open_folder(self._parts(path), create=create)
        try:
            yield folder
        finally:
            os.close(folder)

    def names(self, path: str | Path = "") -> list[str]:
        """What is in the folder `path`, in no order."""
        with self.folder(path) as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries]

    def open(self, path: str | Path, flags: int = OPEN_READ) -> int:
        """Return a descriptor of the regular file `path`."""
        with self._holding(path) as (folder, name):
            return open_regular(folder, name, flags)

    def read(self, path: str | Path, limit: int, *, linked: bool = True) -> bytes:
        """Return the content. Raises OSError for more than `limit` bytes, and if not `linked` for a hard link."""
        with self._holding(path) as (folder, name), os.fdopen(open_regular(folder, name), "rb") as stream:
            return regular_content(stream, limit, linked=linked)

    def state(self, path: str | Path) -> os.stat_result | None:
        """What is at `path`, which may be a link; None if it or a folder on the way is missing."""
        try:
            with self._holding(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def create(self, path: str | Path, data: bytes, *, mode: int = PRIVATE_FILE) -> bool:
        """Write a new file; returns False and changes nothing if `path` exists. It gets its name only when it is
        complete, so that a partial file is never visible, except on file systems without hard links."""
        with self._holding(path, create=True) as (folder, name):
            with contextlib.suppress(FileNotFoundError):
                # Before anything is written: a full disk stops nobody who has the file.
                os.stat(name, dir_fd=folder, follow_symlinks=False)
                return False
            with contextlib.suppress(FileExistsError), changing(self.root, path, lambda: None, data):
                _create_complete(folder, name, data, mode)
                sync(folder)
                return True
            return False

    def replace(
        self,
        path: str | Path,
        data: bytes,
        *,
        mode: int | None = None,
        lasting: bool = True,
        check: Callable[[], None] | None = None,
        held: bool = False,
    ) -> None:
        """Replace `path` with `data` atomically; the data is on disk when the call returns. Not `lasting`: without
        fsync, so a power cut may leave an empty file.

        `mode` None keeps the mode of an existing file and creates new ones with 0600. `check` is called last of all,
        with the lock of the folder (`held`: that the caller has), and may raise. Devices and pipes are never replaced.
        """
        with self._holding(path, create=True) as (folder, name):
            found = _mode_of(folder, name)
            if found and not stat.S_ISREG(found):
                raise _special(found)
            if mode is None:
                mode = found & 0o777 if found else PRIVATE_FILE
            aside = _write_aside(folder, name, data, mode, lasting=lasting)
            try:
                if check is not None:
                    if not held:
                        hold_folder(folder)
                    check()
                with changing(self.root, path, lambda: _content(folder, name), data):
                    os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                _unlink(folder, aside)
                raise
            if lasting:
                sync(folder)

    def replace_known(self, path: str | Path, before: bytes, after: bytes | None) -> None:
        """Replace the content `before` of `path` with `after` (None: delete the file). Raises ChangedFileError if the
        content is another one by now."""

        def demand_unchanged() -> None:
            try:
                now = self.read(path, len(before))
            except OSError:
                now = None  # gone, longer, or not a file
            if now != before:
                raise ChangedFileError(errno.EBUSY, "was changed by another program since", str(path))

        if after is not None:
            self.replace(path, after, check=demand_unchanged)
            return
        demand_unchanged()
        self.erase(path)

    def rename(self, path: str | Path, name: str) -> bool:
        """Give the file `path` another name in its folder. Returns False and changes nothing if `name` exists.

        Exactly one of the names exists at any time, also after a kill. Callers exclude each other; a file that another
        program creates as `name` at the same instant would be overwritten.
        """
        with self._holding(path) as (folder, old):
            wait_for_lock(folder)
            if _mode_of(folder, name):
                return False
            with changing(self.root, Path(path).with_name(name), lambda: _content(folder, old), None, was=str(path)):
                os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
            sync(folder)
            return True

    def erase(self, path: str | Path) -> None:
        """Delete the file `path`, if it exists."""
        with self._holding(path) as (folder, name):
            with changing(self.root, path, lambda: _content(folder, name), None):
                _unlink(folder, name)
            sync(folder)

    def unshut(self, path: str | Path) -> None:
        """Give the user, to whom it belongs, the folder `path` again that a command has shut."""
        if not self._parts(path):
            self.root.chmod(stat.S_IRWXU)
            return
        with self._holding(path) as (folder, name):
            if sys.platform == "linux":
                handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=folder)
                try:
                    Path(f"/proc/self/fd/{handle}").chmod(stat.S_IRWXU)
                finally:
                    os.close(handle)
            else:
                os.chmod(name, stat.S_IRWXU, dir_fd=folder, follow_symlinks=False)

    def _parts(self, path: str | Path) -> tuple[str, ...]:
        is_absolute = Path(path).is_absolute()
        parts = parts_below(self.root, Path(path)) if is_absolute else Path(os.path.normpath(path)).parts
        if (is_absolute and not parts) or ".." in parts:
            raise PermissionError(errno.EACCES, f"is outside of {self.root}", str(path))
        return parts

    def _open_folder(self, parts: Sequence[str], *, create: bool) -> int:
        """Return a descriptor of the folder `parts` below the root."""
        reached, current = self.root, None
        try:
            if create and not self._real:
                ensure_private_dir(self.root)
            current = os.open(self.root if self._real else os.path.realpath(self.root), _FOLDER)
            for name in parts:
                reached /= name
                above, current = current, _folder_in(current, name, create=create)
                os.close(above)
        except OSError as error:
            if current is not None:
                os.close(current)
            error.filename = str(reached)
            raise
        return current

    @contextlib.contextmanager
    def _holding(self, path: str | Path, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds `path`, and its name there. Errors name `path`."""
        *above, name = self._parts(path) or ("",)
        try:
            folder = self._open_folder(above, create=create)
            try:
                yield folder, name
            finally:
                os.close(folder)
        except OSError as error:
            error.filename = str(self.root / path)
            raise


def reached(path: Path, workspace: Path | None) -> tuple[GuardedFolder, Path]:
    """Return the folder to reach a path of the user's through, and the path in it: `workspace` for what is there, by
    whatever name, else its own folder, where links are the user's. Blocks."""
    if workspace is not None and (parts := parts_below(workspace, path)):
        return GuardedFolder(workspace), Path(*parts)
    return GuardedFolder(path.absolute().parent), Path(path.name)


def open_real(path: Path) -> BinaryIO:
    """The regular file that `path` leads to, open for reading. For what is off until the user trusts it: links there
    may be the user's. Never waits for a pipe."""
    real = path.resolve()
    return os.fdopen(GuardedFolder(real.parent, real=True).open(real.name), "rb")


def parts_below(root: Path, path: Path) -> tuple[str, ...]:
    """`path` relative to the folder `root`, from where it first enters that, by whatever name; empty if it does not.
    Links on the rest of it are not followed. Blocks."""
    real, plain = os.path.realpath(root), Path(os.path.normpath(path.absolute()))
    for folder in reversed(plain.parents):
        inside = Path(os.path.realpath(folder))
        if inside.is_relative_to(real):
            return (*inside.relative_to(real).parts, *plain.relative_to(folder).parts)
    return ()


def ensure_private_dir(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700; an existing folder keeps its mode. Raises
    NotADirectoryError and other OSErrors."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=PRIVATE_DIR, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(20, "is a file, not a folder", str(path))
    return path


def open_regular(folder: int, name: str, flags: int = OPEN_READ) -> int:
    """Return a descriptor of the regular file `name` in the open `folder`. Raises SpecialFileError, IsADirectoryError.

    The stat before avoids opening devices and pipes at all; the one after opening is the check that counts.
    """
    found = _mode_of(folder, name)
    if found and not stat.S_ISREG(found):
        raise _special(found)
    handle = os.open(name, flags, PRIVATE_FILE, dir_fd=folder)
    found = os.fstat(handle).st_mode
    if not stat.S_ISREG(found):
        os.close(handle)
        raise _special(found)
    return handle


def regular_content(stream: BinaryIO, limit: int, *, linked: bool = True) -> bytes:
    """What an open regular file holds, see `GuardedFolder.read`."""
    found = os.fstat(stream.fileno())
    if not stat.S_ISREG(found.st_mode):
        raise _special(found.st_mode)
    if found.st_nlink > 1 and not linked:
        raise OSError(errno.EINVAL, "is a hard link, whose other name may be outside the workspace")
    data = stream.read(limit + 1) or b""  # None: files of the system that have nothing to read yet
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit / 2**20:.3g} MiB")
    return data


def _special(mode: int) -> OSError:
    """Return the error for what is no regular file."""
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    error = SpecialFileError(errno.ELOOP if stat.S_ISLNK(mode) else errno.EINVAL, NO_PLAIN_FILE)
    error.mode = mode
    return error


def _folder_in(folder: int, name: str, *, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, PRIVATE_DIR, dir_fd=folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, *LINK_ERRORS):
            raise
        code = errno.ELOOP if stat.S_ISLNK(_mode_of(folder, name)) else errno.ENOTDIR
        raise NotADirectoryError(code, f"{name} is a link or a file, not a folder") from error


def _write_aside(folder: int, name: str, data: bytes, mode: int, *, lasting: bool = True) -> str:
    """Write a temporary file that is to become `name`; returns its own name."""
    aside = f".{os.fsencode(name)[:_KEPT_BYTES].decode(errors='ignore')}.{uuid.uuid4().hex}.tmp"
    _create(folder, aside, data, mode, lasting=lasting)
    return aside


def is_aside(name: str) -> bool:
    """Return whether a file is a temporary one that this program writes: others have `.NAME.tmp` as well."""
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


def _create_complete(folder: int, name: str, data: bytes, mode: int) -> None:
    """Write a new file that gets its name when it is complete. Raises FileExistsError."""
    aside = _write_aside(folder, name, data, mode)
    try:
        os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _create(folder, name, data, mode)
    finally:
        _unlink(folder, aside)


def _content(folder: int, name: str) -> bytes | None:
    """What the regular file `name` holds, for the record of a change; None if it is missing. Raises OSError."""
    try:
        with os.fdopen(open_regular(folder, name), "rb") as stream:
            return regular_content(stream, MAX_RECORDED_BYTES)
    except FileNotFoundError:
        return None


def _unlink(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _mode_of(folder: int, name: str) -> int:
    """Return the `st_mode` of the entry, 0 if there is none."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def hold_folder(folder: int) -> None:
    """Lock the open folder until it is closed, so that our own processes exclude each other where they change a file
    that they have read. Gives up after a second: a command may hold the lock for ever, and some file systems have
    none."""
    with contextlib.suppress(OSError):
        for _ in range(_LOCK_TRIES):
            if try_lock(folder):
                return
            time.sleep(_LOCK_PAUSE)


def sync(folder: int) -> None:
    """Make what was renamed or created in the open folder survive a power cut, on file systems that can."""
    with contextlib.suppress(OSError):
        os.fsync(folder)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Set `path` as the file name of an OSError: a failed write has none, and that of a temporary file is no help."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def read_guarded(workspace: Path, name: str) -> str | None:
    """Return the text of `workspace/name`, None if it does not exist. UTF-8, or the encoding of its byte order mark;
    undecodable bytes are replaced. Raises RefusedFileError as `guarded_bytes`."""
    data = guarded_bytes(workspace, name)
    return None if data is None else decoded(data, errors="replace")


def guarded_bytes(workspace: Path, name: str) -> bytes | None:
    """The content of `workspace/name`, None if it does not exist. A link to another file of the workspace is resolved.

    Raises RefusedFileError for a file that leads out of the workspace (by symlink or hard link), is not a regular file,
    is larger than 2 MiB or cannot be read.
    """
    root = Path(os.path.realpath(workspace))
    real = Path(os.path.realpath(workspace / name))
    if root not in real.parents:
        raise RefusedFileError("is a symlink that leads out of the workspace")
    try:
        return GuardedFolder(root, real=True).read(real.relative_to(root), MAX_GUARDED_BYTES, linked=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        own = error.errno in (errno.EINVAL, errno.EFBIG)
        raise RefusedFileError(error.strerror if own else f"cannot be read ({error.strerror})") from error
