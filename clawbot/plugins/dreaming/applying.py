"""Shows what a proposal makes of the memory files, and writes it: a change of the history, which a second call finds
done."""

from __future__ import annotations

import contextlib
import difflib
import errno
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.authors import Author, Recorder, recording
from clawbot.guarded import ChangedFileError, GuardedFolder
from clawbot.memory.dates.validity import marked
from clawbot.plugins.dreaming.lines import BULLET, HEADING, bare, is_covered, sections
from clawbot.plugins.dreaming.proposals import Proposal, RefusedError, SourceLine
from clawbot.text.encoding import decoded, encoded_like
from clawbot.text.interface import _
from clawbot.text.numbers import whole_number
from clawbot.text.secrets import find_secrets

MAX_BYTES = 2 * 1024**2
MAIN = "MEMORY.md"
_CONTEXT = 1  # unchanged lines that are shown above and below a change


class Applied(Struct, frozen=True):
    """What was done about the proposal `id`: written, found done already, refused since what it changes is there no
    more, or failed; with the `reason`. `paths` are the files that were changed."""

    id: str
    status: Literal["written", "already", "refused", "failed"]
    paths: tuple[str, ...] = ()
    reason: str = ""


def apply(workspace: Path, history: Recorder | None, proposal: Proposal, *, job: str = "") -> Applied:
    """Write `proposal`, recorded in `history` as made by a dream: as part of `job`, which `/undo` takes back at once,
    else on its own. Blocks. Raises nothing: a proposal whose lines changed since, or whose file can't be written, is
    refused."""
    folder, paths = GuardedFolder(workspace), list[str]()
    author = Author("dream", job=job or proposal.id, sources=proposal.sources or (proposal.file,))
    try:
        with recording(history, author):
            for path in proposal.paths:
                before = read_file(folder, path)
                lines = lines_of(before)
                if (after := edited(lines, proposal, path)) != lines:
                    _write(folder, path, before, after)
                    paths.append(path)
    except RefusedError as error:
        return Applied(proposal.id, "refused", tuple(paths), str(error))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not in UTF-8"
        return Applied(proposal.id, "failed", tuple(paths), f"{proposal.file}: {reason or error}")
    return Applied(proposal.id, "written" if paths else "already", tuple(paths))


def _write(folder: GuardedFolder, path: str, before: bytes | None, lines: Sequence[str]) -> None:
    """Replace the file, which holds `before`, by `lines`. Raises RefusedError, OSError."""
    text = decoded(before or b"")
    after = ("\r\n" if "\r\n" in text else "\n").join(lines)
    if len(find_secrets(after)) > len(find_secrets(text)):
        raise RefusedError("it would put a secret together")
    if before is None:
        # Not by `create`: a kill could leave it with two names, and then it is not read.
        folder.replace(path, after.encode(), check=partial(_demand_missing, folder, path))
    elif (state := folder.state(path)) is not None and not state.st_mode & 0o222:
        raise PermissionError(errno.EACCES, "is read-only", path)
    else:
        folder.replace_known(path, before, encoded_like(after, before))


def _demand_missing(folder: GuardedFolder, path: str) -> None:
    if folder.state(path) is not None:
        raise ChangedFileError(errno.EEXIST, "was created by another program since", path)


def read_file(folder: GuardedFolder, path: str) -> bytes | None:
    """Return the content of a memory file, None if it does not exist. Raises OSError, also for links of any kind."""
    try:
        return folder.read(path, MAX_BYTES, linked=False)
    except FileNotFoundError:
        return None


def lines_of(data: bytes | None) -> list[str]:
    """Return the lines of a file. Raises UnicodeDecodeError."""
    return decoded(data or b"").replace("\r\n", "\n").split("\n")


def edited(lines: Sequence[str], proposal: Proposal, path: str) -> list[str]:
    """Return `lines`, those of the file `path`, with the proposal in them; unchanged if it is in them already. Raises
    RefusedError."""
    kind, text, old = proposal.kind, proposal.text, proposal.old
    found = list(lines)
    if kind == "add" or path != proposal.file:
        for line in (text,) if kind == "add" else old:
            found = _with_line(found, line)
        return found
    if kind == "drop":
        return _dropped(found, old)
    ended = {line: marked(line, until=date.fromisoformat(proposal.until)) for line in old if kind == "supersede"}
    is_left = any(line in lines for line in old if kind != "merge" or line != text)
    if not is_left and (kind == "move" or text in lines):
        return found
    if missing := next((line for line in old if line not in lines), ""):
        raise RefusedError(f"the line `{bare(missing)[:60]}` has been changed or removed")
    # The new line is before the first old one, or in its position.
    is_written, found = text in lines and kind != "merge", []
    for line in lines:
        if line in old and not is_written:
            found.append(text)
            is_written = True
        if line not in old or kind == "supersede":
            found.append(ended.get(line, line))
    return found


