"""What a command in the sandbox may see and change: no secrets, no code that runs outside, no sockets."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from msgspec import Struct

from clawbot.config.paths import INSTRUCTIONS, is_instruction
from clawbot.config.schema_agent import ShellSettings
from clawbot.text.names import fold_name
from clawbot.tools.folder import HEAD
from clawbot.tools.paths import Barred, Fence, is_secret_file, is_within, secret_globs, secret_paths
from clawbot.tools.sandbox.mounts import (
    SCRATCH,
    Access,
    Contents,
    Mount,
    access_at,
    arrange,
    by_custom,
    entries,
    homes_of_user,
    stores_above,
    walk,
)
from clawbot.tools.sandbox.recovery import Watched, watched

# The ritual of the first start ends with `rm BOOTSTRAP.md`: this one may go, and is otherwise what it was.
REMOVABLE = "BOOTSTRAP.md"
# What would make a repository of the workspace.
NEW_STORES = (".git", ".hg", ".jj", HEAD)
MAX_LINKED = 500  # entries of one hidden folder that are checked for links
# Of an empty /run these are needed: names of servers (a link leads there), and where NixOS keeps its programs.
RUN_KEPT = ("/etc/resolv.conf", "/run/current-system", "/run/opengl-driver", "/run/wrappers")
_SOCKETS = Path("/proc/net/unix")
# The last column of a line; a name may hold line breaks.
_SOCKET_NAME = re.compile(
    rb"^[0-9a-f]+: (?:[0-9A-F]+ ){5} *\d+ (/.*?)(?=\n[0-9a-f]{8,}: |\n?\Z)", re.MULTILINE | re.DOTALL
)


class Reach(Struct, frozen=True):
    """Whose commands these are. `home` is the user's, `state` clawbot's own folder; relative globs of the
    `settings` start at the workspace. `known` is what earlier commands found in the workspace, and with `git` the user
    approved a command by which git changes its own settings."""

    workspace: Path
    home: Path
    state: Path
    fence: Fence
    settings: ShellSettings = msgspec.field(default_factory=ShellSettings)
    known: Contents = msgspec.field(default_factory=Contents)
    git: bool = False


class SandboxView(Struct, frozen=True):
    """What a command sees: it starts in `folder`, with `mounts` from the outside in, and `watched` is checked when
    it has ended. `known` is what the workspace holds, `outer` the stores of its repository that can't be written to."""

    folder: str
    mounts: tuple[Mount, ...]
    watched: tuple[Watched, ...]
    known: Contents
    outer: tuple[str, ...] = ()


def sandbox_view(reach: Reach, sockets: Path = _SOCKETS) -> SandboxView:
    """The view of a command that starts now. `sockets` lists those of the system, as Linux does. Blocks."""
    root = os.path.realpath(reach.workspace)
    found = _Found(reach, root)
    mounts = arrange([*_surroundings(), Mount(root, "write"), *found.mounts()])
    # What is outside of what can be written is safe as it is.
    guarded = [path for path in found.guarded() if _can_change(mounts, str(Path(path).parent))]
    watched_paths = tuple(watched(guarded, removable=f"{root}/{REMOVABLE}"))
    mounts = arrange([*mounts, *_read_only(guarded, mounts, root)])
    held = [mount.path for mount in mounts if mount.access in ("read", "hidden")]
    mounts = arrange([*mounts, *_pins([*held, *(one.path for one in watched_paths)], mounts, found.secrets)])
    mounts = arrange([*mounts, *_sockets(sockets, mounts), *_pipes(homes_of_user(reach.home), mounts)])
    outer = [store for store in stores_above(root) if not _can_change(mounts, store)]
    # What can't be entered any more holds up each later command.
    rights = [Watched(folder, mode=stat.S_IMODE(Path(folder).stat().st_mode)) for folder in found.writable_folders()]
    return SandboxView(root, tuple(mounts), (*rights, *watched_paths), found.known, tuple(outer))


def _can_change(mounts: Iterable[Mount], path: str) -> bool:
    return access_at(mounts, path) in ("write", "owned")


def _pins(held: Iterable[str], mounts: Sequence[Mount], movable: Collection[str]) -> Iterator[Mount]:
    """The folders above what is `held`, as mount points: those can't be renamed, which would make room for others."""
    seen: set[str] = set()
    for path in held:
        above = str(Path(path).parent)
        while path not in movable and above not in seen and _can_change(mounts, above):
            seen.add(above)
            yield Mount(above, "write")
            above = str(Path(above).parent)


