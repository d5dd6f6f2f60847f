"""Removes text from the stored contents of the history of the memory files. Everything blocks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import structs

from clawbot.authors import Author, position_in
from clawbot.forget.files import ForgetTarget
from clawbot.forget.notes import ForgottenPart, NoteWork, lines_written, picked, without_lines
from clawbot.history import Change, History
from clawbot.history.changes import FORGET
from clawbot.history.values import UNKNOWN
from clawbot.text.encoding import decoded, encoded_like

SHOWN = "memory/.history"


class HistoryWork:
    """Removes what `work` names, and who made changes for the `sessions`. Implements `Rewrite`."""

    def __init__(self, history: History, work: NoteWork, sessions: Collection[str]) -> None:
        self._history = history
        self._work = work
        self._sessions = frozenset(sessions)
        self._removed: frozenset[str] = frozenset()
        self.remove(work.removed)

    def remove(self, names: Iterable[str]) -> None:
        """Let nothing remain of the files `names`, under earlier names either. Raises OSError."""
        self._removed = _every_name(self._history.changes(), {*names, *self._removed})

    def run(self, *, dry_run: bool) -> Iterator[ForgottenPart]:
        """Remove it, or only count. Raises OSError."""
        if count := self._history.rewrite(self, dry_run=dry_run):
            yield ForgottenPart(SHOWN, f"taken out of {count} {'change' if count == 1 else 'changes'}")

    def holds(self, wanted: ForgetTarget) -> bool:
        """Whether contents hold some of what is `wanted` when this was done. Raises OSError."""
        texts = (decoded(data, errors="replace") for data in self._history.contents_after(self))
        return any(wanted.holds(line) for text in texts for line in text.split("\n"))

    def changed(self, data: bytes) -> bytes:
        """See `Rewrite`."""
        try:
            text = decoded(data)
        except UnicodeDecodeError:
            text = decoded(data, errors="replace")
            return b"" if self._lines(text.split("\n")) else data
        after, gone = without_lines(text, lambda lines: {*self._lines(lines), *self._picked(data)})
        return encoded_like(after, data) if gone else data

    def _picked(self, data: bytes) -> set[int]:
        found = picked(data, self._work)
        for path in {write.path for write in self._work.writes}:
            found |= lines_written(data, path, self._work.writes)[0]
        return found

    def _lines(self, lines: Sequence[str]) -> set[int]:
        wanted = [each for each in (self._work.phrase, self._work.quoted) if each is not None]
        return {number for number, line in enumerate(lines) if any(each.holds(line) for each in wanted)}

    def entry(self, change: Change) -> Change | None:
        """See `Rewrite`."""
        if change.author.session in self._sessions:
            change = structs.replace(change, author=Author(change.author.by, undoes=change.author.undoes))
        sources = tuple(each for each in change.author.sources if not self._is_removed(position_in(each)[0]))
        if sources != change.author.sources:
            change = structs.replace(change, author=structs.replace(change.author, sources=sources))
        is_removal = change.author.by == FORGET and not change.after
        if is_removal or self._is_removed(change.path):
            return None
        if change.was and self._is_removed(change.was):
            change = structs.replace(change, was="", before=UNKNOWN)
        return change if change.was or change.before != change.after else None

    def _is_removed(self, path: str) -> bool:
        phrase = self._work.phrase
        is_named = phrase is not None and phrase.holds(re.sub(r"[-_./]", " ", path))
        return is_named or path in self._removed


def _every_name(changes: Sequence[Change], names: set[str]) -> frozenset[str]:
    """`names` of files with those that they had before, and those that were forgotten; `changes` are newest first."""
    for change in changes:
        if change.was and (change.path in names or change.author.by == FORGET):
            names.add(change.was)
    return frozenset(names)
