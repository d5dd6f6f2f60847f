"""The slash commands that clawbot has, and how the user's text is read as one, or as a command of the shell.

This table is the only list of them: completion, `/help`, the screen's own commands and the table of docs/commands.md
are read from it. What a command does is in clawbot.agent.commands; the screen shows what it does itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from clawbot.text.interface import N_

# `/usr/bin/x is broken` is text: a command is one word of letters after the slash.
_COMMAND = re.compile(r"/(?P<name>[A-Za-z][\w-]*)(?:\s+(?P<argument>.*))?", re.DOTALL)


class CommandInfo(Struct, frozen=True):
    """A slash command as completion, `/help` and docs/commands.md show it: `name` with its slash.

    `screen` states what the chat screen answers itself: `bare` only without an argument, `always` with one as well.
    """

    name: str
    arguments: str
    help: str
    screen: Literal["", "bare", "always"] = ""

    def is_for_screen(self, argument: str) -> bool:
        """Whether the chat screen answers the command when `argument` follows it."""
        return self.screen == "always" or (self.screen == "bare" and not argument)


COMMANDS = (
    CommandInfo(
        "/new", N_("[text]"), N_("End this conversation and start a fresh one; the text becomes its first message.")
    ),
    CommandInfo("/reset", N_("[text]"), N_("The same as /new.")),
    CommandInfo(
        "/compact", N_("[focus]"), N_("Summarise the earlier turns now; the focus says what the summary must hold.")
    ),
    CommandInfo("/context", "[detail|json]", N_("Show where the tokens of the context window go."), "bare"),
    CommandInfo("/status", "", N_("Show the model, the conversation, the context, the memory and the cost.")),
    CommandInfo("/sessions", "", N_("List the conversations; pick one to resume."), "bare"),
    CommandInfo("/rename", N_("[title]"), N_("Give this conversation a title for the list.")),
    CommandInfo(
        "/fork", N_("[title]"), N_("Go on in a new conversation that begins with this one, which stays as it is.")
    ),
    CommandInfo(
        "/rewind", "", N_("Go back to an earlier message, edit it and go on; files stay as they are."), "always"
    ),
    CommandInfo(
        "/unsent", "", N_("Send, edit or drop what was typed and not sent before the program ended."), "always"
    ),
    CommandInfo(
        "/model", N_("[name]"), N_("Choose the model that answers: `provider/name`, `offline` or `auto`."), "bare"
    ),
    CommandInfo("/agent", N_("[ID]"), N_("Talk to another agent, with a workspace and a memory of its own."), "always"),
    CommandInfo("/hooks", "", N_("Show the hooks: which are ready, what is missing, how each ran last."), "bare"),
    CommandInfo(
        "/skill", N_("NAME [words]"), N_("Put a skill's instructions into this message; without a name, list them.")
    ),
    CommandInfo("/skills", "", N_("Show the skills: which are ready, where they are from, what is wrong.")),
    CommandInfo(
        "/mode", "[plan|ask|edits]", N_("Choose what may be changed: nothing, after a question, files."), "always"
    ),
    CommandInfo("/permissions", "[drop N]", N_("Show what tools may do and why; take back what was always allowed.")),
    CommandInfo("/tools", "", N_("List what the model can do.")),
    CommandInfo("/mcp", "", N_("Show the MCP servers: their state, their tools, what went wrong last.")),
    CommandInfo(
        "/edit", N_("FILE"), N_("Edit a workspace file such as AGENTS.md; the next message sees the change."), "always"
    ),
    CommandInfo(
        "/memory",
        N_("[QUERY]"),
        N_("Search what is remembered; without a query, the notes of the last days."),
        "always",
    ),
    CommandInfo("/done", "", N_("End the intent of memory/intents.md that was shown last.")),
    CommandInfo(
        "/forget",
        N_("WORDS"),
        N_("Show what would be forgotten; `/forget yes WORDS` then does it."),
    ),
    CommandInfo(
        "/undo", "", N_("Take back the last change of a memory file in this conversation; again for the one before.")
    ),
    CommandInfo(
        "/export", N_("[md|json] [path]"), N_("Write this conversation to a file; `--with-secrets` leaves nothing out.")
    ),
    CommandInfo(
        "/theme",
        N_("[name]"),
        N_("Choose the colours of the screen, which are kept: `light`, `dark`, `auto` or a theme."),
        "always",
    ),
    CommandInfo("/copy", "", N_("Copy the last reply to the clipboard, over SSH too."), "always"),
    CommandInfo("/help", "", N_("Show the commands and keys."), "bare"),
    CommandInfo("/quit", "", N_("Leave; the conversation goes on next time."), "always"),
)

_ALIASES = {"exit": "quit"}

RESETS = frozenset({"new", "reset"})
"""The commands whose text is sent in the session that they begin."""
LITERAL = frozenset({"skill"})
"""The commands that are sent to the model as they were typed, with what they attach."""


ENDING = ("/compact", "/new", "/reset", "/quit")
"""The commands that shorten or end a conversation."""
_NEAR, _ALMOST = 0.7, 0.85


def nearest_command(name: str, known: Iterable[str]) -> str | None:
    """The command that `name` was probably meant to be, all with their slashes; None if none is near. One that ends or
    shortens the conversation must be nearer than others."""
    found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=_NEAR)
    likeness = {each: difflib.SequenceMatcher(None, name, each).ratio() for each in found}
    return next((each for each in found if each not in ENDING or likeness[each] >= _ALMOST), None)


class ParsedCommand(Struct, frozen=True):
    """A command as it was typed: `name` in lower case, without the slash."""

    name: str
    argument: str


def parse_command(text: str) -> ParsedCommand | None:
    """Read `text` as a command, in any case and with spaces around, known or not; None when it is a message.

    Text of several lines that starts with a slash is a message, unless the rest is one.
    """
    stripped = text.strip()
    match = _COMMAND.fullmatch(stripped)
    if match is None:
        return None
    name = match["name"].lower()
    name = _ALIASES.get(name, name)
    if "\n" in stripped and name not in RESETS | LITERAL:
        return None
    return ParsedCommand(name, (match["argument"] or "").strip())


class ShellCommand(Struct, frozen=True):
    """A command of the shell that the user typed; `shared` with the model."""

    command: str
    shared: bool = False


_SHELL = re.compile(r"(?P<signs>!!|!(?!!))\s*(?P<command>\S.*)", re.DOTALL)


def parse_shell(text: str) -> ShellCommand | None:
    """Read `text` as `!command` or `!!command`; None when it is a message. A space before the sign, or a backslash,
    makes it one."""
    match = _SHELL.fullmatch(text.rstrip())
    return ShellCommand(match["command"], match["signs"] == "!!") if match else None


def without_escape(text: str) -> str:
    """The message `text` without the backslash that kept it from being a command of the shell."""
    return text[1:] if text.startswith("\\!") else text
