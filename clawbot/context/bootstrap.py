"""The workspace files that every system prompt carries: which, in what order, how much of each, what is refused, and
the fences around them, so that none can pass for what is around it.

Rules: reference sheet 1.4 to 1.6. The files are read anew each time: seven small reads cost less than a millisecond,
and no cache key of a file system tells two edits within one clock tick apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from clawbot.context.privacy import Privacy
from clawbot.context.truncate import shorten
from clawbot.files import RefusedFileError, read_guarded

if TYPE_CHECKING:
    # As in window.py.
    from clawbot.config.schema_context import BootstrapSettings

LONGEST_RUN = 60
"""So many backticks in a row may stand in a workspace file of the prompt: as long as that, each fence would be."""
_TICKS = re.compile("`+")
_LONG_RUNS = re.compile(f"`{{{LONGEST_RUN + 1},}}")


def fence_for(texts: Iterable[str]) -> str:
    """A fence that nothing in `texts` can close: longer than any run of backticks in them. It depends on the texts
    alone, so what a provider caches stays the same while they do."""
    longest = max(map(len, _TICKS.findall("\n".join(texts))), default=0)
    return "`" * max(3, longest + 1)


def fenced(text: str, fence: str) -> str:
    """`text` between two lines with `fence`."""
    return f"{fence}text\n{text}\n{fence}"


def tamed(text: str) -> str:
    """`text` with runs of at most `LONGEST_RUN` backticks, so that no text makes all fences long."""
    return _LONG_RUNS.sub("`" * LONGEST_RUN, text)


PERSONA = "SOUL.md"
RITUAL = "BOOTSTRAP.md"
MEMORY = "MEMORY.md"
MEMORY_NAMES = (MEMORY, "memory.md")  # the first one found is used, and only that one
SEEDED = ("AGENTS.md", PERSONA, "IDENTITY.md", "USER.md", "TOOLS.md")
LEAST_ROOM = 64  # characters; with less left, nothing more is injected


class NamedText(Protocol):
    """A file as hooks hand it over."""

    @property
    def name(self) -> str:
        """Its path below the workspace."""

    @property
    def text(self) -> str:
        """What it holds."""


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
    notices: list[str] = []
    wanted = [((name,), False) for name in SEEDED] + [((RITUAL,), True), (MEMORY_NAMES, True)]
    found = [
        _load(workspace, privacy, names, notices, optional=optional)
        for names, optional in wanted
        if privacy.injects(names[0])
    ]
    return Bootstrap(tuple(file for file in found if file is not None), tuple(notices))


def apply_hooked(read: Bootstrap, hooked: Sequence[NamedText], workspace: Path, privacy: Privacy) -> Bootstrap:
    """`read` as hooks left its files: changed, added to, taken from. Blocks.

    What `privacy` keeps from the session is left out without a word, as it is from `read`;
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
        elif privacy.injects(one.name) and not (privacy.hidden and privacy.hides(_real_parts(workspace, path))):
            before = known.get(one.name)
            files[one.name] = before if before and before.text == one.text else _file(one.name, path, one.text)
    return Bootstrap(tuple(files.values()), tuple(notices))


def cap_bootstrap(read: Bootstrap, limits: BootstrapSettings) -> Bootstrap:
    """`read` cut to the caps of one file and of all, in order; placeholders take of the room as well. Pure."""
    notices = list(read.notices)
    room = limits.total_max_chars
    kept: list[BootstrapFile] = []
    for index, file in enumerate(read.files):
        if room < LEAST_ROOM:
            left_out = ", ".join(rest.name for rest in read.files[index:])
            notices.append(f"Not in the prompt, as bootstrap.total_max_chars is used up: {left_out}.")
            break
        text = shorten(file.text, min(limits.max_chars, room), file.name)
        if len(text) < len(file.text):
            notices.append(
                f"{file.name} is cut in the prompt: {file.raw_chars:,} characters, {len(text):,} of them fit."
            )
        if (tame := tamed(text)) != text:
            notices.append(f"{file.name} is cut in the prompt: it has more than {LONGEST_RUN} backticks in a row.")
            text = tame
        room -= len(text)
        kept.append(file if text == file.text else structs.replace(file, text=text, truncated=True))
    return Bootstrap(tuple(kept), tuple(notices))


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


def _load(
    workspace: Path, privacy: Privacy, names: Sequence[str], notices: list[str], *, optional: bool
) -> BootstrapFile | None:
    """The first of `names` that is there; an `optional` file that is missing or blank is None. What could not be used
    is added to `notices`."""
    for name in names:
        try:
            if privacy.hidden and privacy.hides(_real_parts(workspace, workspace / name)):
                raise RefusedFileError("is a symlink to what only the user may hear of")
            text = read_guarded(workspace, name)
        except RefusedFileError as problem:
            notices.append(f"{name} is not in the prompt: it {problem}.")
            break
        if text is None:
            continue
        if "\ufffd" in text:
            notices.append(f"{name} is not valid UTF-8: bad bytes are shown to the model as \ufffd.")
        file = _file(name, workspace / name, text)
        return file if file.text or not optional else None
    if optional:
        return None
    path = workspace.absolute() / names[0]
    text = f"[MISSING] Expected at: {path}"
    return BootstrapFile(names[0], path, missing=True, raw_chars=0, text=text, truncated=False)
