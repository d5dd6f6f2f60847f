"""What the user wants: the grammar of `grammar.toml`, applied to a message."""

from __future__ import annotations

import functools
import re
from typing import Any

from msgspec import Struct

from clawbot.llm.offline.answers import program
from clawbot.text.language import Language, fold
from clawbot.text.secrets import holds_secret
from clawbot.text.statements import asks, is_question
from clawbot.text.tables import packaged_table

MAX_REQUEST = 8_000  # characters; a longer message is a paste, not a request in a phrase that could be known
_QUOTES = "\"'`“”‘’「」『』《》"
_MOST_KIND = 200  # characters of a message that says nothing but something kind
_CLAUSE = re.compile(r"[^\w\s'’-]+|(?<=\s)-+(?=\s)")
_PART = re.compile(r"\{([A-Z_]+)\}")


class Intent(Struct, frozen=True):
    """What the user wants. `kind` names the plan or the sentence that answers; `text` (the fact, the question, the
    content or the command) and `path` are the user's own words, as they were typed. Of `about` the `text` is the topic
    of the table of the program."""

    kind: str
    text: str = ""
    path: str = ""


@functools.cache
def _grammar() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The tables of the file, compiled at the first message: some 20 ms that no start should pay."""
    file = packaged_table("clawbot.llm.offline", "grammar.toml", dict[str, Any])
    parts = file["parts"] | program()["parts"]

    def compiled(text: str) -> re.Pattern[str]:
        for _depth in range(2):  # a part may hold another one
            text = _PART.sub(lambda part: parts[part[1]], text)
        return re.compile(text, re.IGNORECASE | re.DOTALL)

    rules = {name: [(kind, compiled(text)) for kind, text in file[name]] for name in ("en", "zh", "signs")}
    for at, name in enumerate(("en", "zh"), 1):
        about = [(f"about {topic[0]}", compiled(f"(?:{topic[at]}){{END}}")) for topic in program()["topics"]]
        rules[name] = about + rules[name]
    return rules


def _sign(name: str) -> re.Pattern[str]:
    return dict(_grammar()["signs"])[name]


def classify(text: str, language: Language) -> Intent:
    """What `text` asks for. The tables of both languages are tried, that of `language` first: mixed text is common."""
    stripped = text.strip()
    if not stripped:
        return Intent("empty")
    if len(stripped) > MAX_REQUEST:
        # The text of a wish to remember would be lost otherwise.
        begun = _known(stripped[:200], language)
        return Intent("remember" if begun and begun.kind == "remember" else "statement", stripped)
    known = _known(stripped, language) or _kindness(stripped, language)
    if known is not None:
        return known
    if is_question(stripped):
        return Intent("recall" if _sign("personal").search(fold(stripped)) else "ask", stripped)
    if holds_secret(stripped):
        return Intent("secret", stripped)
    return Intent("ask" if asks(stripped) else "statement", stripped)


def _kindness(text: str, language: Language) -> Intent | None:
    """`thanks` or `praise` where every clause of `text` is one, whatever signs and smileys stand between."""
    clauses = (
        [clause for clause in _CLAUSE.split(fold(text)) if clause.strip(" -'") not in ("", "clawbot")]
        if len(text) <= _MOST_KIND
        else []
    )
    found = [_known(clause.strip(), language) for clause in clauses]
    kinds = {intent.kind if intent else "" for intent in found}
    if kinds - {"thanks", "praise", "agreed", "hello", "bye"}:
        return None
    return next((Intent(kind) for kind in ("thanks", "praise") if kind in kinds), None)


def _known(text: str, language: Language) -> Intent | None:
    """The request that a rule of the grammar knows `text` for."""
    folded = fold(text)
    opening = _sign("opening").match(folded)
    start = opening.end() if opening and opening.end() < len(folded) else 0
    for kind, pattern in [*_grammar()[language], *_grammar()["en" if language == "zh" else "zh"]]:
        # The whole message first: "ok" may be all there is, and "no" may be part of the phrase.
        for begin in dict.fromkeys((0, start)):
            if (match := pattern.fullmatch(folded, begin)) is not None:
                words = {
                    name: text[slice(*match.span(name))] for name in ("text", "path") if match.groupdict().get(name)
                }
                name, _, topic = kind.partition(" ")
                return Intent(name, **{"text": topic, **{name: _trimmed(word) for name, word in words.items()}})
    return None


def _trimmed(text: str) -> str:
    """Without the blanks around, and without a pair of quotes around the whole."""
    text = text.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES and not any(sign in text[1:-1] for sign in _QUOTES):
        return text[1:-1].strip()
    return text
