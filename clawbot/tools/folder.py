"""The workspace for file tools: by real path, never through a link that leads out, never a device.

A path is resolved once and then walked from the workspace's descriptor, name by name and without following links. So a
link inserted between check and use is refused by the kernel.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from msgspec import Struct

from clawbot import guarded
from clawbot.guarded import LINK_ERRORS, OPEN_APPEND, OPEN_READ, GuardedFolder, SpecialFileError, hold_folder
from clawbot.text.names import fold_name, on_disk
from clawbot.tools.paths import Bounds, Fence, Verdict
from clawbot.tools.protocol import ToolError
from clawbot.trees import DEEPEST

# Folders with the settings and hooks of a version control program.
STORES = {".git": "git", "git~1": "git", ".hg": "hg", ".jj": "jj"}
# A folder with HEAD and these is a git repository even without `.git` (setup.c: is_git_directory; `commondir` names
# another folder with the other two).
HEAD = "HEAD"
STORE_PARTS = frozenset({"objects", "refs", "commondir"})


def why_kept(root: Path, parts: Sequence[str]) -> str:
    """Why a file tool may not change the file `parts` below the folder `root`, completing "… is refused: "; "" if it
    may. Blocks."""
    folded = [_plain(part) for part in parts]
    store = next((STORES[name] for name in folded if name in STORES), None)
    if store:
        return f"files inside .{store} are changed by {store} alone"
    if folded[-1] == _plain(HEAD):
        return (
            "a file of that name makes its folder a Git repository, whose settings run commands. Take another name; "
            "a repository is made with `git init` in the shell"
        )
    for depth in range(len(parts)):
        folder = root.joinpath(*parts[:depth])
        if not (folder / HEAD).exists() and not (folder / HEAD).is_symlink():
            continue
        if folded[depth] in STORE_PARTS or _is_repository(folder):
            where = "/".join(parts[:depth]) or "the workspace"
            return (
                f"{where} holds a file HEAD, and with it this would be part of a Git repository, changed by git alone"
            )
    return ""


def _plain(name: str) -> str:
    """`name` normalised as on Windows: without trailing dots and spaces, and without a stream name after `:`."""
    return fold_name(name.partition(":")[0].rstrip(" .") or name)


def _is_repository(folder: Path) -> bool:
    return (folder / "commondir").exists() or ((folder / "objects").is_dir() and (folder / "refs").is_dir())


NAME_BYTES = 255  # NAME_MAX of Linux and macOS
SHOWN_CHARS = 200  # of a path that is refused
KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symlink"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class WorkspacePath(Struct, frozen=True):
    """A checked path: `parts` relative to the workspace's real root, or to the real readable folder `base` outside;
    `shown` is its form for people and models."""

    parts: tuple[str, ...]
    base: str = ""

    @property
    def shown(self) -> str:
        """The path relative to the workspace, `.` for the workspace itself; absolute outside of it."""
        inside = well_formed("/".join(self.parts))
        return well_formed(str(Path(self.base, *self.parts))) if self.base else inside or "."


def well_formed(text: str) -> str:
    """`text` without lone surrogates (from names that are not UTF-8), which no transcript can hold."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def kind_of(mode: int) -> str:
    """The file type of `st_mode` in words; `a file` for a regular one."""
    return next((word for test, word in KINDS if test(mode)), "a file")