def _surroundings() -> Iterator[Mount]:
    yield Mount(SCRATCH, "scratch")
    # Where servers listen, also those that begin to while the command runs.
    for folder in ("/run", "/var/run", os.environ.get("XDG_RUNTIME_DIR", "")):
        if Path(folder).is_absolute() and Path(folder).is_dir() and not Path(folder).is_symlink():
            yield Mount(os.path.realpath(folder), "empty")
    for path in RUN_KEPT:
        real = os.path.realpath(path)
        if is_within("/run", real) and Path(real).exists():
            yield Mount(real, "read", Path(real).is_dir())


class _Found:
    """What is found for one command."""

    def __init__(self, reach: Reach, root: str) -> None:
        self._reach = reach
        self._root = root
        self._homes = homes_of_user(reach.home)
        self._owned = self._expand(reach.settings.sandbox_write)
        self.known = reach.known.present()
        for folder in (root, *self._owned):
            self.known = self.known.joined(walk(folder, reach.settings.sandbox_folders))
        self.secrets = {os.path.realpath(path) for path in (*self.known.secrets, *self._secrets_above())}

    def writable_folders(self) -> list[str]:
        return [folder for folder in (self._root, *self._owned) if Path(folder).is_dir()]

    def mounts(self) -> Iterator[Mount]:
        reach = self._reach
        shown = set(self._expand(reach.settings.sandbox_show))
        hidden = {path for top, glob in secret_globs(self._homes, os.environ) for path in _fitting(top, [glob])}
        hidden |= set(self._expand((*secret_paths()["system"], *reach.settings.sandbox_hide)))
        hidden |= {target for folder in tuple(hidden) for target in _linked_files(folder, self._homes)}
        hidden |= self.secrets
        yield from _as_mounts(hidden - shown - {self._root}, "hidden")
        # Opened by the command itself, these would show secrets that were not found.
        yield from _as_mounts(self.known.shut, "hidden")
        # What is clawbot's own, and what is another agent's.
        foreign = {os.path.realpath(path) for one in reach.fence.denied for path in _named(one)}
        yield from _as_mounts({*foreign, os.path.realpath(reach.state)} - {self._root}, "hidden")
        readable = [*reach.fence.readable, *reach.fence.skill_folders()]
        yield from _as_mounts((os.path.realpath(folder) for folder in readable), "read")
        yield from _as_mounts(self._owned, "owned")

    def guarded(self) -> list[str]:
        """Paths that no command changes, whether they are there or not: what would be obeyed or run outside."""
        fence = self._reach.fence
        running = (*fence.hook_folders(), *fence.skill_folders())
        paths = [f"{self._root}/{name}" for name in INSTRUCTIONS]
        paths += [entry.path for entry in entries(self._root) if is_instruction((entry.name,))]
        paths += [str(path) for path in running]
        paths += [path for barred in fence.unwritable for path in _named(barred)]
        paths += [f"{self._root}/hooks"]
        paths += self._code_of_repositories()
        paths += [f"{os.path.realpath(home)}/{name}" for home in self._homes for name in by_custom().home_code]
        return list(dict.fromkeys(_first_missing(_with_real_folder(path)) for path in paths))

    def _code_of_repositories(self) -> list[str]:
        """What programs of version control run or obey. Where the user approved git, of that the hooks alone."""
        if self._reach.git:
            return [path for path in self.known.code() if Path(path).name == "hooks" and os.path.lexists(path)]
        stores = map(Path(self._root).joinpath, NEW_STORES)
        return [*self.known.code(), *(str(each) for each in stores if each.is_symlink() or not each.is_dir())]

    def _expand(self, patterns: Iterable[str]) -> list[str]:
        """The real paths of what fits globs of the settings."""
        found: list[str] = []
        for pattern in map(Path, patterns):
            top = Path(pattern.anchor or self._root)
            found += _fitting(top, [str(pattern).removeprefix(pattern.anchor)])
        return found

    def _secrets_above(self) -> Iterator[str]:
        above = {str(folder) for folder in (*Path(self._root).parents, *self._homes)}
        for folder in above:
            yield from (entry.path for entry in entries(folder) if is_secret_file(entry.name))


