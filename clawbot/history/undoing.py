"""Takes one change of a memory file back: what came later stays, and what contradicts it is shown."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from clawbot.files import digest_of
from clawbot.guarded import MAX_RECORDED_BYTES, ChangedFileError, GuardedFolder
from clawbot.history.contents import Contents
from clawbot.history.merging import changed_lines, merge, split_lines
from clawbot.history.values import Change, HistoryError, Undone
from clawbot.text.encoding import decoded
from clawbot.text.interface import _

_ATTEMPTS = 5


def take_back(workspace: Path, change: Change, changes: Sequence[Change], contents: Contents) -> Undone:
    """Take `change` back; `changes` are all, newest first, `contents` are what they stored. Blocks. Raises
    HistoryError if nothing is known to restore, and OSError."""
    files = GuardedFolder(workspace)
    path = _name_now(change.path, changes[: changes.index(change)])
    if change.was:
        return _rename(files, change, path)
    base, wanted = contents.get(change.after), contents.get(change.before)
    if base is None or wanted is None:
        raise HistoryError(
            _("What it held is not stored."), hint=_("memory.history in the settings bounds what is stored.")
        )
    for _attempt in range(_ATTEMPTS):
        try:
            return _restore(files, change, path, base, wanted)
        except ChangedFileError:
            continue
    raise HistoryError(_("{path} keeps being changed by another program.").format(path=change.path))


def _rename(files: GuardedFolder, change: Change, path: str) -> Undone:
    if path != change.path or Path(path).parent != Path(change.was).parent or not files.state(path):
        return Undone(path, conflict=_("{path} has another name by now.").format(path=change.path))
    if not files.rename(path, Path(change.was).name):
        return Undone(path, conflict=_("There is a file {path} again.").format(path=change.was))
    return Undone(change.was)


def _restore(files: GuardedFolder, change: Change, path: str, base: bytes, wanted: bytes) -> Undone:
    """Write what `path` holds now without what leads from `wanted` to `base`. Raises ChangedFileError, HistoryError."""
    try:
        now: bytes | None = files.read(path, MAX_RECORDED_BYTES)
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
        files.replace_known(path, now, None if removed else wanted)
    elif not files.create(path, wanted):
        raise ChangedFileError(path)
    return Undone(path, lines=changed_lines(now or b"", wanted), removed=removed)


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
