"""What a tool call is called on its card: an everyday verb for each state of the call, in
the language of the interface."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Literal

from msgspec import Struct

from clawbot.clock import weekday_of
from clawbot.text.interface import N_, _
from clawbot.text.patterns import lazy_re
from clawbot.text.visible import one_line

CardState = Literal["asking", "running", "done", "failed", "declined", "stopped"]


class Verb(Struct, frozen=True):
    """The forms of a verb: the call runs, is done, or did not run."""

    runs: str
    done: str
    request: str


_VERBS = {
    "read": Verb(N_("Reading {what}"), N_("Read {what}"), N_("Read {what}")),
    "write": Verb(N_("Writing {what}"), N_("Wrote {what}"), N_("Write {what}")),
    "edit": Verb(N_("Editing {what}"), N_("Edited {what}"), N_("Edit {what}")),
    "append": Verb(N_("Adding to {what}"), N_("Added to {what}"), N_("Add to {what}")),
    "note": Verb(N_("Noting → {what}"), N_("Noted → {what}"), N_("Note → {what}")),
    "list": Verb(N_("Listing {what}"), N_("Listed {what}"), N_("List {what}")),
    "task": Verb(N_("Sub-agent at work: {what}"), N_("Sub-agent done: {what}"), N_("Sub-agent: {what}")),
    "grep": Verb(N_("Searching files: {what}"), N_("Searched files: {what}"), N_("Search files: {what}")),
    "notes": Verb(N_("Searching notes: {what}"), N_("Searched notes: {what}"), N_("Search notes: {what}")),
    "sessions": Verb(
        N_("Searching conversations: {what}"), N_("Searched conversations: {what}"), N_("Search conversations: {what}")
    ),
}
_KINDS = {"memory_search": "notes", "memory_get": "read", "sessions_search": "sessions", "sessions_read": "read"}
# How tools sum up their calls, for models and programs; each text has one number at most.
_SUMMARIES = (
    N_("{n} hit"), N_("{n} hits"), N_("{n} line"), N_("{n} lines"), N_("{n} match"), N_("{n} matches"),
    N_("{n} entry"), N_("{n} entries"), N_("{n} call"), N_("{n} calls"), N_("empty"), N_("no such file"),
    N_("failed"), N_("declined"), N_("interrupted"), N_("no result"), N_("not run"), N_("refused"),
    N_("no hits"), N_("exit {n}"), N_("stopped after {n} s"), N_("killed by signal {n}"),
)  # fmt: skip
_NUMBER = re.compile(r"\d[\d,.]*\+?")
# What a search pattern contains besides words.
_SYNTAX = lazy_re(r"\(\?[:=!<imsx]+|\[[^\]]*\][*+?]?|\\[bBdDsSwW][*+?]?|[\\^$()*+?{}]")
_HARD = re.compile(r"\(\?|\[\\W|\[\^")


def summary_words(summary: str) -> str:
    """Return the summary of a call in the language of the interface; unknown texts remain unchanged."""
    number = _NUMBER.search(summary)
    if number is None:
        return _(summary) if summary in _SUMMARIES else summary
    text = f"{summary[: number.start()]}{{n}}{summary[number.end() :]}"
    return _(text).format(n=number[0]) if text in _SUMMARIES else summary


def is_note(path: str) -> bool:
    """Return whether `path`, as a model names it, is one of the files that memory keeps."""
    location = PurePosixPath(path)
    return location.parts[:1] == ("memory",) or str(location) in ("MEMORY.md", "USER.md")


def title_words(name: str, title: str, arguments: dict[str, Any], state: CardState) -> str:
    """Return the title of a call: `title` is its technical form, `NAME SUBJECT`, whose subject is shown behind the
    verb. That of an unknown tool remains unchanged."""
    subject = title.removeprefix(name).strip()
    if name == "shell":
        return f"$ {subject}"
    kind = _KINDS.get(name, name)
    if kind == "append" and is_note(str(arguments.get("path") or subject)):
        kind = "note"
    if kind == "grep":
        kind = "notes" if str(arguments.get("glob", "")).endswith(".md") else kind
        subject = readable(subject)
    if kind == "list" and subject in ("", "."):
        subject = one_line(str(arguments.get("pattern") or "")) or _("the workspace")
    if name == "sessions_read" and subject == "last":
        subject = _("the last conversation")
    verb = _VERBS.get(kind)
    if verb is None:
        return title
    form = verb.runs if state in ("running", "asking") else verb.done if state == "done" else verb.request
    return _(form).format(what=subject).rstrip()


def speaker(who: str, by: str = "") -> str:
    """Return who spoke; `by` is the other program whose assistant did."""
    return _("You") if who == "user" else one_line(by) or "Clawbot"


def location_words(hit: Mapping[str, Any]) -> str:
    """Return where a `hit` of a search is: speaker and time for a conversation, else path and line."""
    spoken = hit.get("said")
    if not isinstance(spoken, dict):
        return f"{hit['path']}:{hit.get('startLine', 1)}"
    at = datetime.fromisoformat(spoken["at"])
    return f"{speaker(spoken['who'], spoken.get('by', ''))}, {weekday_of(at)} {at:%H:%M}"


def readable(pattern: str) -> str:
    """Return the words of a regular expression that a program has made; one by a programmer remains unchanged."""
    if not _HARD.search(pattern):
        return pattern
    parts = [" ".join(_SYNTAX.sub(" ", part).split()) for part in pattern.split("|")]
    return one_line(", ".join(filter(None, parts))) or pattern
