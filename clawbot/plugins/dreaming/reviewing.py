"""A proposal as it is shown for review: what it changes in the files as they are now, and the lines that it is from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from clawbot.guarded import GuardedFolder
from clawbot.plugins.dreaming.applying import StaleError, edited, read_lines, received
from clawbot.plugins.dreaming.proposals import Proposal
from clawbot.text.encoding import decoded
from clawbot.text.interface import _, ngettext
from clawbot.text.numbers import whole_number

CONTEXT = 1
"""Unchanged lines that are shown above and below a change."""
EDITABLE = ("add", "merge", "supersede")
"""The kinds of proposals whose text may be edited before it is written."""


class DiffRow(NamedTuple):
    """A line of a file: `mark` is `+`, `-`, a space for a line that remains, `⋯` between two changes."""

    mark: str
    text: str


class FileDiff(NamedTuple):
    """What is changed in the file `path`."""

    path: str
    rows: tuple[DiffRow, ...]


class SourceLine(NamedTuple):
    """The line that a proposal is from, by its number; `text` is "" if it is there no more."""

    path: str
    line: int
    text: str


class ShownProposal(Struct, frozen=True):
    """A proposal with its `diffs`, or the `problem` why it can't be written, a sentence without its full stop.

    `contents` are the files that it changes, as they were read; None for a missing one.
    """

    proposal: Proposal
    diffs: tuple[FileDiff, ...]
    sources: tuple[SourceLine, ...]
    contents: Mapping[str, bytes | None]
    problem: str = ""


def show(workspace: Path, proposal: Proposal) -> ShownProposal:
    """Return `proposal` as it would be written into the files of `workspace` now. Blocks; raises nothing."""
    folder = GuardedFolder(workspace)
    sources = tuple(_sources(folder, proposal.sources))
    contents: dict[str, bytes | None] = {}
    try:
        contents = read(folder, proposal)
        return ShownProposal(proposal, tuple(_diffs(proposal, contents)), sources, contents)
    except StaleError as error:
        return ShownProposal(proposal, (), sources, contents, str(error))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else _("it is not in UTF-8")
        return ShownProposal(proposal, (), sources, contents, f"{proposal.file}: {reason or error}")


def read(folder: GuardedFolder, proposal: Proposal) -> dict[str, bytes | None]:
    """Return the files that `proposal` changes. Raises OSError."""
    paths = dict.fromkeys(filter(None, (proposal.target, proposal.file)))
    return {path: read_lines(folder, path) for path in paths}


def _diffs(proposal: Proposal, contents: Mapping[str, bytes | None]) -> Iterator[FileDiff]:
    """Raises StaleError, UnicodeDecodeError."""
    for path, data in contents.items():
        before = lines_of(data)
        after = edited(before, proposal) if path == proposal.file else received(before, proposal)
        if rows := tuple(diff_rows(before, after)):
            yield FileDiff(path, rows)


def lines_of(data: bytes | None) -> list[str]:
    """Return the lines of a file. Raises UnicodeDecodeError."""
    return decoded(data or b"").replace("\r\n", "\n").split("\n")


def diff_rows(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffRow]:
    """Yield the changes from `before` to `after`, with the lines around them that are not blank."""
    changed = difflib.unified_diff(before, after, lineterm="", n=CONTEXT)
    for number, line in enumerate(changed):
        if number > 2 and line.startswith("@@"):
            yield DiffRow("⋯", "")
        elif number > 2 and (line[1:].strip() or line[0] != " "):
            yield DiffRow(line[0], line[1:])


def _sources(folder: GuardedFolder, positions: Iterable[str]) -> Iterator[SourceLine]:
    known: dict[str, list[str]] = {}
    for position in positions:
        path, _colon, number = position.rpartition(":")
        if path not in known:
            try:
                known[path] = lines_of(read_lines(folder, path))
            except (OSError, UnicodeDecodeError):
                known[path] = []
        line = whole_number(number) or 1
        yield SourceLine(path, line, known[path][line - 1].strip() if line <= len(known[path]) else "")


def is_current(workspace: Path, shown: ShownProposal) -> bool:
    """Return whether the files are as they were when `shown` was made. Blocks."""
    try:
        return read(GuardedFolder(workspace), shown.proposal) == shown.contents
    except OSError:
        return False


class Decided(Struct):
    """How many proposals were decided in which way."""

    written: int = 0
    declined: int = 0
    gone: int = 0

    def text(self) -> str:
        """Return one line for the conversation, "" if nothing was decided."""
        parts = []
        if self.written:
            parts.append(ngettext("{n} proposal written", "{n} proposals written", self.written).format(n=self.written))
        if self.declined:
            parts.append(ngettext("{n} declined", "{n} declined", self.declined).format(n=self.declined))
        if self.gone:
            parts.append(ngettext("{n} no longer possible", "{n} no longer possible", self.gone).format(n=self.gone))
        undo = _(" · /undo takes the last one back") if self.written else ""
        return f"{_(', ').join(parts)}{undo}"