class WorkspaceFolder:
    """File access below one folder and the folders readable by its fence. All methods block; they raise ToolError with
    a reason that the model can act on."""

    def __init__(self, root: Path, *, fence: Fence | None = None) -> None:
        self.root = root
        self.fence = fence or Fence()

    def bounds(self) -> Bounds:
        """The fence evaluated now, for one call of a tool."""
        return Bounds(self.root, self.fence)

    def real(self, path: WorkspacePath) -> str:
        """The absolute path of `path`, without links in it."""
        return str(Path(path.base or os.path.realpath(self.root), *path.parts))

    def locate(self, path: str) -> WorkspacePath:
        """The real location of `path` (relative to the workspace, absolute or `~/…`); refused if out of reach. If it
        does not exist, a file with a visually equal name is used (see `on_disk`)."""
        return self._locate(path)[0]

    def locate_for_change(self, path: str) -> WorkspacePath:
        """Like `locate`, but refuses files that a tool must not change. Raises ToolError."""
        found, verdict = self._locate(path)
        if verdict.access != "write":
            raise ToolError(f"{found.shown} is refused: {verdict.why}.")
        if not found.parts:
            raise ToolError("The path names the workspace itself. Name a file in it.")
        if (depth := len(found.parts) - 1) > DEEPEST:
            raise ToolError(f"The path has {depth:,} folders inside each other; {DEEPEST} are the most. Use fewer.")
        with explained(found.shown):
            why = why_kept(Path(os.path.realpath(self.root)), found.parts)
        if why:
            raise ToolError(f"{found.shown} is refused: {why}.")
        return found

    def _locate(self, path: str) -> tuple[WorkspacePath, Verdict]:
        bounds = self.bounds()
        root = Path(bounds.root)
        try:
            asked = root / (Path(path).expanduser() if path == "~" or path.startswith("~/") else path)
            real = Path(os.path.realpath(on_disk(asked)))
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{path[:SHOWN_CHARS]!r} is no usable path: {error}.") from None
        except OSError as error:
            # A link replaced while it was followed.
            raise ToolError(f"{path[:SHOWN_CHARS]} cannot be followed: {error.strerror or error}.") from None
        _demand_usable_names(real.parts)
        verdict = bounds.verdict(str(real))
        if verdict.access != "none" and verdict.base:
            base = "" if verdict.base == bounds.root else verdict.base
            return WorkspacePath(real.relative_to(verdict.base).parts, base), verdict
        if verdict.why:
            raise ToolError(f"{path} is refused: {verdict.why}.")
        plain = Path(os.path.normpath(asked))
        if plain == root or root in plain.parents:
            raise ToolError(f"{path} is refused: a symlink on the way leads out of the workspace.")
        raise ToolError(f"{path} is refused: it lies outside the workspace {root}. File tools work inside it only.")

    @contextmanager
    def folder(self, parts: tuple[str, ...], *, base: str = "", create: bool = False) -> Iterator[int]:
        """Open the folder `parts` below the workspace or `base`; `create` creates missing ones with mode 0700."""
        top = Path(base or os.path.realpath(self.root))
        with contextlib.ExitStack() as opened:
            try:
                folder = opened.enter_context(GuardedFolder(top, real=True).folder(Path(*parts), create=create))
            except OSError as error:
                if error.filename == str(top):
                    raise ToolError(
                        f"The workspace {base or self.root} cannot be opened: {error.strerror}.",
                        hint="`clawbot workspace init` creates it.",
                    ) from None
                with explained(str(Path(error.filename).relative_to(top))):
                    raise
            yield folder

    @contextmanager
    def reading(self, path: WorkspacePath) -> Iterator[BufferedReader]:
        """The regular file at `path`, open for reading. Raises ToolError."""
        with self.folder(path.parts[:-1], base=path.base) as parent, explained(path.shown):
            if not path.parts:
                raise IsADirectoryError
            handle = open_regular(parent, path.parts[-1], OPEN_READ, self.bounds)
        with os.fdopen(handle, "rb") as stream, explained(path.shown):
            yield stream

    def read(self, path: WorkspacePath, limit: int) -> bytes | None:
        """The content, None if the file does not exist. Raises ToolError for more than `limit` bytes."""
        try:
            with self.reading(path) as stream:
                data = stream.read(limit + 1)
        except MissingFileError:
            return None
        if len(data) > limit:
            raise ToolError(f"{path.shown} is larger than {limit:,} bytes: too large to be changed by this tool.")
        return data

    def create(self, path: WorkspacePath, data: bytes) -> bool:
        """Write a new file with mode 0600. Returns False and changes nothing if there is one."""
        with explained(path.shown):
            return GuardedFolder(self.root).create(Path(*path.parts), data)

    def replace(self, path: WorkspacePath, data: bytes, check: Callable[[], None] | None = None) -> None:
        """Replace the file with `data` atomically; its mode is kept, a new one is 0600. `check` may raise right before.

        A temporary file is renamed, so other hard links keep the old content.
        """
        with explained(path.shown):
            GuardedFolder(self.root).replace(Path(*path.parts), data, check=check)

    @contextmanager
    def appending(self, path: WorkspacePath) -> Iterator[int]:
        """Open the file at `path`, created if missing, to append and to read its end; other writers of ours wait."""
        with self.folder(path.parts[:-1], create=True) as parent, explained(path.shown):
            hold_folder(parent)
            handle = open_regular(parent, path.parts[-1], OPEN_APPEND, self.bounds)
            try:
                yield handle
            finally:
                os.close(handle)


def _demand_usable_names(names: Sequence[str]) -> None:
    """Raise ToolError for a name that no supported file system accepts, without repeating the name."""
    for name in names:
        if (size := len(os.fsencode(name))) > NAME_BYTES:
            raise ToolError(f"A name in the path is too long: {size:,} bytes; {NAME_BYTES} are the most. Shorten it.")


class MissingFileError(ToolError):
    """There is no such file."""


def open_regular(parent: int, name: str, flags: int, bounds: Callable[[], Bounds]) -> int:
    """Open the regular file `name` in `parent`. Raises OSError, and ToolError for hard links that `bounds` denies."""
    handle = guarded.open_regular(parent, name, flags)
    try:
        found = os.fstat(handle)
        if found.st_nlink > 1 and bounds().is_twin(found):
            raise ToolError(f"{name} is refused: it is a hard link, and another name of the file is out of reach.")
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def explained(shown: str) -> Iterator[None]:
    """Raise the system's errors about `shown` as ToolErrors for the model, MissingFileError for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise MissingFileError(f"{shown} does not exist.") from None
    except IsADirectoryError:
        raise ToolError(f"{shown} is a folder, not a file. See what is in it with `list`.") from None
    except NotADirectoryError:
        raise ToolError(f"{shown} is not a folder (or a symlink replaced it): refused.") from None
    except SpecialFileError as error:
        raise ToolError(f"{shown} is {kind_of(error.mode)}, not a file: refused.") from None
    except PermissionError:
        raise ToolError(f"{shown} cannot be opened: permission denied.") from None
    except OSError as error:
        if error.errno in LINK_ERRORS:
            raise ToolError(f"{shown} is refused: a symlink replaced it.") from None
        raise ToolError(f"{shown[:SHOWN_CHARS]}: {error.strerror or error}.") from error
