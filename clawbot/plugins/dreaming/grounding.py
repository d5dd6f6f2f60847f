"""Whether the words, numbers, dates and characters of a text are those of its sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import cache

from clawbot.languages.stems import stem
from clawbot.memory.dates import dates_in
from clawbot.memory.dates.validity import validity_of
from clawbot.plugins.dreaming.lines import bare, denies, table, usual, words
from clawbot.plugins.dreaming.proposals import SourceLine
from clawbot.text.language import CJK, STOP_WORDS
from clawbot.text.names import composed
from clawbot.text.numerals import numbers_in
from clawbot.text.patterns import lazy_re

LEAST_SHARE = 0.6
"""The share of the words with a meaning that a source must have; the others must name nothing."""

_TOKEN = lazy_re(
    rf"(?P<number>[$€£¥₹#+±-]?\d(?:[\d.,:/-]*\d)?(?:\s?[%°€£¥$]|[^\W\d_{CJK}]{{1,12}}\b)?)"
    rf"|(?P<address>(?:https?://|www\.)\S+|[\w.+-]+@[\w.-]+\w|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{{2,12}}\b(?:/\S*)?)"
    rf"|(?P<cjk>[{CJK}]+)|(?P<word>[^\W\d_{CJK}]+(?:['’][^\W\d_]+)*)",
    re.IGNORECASE,
)
_CJK = lazy_re(f"[{CJK}]")
_PLAIN = frozenset(" !\"%&'()*,-+./:;=?@_~’‘“”–—…·、。，：；！？（）《》「」『』【】")
_LONG_SPAN = 400  # days
_OPENERS = frozenset({"the", "user", "they", "their", "he", "she", "his", "her", "it", "its", "this", "a", "an"})
_ASCII = frozenset(map(chr, range(ord("0"), ord("z") + 1)))


class Ground:
    """The words of `lines`, the sources of a text. `days` are those that they are of or name."""

    def __init__(self, lines: Sequence[SourceLine]) -> None:
        texts = [composed(bare(line.text)) for line in lines]
        self._denies = [denies(text) for text in texts]
        self._text = "\n".join(texts)
        self._characters = frozenset(self._text)
        self._tokens = frozenset(token.lower() for text in texts for _, token in tokens_in(text))
        self._stems = frozenset(map(stem, self._tokens)).union(*(map(stem, re.split(r"\W+", t)) for t in self._tokens))
        self._spans = {
            (found.start, found.end) for line in lines for found in dates_in(bare(line.text), line.day or date.max)
        }
        self._spelled = frozenset(
            each for written, others in numbers_in(self._text.lower()) for each in (written, *others)
        )
        marks = [validity_of(line.text) for line in lines]
        named = [day for start, end in self._spans if (end - start).days < _LONG_SPAN for day in (start, end)]
        own = [line.day for line in lines] + [each.since for each in marks] + [each.until for each in marks]
        self.days = frozenset(day for day in (*own, *named) if day is not None)
        self._reference = max((line.day for line in lines if line.day is not None), default=date.max - timedelta(1))

    def problem(self, text: str, share: float = LEAST_SHARE) -> str:
        """Return what in `text` no source has, "" for nothing. `share` of its words at least must be of a source."""
        plain = composed(text)
        if odd := sorted(set(_CJK.sub("", plain)) - self._characters - _PLAIN - _ASCII):
            return f"the character {odd[0]!r} is in no source"
        if self._denies and share and denies(plain) not in self._denies:
            return "it denies what its sources state, or states what they deny"
        rest, strange = self._without_dates(plain)
        if strange:
            return f"the date {strange} is in no source"
        for kind, token in tokens_in(rest):
            if not self._has(kind, token, is_first=rest.lstrip(" \"'“").startswith(token)):
                return f"{token!r} is in no source"
        meant = words(rest)
        known = sum(1 for word in meant if word in self._stems or word in self._text or stem(word) in self._stems)
        return "" if known >= share * len(meant) else "most of its words are in no source"

    def _without_dates(self, text: str) -> tuple[str, str]:
        """Return `text` without the dates that a source names or is of, and the first other date."""
        for found in dates_in(text, self._reference):
            span = found.start, found.end
            is_own_day = span[0] == span[1] and span[0] in self.days
            if span in self._spans or is_own_day:
                text = text.replace(found.text, " ", 1)
            elif found.text.lower() not in self._text.lower():
                return text, found.text
        return text, ""

    def _has(self, kind: str, token: str, *, is_first: bool) -> bool:
        lower = token.lower()
        if lower in self._tokens:
            return True
        if kind == "word" and lower.endswith(("'s", "’s")):
            return self._has(kind, token[:-2], is_first=is_first)
        if kind in ("number", "address"):
            return kind == "number" and lower in self._spelled
        if kind == "cjk":
            return self._has_cjk(token)
        if lower in _number_words():
            return lower in self._spelled
        is_little = lower in STOP_WORDS or (is_first and lower in _OPENERS) or (token.islower() and lower in usual())
        return is_little or stem(lower) in self._stems or (token.islower() and len(lower) == 1)

    def _has_cjk(self, run: str) -> bool:
        """Return whether each pair of characters is in a source, or a usual word begins or ends between them."""
        usual_words = [
            range(at, at + size) for at in range(len(run)) for size in (1, 2) if run[at : at + size] in usual()
        ]
        inside = {at for word in usual_words for at in word}
        borders = {at for word in usual_words for at in (word.start, word.stop)}
        for at, character in enumerate(run):
            is_little = at in inside and character not in table()["usual"]["numerals"]
            if character not in self._characters and not is_little:
                return False
            pair = run[at : at + 2]
            if len(pair) == 2 and pair not in self._text and at + 1 not in borders:
                return False
        return True


def tokens_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers, addresses, words and runs of Chinese, Japanese and Korean in `text`, each with its kind."""
    for found in _TOKEN.finditer(text):
        yield found.lastgroup or "", found[0]


def names_in(text: str, *, every: bool = False) -> frozenset[str]:
    """Return what identifies in `text`, in small letters: numbers, addresses, and capitalised words that are not its
    first; with `every` also all other words."""
    return frozenset(
        token.lower()
        for at, (kind, token) in enumerate(tokens_in(composed(text)))
        if every or kind in ("number", "address") or (kind == "word" and at and token[0].isupper())
    )


@cache
def _number_words() -> frozenset[str]:
    spelled = (each for number in range(2, 100) for _, others in numbers_in(str(number)) for each in others)
    return frozenset(word for each in spelled for word in each.split()) | {"dozen", "hundred", "thousand", "million"}
