"""Creates the workspace from the template files, and compares files with their templates.

A file is only created if it is missing. BOOTSTRAP.md, the first-run ritual, is only put into a new workspace: deleting
it ends the ritual for good.
"""

from __future__ import annotations

import difflib
import errno
import logging
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.clock import Clock, iso_utc
from clawbot.context.bootstrap import MEMORY, RITUAL, SEEDED
from clawbot.errors import ClawbotError
from clawbot.files import create_exclusive, digest_of, ensure_private_dir, read_plain, write_atomic
from clawbot.text.encoding import decoded

MAX_BYTES = 2 * 1024**2
"""Larger files are not read into a prompt either."""
MAX_LINES = 5000
"""The comparison is quadratic at worst; this many lines take a second."""

State = Literal["same", "changed", "outdated", "both", "missing"]


class FileDifference(Struct, frozen=True):
    """How a file stands to its template; `diff` goes from the template to the workspace.

    `changed`: by the user (or by whom is not known, of files seeded before that was noted), `outdated`: the template
    has changed, and nobody touched the file, `both`: both have.
    """

    name: str
    state: State
    diff: str = ""


def difference(name: str, path: Path, template: Path, seeded: str | None = None) -> FileDifference:
    """The difference of `path` from `template`, seeded from a version with the digest `seeded` (None: unknown). Blocks;
    raises OSError."""
    if not path.exists():
        return FileDifference(name, "missing")
    ours, theirs = template.read_bytes(), read_plain(path, MAX_BYTES)
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
STATE_FILE = Path(".clawbot/workspace-state.json")
PERSONAL = ("IDENTITY.md", "USER.md")  # files that differ from the template in a used workspace
SIGNS_OF_LIFE = ("memory", ".git")
_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "The disk quota is used up: free some space",
    errno.EROFS: "The file system is read-only: mount it writable",
}


class WorkspaceState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The state of the first run: ISO times, None for not yet. `seeded` are the SHA-256 of the templates by file name
    when the file was created, or last equal."""

    version: int = 1
    bootstrap_seeded_at: str | None = None
    onboarding_completed_at: str | None = None
    seeded: Mapping[str, str] = {}


def seed_workspace(workspace: Path, template_dir: Path, clock: Clock) -> list[Path]:
    """Create `workspace` and its missing template files; returns the files created. Blocks.

    Raises ClawbotError if the folder cannot be created, read or written.
    """
    try:
        ensure_private_dir(workspace)
        next(workspace.iterdir(), None)
        return _seed(workspace, template_dir, clock)
    except NotADirectoryError as error:
        raise ClawbotError(
            f"The workspace {workspace} cannot be a folder: {error.filename} is a file.",
            hint="Move that file away, or name another folder with --workspace.",
        ) from error
    except OSError as error:
        raise ClawbotError(
            f"The workspace {workspace} cannot be used: {error.filename or workspace}: {error.strerror or error}.",
            hint=_REMEDIES.get(error.errno or 0, "Make it readable and writable for you")
            + ", or name another folder with --workspace.",
        ) from error


def diff_workspace(workspace: Path, template_dir: Path, wanted: Sequence[str] = ()) -> list[FileDifference]:
    """The differences of all template files in `workspace`, or of the `wanted` ones. Blocks; raises ClawbotError if one
    cannot be read, or a wanted one has no template.

    A deleted BOOTSTRAP.md is not a difference.
    """
    names = [_template_name(name) for name in wanted] or [*ALWAYS, MEMORY, RITUAL]
    try:
        if RITUAL in names and not ritual_pending(workspace):
            names.remove(RITUAL)
        seeded = _read_state(workspace).seeded
        return [difference(name, workspace / name, template_dir / name, seeded.get(name)) for name in names]
    except OSError as error:
        raise ClawbotError(f"{error.filename} cannot be read: {error.strerror or error}.") from error


def _template_name(name: str) -> str:
    known = [*ALWAYS, MEMORY, RITUAL]
    found = next((other for other in known if other.casefold() == name.casefold()), None)
    if found is None:
        near = get_close_matches(name.upper(), [other.upper() for other in known], n=1)
        meant = next((f"Did you mean {other}?" for other in known if near and other.upper() == near[0]), "")
        raise ClawbotError(f"There is no template {name}.", hint=meant or f"There are: {', '.join(known)}.")
    return found


def ritual_pending(workspace: Path) -> bool:
    """Whether the first-run ritual is still pending. An emptied file counts as deleted, because an agent without
    commands can't delete it; binary or oversized files don't count. Blocks; raises OSError."""
    try:
        return bool(read_plain(workspace / RITUAL, MAX_BYTES).strip())
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):
            return False
        raise


def _seed(workspace: Path, template_dir: Path, clock: Clock) -> list[Path]:
    before = _read_state(workspace)
    state = _next_state(before, workspace, template_dir, now=iso_utc(clock.now()))
    fresh = (
        state.bootstrap_seeded_at is not None and before.bootstrap_seeded_at is None and not ritual_pending(workspace)
    )
    names = list(ALWAYS)
    if fresh:
        # The ritual comes last, so that an interrupted seeding starts over.
        names += [MEMORY, RITUAL]
    made = [
        workspace / name for name in names if create_exclusive(workspace / name, (template_dir / name).read_bytes())
    ]
    noted = msgspec.structs.replace(state, seeded=_seeded(state, workspace, template_dir))
    if state != before:
        _write_state(workspace, noted)
    elif noted != before:
        try:
            _write_state(workspace, noted)
        except OSError:
            # A read-only workspace is usable; recording this is not worth failing the start.
            log.warning("what the files of %s were seeded from could not be noted", workspace, exc_info=True)
    return made


def _write_state(workspace: Path, state: WorkspaceState) -> None:
    path = workspace / STATE_FILE
    ensure_private_dir(path.parent)
    record = {"version": state.version, **msgspec.to_builtins(state)}
    write_atomic(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def _seeded(state: WorkspaceState, workspace: Path, template_dir: Path) -> dict[str, str]:
    """The last known template version of each file."""
    seeded = dict(state.seeded)
    for name in (*ALWAYS, MEMORY, RITUAL):
        path, template = workspace / name, (template_dir / name).read_bytes()
        try:
            # The size first: of most files no more is needed, and a pipe is never opened.
            if path.stat().st_size == len(template) and path.read_bytes() == template:
                seeded[name] = digest_of(template)
        except OSError:
            continue  # missing, or nothing that can be compared
    return seeded


def _next_state(state: WorkspaceState, workspace: Path, template_dir: Path, *, now: str) -> WorkspaceState:
    """The state after this start (the order of decisions is that of the reference)."""
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
    if any((workspace / name).exists() for name in SIGNS_OF_LIFE):
        return True
    return any(_was_changed(name, workspace / name, template_dir / name) for name in (*PERSONAL, MEMORY))


def _was_changed(name: str, path: Path, template: Path) -> bool:
    try:
        return path.exists() and difference(name, path, template).state == "changed"
    except OSError:
        return True  # no template is like that


def _read_state(workspace: Path) -> WorkspaceState:
    """The recorded state; empty if the file is missing or invalid: the agent may write it."""
    try:
        return msgspec.json.decode(read_plain(workspace / STATE_FILE, MAX_BYTES), type=WorkspaceState)
    except (FileNotFoundError, msgspec.DecodeError, RecursionError):
        return WorkspaceState()
