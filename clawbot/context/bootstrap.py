"""The workspace files that every system prompt carries: which, in what order, how much of each, and what is refused.

Rules: reference sheet 1.4 to 1.6. The files are read anew each time: seven small reads cost less than a
millisecond, and no cache key of a file system tells two edits within one clock tick apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from clawbot.context.cutting import shorten
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


def load_bootstrap(workspace: Path, limits: BootstrapLimits, *, main_session: bool) -> Bootstrap:
    """Read the files from `workspace`. Blocks; never raises for a file: what cannot be used counts as missing.

    MEMORY.md is read in the main session only.
    """
    notices: list[str] = []
    found = [_load(workspace, (name,), notices) for name in SEEDED]
    found.append(_load(workspace, (RITUAL,), notices, optional=True))
    if main_session:
        found.append(_load(workspace, MEMORY_NAMES, notices, optional=True))
    files = _capped([file for file in found if file is not None], limits, notices)
    return Bootstrap(tuple(files), tuple(notices))


def _load(workspace: Path, names: Sequence[str], notices: list[str], *, optional: bool = False) -> BootstrapFile | None:
    """The first of `names` that is there, uncapped; an `optional` file that is missing or blank is None."""
    for name in names:
        path = workspace / name
        try:
            text = read_guarded(workspace, name)
        except RefusedFileError as problem:
            notices.append(f"{name} is not in the prompt: it {problem}.")
            break
        if text is None:
            continue
        if "\ufffd" in text:
            notices.append(f"{name} is not valid UTF-8: bad bytes are shown to the model as \ufffd.")
        text = text.rstrip()
        if optional and not text:
            break
        return BootstrapFile(name, path, missing=False, raw_chars=len(text), text=text, truncated=False)
    if optional:
        return None
    path = workspace.absolute() / names[0]
    text = f"[MISSING] Expected at: {path}"
    return BootstrapFile(names[0], path, missing=True, raw_chars=0, text=text, truncated=False)


def _capped(files: list[BootstrapFile], limits: BootstrapLimits, notices: list[str]) -> list[BootstrapFile]:
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
