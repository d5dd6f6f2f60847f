"""Writes accepted proposals into the memory files: each one a change of the history, which a second call finds done."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from clawbot.authors import Author, Recorder, recording
from clawbot.guarded import ChangedFileError, GuardedFolder
from clawbot.memory.dates.validity import marked
from clawbot.plugins.dreaming.lines import BULLET, HEADING, bare, is_covered
from clawbot.plugins.dreaming.proposals import Proposal
from clawbot.plugins.dreaming.tables import sections
from clawbot.text.encoding import decoded, encoded_like
from clawbot.text.secrets import find_secrets

MAX_BYTES = 2 * 1024**2
MAIN = "MEMORY.md"


class StaleError(Exception):
    """A proposal that can't be written any more; the text is the reason, a sentence without its full stop."""


class Applied(Struct, frozen=True):
    """What was done about the proposal `id`: written, found done already, refused since what it changes is there no
    more, or failed; with the `reason`. `paths` are the files that were changed."""

    id: str
    status: Literal["written", "already", "refused", "failed"]
    paths: tuple[str, ...] = ()
    reason: str = ""


def apply(workspace: Path, history: Recorder | None, proposals: Iterable[Proposal], *, job: str = "") -> list[Applied]:
    """Write `proposals`, in order, each recorded in `history` as made by a dream: all as of `job`, which `/undo` takes
    back at once, else each on its own. Blocks. Raises nothing: a proposal whose lines changed since, or whose file
    can't be written, is refused."""
    folder = GuardedFolder(workspace)
    done: list[Applied] = []
    for each in proposals:
        with recording(history, Author("dream", job=job or each.id)):
            done.append(_apply(folder, each))
    return done


def _apply(folder: GuardedFolder, proposal: Proposal) -> Applied:
    paths: list[str] = []
    try:
        if proposal.kind == "move" and _change(folder, proposal.target, lambda lines: received(lines, proposal)):
            paths.append(proposal.target)
        if _change(folder, proposal.file, lambda lines: edited(lines, proposal)):
            paths.append(proposal.file)
    except StaleError as error:
        return Applied(proposal.id, "refused", tuple(paths), str(error))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not in UTF-8"
        return Applied(proposal.id, "failed", tuple(paths), f"{proposal.file}: {reason or error}")
    return Applied(proposal.id, "written" if paths else "already", tuple(paths))


def _change(folder: GuardedFolder, path: str, edit: Callable[[list[str]], list[str]]) -> bool:
    """Replace the file `path` by what `edit` makes of its lines; returns whether that differs. Raises StaleError,
    OSError, UnicodeDecodeError."""
    before = read_lines(folder, path)
    text = "" if before is None else decoded(before)
    line_break = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    after = line_break.join(edit(lines))
    if after == text:
        return False
    if len(find_secrets(after)) > len(find_secrets(text)):
        raise StaleError("it would put a secret together")
    if before is None:
        # Not by `create`: a kill could leave it with two names, and then it is not read.
        folder.replace(path, after.encode(), check=partial(_demand_missing, folder, path))
    else:
        folder.replace_known(path, before, encoded_like(after, before))
    return True


def _demand_missing(folder: GuardedFolder, path: str) -> None:
    if folder.state(path) is not None:
        raise ChangedFileError(errno.EEXIST, "was created by another program since", path)


def read_lines(folder: GuardedFolder, path: str) -> bytes | None:
    """Return the content of a memory file, None if it does not exist. Raises OSError, also for links of any kind."""
    try:
        return folder.read(path, MAX_BYTES, linked=False)
    except FileNotFoundError:
        return None


def edited(lines: Sequence[str], proposal: Proposal) -> list[str]:
    """Return `lines`, those of the file, with the proposal in them; unchanged if it is in them already. Raises
    StaleError."""
    match proposal.kind:
        case "add":
            return _with_line(lines, proposal.text)
        case "supersede":
            return _superseded(lines, proposal)
        case "merge":
            return _merged(lines, proposal)
        case "move":
            return _without_moved(lines, proposal)
    return _dropped(lines, proposal)


def _with_line(lines: Sequence[str], text: str) -> list[str]:
    """Return `lines` with `text` at the end of the section that it belongs in, else of the last one."""
    if text in lines:
        return list(lines)
    at = _end_of_section(lines, sections(text))
    follows_list = at and BULLET.match(lines[at - 1])
    is_apart = at and not follows_list
    rest = list(lines[at:]) or [""]
    return [*lines[:at], *([""] if is_apart else []), text, *rest]


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


def _superseded(lines: Sequence[str], proposal: Proposal) -> list[str]:
    ended = {old: marked(old, until=date.fromisoformat(proposal.until)) for old in proposal.old}
    if proposal.text in lines and not any(old in lines for old in proposal.old):
        return list(lines)
    _demand(lines, proposal.old)
    found: list[str] = []
    is_written = proposal.text in lines
    for line in lines:
        if line in ended and not is_written:
            found.append(proposal.text)
            is_written = True
        found.append(ended.get(line, line))
    return found


def _merged(lines: Sequence[str], proposal: Proposal) -> list[str]:
    if proposal.text in lines and not any(old in lines for old in proposal.old if old != proposal.text):
        return list(lines)
    _demand(lines, proposal.old)
    return list(_replaced(lines, proposal.old, proposal.text))


def _without_moved(lines: Sequence[str], proposal: Proposal) -> list[str]:
    if not any(old in lines for old in proposal.old):
        return list(lines)
    _demand(lines, proposal.old)
    if proposal.text in lines:
        return [line for line in lines if line not in proposal.old]
    return list(_replaced(lines, proposal.old, proposal.text))


def received(lines: Sequence[str], proposal: Proposal) -> list[str]:
    """Return the `lines` of the target with those that are moved there."""
    found = list(lines)
    for old in proposal.old:
        found = _with_line(found, old)
    return found


def _replaced(lines: Sequence[str], old: Sequence[str], text: str) -> Iterator[str]:
    written = False
    for line in lines:
        if line not in old:
            yield line
        elif not written:
            yield text
            written = True


def _dropped(lines: Sequence[str], proposal: Proposal) -> list[str]:
    """Return `lines` without the last one that is the old line. Another line must state the same."""
    found = list(lines)
    for old in proposal.old:
        if old not in found:
            continue
        at = len(found) - 1 - found[::-1].index(old)
        rest = [*found[:at], *found[at + 1 :]]
        if not any(is_covered(old, line) for line in rest):
            raise StaleError("no other line states the same")
        found = rest
    return found


def _demand(lines: Sequence[str], old: Sequence[str]) -> None:
    """Raise StaleError unless all lines of `old` are in `lines`."""
    if missing := next((line for line in old if line not in lines), ""):
        raise StaleError(f"the line `{bare(missing)[:60]}` has been changed or removed")
