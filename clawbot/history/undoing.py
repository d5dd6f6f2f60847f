"""Takes one change of a memory file back: what came later stays, and what contradicts it is shown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from clawbot.authors import Author, Recorder, recording
from clawbot.files import digest_of
from clawbot.guarded import MAX_RECORDED_BYTES, ChangedFileError, GuardedFolder
from clawbot.history.contents import Contents
from clawbot.history.merging import changed_lines, merge, split_lines
from clawbot.history.values import UNKNOWN, Change, HistoryError, Undone
from clawbot.text.encoding import decoded
from clawbot.text.interface import _

_ATTEMPTS = 5


class Undo:
    """Undoes in `workspace` what `changes` (newest first) report; `recorder` records it. Blocks; raises OSError."""

    def __init__(self, workspace: Path, contents: Contents, recorder: Recorder, changes: Sequence[Change]) -> None:
        self._files = GuardedFolder(workspace)
        self._contents = contents
        self._recorder = recorder
        self._changes = changes

    def run(self, change: Change, author: Author) -> Undone:
        """Take `change` back as `author`. Raises HistoryError if nothing is known to restore."""
        later = self._changes[: self._changes.index(change)]
        with recording(self._recorder, author):
            if change.was:
                return self._rename(change, _name_now(change.path, later))
            for _attempt in range(_ATTEMPTS):
                try:
                    return self._restore(change, _name_now(change.path, later))
                except ChangedFileError:
                    continue
        raise HistoryError(_("{path} keeps being changed by another program.").format(path=change.path))

    def _rename(self, change: Change, path: str) -> Undone:
        if path != change.path or Path(path).parent != Path(change.was).parent or not self._files.state(path):
            return Undone(path, conflict=_("{path} has another name by now.").format(path=change.path))
        if not self._files.rename(path, Path(change.was).name):
            return Undone(path, conflict=_("There is a file {path} again.").format(path=change.was))
        return Undone(change.was)

    def _restore(self, change: Change, path: str) -> Undone:
        base, wanted = self._content(change.after), self._content(change.before)
        try:
            now: bytes | None = self._files.read(path, MAX_RECORDED_BYTES)
        except FileNotFoundError:
            now = None
        digest = "" if now is None else digest_of(now)
        if digest == change.before:
            raise HistoryError(_("{path} is as it was before: there is nothing to undo.").format(path=path))
        if digest != change.after:
            if now is None or not change.after:
                # Deleted since, or made again: there is no common text.
                return Undone(path, conflict=diff(now or b"", wanted, path))
            merged = merge(base, now, wanted)
            if merged.conflict:
                return Undone(path, conflict=diff(now, merged.data, path))
            wanted = merged.data
        removed = not change.before and not wanted
        if now is not None:
            if now == wanted and not removed:
                raise HistoryError(_("Nothing of that is left in {path}.").format(path=path))
            self._files.replace_known(path, now, None if removed else wanted)
        elif not self._files.create(path, wanted):
            raise ChangedFileError(path)
        return Undone(path, lines=changed_lines(now or b"", wanted), removed=removed)

    def _content(self, digest: str) -> bytes:
        data = None if digest == UNKNOWN else self._contents.get(digest)
        if data is None:
            raise HistoryError(
                _("What it held is not stored."), hint=_("memory.history in the settings bounds what is stored.")
            )
        return data


def diff(before: bytes, after: bytes, path: str) -> str:
    """Return the unified diff of two contents."""
    old, new = (split_lines(decoded(data, errors="replace").replace("\r\n", "\n")) for data in (before, after))
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _name_now(path: str, later: Sequence[Change]) -> str:
    """The name of the file after the changes `later`, newest first."""
    for change in reversed(later):
        path = change.path if change.was == path else path
    return path
