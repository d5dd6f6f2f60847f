"""What a slash command is: the one reading of the user's text that the agent and the screen share."""

from __future__ import annotations

import re

from msgspec import Struct

# `/usr/bin/x is broken` is talk: a command is one word of letters after the slash.
_COMMAND = re.compile(r"/(?P<name>[A-Za-z][\w-]*)(?:\s+(?P<argument>.*))?", re.DOTALL)
# What follows these is a message of its own, and may have several lines.
_BEFORE_A_MESSAGE = frozenset({"new", "reset"})


class ParsedCommand(Struct, frozen=True):
    """A command as it was typed: `name` in lower case, without the slash."""

    name: str
    argument: str


def parse_command(text: str) -> ParsedCommand | None:
    """Read `text` as a command, in any case and with spaces around, known or not; None when it is a message.

    Text of several lines that starts with a slash is a message (reference sheet 5.5), unless the rest is one.
    """
    stripped = text.strip()
    match = _COMMAND.fullmatch(stripped)
    if match is None:
        return None
    name = match["name"].lower()
    if "\n" in stripped and name not in _BEFORE_A_MESSAGE:
        return None
    return ParsedCommand(name, (match["argument"] or "").strip())
