"""The workspace files in every system prompt: selection, order, size limits, refusals, and the fences around them.

The files are read each time: seven small reads cost less than a millisecond, and no file system's timestamps
distinguish two edits within one clock tick.
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
from clawbot.files import version_of
from clawbot.guarded import RefusedFileError, guarded_bytes
from clawbot.text.encoding import decoded
from clawbot.text.interface import _

if TYPE_CHECKING:
    # As in window.py.
    from clawbot.config.schema_agent import BootstrapSettings

MAX_RUN = 60
"""Maximum length of a backtick run in a workspace file of the prompt, since fences must be longer."""
_TICKS = re.compile("`+")
_LONG_RUNS = re.compile(f"`{{{MAX_RUN + 1},}}")


def fence_for(texts: Iterable[str]) -> str:
    """A fence longer than any run of backticks in `texts`. It depends only on the texts, so the provider's cache is
    valid while they do not change."""
    longest = max(map(len, _TICKS.findall("\n".join(texts))), default=0)
    return "`" * max(3, longest + 1)


def fenced(text: str, fence: str) -> str:
    """Return `text` between two lines with `fence`."""
    return f"{fence}text\n{text}\n{fence}"


def tamed(text: str) -> str:
    """Return `text` with runs of at most `MAX_RUN` backticks, so that no text lengthens all fences."""
    return _LONG_RUNS.sub("`" * MAX_RUN, text)


PERSONA = "SOUL.md"
RITUAL = "BOOTSTRAP.md"
MEMORY = "MEMORY.md"
MEMORY_NAMES = (MEMORY, "memory.md")  # the first one found is used, and only that one
SEEDED = ("AGENTS.md", PERSONA, "IDENTITY.md", "USER.md", "TOOLS.md")
_WANTED = (*((name,) for name in SEEDED), (RITUAL,), MEMORY_NAMES)
MIN_ROOM = 64  # characters; with less room, nothing more is added


class NamedText(Protocol):
    """A file as hooks hand it over."""

    @property
    def name(self) -> str:
        """Its path below the workspace."""

    @property
    def text(self) -> str:
        """What it holds."""


class BootstrapFile(Struct, frozen=True):
    """One file in the prompt: `text` after truncation, of `raw_chars` characters; `digest` is of the file's content, ""
    if `text` is not from there."""

    name: str
    path: Path
    missing: bool
    raw_chars: int
    text: str
    truncated: bool = False
    digest: str = ""


class Bootstrap(Struct, frozen=True):
    """The files for the prompt, in order. `notices` list for the user what differs from the files on disk."""

    files: tuple[BootstrapFile, ...]
    notices: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """All notices on one line."""
        return " ".join(self.notices)


def read_bootstrap(workspace: Path, privacy: Privacy) -> Bootstrap:
    """The files of `workspace`, untruncated, for a session with `privacy`. Blocks; never raises: unusable ones count
    as missing."""
    notices: list[str] = []
    wanted = [names for names in _WANTED if privacy.injects(names[0])]
    files = [file for names in wanted if (file := _load(workspace, privacy, names, notices)) is not None]
    return Bootstrap(tuple(files), tuple(notices))


def apply_hooked(read: Bootstrap, hooked: Sequence[NamedText], workspace: Path, privacy: Privacy) -> Bootstrap:
    """Return `read` after hooks changed, added or removed files. Blocks.

    Files that `privacy` hides are left out silently, as in `read`; files without a name or outside `workspace` with a
    notice. Names are relative to `workspace`.
    """
    known = {file.name: file for file in read.files}
    notices = list(read.notices)
    files: dict[str, BootstrapFile] = {}
    for one in hooked:
        path = workspace.absolute() / one.name
        if problem := _problem(one.name, path, workspace):
            notices.append(_("A file that a hook added is not in the prompt: {problem}.").format(problem=problem))
        elif one.name in files:
            notices.append(_("A hook added {name} twice; the first one is in the prompt.").format(name=one.name))
        elif privacy.injects(one.name) and not (privacy.hidden and privacy.hides(_real_parts(workspace, path))):
            before, text = known.get(one.name), one.text.rstrip()
            new = BootstrapFile(one.name, path, False, len(text), text)
            files[one.name] = before if before and before.text == one.text else new
    return Bootstrap(tuple(files.values()), tuple(notices))


def cap_bootstrap(read: Bootstrap, limits: BootstrapSettings) -> Bootstrap:
    """Return `read` truncated to the limits per file and in total, in order; placeholders count too. Pure."""
    notices = list(read.notices)
    room = limits.total_max_chars
    kept: list[BootstrapFile] = []
    for index, file in enumerate(read.files):
        if room < MIN_ROOM:
            left_out = ", ".join(rest.name for rest in read.files[index:])
            notices.append(
                _("Not in the prompt, as bootstrap.total_max_chars is used up: {files}.").format(files=left_out)
            )
            break
        text, most = file.text, min(limits.max_chars, room)
        if len(text) > most:
            text = shorten(text, most, file.name)
            notices.append(
                _("{name} is cut in the prompt: {all:,} characters, {kept:,} of them fit.").format(
                    name=file.name, all=file.raw_chars, kept=len(text)
                )
            )
        if _LONG_RUNS.search(text):
            text = tamed(text)
            notices.append(
                _("{name} is cut in the prompt: it has more than {n} backticks in a row.").format(
                    name=file.name, n=MAX_RUN
                )
            )
        room -= len(text)
        kept.append(file if text == file.text else structs.replace(file, text=text, truncated=True))
    return Bootstrap(tuple(kept), tuple(notices))


def _problem(name: str, path: Path, workspace: Path) -> str:
    """Return why a file of this name is not allowed in any prompt."""
    if not name.strip():
        return _("it has no name")
    if not name.isprintable():
        return _("its name holds control characters")
    if Path(os.path.realpath(workspace)) not in Path(os.path.realpath(path)).parents:
        return _("{name} lies outside the workspace").format(name=name)
    return ""


def _real_parts(workspace: Path, path: Path) -> tuple[str, ...]:
    """Return the real path of `path` relative to `workspace`; () if it is outside."""
    root, real = Path(os.path.realpath(workspace)), Path(os.path.realpath(path))
    return real.relative_to(root).parts if root in real.parents else ()


def _load(workspace: Path, privacy: Privacy, names: Sequence[str], notices: list[str]) -> BootstrapFile | None:
    """The first existing file of `names`; a file that is not seeded and missing or blank is None. Problems are added to
    `notices`."""
    optional = names[0] not in SEEDED
    for name in names:
        try:
            if privacy.hidden and privacy.hides(_real_parts(workspace, workspace / name)):
                raise RefusedFileError("is a symlink to what only the user may read")
            data = guarded_bytes(workspace, name)
        except RefusedFileError as problem:
            notices.append(_("{name} is not in the prompt: it {problem}.").format(name=name, problem=problem))
            break
        if data is None:
            continue
        if "\ufffd" in (text := decoded(data, errors="replace").rstrip()):
            notices.append(_("{name} is not valid UTF-8: bad bytes are shown to the model as �.").format(name=name))
        if optional and not text:
            return None
        return BootstrapFile(name, workspace / name, False, len(text), text, digest=version_of(data))
    if optional:
        return None
    path = workspace.absolute() / names[0]
    text = f"[MISSING] Expected at: {path}"
    return BootstrapFile(names[0], path, True, 0, text)
