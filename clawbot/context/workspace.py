"""Seeding a workspace with the template files, and comparing it with them.

A file is made only where there is none. BOOTSTRAP.md, the first-run ritual, goes into a brand-new workspace alone:
its deletion says that the ritual is done, and it never comes back (reference sheet 1.3).
"""

from __future__ import annotations

import difflib
import errno
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from clawbot.clock import Clock, iso_utc
from clawbot.context.bootstrap import MEMORY, RITUAL, SEEDED
from clawbot.errors import ClawbotError
from clawbot.files import create_exclusive, ensure_private_dir, write_atomic

STATE_FILE = Path(".clawbot/workspace-state.json")
PERSONAL = ("IDENTITY.md", "USER.md")  # differ from the template once somebody has lived here
SIGNS_OF_LIFE = ("memory", ".git")
_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space",
    errno.EDQUOT: "The disk quota is used up: free some space",
    errno.EROFS: "The file system is read-only: mount it writable",
}


class WorkspaceState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is remembered of the first run: ISO times, None for not yet."""

    version: int = 1
    bootstrap_seeded_at: str | None = None
    onboarding_completed_at: str | None = None


class FileDifference(Struct, frozen=True):
    """How a file stands to its template; `diff` goes from the template to the workspace."""

    name: str
    state: Literal["same", "changed", "missing"]
    diff: str = ""


def seed_workspace(workspace: Path, template_dir: Path, clock: Clock) -> list[Path]:
    """Make `workspace` and the template files that it lacks; returns the files that were made. Blocks.

    Raises ClawbotError when the folder cannot be made, read or written.
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


def diff_workspace(workspace: Path, template_dir: Path) -> list[FileDifference]:
    """How each template file stands in `workspace`. Blocks; raises ClawbotError when one cannot be read.

    A BOOTSTRAP.md that is gone is no difference: that is how it ends.
    """
    names = [*SEEDED, MEMORY]
    try:
        if ritual_pending(workspace):
            names.append(RITUAL)
        return [_difference(name, workspace / name, template_dir / name) for name in names]
    except OSError as error:
        raise ClawbotError(f"{error.filename} cannot be read: {error.strerror or error}.") from error


def ritual_pending(workspace: Path) -> bool:
    """Whether the first-run ritual is still to be done. An emptied file counts as deleted: that much an agent can do
    whose user allows it no commands. Blocks; raises OSError."""
    try:
        return bool((workspace / RITUAL).read_bytes().strip())
    except FileNotFoundError:
        return False


def _seed(workspace: Path, template_dir: Path, clock: Clock) -> list[Path]:
    before = _read_state(workspace)
    state = _next_state(before, workspace, template_dir, now=iso_utc(clock.now()))
    fresh = (
        state.bootstrap_seeded_at is not None and before.bootstrap_seeded_at is None and not ritual_pending(workspace)
    )
    names = list(SEEDED)
    if fresh:
        # The ritual comes last: a seeding that breaks off before it starts over next time.
        names += [MEMORY, RITUAL]
    made = [workspace / name for name in names if _create(workspace / name, template_dir / name)]
    if state != before:
        path = workspace / STATE_FILE
        ensure_private_dir(path.parent)
        record = {"version": state.version, **msgspec.to_builtins(state)}
        write_atomic(path, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
    return made


def _next_state(state: WorkspaceState, workspace: Path, template_dir: Path, *, now: str) -> WorkspaceState:
    """The state after this start, in the order of decisions of reference sheet 1.3."""
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
    """Whether the workspace was in use before this program kept a state of it. Untouched templates are no sign: a
    seeding may have broken off."""
    if any((workspace / name).exists() for name in SIGNS_OF_LIFE):
        return True
    return any(
        (workspace / name).exists() and _difference(name, workspace / name, template_dir / name).state == "changed"
        for name in (*PERSONAL, MEMORY)
    )


def _read_state(workspace: Path) -> WorkspaceState:
    """The recorded state; an empty one when the file is missing or unreadable as JSON."""
    try:
        return msgspec.json.decode((workspace / STATE_FILE).read_bytes(), type=WorkspaceState)
    except (FileNotFoundError, msgspec.DecodeError):
        return WorkspaceState()


def _create(path: Path, template: Path) -> bool:
    return create_exclusive(path, template.read_bytes())


def _difference(name: str, path: Path, template: Path) -> FileDifference:
    if not path.exists():
        return FileDifference(name, "missing")
    ours, theirs = _lines(template), _lines(path)
    diff = "\n".join(difflib.unified_diff(ours, theirs, f"template/{name}", f"workspace/{name}", lineterm=""))
    return FileDifference(name, "changed" if diff else "same", diff)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", errors="replace").rstrip().splitlines()
