"""The workspace files that every system prompt carries: which, in what order, how much of each, and what is refused.

Rules: reference sheet 1.4 to 1.6. The files are read anew each time: seven small reads cost less than a
millisecond, and no cache key of a file system tells two edits within one clock tick apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from clawbot.context.cutting import shorten
from clawbot.context.privacy import Privacy
from clawbot.files import RefusedFileError, read_guarded

PERSONA = "SOUL.md"
RITUAL = "BOOTSTRAP.md"
MEMORY = "MEMORY.md"
MEMORY_NAMES = (MEMORY, "memory.md")  # the first one found is used, and only that one
SEEDED = ("AGENTS.md", PERSONA, "IDENTITY.md", "USER.md", "TOOLS.md")
LEAST_ROOM = 64  # characters; with less left, nothing more is injected


class BootstrapLimits(Protocol):
    """Caps in characters; the settings' `bootstrap` section is one."""

    @property
    def max_chars(self) -> int:
        """Of one file."""
        ...

    @property
    def total_max_chars(self) -> int:
        """Of all files together."""
        ...


class NamedText(Protocol):
    """A file as hooks hand it over."""

    @property
    def name(self) -> str:
        """Its path below the workspace."""
        ...

    @property
    def text(self) -> str:
        """What it holds."""
        ...


class BootstrapFile(Struct, frozen=True):
    """One file as it is injected: `text` after the caps, of `raw_chars` characters before them."""

    name: str
    path: Path
    missing: bool
    raw_chars: int
    text: str
    truncated: bool


class Bootstrap(Struct, frozen=True):
    """What goes into the prompt, in order. `notices` says for the user what is not in it as it lies on disk."""

    files: tuple[BootstrapFile, ...]
    notices: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """All notices on one line, empty when there are none."""
        return " ".join(self.notices)


def read_bootstrap(workspace: Path, privacy: Privacy) -> Bootstrap:
    """The files of `workspace` that a session with `privacy` is shown, whole. Blocks; never raises for a file: what
    cannot be used counts as missing."""
    reading = _Reading(workspace, privacy)
    found = [reading.load((name,)) for name in SEEDED if privacy.injects(name)]
    found += [reading.load(names, optional=True) for names in ((RITUAL,), MEMORY_NAMES) if privacy.injects(names[0])]
    return Bootstrap(tuple(file for file in found if file is not None), tuple(reading.notices))


def apply_hooked(read: Bootstrap, hooked: Sequence[NamedText], workspace: Path, privacy: Privacy) -> Bootstrap:
    """`read` as hooks left its files: changed, added to, taken from. Blocks.

    What `privacy` keeps from the session is left out without a word, as it is from `read` (reference sheet 11.2);
    files without a name or outside `workspace` are left out with a notice. Names are paths below `workspace`.
    """
    known = {file.name: file for file in read.files}
    notices = list(read.notices)
    files: dict[str, BootstrapFile] = {}
    for one in hooked:
        path = workspace.absolute() / one.name
        if problem := _problem(one.name, path, workspace):
            notices.append(f"A file that a hook added is not in the prompt: {problem}.")
        elif one.name in files:
            notices.append(f"A hook added {one.name} twice; the first one is in the prompt.")
        elif privacy.injects(one.name) and not privacy.hides(_real_parts(workspace, path)):
            before = known.get(one.name)
            files[one.name] = before if before and before.text == one.text else _file(one.name, path, one.text)
    return Bootstrap(tuple(files.values()), tuple(notices))


def cap_bootstrap(read: Bootstrap, limits: BootstrapLimits) -> Bootstrap:
    """`read` cut to the caps of one file and of all; pure."""
    notices = list(read.notices)
    return Bootstrap(tuple(_capped(read.files, limits, notices)), tuple(notices))


def _problem(name: str, path: Path, workspace: Path) -> str:
    """What keeps a file of this name out of any prompt."""
    if not name.strip():
        return "it has no name"
    if not name.isprintable():
        return "its name holds control characters"
    if Path(os.path.realpath(workspace)) not in Path(os.path.realpath(path)).parents:
        return f"{name} lies outside the workspace"
    return ""


def _real_parts(workspace: Path, path: Path) -> tuple[str, ...]:
    """Where the file `path` in `workspace` really is, below it; () when outside."""
    root, real = Path(os.path.realpath(workspace)), Path(os.path.realpath(path))
    return real.relative_to(root).parts if root in real.parents else ()


def _file(name: str, path: Path, text: str) -> BootstrapFile:
    text = text.rstrip()
    return BootstrapFile(name, path, missing=False, raw_chars=len(text), text=text, truncated=False)


class _Reading:
    """Reads the files of a workspace for one session; `notices` says what could not be used."""

    def __init__(self, workspace: Path, privacy: Privacy) -> None:
        self._workspace = workspace
        self._privacy = privacy
        self.notices: list[str] = []

    def load(self, names: Sequence[str], *, optional: bool = False) -> BootstrapFile | None:
        """The first of `names` that is there; an `optional` file that is missing or blank is None."""
        for name in names:
            try:
                text = self._read(name)
            except RefusedFileError as problem:
                self.notices.append(f"{name} is not in the prompt: it {problem}.")
                break
            if text is None:
                continue
            if "\ufffd" in text:
                self.notices.append(f"{name} is not valid UTF-8: bad bytes are shown to the model as \ufffd.")
            file = _file(name, self._workspace / name, text)
            return file if file.text or not optional else None
        if optional:
            return None
        path = self._workspace.absolute() / names[0]
        text = f"[MISSING] Expected at: {path}"
        return BootstrapFile(names[0], path, missing=True, raw_chars=0, text=text, truncated=False)

    def _read(self, name: str) -> str | None:
        if self._privacy.hides(_real_parts(self._workspace, self._workspace / name)):
            raise RefusedFileError("is a symlink to what only the user may hear of")
        return read_guarded(self._workspace, name)


def _capped(files: Sequence[BootstrapFile], limits: BootstrapLimits, notices: list[str]) -> list[BootstrapFile]:
    """`files` cut to the caps, in order; placeholders take of the room as well."""
    room = limits.total_max_chars
    kept: list[BootstrapFile] = []
    for index, file in enumerate(files):
        if room < LEAST_ROOM:
            left_out = ", ".join(rest.name for rest in files[index:])
            notices.append(f"Not in the prompt, as bootstrap.total_max_chars is used up: {left_out}.")
            break
        text = shorten(file.text, min(limits.max_chars, room), file.name)
        truncated = len(text) < len(file.text)
        if truncated:
            notices.append(
                f"{file.name} is cut in the prompt: {file.raw_chars:,} characters, {len(text):,} of them fit."
            )
        room -= len(text)
        kept.append(
            BootstrapFile(file.name, file.path, file.missing, file.raw_chars, text, truncated) if truncated else file
        )
    return kept
