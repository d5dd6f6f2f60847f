"""The history as data and as text for people."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import msgspec

from clawbot.history.changes import DREAM, History
from clawbot.history.undoing import diff
from clawbot.history.values import UNKNOWN, Change, Undone
from clawbot.text.interface import _

_FIELDS = ("id", "time", "by", "path", "before", "after", "session", "key", "entry", "job", "was", "undoes", "sources")


def entry_data(change: Change) -> dict[str, Any]:
    """Return an entry as JSON of `clawbot memory log`: the fields of its author that are empty are left out."""
    known = {**msgspec.to_builtins(change), **msgspec.to_builtins(change.author)}
    return {name: known[name] for name in _FIELDS if name in known}


def log_line(change: Change, zone: dt.tzinfo | None) -> str:
    """Return the id, the time in `zone`, who made the change, and where."""
    moment = dt.datetime.fromisoformat(change.time).astimezone(zone)
    was = f" (was {change.was})" if change.was else ""
    what = "" if was else " (new)" if not change.before else " (deleted)" if not change.after else ""
    known = {"undoes": change.author.undoes, "job": "" if change.author.by == DREAM else change.author.job}
    more = "".join(f" ({name} {text})" for name, text in known.items() if text)
    return f"{change.id}  {moment:%Y-%m-%d %H:%M:%S}  {change.author.by:<20}  {change.path}{was}{what}{more}"


def change_lines(history: History, change: Change, zone: dt.tzinfo | None) -> Iterator[str]:
    """Yield the change as it is shown: who, when, for which message, and the diff. Blocks."""
    author = change.author
    yield log_line(change, zone)
    known = {"conversation": author.session, "key": author.key, "message": author.entry, "job": author.job}
    known["from"] = ", ".join(author.sources)
    if named := [f"{name} {text}" for name, text in known.items() if text]:
        yield ", ".join(named)
    shown = change_diff(history, change)
    if shown is None:
        yield "What it held before is not known." if change.before == UNKNOWN else "The contents are no longer stored."
    else:
        yield from shown.splitlines()


def change_diff(history: History, change: Change) -> str | None:
    """Return the unified diff; None if a content is not stored. Blocks."""
    before, after = history.content(change.before), history.content(change.after)
    return None if before is None or after is None else diff(before, after, change.path)


def undone_text(undone: Undone) -> str:
    """Return what an undo came to, in the user's language."""
    if undone.conflict:
        text = _("Not undone, and nothing was changed: what {path} holds now contradicts it.").format(path=undone.path)
        return f"{text}\n\n```diff\n{undone.conflict.rstrip()}\n```"
    first, last = undone.lines
    if undone.removed:
        text = _("Undone: {path} is deleted again.").format(path=undone.path)
    elif not first:
        text = _("Undone: the file is {path} again.").format(path=undone.path)
    else:
        where = f"{undone.path}:{first}" if first == last else f"{undone.path}:{first}-{last}"
        text = _("Undone: {path}").format(path=where)
    return f"{text} · {_('`clawbot memory undo {id}` brings it back.').format(id=undone.id)}"
