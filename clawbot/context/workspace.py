"""Creates the workspace from the template files, compares files with their templates, and finds and sets aside what a
command has put in place of the workspace's own files and folders.

A file is only created if it is missing. BOOTSTRAP.md, the first-run ritual, is only put into a new workspace: deleting
it ends the ritual for good.

The record of that is in the state folder, where no command writes; earlier versions had it in the workspace.
"""

from __future__ import annotations

import difflib
import errno
import itertools
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.authors import Author, Recorder, recording
from clawbot.clock import Clock
from clawbot.context.bootstrap import MEMORY, RITUAL, SEEDED
from clawbot.errors import ClawbotError
from clawbot.files import digest_of
from clawbot.guarded import GuardedFolder, RefusedFileError, guarded_bytes
from clawbot.text.encoding import decoded
from clawbot.text.interface import _

MAX_BYTES = 2 * 1024**2  # of a record
MAX_LINES = 5000
"""The comparison is quadratic at worst; this many lines take a second."""

State = Literal["same", "changed", "outdated", "both", "missing"]


class FileDifference(Struct, frozen=True):
    """How a file differs from its template; `diff` goes from the template to the workspace.

    `changed`: by the user (or by whom is not known, of files seeded before that was noted), `outdated`: the template
    has changed, and nobody touched the file, `both`: both have.
    """

    name: str
    state: State
    diff: str = ""


def difference(workspace: Path, name: str, template: Path, seeded: str | None = None) -> FileDifference:
    """The difference of a file from its `template`, seeded from a version with the digest `seeded` (None: unknown).
    Blocks; raises OSError, RefusedFileError."""
    ours, theirs = template.read_bytes(), guarded_bytes(workspace, name)
    if theirs is None:
        return FileDifference(name, "missing")
    diff = "\n".join(_diff(name, _lines(ours), _lines(theirs)))
    return FileDifference(name, _state(ours, theirs, seeded) if diff else "same", diff)


def _diff(name: str, ours: list[str], theirs: list[str]) -> Iterable[str]:
    heads = f"template/{name}", f"workspace/{name}"
    if len(theirs) <= MAX_LINES:
        return difflib.unified_diff(ours, theirs, *heads, lineterm="")
    return f"--- {heads[0]}", f"+++ {heads[1]}", f"@@ {len(theirs):,} lines: too many to be compared @@"


def _state(template: bytes, file: bytes, seeded: str | None) -> State:
    if seeded is None or seeded == digest_of(template):
        return "changed"
    return "outdated" if seeded == digest_of(file) else "both"


def _lines(data: bytes) -> list[str]:
    return decoded(data, errors="replace").rstrip().splitlines()


log = logging.getLogger(__name__)

HEARTBEAT = "HEARTBEAT.md"
ALWAYS = (*SEEDED, HEARTBEAT)
"""Files of every workspace; the last one is only read by heartbeats and never part of a prompt."""
TEMPLATES = (*ALWAYS, MEMORY, RITUAL)
OLD_RECORD = Path(".clawbot/workspace-state.json")  # of earlier versions, in the workspace
FOLDERS = (str(OLD_RECORD.parent), "attachments", "exports", "hooks", "memory", "skills")
FILES = (*TEMPLATES, "BOOT.md")
LINKABLE = ("hooks", "skills")  # what is there is off until the user trusts it, by its real path
PERSONAL = ("IDENTITY.md", "USER.md")  # files that differ from the template in a used workspace
SIGNS_OF_LIFE = ("memory", ".git")
_HEX = frozenset("0123456789abcdef")
_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "The disk quota is used up: free some space",
    errno.EROFS: "The file system is read-only: mount it writable",
    errno.EIO: "The disk reports an error: check it",
}
_SURVIVED = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class WorkspaceState(Struct, frozen=True, rename="camel"):
    """The state of the first run: its moments, None for not yet. `seeded` are the SHA-256 of the templates by file name
    when the file was created, or last equal."""

    version: int = 1
    bootstrap_seeded_at: datetime | None = None
    onboarding_completed_at: datetime | None = None
    seeded: Mapping[str, str] = {}


def seed_workspace(
    workspace: Path, template_dir: Path, clock: Clock, record: Path, recorder: Recorder | None = None
) -> list[Path]:
    """Create `workspace` and its missing template files; returns the files created. The state of the first run is in
    the file `record`, in a folder of the state folder. `recorder` records the memory files. Blocks.

    Raises ClawbotError if the workspace cannot be created, read or written, unless it was used before: then a command
    may have shut it (see `bent_paths`) or the disk is full, which stops no start.
    """
    try:
        with GuardedFolder(workspace).folder(create=True):
            pass
        with recording(recorder, Author("workspace")):
            return _seed(workspace, template_dir, clock, record)
    except OSError as error:
        if error.errno in _SURVIVED and record.exists():
            log.warning("the workspace %s was not seeded: %s", workspace, error)
            return []
        raise _unusable(workspace, error) from error


