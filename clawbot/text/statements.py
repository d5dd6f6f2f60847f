"""Classifies sentences: question, request, refusal or statement; their subject, and whether they are worth keeping. A
refusal must be neither stored in notes nor found by searches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from clawbot.text.language import fold
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import holds_secret
from clawbot.text.tables import packaged_table

MIN_CHARS, MAX_CHARS = 4, 500
"""Outside of these a sentence is chit-chat or a paste."""

_MAX_REFUSAL = 240
_SENTENCE_END = lazy_re(r"(?<=[.!?])(?<!\b[DMS][rst]\.)(?<!\bMrs\.)\s+|(?<=[。！？!?;])|\n+")


class _Patterns(NamedTuple):
    """`statements.toml`, compiled."""

    question: re.Pattern[str]
    request: re.Pattern[str]
    uncertain: re.Pattern[str]
    offline: re.Pattern[str]
    refused: re.Pattern[str]
    marks: dict[str, re.Pattern[str]]


@cache
def _patterns() -> _Patterns:
    table = packaged_table("clawbot.text", "statements.toml", dict[str, Any])
    marks = {mark: lazy_re("".join(parts), re.IGNORECASE | re.DOTALL) for mark, parts in table.pop("marks").items()}
    flags = {"offline": 0, "refused": re.IGNORECASE}
    found = {name: lazy_re("".join(parts), flags.get(name, re.IGNORECASE | re.DOTALL)) for name, parts in table.items()}
    return _Patterns(**found, marks=marks)


def sentences(text: str) -> Iterator[str]:
    """Return the stripped sentences of `text`."""
    return (sentence for part in _SENTENCE_END.split(text) if (sentence := part.strip()))


def marks(sentence: str) -> frozenset[str]:
    """Return the subjects of `sentence`: `decision`, `todo`, `rule`, `preference`, `personal`, `date`, `identifier`."""
    folded = fold(sentence[:MAX_CHARS])
    return frozenset(mark for mark, pattern in _patterns().marks.items() if pattern.search(folded))


def is_question(text: str) -> bool:
    """Return whether `text` asks something."""
    folded = fold(text[:MAX_CHARS]).strip()
    return folded.endswith("?") or _patterns().question.match(folded) is not None


def asks(sentence: str) -> bool:
    """Return whether the sentence is a question or a request rather than a statement."""
    return is_question(sentence) or _patterns().request.match(fold(sentence[:MAX_CHARS]).strip()) is not None


def is_statement(sentence: str) -> bool:
    """Return whether the sentence states something for certain, without secrets."""
    if not MIN_CHARS <= len(sentence) <= MAX_CHARS or asks(sentence) or holds_secret(sentence):
        return False
    return not _patterns().uncertain.search(fold(sentence))


def is_durable(sentence: str) -> bool:
    """Return whether the sentence is a statement worth keeping beyond the conversation."""
    return is_statement(sentence) and bool(marks(sentence))


def is_refusal(text: str) -> bool:
    """Return whether `text`, a complete answer of the agent, only states that it could not answer."""
    text = text.strip()
    if _patterns().offline.match(text):
        return True
    return len(text) <= _MAX_REFUSAL and "\n" not in text and _patterns().refused.match(text) is not None
