"""The workspace as file tools may touch it: by real path, never through a link that leads out, never a device.

A path is resolved once and then walked from the workspace's own descriptor, one name at a time and without following
links. So a link that is put in the way between the check and the use is refused by the kernel, not by luck.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from msgspec import Struct

from clawbot.files import PRIVATE_DIR, PRIVATE_FILE
from clawbot.tools.fence import Bounds, Fence, Verdict
from clawbot.tools.protocol import ToolError

OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would wait for somebody at its other end.
OPEN_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symlink"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Place(Struct, frozen=True):
    """A checked path: `parts` from the workspace's real root, or from the real folder `base` outside of it that may be
    read; and `shown`, its form for people and models."""

    parts: tuple[str, ...]
    base: str = ""

    @property
    def shown(self) -> str:
        """The path relative to the workspace, `.` for the workspace itself; absolute outside of it."""
        inside = well_formed("/".join(self.parts))
        return well_formed(str(Path(self.base, *self.parts))) if self.base else inside or "."


def well_formed(text: str) -> str:
    """`text` without half characters (as names that are no UTF-8 have them), which no transcript could hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def kind_of(mode: int) -> str:
    """What a file of this `st_mode` is, in words; a plain file is `a file`."""
    return next((word for test, word in KINDS if test(mode)), "a file")


class WorkspaceFolder:
    """File access below one folder, and below those that its fence lets be read. All methods block; they raise
    ToolError with a reason the model can act on."""

    def __init__(self, root: Path, *, fence: Fence | None = None) -> None:
        self.root = root
        self.fence = fence or Fence()

    def bounds(self) -> Bounds:
        """The fence as the disk stands now, for one call of a tool."""
        return Bounds(self.root, self.fence)

    def real(self, place: Place) -> str:
        """The absolute path of `place`, without links in it."""
        return str(Path(place.base or os.path.realpath(self.root), *place.parts))

    def locate(self, path: str) -> Place:
        """Where `path` (relative to the workspace, absolute or `~/…`) really is; refused when it is out of reach."""
        return self._locate(path)[0]

    def locate_for_change(self, path: str) -> Place:
        """As `locate`, and refuses what must not be changed by a file tool."""
        place, verdict = self._locate(path)
        if verdict.access != "write":
            raise ToolError(f"{place.shown} is refused: {verdict.why}.")
        if not place.parts:
            raise ToolError("The path names the workspace itself. Name a file in it.")
        if any(part.casefold() == ".git" for part in place.parts):
            # A hook or a config in there runs commands at the user's next git call, past the shell's approval.
            raise ToolError(f"{place.shown} is refused: files inside .git are changed by git alone.")
        return place

    def _locate(self, path: str) -> tuple[Place, Verdict]:
        bounds = self.bounds()
        root = Path(bounds.root)
        try:
            asked = root / (Path(path).expanduser() if path == "~" or path.startswith("~/") else path)
            real = Path(os.path.realpath(asked))
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{path!r} is no usable path: {error}.") from None
        verdict = bounds.verdict(str(real))
        if verdict.access != "none" and verdict.base:
            base = "" if verdict.base == bounds.root else verdict.base
            return Place(real.relative_to(verdict.base).parts, base), verdict
        if verdict.why:
            raise ToolError(f"{path} is refused: {verdict.why}.")
        plain = Path(os.path.normpath(asked))
        if plain == root or root in plain.parents:
            raise ToolError(f"{path} is refused: a symlink on the way leads out of the workspace.")
        raise ToolError(f"{path} is refused: it lies outside the workspace {root}. File tools work inside it only.")

    @contextmanager
    def folder(self, parts: tuple[str, ...], *, base: str = "", create: bool = False) -> Iterator[int]:
        """A descriptor of the folder `parts` below the workspace, or below `base`; `create` makes missing ones with
        mode 0700."""
        current = self._open_root(base)
        try:
            for depth, name in enumerate(parts):
                with _explained("/".join(parts[: depth + 1])):
                    following = _enter(current, name, create=create)
                os.close(current)
                current = following
            yield current
        finally:
            os.close(current)

    @contextmanager
    def reading(self, place: Place) -> Iterator[BufferedReader]:
        """The plain file at `place`, open for reading."""
        with self.folder(place.parts[:-1], base=place.base) as parent, _explained(place.shown):
            if not place.parts:
                raise IsADirectoryError
            handle = open_regular(parent, place.parts[-1], OPEN_READ, self.bounds)
        with os.fdopen(handle, "rb") as stream, _explained(place.shown):
            yield stream

    def read(self, place: Place, limit: int) -> bytes | None:
        """The whole content, None when there is no such file. More than `limit` bytes are refused."""
        try:
            with self.reading(place) as stream:
                data = stream.read(limit + 1)
        except MissingFileError:
            return None
        if len(data) > limit:
            raise ToolError(f"{place.shown} is larger than {limit:,} bytes: too large to be changed by this tool.")
        return data

    def replace(self, place: Place, data: bytes) -> None:
        """Put `data` in place of the file, whole or not at all; its mode stays, a new one is 0600.

        The temp file is renamed over the name, so another name of the old file (a hard link) keeps the old content.
        """
        name = place.parts[-1]
        with self.folder(place.parts[:-1], create=True) as parent, _explained(place.shown):
            mode = _mode_to_keep(parent, name)
            temp = f".clawbot-{uuid.uuid4().hex}.tmp"
            handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, PRIVATE_FILE, dir_fd=parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                    os.fchmod(stream.fileno(), mode)
                os.replace(temp, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temp, dir_fd=parent)
                raise
            with contextlib.suppress(OSError):
                os.fsync(parent)

    @contextmanager
    def appending(self, place: Place) -> Iterator[int]:
        """A descriptor of the file at `place`, made when missing, for appending and for a look at its end."""
        with self.folder(place.parts[:-1], create=True) as parent, _explained(place.shown):
            handle = open_regular(parent, place.parts[-1], OPEN_APPEND, self.bounds)
            try:
                yield handle
            finally:
                os.close(handle)

    def _open_root(self, base: str) -> int:
        try:
            return os.open(base or os.path.realpath(self.root), OPEN_DIR)
        except OSError as error:
            raise ToolError(
                f"The workspace {base or self.root} cannot be opened: {error.strerror}.",
                hint="`clawbot workspace init` makes it.",
            ) from None


