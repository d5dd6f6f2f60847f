"""What the user's input is: something for the runtime, a command that the screen answers, or a slip; and what Tab
offers for it. Which commands there are is the agent's to say: clawbot.agent.slash."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from clawbot.agent.slash import CommandInfo, parse_command

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
OFFERED = 8


@dataclass(frozen=True)
class Choice:
    """One offer: what is put in, what stands beside it, and whether Enter sends it right away."""

    text: str
    help: str = ""
    complete: bool = False


@dataclass(frozen=True)
class CompletionRequest:
    """What is being typed: the kind, the part that is there, and where it begins in the text before the cursor."""

    kind: str
    typed: str
    start: int


def wanted(before: str) -> CompletionRequest | None:
    """What the text before the cursor asks to be completed, if anything."""
    if before.startswith("/") and not re.search(r"\s", before):
        return CompletionRequest("command", before, 0)
    mention = _MENTION.search(before)
    return CompletionRequest("file", mention[1], mention.start()) if mention else None


def best(typed: str, choices: Sequence[Choice]) -> list[Choice]:
    """The choices that fit what was typed, the best first: those that begin with it, then those that hold its
    letters in order."""
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


@dataclass(frozen=True)
class Submitted:
    """Words for the model, or a slash command that the runtime carries out."""

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


UserInput = Submitted | ScreenCommand | UnknownCommand


def classify(text: str, commands: Collection[CommandInfo]) -> UserInput | None:
    """What `text` is, with these `commands` known; None for white space."""
    if not text.strip():
        return None
    parsed = parse_command(text)
    if parsed is None:
        return Submitted(text)
    name, argument = f"/{parsed.name}", parsed.argument
    known = {command.name: command for command in commands}
    if name not in known:
        nearest = difflib.get_close_matches(name, sorted(known), n=1)
        return UnknownCommand(name, nearest[0] if nearest else None)
    if known[name].is_for_screen(argument):
        return ScreenCommand(name, argument)
    return Submitted(f"{name} {argument}".rstrip())
