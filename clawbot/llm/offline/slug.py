"""Naming a conversation: its two to four most telling words, joined by hyphens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from clawbot.llm.offline.language import Language, clean, detect
from clawbot.llm.offline.material import Said
from clawbot.llm.offline.vocabulary import CONCEPTS, STOP_WORDS, words_of
from clawbot.llm.offline.words import han_pieces, is_han, stem, tokens

LEAST_WORDS, MOST_WORDS = 2, 4
MAX_SLUG = 48
"""A file name with the date before it stays readable, in characters."""

USER_WEIGHT = 2
"""What the user says tells more of the subject than what the model answers."""

LOOKED_AT = 20_000
"""Of each message, in characters."""

FALLBACK: dict[Language, str] = {"en": "short-chat", "zh": "闲聊-片段"}

_HAN_WORDS = tuple(word for concept in CONCEPTS for word in concept if len(word) > 1 and is_han(word))
_PLAIN_TALK = frozenset(
    words_of(
        "user assistant tool like want need go going help work works working sure first new good great time way file "
        "files hello hi thanks let prefer right yes okay done try set add show read write answer question"
    )
)


def slug(said: list[Said]) -> str:
    """The name of a conversation: lower case, at most `MAX_SLUG` characters, Chinese words kept."""
    spoken = [entry for entry in said if entry.role != "tool" and not entry.text.lstrip().startswith("/")]
    words: list[str] = []
    # What the assistant said is looked at only where the user said too little: much of it is about this model itself.
    for entries in ([entry for entry in spoken if entry.role == "user"], spoken):
        words = _best(entries)
        if len(words) >= LEAST_WORDS:
            return "-".join(words)
    text = " ".join(entry.text[:LOOKED_AT] for entry in spoken)
    return "-".join([*words, "chat" if detect(text) != "zh" else "对话"]) if words else FALLBACK[detect(text) or "en"]


def _best(entries: list[Said]) -> list[str]:
    """The words that come up most in `entries`, in the order in which they come first."""
    weights: Counter[str] = Counter()
    first: dict[str, int] = {}
    shown: dict[str, str] = {}
    for entry in entries:
        weight = USER_WEIGHT if entry.role == "user" else 1
        for word in _words(clean(entry.text[:LOOKED_AT])):
            key = stem(word)
            weights[key] += weight * (2 if is_han(word) and word in _HAN_WORDS else 1)
            first.setdefault(key, len(first))
            shown.setdefault(key, word)
    best = sorted(weights, key=lambda key: (-weights[key], first[key]))[:MOST_WORDS]
    return _fitting([shown[key] for key in sorted(best, key=first.__getitem__)])


def _words(text: str) -> Iterator[str]:
    for token in tokens(text):
        if is_han(token):
            yield from _han_words(token)
        elif 2 < len(token) <= 20 and token not in STOP_WORDS and token not in _PLAIN_TALK and not token.isdigit():
            yield token


def _han_words(run: str) -> Iterator[str]:
    """Known words of a run, and of the rest the pieces between words without meaning, if they are short."""
    for piece in han_pieces(run):
        rest = piece
        for word in _HAN_WORDS:
            if word in rest:
                yield word
                rest = rest.replace(word, " ")
        yield from (part for part in rest.split() if 2 <= len(part) <= 4)


def _fitting(words: Iterable[str]) -> list[str]:
    kept: list[str] = []
    room = MAX_SLUG
    for word in words:
        room -= len(word) + 1
        if room < 0:
            break
        kept.append(word)
    return kept