def _fitting(top: Path, patterns: Iterable[str]) -> Iterator[str]:
    """The real paths of what fits globs below `top`."""
    for pattern in patterns:
        literal = top / pattern
        if os.path.lexists(literal):
            yield os.path.realpath(literal)
            continue
        with contextlib.suppress(OSError, ValueError):
            yield from [os.path.realpath(found) for found in top.glob(pattern)]


def _named(barred: Barred) -> Iterator[str]:
    if not barred.pattern:
        yield str(barred.path)
        return
    pattern = fold_name(barred.pattern)
    yield from (entry.path for entry in entries(str(barred.path)) if fnmatchcase(fold_name(entry.name), pattern))


def _with_real_folder(path: str) -> str:
    """`path` without links in the folders that lead to it."""
    folder, name = os.path.split(path)
    return str(Path(os.path.realpath(folder), name))


def _first_missing(path: str) -> str:
    """`path`, or the topmost folder on the way to it that is not there."""
    while not os.path.lexists(above := str(Path(path).parent)):
        path = above
    return path


def _linked_files(folder: str, homes: Iterable[Path]) -> Iterator[str]:
    """Files of the `homes` elsewhere to which links in `folder` lead: some keep their settings in one folder so."""
    tops = [os.path.realpath(home) for home in homes]
    inner = [entry for entry in entries(folder) if entry.is_dir(follow_symlinks=False)][:MAX_LINKED]
    for entry in (entry for one in (folder, *(entry.path for entry in inner)) for entry in entries(one)[:MAX_LINKED]):
        if entry.is_symlink() and entry.is_file():
            real = os.path.realpath(entry.path)
            if any(is_within(top, real) for top in tops):
                yield real


def _as_mounts(paths: Iterable[str], access: Access) -> Iterator[Mount]:
    yield from (Mount(path, access, Path(path).is_dir()) for path in paths if Path(path).exists())


def _read_only(guarded: Iterable[str], mounts: Sequence[Mount], root: str) -> Iterator[Mount]:
    """A command can make a link of what is guarded: what is where it can't write remains as it is, hidden above all."""
    for path in guarded:
        real = os.path.realpath(path)
        if real == root or path == f"{root}/{REMOVABLE}" or not _can_change(mounts, real):
            continue
        if Path(real).exists():
            yield Mount(real, "read", Path(real).is_dir())


def _sockets(listing: Path, mounts: Iterable[Mount]) -> Iterator[Mount]:
    """The sockets that a command could still reach: behind one there is a process that would act for it."""
    seen = list(mounts)
    with contextlib.suppress(OSError):
        for name in _SOCKET_NAME.findall(listing.read_bytes()):
            real = os.path.realpath(os.fsdecode(name))
            if access_at(seen, real) in ("read", "write") and _is_a(stat.S_IFSOCK, real):
                yield Mount(real, "hidden", folder=False)


def _pipes(homes: Iterable[Path], mounts: Iterable[Mount]) -> Iterator[Mount]:
    """The named pipes that a command could reach with a process outside at the other end: those that are open, and in
    the first two levels of the `homes` those at which somebody may wait. A mount that is read-only stops no writer."""
    seen = list(mounts)
    tops = [str(home) for home in homes]
    tops += [entry.path for top in tops for entry in entries(top) if entry.is_dir(follow_symlinks=False)]
    waiting = [entry.path for top in tops for entry in entries(top) if _is_a(stat.S_IFIFO, entry.path)]
    for path in {path for path in _open_files() if path.startswith("/")}:
        if access_at(seen, path) in ("read", "write") and _is_a(stat.S_IFIFO, path):
            yield Mount(path, "hidden", folder=False)
    for path in map(os.path.realpath, waiting):
        if access_at(seen, path) == "read":
            yield Mount(path, "hidden", folder=False)


def _open_files() -> Iterator[str]:
    """The files that processes have open, as far as Linux's /proc shows them."""
    for process in entries("/proc"):
        if process.name.isdecimal():
            for link in entries(f"{process.path}/fd"):
                with contextlib.suppress(OSError):
                    yield str(Path(link.path).readlink())


def _is_a(kind: int, path: str) -> bool:
    """Whether a file of the `kind` (`stat.S_IFSOCK`) is at `path`."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode) == kind
    except (OSError, ValueError):
        return False
