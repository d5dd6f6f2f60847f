"""Which files the compacted turns read and changed, added up over all compactions of a session (sheet 7.4). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from clawbot.messages import AssistantMessage, Message, ToolResultMessage

READING = frozenset({"read"})
CHANGING = frozenset({"write", "append", "edit"})
HEADING = "## Files read and changed"


class FileLists(Struct, frozen=True):
    """Paths as the tools were given them, sorted; what was changed is not listed as read."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def as_details(self) -> dict[str, list[str]]:
        """The form in which a compaction entry keeps them."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}


def file_lists(messages: Iterable[Message], details: Any = None) -> FileLists:
    """The files of the tool calls in `messages` that did not fail, and those of `details`, which is what the entry of
    the previous compaction holds (anything else in it is ignored)."""
    messages = list(messages)
    failed = {
        message.tool_call_id for message in messages if isinstance(message, ToolResultMessage) and message.is_error
    }
    calls = [
        call
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
        if call.id not in failed and isinstance(call.arguments.get("path"), str)
    ]
    modified = _listed(details, "modifiedFiles") | {call.arguments["path"] for call in calls if call.name in CHANGING}
    read = _listed(details, "readFiles") | {call.arguments["path"] for call in calls if call.name in READING}
    return FileLists(tuple(sorted(read - modified)), tuple(sorted(modified)))


def show_files(lists: FileLists, most: int, count: Callable[[str], int]) -> str:
    """The section that names them, in at most `most` tokens by `count`; "" without files or without room."""
    for share in (len(lists.read) + len(lists.modified), 40, 15, 5, 2):
        lines = [_line("Changed", lists.modified, share), _line("Read", lists.read, share)]
        text = "\n".join([HEADING, "", *filter(None, lines)])
        if any(lines) and count(text) <= most:
            return text
    return ""


def _line(label: str, paths: Sequence[str], share: int) -> str:
    if not paths:
        return ""
    more = f", and {len(paths) - share:,} more" if len(paths) > share else ""
    return f"- {label}: {', '.join(paths[:share])}{more}"


def _listed(details: Any, name: str) -> set[str]:
    paths = details.get(name) if isinstance(details, dict) else None
    return {path for path in paths if isinstance(path, str)} if isinstance(paths, list) else set()