def _unusable(workspace: Path, error: OSError) -> ClawbotError:
    if isinstance(error, NotADirectoryError):
        return ClawbotError(
            f"The workspace {workspace} cannot be a folder: {error.filename} is a file.",
            hint="Move that file away, or name another folder with --workspace.",
        )
    return ClawbotError(
        f"The workspace {workspace} cannot be used: {error.filename or workspace}: {error.strerror or error}.",
        hint=_REMEDIES.get(error.errno or 0, "Make it readable and writable for you")
        + ", or name another folder with --workspace.",
    )


def diff_workspace(
    workspace: Path, template_dir: Path, record: Path, wanted: Sequence[str] = ()
) -> list[FileDifference]:
    """The differences of all template files in `workspace`, or of the `wanted` ones, by the state in `record`. Blocks;
    raises ClawbotError if one cannot be read, or a wanted one has no template.

    A deleted BOOTSTRAP.md is not a difference.
    """
    names = [_template_name(name) for name in wanted] or [*TEMPLATES]
    try:
        if RITUAL in names and not ritual_pending(workspace):
            names.remove(RITUAL)
        seeded = _state_of(workspace, record).seeded
        return [difference(workspace, name, template_dir / name, seeded.get(name)) for name in names]
    except (OSError, RefusedFileError) as error:
        raise ClawbotError(f"The workspace {workspace} cannot be compared: {error}.") from error


def _template_name(name: str) -> str:
    found = next((other for other in TEMPLATES if other.casefold() == name.casefold()), None)
    if found is None:
        near = get_close_matches(name.upper(), [other.upper() for other in TEMPLATES], n=1)
        meant = next((f"Did you mean {other}?" for other in TEMPLATES if near and other.upper() == near[0]), "")
        raise ClawbotError(f"There is no template {name}.", hint=meant or f"There are: {', '.join(TEMPLATES)}.")
    return found


def ritual_pending(workspace: Path) -> bool:
    """Return whether the first-run ritual is still pending. An emptied file counts as deleted, because an agent without
    commands can't delete it; one that can't be read doesn't count, nor does an oversized one. Blocks."""
    try:
        return bool((guarded_bytes(workspace, RITUAL) or b"").strip())
    except RefusedFileError:
        return False  # The prompt notes why it is not in it.


def _seed(workspace: Path, template_dir: Path, clock: Clock, record: Path) -> list[Path]:
    files = GuardedFolder(workspace)
    # What is empty is a new workspace, also where a deleted one was.
    before = _state_of(workspace, record) if files.names() else WorkspaceState()
    state = _next_state(before, workspace, template_dir, now=clock.now().astimezone(UTC))
    fresh = (
        state.bootstrap_seeded_at is not None and before.bootstrap_seeded_at is None and not ritual_pending(workspace)
    )
    names = list(ALWAYS)
    if fresh:
        # The ritual comes last, so that an interrupted seeding starts over.
        names += [MEMORY, RITUAL]
    made = [workspace / name for name in names if files.create(name, (template_dir / name).read_bytes())]
    noted = msgspec.structs.replace(state, seeded=_seeded(state, workspace, template_dir))
    if noted != _recorded(record):
        data = msgspec.json.format(msgspec.json.encode(noted), indent=2) + b"\n"
        try:
            # The workspace may be the state folder itself.
            GuardedFolder(record.parents[1]).replace(Path(*record.parts[-2:]), data)
        except OSError:  # not worth failing the start
            log.warning("the first run of %s could not be recorded", workspace, exc_info=True)
    return made


def _seeded(state: WorkspaceState, workspace: Path, template_dir: Path) -> dict[str, str]:
    """Return the last known template version of each file."""
    seeded = dict(state.seeded)
    for name in TEMPLATES:
        template = (template_dir / name).read_bytes()
        try:
            if guarded_bytes(workspace, name) == template:
                seeded[name] = digest_of(template)
        except RefusedFileError:
            continue  # nothing that can be compared
    return seeded


