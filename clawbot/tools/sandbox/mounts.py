"""What a command in the sandbox sees of the disk, as values: mounts, and which of them counts where they overlap."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from msgspec import Struct

from clawbot.text.names import fold_name
from clawbot.text.tables import packaged_table
from clawbot.tools.folder import HEAD, STORES
from clawbot.tools.paths import is_env_file, is_secret_file, is_secret_folder, is_within


class Cause(Struct, frozen=True):
    """The `text` for the model after a failed command with such an `output`, a regular expression."""

    output: str
    text: str


class Explanations(Struct, frozen=True, forbid_unknown_fields=True):
    """Texts for the model about failures that the sandbox may have caused."""

    stopped: str
    outer_store: str
    causes: tuple[Cause, ...]
    usual: str
    no_network: str


class _ByCustom(Struct, frozen=True, forbid_unknown_fields=True):
    home_code: tuple[str, ...]
    socket_variables: frozenset[str]
    install: dict[str, str]
    seatbelt: str
    explanations: Explanations


@cache
def by_custom() -> _ByCustom:
    """The lists of `sandbox.toml`. Blocks at the first call."""
    return packaged_table("clawbot.tools.sandbox", "sandbox.toml", _ByCustom)


def homes_of_user(home: Path) -> tuple[Path, ...]:
    """`home`, which $HOME names, and that of the user database: programs take the one or the other."""
    with contextlib.suppress(KeyError):
        return tuple(dict.fromkeys((home, Path(pwd.getpwuid(os.getuid()).pw_dir))))
    return (home,)


Access = Literal["owned", "hidden", "read", "write", "scratch", "empty"]
"""`write`: as it is, to be changed; `owned`: the same, by the user's word, which overrides other entries for the
very same path; `read`: to be read only; `hidden`: there, without what it holds; `scratch`: an empty folder to write
to, gone with the command; `empty`: an empty folder."""

# Of several for one path the first counts.
_STRONGEST: tuple[Access, ...] = get_args(Access)
_UNSEEN = frozenset({"hidden", "scratch", "empty"})
# What each command has to itself.
SCRATCH = str(Path("/", "tmp"))
SHARED_MEMORY = str(Path("/dev", "shm"))


class Mount(Struct, frozen=True):
    """A file or `folder` at `path`, which is absolute and has no links in it."""

    path: str
    access: Access
    folder: bool = True


def arrange(mounts: Iterable[Mount]) -> list[Mount]:
    """`mounts` from the outside in, so that of two nested ones the innermost counts; one for each path.
    What nobody could see anyhow is left out."""
    strongest: dict[str, Mount] = {}
    for mount in mounts:
        known = strongest.get(mount.path)
        if known is None or _STRONGEST.index(mount.access) < _STRONGEST.index(known.access):
            strongest[mount.path] = mount
    kept: list[Mount] = []
    for mount in sorted(strongest.values(), key=lambda mount: (mount.path.rstrip("/").count("/"), mount.path)):
        if mount.access == "hidden" and access_at(kept, mount.path) in _UNSEEN:
            continue
        kept.append(mount)
    return kept


def access_at(arranged: Iterable[Mount], path: str) -> Access:
    """The access at `path`: of the innermost of the `arranged` mounts, `read` where there is none."""
    access: Access = "read"
    for mount in arranged:
        if is_within(mount.path, path):
            access = mount.access
    return access


MAX_FOLDERS = 20_000  # of a workspace that are scanned before a command, by default
MAX_PACKED = 1_000  # folders of packages that are scanned, those at the top first
MAX_STORES = 1_000  # of submodules and worktrees in one repository
# Made by programs, and large: scanned last, and not completely.
PACKED = frozenset({"node_modules", ".venv", "venv", "site-packages", "__pycache__"})
MAX_POINTER = 4096  # bytes of the file that `.git` is in a worktree and a submodule
# What each program takes code or another configuration from, in its store.
CODE = {
    "git": ("config", "hooks", "config.worktree", "commondir"),
    "hg": ("hgrc", "hgrc-not-shared", "sharedpath"),
    "jj": ("repo/config.toml",),
}
_POINTER = re.compile(r"gitdir: ?(.+?)\s*", re.DOTALL)


class Contents(Struct):
    """Paths of files and folders with secrets, of the stores of repositories by their kind (`git`, `hg`, `jj`), and of
    what leads to a store elsewhere (the file or link `.git`). `shut` are unreadable folders, and
    `beyond` is the first that there was no room for, "" for none."""

    secrets: set[str] = set()
    stores: set[tuple[str, str]] = set()
    pointers: set[str] = set()
    shut: set[str] = set()
    beyond: str = ""

    def joined(self, other: Contents) -> Contents:
        sets = ("secrets", "stores", "pointers", "shut")
        both = {name: getattr(self, name) | getattr(other, name) for name in sets}
        return Contents(**both, beyond=self.beyond or other.beyond)

    def present(self) -> Contents:
        """What of it still exists; shut folders are scanned again."""
        return Contents(
            set(filter(os.path.lexists, self.secrets)),
            {store for store in self.stores if Path(store[1]).is_dir() and not Path(store[1]).is_symlink()},
            set(filter(os.path.lexists, self.pointers)),
        )

    def code(self) -> Iterator[str]:
        """What programs take code or settings from, there or not."""
        yield from self.pointers
        for kind, store in self.stores:
            yield from (f"{store}/{name}" for name in CODE[kind])


def walk(root: str, most: int = MAX_FOLDERS) -> Contents:
    """What is below `root`, without following links, from its top down, in `most` folders and in some of packages."""
    found = _ContentsWalk(root)
    found.scan(most)
    found.contents.beyond = found.folders[0] if found.folders else ""
    # Packages hold certificates and keys of tests, by which their programs work.
    found.folders, found.is_secret = found.packed, is_env_file
    found.scan(MAX_PACKED)
    return found.contents


class _ContentsWalk:
    """The `contents` so far, the `folders` that are left, and those of packages (`packed`), for later."""

    def __init__(self, root: str) -> None:
        self.contents = Contents()
        self.is_secret = is_secret_file
        self.folders = deque([root])
        self.packed: deque[str] = deque()

    def scan(self, most: int) -> None:
        for _ in range(most):
            if not self.folders:
                return
            folder = self.folders.popleft()
            if not os.access(folder, os.R_OK | os.X_OK):
                self.contents.shut.add(folder)
            for entry in entries(folder):
                self._take(entry)

    def _take(self, entry: os.DirEntry[str]) -> None:
        kind, found = STORES.get(fold_name(entry.name)), self.contents
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_secret_folder(entry.name) if is_folder else self.is_secret(entry.name):
            found.secrets.add(entry.path)
        elif kind and is_folder:
            found.stores.add((kind, entry.path))
            found.stores.update((kind, inner) for inner in _inner_stores(kind, entry.path))
        elif kind:
            found.pointers.add(entry.path)
            found.stores.update(("git", store) for store in _led_to(entry.path))
        elif is_folder:
            (self.packed if entry.name in PACKED else self.folders).append(entry.path)


def entries(folder: str) -> list[os.DirEntry[str]]:
    """The entries of `folder`; none if it is unreadable."""
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def stores_above(folder: str) -> list[str]:
    """The stores that git works on in `folder`, the one that holds the others first. Blocks."""
    for above in (folder, *map(str, Path(folder).parents)):
        store = str(Path(above, ".git"))
        if os.path.lexists(store):
            found = [os.path.realpath(store)] if Path(store).is_dir() else _led_to(store)
            return sorted(found, key=len)
    return []


def _inner_stores(kind: str, store: str) -> Iterator[str]:
    """The stores of submodules and worktrees inside that of a repository."""
    if kind != "git":
        return
    folders = deque([f"{store}/modules", f"{store}/worktrees"])
    for _ in range(MAX_STORES):
        if not folders:
            return
        for entry in entries(folders.popleft()):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if Path(entry.path, HEAD).exists():
                yield entry.path
                folders += [f"{entry.path}/modules", f"{entry.path}/worktrees"]
            else:
                folders.append(entry.path)


def _led_to(pointer: str) -> Iterable[str]:
    """The store to which the file or link `pointer` leads, with the one whose settings that shares."""
    try:
        if Path(pointer).is_symlink():
            return [os.path.realpath(pointer)] if Path(pointer).is_dir() else []
        store = _named_in(pointer, _POINTER)
        if not store:
            return []
        common = _named_in(f"{store}/commondir", re.compile(r"(.+?)\s*", re.DOTALL))
    except (OSError, ValueError):
        return []
    return [store, *([common] if common else [])]


def _named_in(path: str, pattern: re.Pattern[str]) -> str:
    """The real folder that the file at `path` names, "" where it names none."""
    if not Path(path).is_file():
        return ""
    with Path(path).open("rb") as file:
        found = pattern.fullmatch(os.fsdecode(file.read(MAX_POINTER)))
    real = os.path.realpath(Path(path).parent / found[1]) if found else ""
    return real if real and Path(real).is_dir() else ""