def _with_line(lines: Sequence[str], text: str) -> list[str]:
    """Return `lines` with `text` at the end of the section that it belongs in, else of the last one."""
    if text in lines:
        return list(lines)
    at = _end_of_section(lines, sections(text))
    is_apart = at and not BULLET.match(lines[at - 1])
    return [*lines[:at], *([""] if is_apart else []), text, *(lines[at:] or [""])]


def _end_of_section(lines: Sequence[str], titles: frozenset[str]) -> int:
    """Return the number of the line behind the last one with text below a heading of `titles`, else in the file."""
    start, level, end = 0, 0, len(lines)
    for number, line in enumerate(lines):
        found = HEADING.match(line)
        if found and start and end == len(lines) and len(found["marks"]) <= level:
            end = number
        elif found and not start and found["title"].lower() in titles:
            start, level = number + 1, len(found["marks"])
    return max((number + 1 for number in range(end) if lines[number].strip()), default=0)


def _dropped(lines: Sequence[str], old: Sequence[str]) -> list[str]:
    """Return `lines` without the last one that is the old line. Another line must state the same."""
    found = list(lines)
    for line in old:
        if line in found:
            del found[len(found) - 1 - found[::-1].index(line)]
            if not any(is_covered(line, other) for other in found):
                raise RefusedError("no other line states the same")
    return found


class ShownProposal(Struct, frozen=True):
    """A proposal with its `diffs`, or the `problem` why it can't be written, a sentence without its full stop.

    `diffs` are the rows of each file: `+` or `-` and a line, a space and one that remains, `⋯` between two changes.
    `sources` are the lines that the proposal is from; the text is "" if one is there no more. `contents` are the files
    that it changes, as they were read; None for a missing one.
    """

    proposal: Proposal
    diffs: Mapping[str, Sequence[str]]
    sources: tuple[SourceLine, ...]
    contents: Mapping[str, bytes | None]
    problem: str = ""


def show(workspace: Path, proposal: Proposal) -> ShownProposal:
    """Return `proposal` as it would be written into the files of `workspace` now. Blocks; raises nothing."""
    folder = GuardedFolder(workspace)
    sources = tuple(_sources(folder, proposal.sources))
    contents, diffs, problem = dict[str, bytes | None](), dict[str, list[str]](), ""
    try:
        contents = _read(folder, proposal)
        for path, data in contents.items():
            before = lines_of(data)
            diffs[path] = list(diff_rows(before, edited(before, proposal, path)))
    except RefusedError as error:
        problem = str(error)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("it is not in UTF-8")
        problem = f"{proposal.file}: {reason or error}"
    shown = {} if problem else {path: rows for path, rows in diffs.items() if rows}
    return ShownProposal(proposal, shown, sources, contents, problem)


def is_current(workspace: Path, shown: ShownProposal) -> bool:
    """Return whether the files are as they were when `shown` was made. Blocks."""
    try:
        return _read(GuardedFolder(workspace), shown.proposal) == shown.contents
    except OSError:
        return False


def diff_rows(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the changes from `before` to `after`, with the lines around them that are not blank."""
    changed = difflib.unified_diff(before, after, lineterm="", n=_CONTEXT)
    for line in itertools.islice(changed, 3, None):
        if line.startswith("@@"):
            yield "⋯"
        elif line[1:].strip() or line[0] != " ":
            yield line


def _read(folder: GuardedFolder, proposal: Proposal) -> dict[str, bytes | None]:
    return {path: read_file(folder, path) for path in proposal.paths}


def _sources(folder: GuardedFolder, positions: Iterable[str]) -> Iterator[SourceLine]:
    for position in positions:
        path, _colon, number = position.rpartition(":")
        line, lines = whole_number(number) or 1, list[str]()
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines = lines_of(read_file(folder, path))
        yield SourceLine(path, line, lines[line - 1].strip() if line <= len(lines) else "", None)