def _next_state(state: WorkspaceState, workspace: Path, template_dir: Path, *, now: datetime) -> WorkspaceState:
    """Return the state after this start (the order of decisions is that of the reference)."""
    pending = ritual_pending(workspace)
    if pending and state.bootstrap_seeded_at is None:
        return msgspec.structs.replace(state, bootstrap_seeded_at=now)
    if state.bootstrap_seeded_at is not None:
        if pending or state.onboarding_completed_at is not None:
            return state
        return msgspec.structs.replace(state, onboarding_completed_at=now)
    if state.onboarding_completed_at is not None:
        return state
    if _lived_in(workspace, template_dir):
        return msgspec.structs.replace(state, onboarding_completed_at=now)
    return msgspec.structs.replace(state, bootstrap_seeded_at=now)


def _lived_in(workspace: Path, template_dir: Path) -> bool:
    """Whether the workspace was used before this program recorded a state. Untouched templates don't count: a seeding
    may have been interrupted."""
    if any(GuardedFolder(workspace).state(name) for name in SIGNS_OF_LIFE):
        return True
    return any(_was_changed(workspace, name, template_dir / name) for name in (*PERSONAL, MEMORY))


def _was_changed(workspace: Path, name: str, template: Path) -> bool:
    try:
        return difference(workspace, name, template).state == "changed"
    except RefusedFileError:
        return True  # no template is like that


def _state_of(workspace: Path, record: Path) -> WorkspaceState:
    """The recorded state, else the one that an earlier version left in `workspace`. That may be anybody's work, and
    opens nothing: its moments end the ritual, its digests name what a file was seeded from."""
    return _recorded(record) or _recorded(workspace / OLD_RECORD) or WorkspaceState()


def _recorded(record: Path) -> WorkspaceState | None:
    """Return the state in `record`: None if there is no such file, empty if that is invalid or can't be read."""
    try:
        data = GuardedFolder(record.parents[1]).read(Path(*record.parts[-2:]), MAX_BYTES)
        state = msgspec.json.decode(data, type=WorkspaceState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        log.warning("%s is not used: %s", record, error)
        return WorkspaceState()
    known = {name: state.seeded.get(name, "") for name in TEMPLATES}
    digests = {name: digest for name, digest in known.items() if len(digest) == 64 and _HEX.issuperset(digest)}
    return msgspec.structs.replace(state, seeded=digests)


class BentPath(Struct, frozen=True):
    """A file or folder that is of no use to the program: where, and why. `mend` is what puts it right: to open it for
    the user again, to set it aside, or nothing that the program may do."""

    path: Path
    why: str
    mend: Literal["open", "aside", ""] = ""

    def __str__(self) -> str:
        return f"{self.path} {self.why}"


def bent_paths(workspace: Path) -> list[BentPath]:
    """What is in the way of the program in `workspace`; empty where nothing is. Blocks."""
    folders = list(_bent_folders(workspace))
    is_usable = all(bent.path != workspace for bent in folders)
    return [*folders, *_bent_files(workspace)] if is_usable else folders[:1]


def mend_workspace(workspace: Path) -> list[str]:
    """Put right what can be without losing anything; returns a line for each. Blocks; raises OSError."""
    files, lines = GuardedFolder(workspace), list[str]()
    for _round in range(2):  # the first one may open the workspace itself
        for bent in bent_paths(workspace):
            name = bent.path.relative_to(workspace)
            if bent.mend == "open":
                files.unshut(name)
                lines.append(f"{bent.path} is open for you again")
            elif bent.mend:
                aside = next(
                    each for number in itertools.count(1) if files.rename(name, each := f"{name}.bent-{number}")
                )
                lines.append(f"{bent.path} is now {aside}: it {bent.why}")
    return lines


def _bent_folders(workspace: Path) -> Iterator[BentPath]:
    files = GuardedFolder(workspace)
    for name in ("", *FOLDERS):
        path = workspace / name
        try:
            with files.folder(name) as folder:
                is_shut = not os.access(".", os.R_OK | os.W_OK | os.X_OK, dir_fd=folder)
        except FileNotFoundError:
            continue
        except PermissionError:
            is_shut = True
        except OSError:
            if not (name in LINKABLE and path.is_symlink() and path.is_dir()):
                yield BentPath(path, _("is a link or a file, not a folder"), "aside" if name else "")
            continue
        if is_shut:
            yield BentPath(path, _("is shut: you may not read or change it"), "open")


def _bent_files(workspace: Path) -> Iterator[BentPath]:
    files = GuardedFolder(workspace)
    for name in FILES:
        try:
            guarded_bytes(workspace, name)
        except RefusedFileError as problem:
            found = files.state(name)
            is_file = found is not None and stat.S_ISREG(found.st_mode)
            yield BentPath(workspace / name, str(problem), "" if is_file else "aside")