class MissingFileError(ToolError):
    """There is no such file."""


def open_regular(parent: int, name: str, flags: int, bounds: Callable[[], Bounds]) -> int:
    """A descriptor of the plain file `name` in the folder `parent`; raises OSError, or ToolError for anything else and
    for the second name of a file that `bounds` deny.

    The first look spares a device or a pipe from being opened at all, the second one is the check that counts.
    """
    with contextlib.suppress(FileNotFoundError):
        _demand_regular(name, os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    handle = os.open(name, flags, PRIVATE_FILE, dir_fd=parent)
    try:
        found = os.fstat(handle)
        _demand_regular(name, found.st_mode)
        if found.st_nlink > 1 and bounds().is_twin(found):
            raise ToolError(f"{name} is refused: it is a hard link, and another name of the file is out of reach.")
    except BaseException:
        os.close(handle)
        raise
    return handle


def _demand_regular(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError
    if not stat.S_ISREG(mode):
        raise ToolError(f"{name} is {kind_of(mode)}, not a file: refused.")


def _enter(parent: int, name: str, *, create: bool) -> int:
    """A descriptor of the folder `name` in `parent`."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, PRIVATE_DIR, dir_fd=parent)
    return os.open(name, OPEN_DIR, dir_fd=parent)


def _mode_to_keep(parent: int, name: str) -> int:
    """The permission bits of the file that is about to be replaced, 0600 when there is none."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return PRIVATE_FILE
    _demand_regular(name, found.st_mode)
    return found.st_mode & 0o777


@contextmanager
def _explained(shown: str) -> Iterator[None]:
    """Turn what the system says about `shown` into words for the model."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"{shown} does not exist.") from None
    except IsADirectoryError:
        raise ToolError(f"{shown} is a folder, not a file. See what is in it with `list`.") from None
    except NotADirectoryError:
        raise ToolError(f"{shown} is not a folder (or a symlink took its place): refused.") from None
    except PermissionError:
        raise ToolError(f"{shown} cannot be opened: permission denied.") from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ToolError(f"{shown} is refused: a symlink took its place.") from None
        raise ToolError(f"{shown}: {error.strerror or error}.") from error
