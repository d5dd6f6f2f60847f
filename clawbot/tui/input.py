"""What the user's input is: a message, a command for the agent, a command that opens a screen, or a slip.

What counts as a command at all is the agent's to say: clawbot.agent.slash.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass

from clawbot.agent.slash import parse_command

# Commands that need the screen. Those that do only without an argument are marked False.
SCREEN_COMMANDS = {
    "/sessions": False,
    "/model": False,
    "/edit": True,
    "/memory": True,
    "/context": False,
    "/agent": True,
    "/hooks": False,
    "/help": False,
    "/quit": True,
    "/exit": True,
    "/copy": True,
}


@dataclass(frozen=True)
class Nothing:
    """White space."""


@dataclass(frozen=True)
class ChatMessage:
    """Words for the model."""

    text: str


@dataclass(frozen=True)
class AgentCommand:
    """A slash command that the runtime carries out."""

    text: str


@dataclass(frozen=True)
class ScreenCommand:
    """A slash command that is the screen's own: its name with the slash, and what follows."""

    name: str
    argument: str


@dataclass(frozen=True)
class UnknownCommand:
    """A slash and a word that is no command; `nearest` is what may have been meant."""

    name: str
    nearest: str | None


UserInput = Nothing | ChatMessage | AgentCommand | ScreenCommand | UnknownCommand


def classify(text: str, commands: Collection[str]) -> UserInput:
    """What `text` is; `commands` are the names that the runtime knows, with their slashes."""
    if not text.strip():
        return Nothing()
    parsed = parse_command(text)
    if parsed is None:
        return ChatMessage(text)
    name, argument = f"/{parsed.name}", parsed.argument
    if name in SCREEN_COMMANDS and (SCREEN_COMMANDS[name] or not argument):
        return ScreenCommand(name, argument)
    if name in commands:
        return AgentCommand(f"{name} {argument}".rstrip())
    known = sorted({*commands, *SCREEN_COMMANDS})
    nearest = difflib.get_close_matches(name, known, n=1)
    return UnknownCommand(name, nearest[0] if nearest else None)
