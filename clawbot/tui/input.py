"""Classifies the user's input (for the runtime, a screen command, or a mistake) and computes completions. The commands
are defined by clawbot.agent.slash."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from clawbot.agent.slash import CommandInfo, nearest_command, parse_command

_SKILL = re.compile(r"/skill\s+(\S*)", re.IGNORECASE)
_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
OFFERED = 8


class Choice(Struct, frozen=True):
    """A completion: the text to insert, its description, and whether Enter sends it at once."""

    text: str
    help: str = ""
    complete: bool = False


class CompletionRequest(Struct, frozen=True):
    """What is being completed: its kind, the typed part, and its start in the text before the cursor."""

    kind: str
    typed: str
    start: int


def wanted(before: str) -> CompletionRequest | None:
    """The completion requested by the text before the cursor, if any."""
    if before.startswith("/") and not re.search(r"\s", before):
        return CompletionRequest("command", before, 0)
    if skill := _SKILL.fullmatch(before):
        return CompletionRequest("skill", skill[1], skill.start(1))
    mention = _MENTION.search(before)
    return CompletionRequest("file", mention[1], mention.start()) if mention else None


def best(typed: str, choices: Sequence[Choice]) -> list[Choice]:
    """The matching choices, best first: those with the typed prefix, then those with its letters in order."""
    from textual.fuzzy import Matcher

    word = typed.lstrip("/@")
    if not word:
        return list(choices[:OFFERED])
    begins = [choice for choice in choices if choice.text.lstrip("/@").startswith(word)]
    matcher = Matcher(word)
    others = [choice for choice in choices if choice not in begins]
    scored = [(matcher.match(choice.text), choice) for choice in others]
    ranked = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
    return [*begins, *(choice for _, choice in ranked)][:OFFERED]


class Submitted(Struct, frozen=True):
    """A message for the model, or a slash command of the runtime."""

    text: str


class ScreenCommand(Struct, frozen=True):
    """A slash command of the screen: its name with the slash, and its argument."""

    name: str
    argument: str


class UnknownCommand(Struct, frozen=True):
    """An unknown slash command; `nearest` is the probable intention."""

    name: str
    nearest: str | None


UserInput = Submitted | ScreenCommand | UnknownCommand


ShellMode = Literal["", "kept", "shared"]
"""What the prompt is about to do: say something, or run a command whose output the model does not see, or sees."""


def shell_mode(text: str) -> ShellMode:
    """What `text` in the prompt does when it is sent."""
    return "shared" if text.startswith("!!") else "kept" if text.startswith("!") else ""


def classify(text: str, commands: Collection[CommandInfo]) -> UserInput | None:
    """Classify `text`, given the known `commands`; None for what says nothing yet: whitespace, the sign of a shell
    command alone."""
    if not text.strip() or text.rstrip() in ("!", "!!"):
        return None
    parsed = parse_command(text)
    if parsed is None:
        return Submitted(text)
    name, argument = f"/{parsed.name}", parsed.argument
    known = {command.name: command for command in commands}
    if name not in known:
        return UnknownCommand(name, nearest_command(name, known))
    if known[name].is_for_screen(argument):
        return ScreenCommand(name, argument)
    return Submitted(f"{name} {argument}".rstrip())
