"""Telling what the user wants: one small value, from the phrase tables."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from msgspec import Struct

from clawbot.llm.offline import markers, phrases_en, phrases_zh
from clawbot.llm.offline.language import Language, fold

MAX_REQUEST = 8_000
"""A longer message is a paste, not a request in a phrase that could be known, in characters."""

_FLAGS = re.IGNORECASE | re.DOTALL
_QUOTES = "\"'`“”‘’「」『』《》"


class Intent(Struct, frozen=True):
    """What the user wants. `kind` names the plan; the other fields are the user's own words, as they were typed.

    `text` is the fact, the question, the words to look for, the content or the command; `path` a file or folder; `old`
    what is to be replaced.
    """

    kind: str
    text: str = ""
    path: str = ""
    old: str = ""


class _Table(Struct, frozen=True):
    rules: tuple[tuple[str, re.Pattern[str]], ...]
    opening: re.Pattern[str]
    question: re.Pattern[str]
    personal: re.Pattern[str]


def _table(rules: Iterable[tuple[str, str]], opening: str, question: str, personal: str) -> _Table:
    return _Table(
        tuple((kind, re.compile(pattern, _FLAGS)) for kind, pattern in rules),
        *(re.compile(pattern, _FLAGS) for pattern in (opening, question, personal)),
    )


@functools.cache
def _tables() -> tuple[_Table, _Table]:
    """English and Chinese. Compiled at the first message: some 30 ms that no start should pay."""
    return (
        _table(phrases_en.RULES, phrases_en.OPENING, phrases_en.QUESTION, phrases_en.PERSONAL),
        _table(phrases_zh.RULES, phrases_zh.OPENING, phrases_zh.QUESTION, phrases_zh.PERSONAL),
    )


def classify(text: str, language: Language) -> Intent:
    """What `text` asks for. The tables of both languages are tried, that of `language` first: mixed text is common."""
    stripped = text.strip()
    if not stripped:
        return Intent("empty")
    if len(stripped) > MAX_REQUEST:
        return _long(stripped)
    english, chinese = _tables()
    for table in (chinese, english) if language == "zh" else (english, chinese):
        found = _match(stripped, table)
        if found is not None:
            return found
    return _unphrased(stripped)


def is_question(text: str) -> bool:
    """Whether `text` asks for something to be told."""
    folded = fold(text).strip()
    return folded.endswith("?") or any(table.question.match(folded) for table in _tables())


def _match(text: str, table: _Table) -> Intent | None:
    folded = fold(text)
    start = _skip_openings(folded, table.opening)
    for kind, pattern in table.rules:
        # The whole message first: "please" or "ok" may be all there is, and "no" may be part of the phrase.
        for begin in dict.fromkeys((0, start)):
            match = pattern.fullmatch(folded, begin)
            if match is not None:
                return Intent(kind, **_groups(text, match))
    return None


def _skip_openings(folded: str, opening: re.Pattern[str]) -> int:
    """Where the request proper begins."""
    start = 0
    while (match := opening.match(folded, start)) is not None and match.end() > start:
        start = match.end()
    return start if start < len(folded) else 0


def _groups(text: str, match: re.Match[str]) -> dict[str, str]:
    """The named groups, cut out of the text as it was typed."""
    spans = {name: match.span(name) for name in ("text", "path", "old") if name in match.re.groupindex}
    return {name: _trimmed(text[begin:end]) for name, (begin, end) in spans.items() if begin >= 0}


def _trimmed(text: str) -> str:
    """Without the blanks around, and without a pair of quotes around the whole."""
    text = text.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES and not any(sign in text[1:-1] for sign in _QUOTES):
        return text[1:-1].strip()
    return text


def _long(text: str) -> Intent:
    """A long message is only asked whether it begins with a wish to remember: its text would be lost otherwise."""
    head = text[:200]
    for table in _tables():
        found = _match(head, table)
        if found is not None and found.kind in ("remember", "todo"):
            return Intent(found.kind, text)
    return Intent("long", text)


def _unphrased(text: str) -> Intent:
    """A message that fits no phrase: a question to the notes or about the world, a statement, or something else."""
    if is_question(text):
        folded = fold(text)
        personal = any(table.personal.search(folded) for table in _tables())
        return Intent("recall" if personal else "other", text)
    if markers.holds_secret(text):
        return Intent("secret", text)
    if markers.is_durable(text):
        return Intent("statement", text)
    return Intent("other", text)
