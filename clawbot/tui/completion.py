"""What Tab offers: slash commands at the start of the input, workspace files after an `@`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MENTION = re.compile(r"(?:^|(?<=\s))@(\S*)$")
OFFERED = 8


@dataclass(frozen=True)
class Choice:
    """One offer: what is put in, what stands beside it, and whether Enter sends it right away."""

    text: str
    help: str = ""
    complete: bool = False


@dataclass(frozen=True)
class Wanted:
    """What is being typed: the kind, the part that is there, and where it begins in the text before the cursor."""

    kind: str
    typed: str
    start: int


def wanted(before: str) -> Wanted | None:
    """What the text before the cursor asks to be completed, if anything."""
    if before.startswith("/") and not re.search(r"\s", before):
        return Wanted("command", before, 0)
    mention = _MENTION.search(before)
    return Wanted("file", mention[1], mention.start()) if mention else None


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
