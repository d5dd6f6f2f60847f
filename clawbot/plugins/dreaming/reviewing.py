"""A proposal as it is shown for review: what it changes in the files as they are now, and the lines that it is from."""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from clawbot.guarded import GuardedFolder
from clawbot.plugins.dreaming.applying import edited, lines_of, read_file
from clawbot.plugins.dreaming.book import SourceLine
from clawbot.plugins.dreaming.proposals import Proposal, RefusedError
from clawbot.text.interface import _, ngettext
from clawbot.text.numbers import whole_number

CONTEXT = 1
"""Unchanged lines that are shown above and below a change."""


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
    changed = difflib.unified_diff(before, after, lineterm="", n=CONTEXT)
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


def decided_text(written: int, declined: int, gone: int) -> str:
    """Return one line for the conversation on how many proposals were decided in which way, "" if none was."""
    parts = (
        (written, ngettext("{n} proposal written", "{n} proposals written", written)),
        (declined, ngettext("{n} declined", "{n} declined", declined)),
        (gone, ngettext("{n} no longer possible", "{n} no longer possible", gone)),
    )
    undo = _(" · /undo takes the last one back") if written else ""
    return f"{_(', ').join(text.format(n=count) for count, text in parts if count)}{undo}"
