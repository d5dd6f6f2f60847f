"""Owns what a run of Chinese, Japanese or Korean in a question asks for: its pairs of characters, without filling.

There is no dictionary of words. Phrases such as 什么时候 are cut out, particles such as 的 part what is left, and pairs
with a character that often stands between words (在, 会) count less, unless they are a common word (会议).
Single characters count least: where a search must be quick they can be left out by their weight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from clawbot.memory.query.values import Found, Term
from clawbot.memory.stop_words import CHINESE_KEPT, CHINESE_STOP_PHRASES, CJK_PARTICLES, CJK_WEAK
from clawbot.memory.text import fts_quote

WEAK_PAIR = 0.4
"""What a pair counts of which one character often stands between words, and a pair with hiragana."""

ONE_OF_MANY = 0.4
"""What a Chinese character counts beside its pairs: a synonym often shares one with the word that was written."""


def cjk_found(run: str) -> Found:
    """The terms and the stretches with meaning of a run; nothing for a run of stop words."""
    terms: list[Term] = []
    content: list[str] = []
    for stretch in _stop_phrase().sub(" ", run).split():
        kept = {at for match in _kept_word().finditer(stretch) for at in range(match.start(), match.end())}
        for start, end in _between_particles(stretch, kept):
            weak = [at not in kept and stretch[at] in CJK_WEAK for at in range(start, end)]
            terms += _terms(stretch[start:end], weak)
            content += _content(stretch[start:end], weak)
    return Found(tuple(terms), tuple(content))


def cjk_all(run: str) -> Found:
    """Every pair of a run, for a question of nothing but stop words; of a single character itself."""
    pairs = [left + right for left, right in pairwise(run)] or [run]
    return Found(tuple(_term(pair) for pair in pairs), (run,))


def _between_particles(stretch: str, kept: set[int]) -> Iterator[tuple[int, int]]:
    start = 0
    for at, character in enumerate(stretch):
        if character in CJK_PARTICLES and at not in kept:
            if at > start:
                yield start, at
            start = at + 1
    if start < len(stretch):
        yield start, len(stretch)


def _terms(piece: str, weak: list[bool]) -> Iterator[Term]:
    if len(piece) == 1:
        if not weak[0] and not _is_hiragana(piece):
            yield _term(piece)
        return
    for at, (left, right) in enumerate(pairwise(piece)):
        if not (weak[at] and weak[at + 1]):
            is_strong = not weak[at] and not weak[at + 1] and not (_is_hiragana(left) or _is_hiragana(right))
            yield _term(left + right, 1.0 if is_strong else WEAK_PAIR)
    for at, character in enumerate(piece):
        if not weak[at] and _is_han(character):
            yield _term(character, ONE_OF_MANY)


def _content(piece: str, weak: list[bool]) -> Iterator[str]:
    """`piece` without the weak characters at its ends."""
    strong = [at for at, is_weak in enumerate(weak) if not is_weak]
    if strong:
        yield piece[strong[0] : strong[-1] + 1]


def _is_hiragana(character: str) -> bool:
    return "\u3041" <= character <= "\u309f"


def _is_han(character: str) -> bool:
    return "\u3400" <= character <= "\u9fff" or character >= "\U00020000"


@cache
def _stop_phrase() -> re.Pattern[str]:
    return re.compile("|".join(CHINESE_STOP_PHRASES))


@cache
def _kept_word() -> re.Pattern[str]:
    return re.compile("|".join(sorted(CHINESE_KEPT, key=lambda word: (-len(word), word))))


def _term(text: str, weight: float = 1.0) -> Term:
    return Term(fts_quote(text), "cjk", text, weight)
