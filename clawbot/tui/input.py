"""Classifies the user's input (for the runtime, a screen command, or a mistake) and computes completions. The commands
are defined by clawbot.agent.slash."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from clawbot.agent.slash import CommandInfo, nearest_command, parse_command

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_ARGUMENT = re.compile(r"(/[A-Za-z][\w-]*)[ \t]+(\S*)$")
_SIGNS = '/@"'
_WORDS = re.compile(r"\[([\w-]+(?:\|[\w-]+)+)\]")  # `[md|json]` in the arguments of a command


class Choice(Struct, frozen=True):
    """A completion: the text to insert, what may follow it, its description (with `code`), and whether Enter sends it
    at once."""

    text: str
    help: str = ""
    complete: bool = False
    arguments: str = ""


class CompletionRequest(Struct, frozen=True):
    """What is being completed: its kind, the typed part, its start in the text before the cursor, and the command whose
    argument it is."""

    kind: str
    typed: str
    start: int
    command: str = ""


def argument_words(arguments: str) -> list[str]:
    """The words that a command takes, as its `arguments` list them."""
    return [word for words in _WORDS.findall(arguments) for word in words.split("|")]


def wanted(before: str) -> CompletionRequest | None:
    """The completion requested by the text before the cursor, if any."""
    if before.startswith("/") and not re.search(r"\s", before):
        return CompletionRequest("command", before, 0)
    if mention := _MENTION.search(before):
        return CompletionRequest("file", mention[1], mention.start())
    if argument := _ARGUMENT.fullmatch(before):
        return CompletionRequest("argument", argument[2], argument.start(2), argument[1].lower())
    return None


def best(typed: str, choices: Sequence[Choice]) -> list[Choice]:
    """The matching choices, best first: what is typed itself, those that begin with it, then those with its letters in
    order."""
    from textual.fuzzy import Matcher

    word = typed.lstrip(_SIGNS)
    if not word:
        return list(choices)
    begins = [choice for choice in choices if choice.text.lstrip(_SIGNS).startswith(word)]
    begins.sort(key=lambda choice: choice.text != typed)
    matcher = Matcher(word)
    others = [choice for choice in choices if choice not in begins]
    scored = [(matcher.match(choice.text), choice) for choice in others]
    ranked = sorted((pair for pair in scored if pair[0] > 0), key=lambda pair: -pair[0])
    return [*begins, *(choice for _, choice in ranked)]


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
