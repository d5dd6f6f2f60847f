"""The names that a summary must hold to the letter: paths, addresses, hashes, versions, quoted titles (sheet 7.6).

Pure, but slow on long texts: for threads.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from clawbot.llm.offline.identifiers import identifiers, titles
from clawbot.llm.offline.material import PROVIDER
from clawbot.logs import redact
from clawbot.messages import AssistantMessage, Message, UserMessage, quotes_notes
from clawbot.sessions.silence import names_token, spoken

MOST = 12
LEAST_CHARS, MOST_CHARS = 3, 120
LOOKED_AT = 300_000
"""Characters at the end of a conversation: what is far back stands in an earlier summary, or is of no use any more."""

LINE_CHARS = 2_000
"""Of one line: a longer one is data. It also bounds how long a search holds the interpreter, and the screen with it."""

USER_WEIGHT, ASSISTANT_WEIGHT = 3, 2

_TELLING = re.compile(r"[/:@#_~]|\.\w|\d[a-f]|[a-f]\d|[A-Z]-\d")
_MEASURE = re.compile(r"\d+(?:[.,]\d+)?\s?\D{0,6}")
_PORT = re.compile(r"(?:\bport|端口)\D{0,4}(\d{2,5})\b", re.IGNORECASE | re.ASCII)
_COMMAND = re.compile(r"\s")


def wanted_identifiers(messages: Iterable[Message], most_tokens: int, count: Callable[[str], int]) -> list[str]:
    """Up to `MOST` names of what user and assistant said, the weightiest that take `most_tokens` together, in the order
    of the messages that say them last. Names that look like a key or a password are left out, and so is the token of a
    silent reply."""
    scores: dict[str, float] = {}
    for text, weight in _newest(messages):
        for name in _names(text):
            scores[name] = scores.get(name, 0) + weight
    chosen: list[str] = []
    for name in sorted(scores, key=lambda name: -scores[name]):
        most_tokens -= count(f"- {name}\n")
        if len(chosen) == MOST or most_tokens < 0:
            break
        if redact(name) == name and not names_token(name):
            chosen.append(name)
    return [name for name in reversed(scores) if name in chosen]


def missing_identifiers(wanted: Iterable[str], text: str) -> list[str]:
    """Those of `wanted` that do not stand in `text`."""
    return [name for name in wanted if name not in text]


def _newest(messages: Iterable[Message]) -> Iterable[tuple[str, int]]:
    room = LOOKED_AT
    for message in reversed(list(messages)):
        # What the offline model says is phrases and quotes of notes, as is what a session begins with: no names that
        # the talk was about.
        if quotes_notes(message) or (isinstance(message, AssistantMessage) and message.provider == PROVIDER):
            continue
        if isinstance(message, UserMessage | AssistantMessage) and room > 0:
            text = _said(message)[-room:]
            room -= len(text)
            yield text, USER_WEIGHT if isinstance(message, UserMessage) else ASSISTANT_WEIGHT


def _said(message: UserMessage | AssistantMessage) -> str:
    return message.text if isinstance(message, UserMessage) else spoken(message.text)


def _names(text: str) -> list[str]:
    """The names of one message, the last first: all of them together end in the order of the conversation."""
    found: dict[str, None] = {}
    for whole in text.split("\n"):
        line = whole[:LINE_CHARS]
        found |= dict.fromkeys(filter(_tells, identifiers(line)))
        found |= dict.fromkeys([*titles(line), *_PORT.findall(line)])
    return list(reversed(found))


def _tells(name: str) -> bool:
    """Numbers with units and commands in backticks are left to the model."""
    if not LEAST_CHARS <= len(name) <= MOST_CHARS or _COMMAND.search(name):
        return False
    return not _MEASURE.fullmatch(name) and _TELLING.search(name) is not None
