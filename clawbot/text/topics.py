"""Finds the subject of a conversation: a few words, by their frequency in it and their general rarity.

Function words, requests and commands are ignored. English is split into words; Chinese is cut at words without meaning,
and to parts that recur.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from clawbot.languages.stems import stem
from clawbot.languages.tables import text_in, words_in
from clawbot.text.language import (
    ASKING,
    CHAT_WORDS,
    CHINESE_CHAT_WORDS,
    CHINESE_LEADING,
    CHINESE_STOP_PHRASES,
    COMMON,
    HAN,
    HIRAGANA,
    ITERATION_MARK,
    KATAKANA,
    STOP_WORDS,
)
from clawbot.text.patterns import lazy_re
from clawbot.text.secrets import MARK

_HAN = ITERATION_MARK + HAN
_USED_CHARS = 1_000  # characters used of each text: more is pasted text
_MAX_CHARS = 40_000  # of all texts together; beyond, only every second or third one is used
_MAX_WORD = 20  # longer words are ids
_RARE, _COMMON = 1.0, 0.4
_CLAUSE = 40  # characters of Chinese without a word that parts it; a longer one is a list, or no language
_MAX_PARTS = 400  # the most frequent recurring parts of Chinese
_LONG_HAN = 8  # characters; a longer run of Chinese is a clause
# Code, marks of removed secrets, and greetings.
_NOT_PROSE = lazy_re(
    rf"```.*?(?:```|\Z)|`[^`\n]*`|{re.escape(MARK)}|\bgood (?:morning|afternoon|evening|night)\b",
    re.DOTALL | re.IGNORECASE,
)
_PLAIN_RUN = lazy_re(r"[!-~]+")
_EDGES = ".,:;!?()[]{}<>'\"*_"
_FILE = lazy_re(r"[\w-]+\.(?:md|txt|py|js|ts|json|ya?ml|toml|csv|pdf|html|sh|log|png|jpe?g)", re.IGNORECASE)
_RUN = lazy_re(f"[{_HAN}]+|[{KATAKANA}]+|[^{_HAN}{HIRAGANA}{KATAKANA}]+")
_CHINESE = lazy_re(f"[{_HAN}]")
_UNINFORMATIVE = STOP_WORDS | CHAT_WORDS | ASKING
_PARTING = {*CHINESE_STOP_PHRASES, *CHINESE_CHAT_WORDS} - words_in("called_what")
_CHINESE_STOP = lazy_re("|".join(sorted(_PARTING, key=len, reverse=True)))
_TRAILING = text_in("trailing")  # endings of clause parts that no subject word has
# Letters and marks that show nothing: the fillers of Hangul, the joiner of graphemes, the selectors of variants.
_INVISIBLE = lazy_re("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_APOSTROPHES = "'’"


def topics(texts: Iterable[str], most: int = 3) -> list[str]:
    """Up to `most` lower-case words, in order of first use, that describe the subject of `texts`; [] if there are none.
    A word counts once per text."""
    seen = _Seen()
    used = [text[:_USED_CHARS] for text in texts]
    for text in used[:: 1 + sum(map(len, used)) // _MAX_CHARS]:
        seen.take(_PLAIN_RUN.sub(_without_names, _NOT_PROSE.sub(" ", text)))
    scores = seen.scores()
    first = {key: number for number, key in enumerate(scores)}
    ranked = sorted(scores, key=lambda key: (-scores[key], first[key]))
    best: dict[str, str] = {}
    for weight, enough in ((_RARE, most), (_COMMON, 2)):
        for key in ranked:
            shown = seen.shown(key)
            is_covered = any(shown in other or other in shown for other in best.values())
            if len(best) < min(enough, most) and not is_covered and seen.weight(key) >= weight:
                best[key] = shown
    return [best[key] for key in sorted(best, key=first.__getitem__)]


def words(text: str) -> list[str]:
    """Return the runs of letters, digits and their marks in `text`, in lower case."""
    shown: list[str] = []
    for char in _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).lower()):
        kind = unicodedata.category(char)
        if kind[0] in "LN" or (kind in ("Mn", "Mc") and shown and shown[-1] != " "):
            shown.append(char)
        elif kind != "Cf" and char not in _APOSTROPHES:
            shown.append(" ")
    return "".join(shown).split()


class _Seen:
    """The words of several texts: the number of texts with each, and its spelling."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._written: dict[str, str] = {}
        self._clauses: list[list[str]] = []

    def take(self, text: str) -> None:
        """Count the words of one more text."""
        english, chinese = _words_in(text)
        for word in english:
            self._written.setdefault(stem(word), word)
        self._counts.update(dict.fromkeys(map(stem, english)).keys())
        self._clauses.append(chinese)
        self._counts.update(dict.fromkeys(chinese).keys())

    def shown(self, key: str) -> str:
        """Return the first spelling of the word."""
        return self._written.get(key, key)

    def scores(self) -> Mapping[str, float]:
        """Return the relevance of each word, in order of first use."""
        counts, first = dict(self._counts), {key: float(number) for number, key in enumerate(self._counts)}
        for part, count in _repeated(self._clauses).items():
            counts[part] = max(count, counts.get(part, 0))
            # A part follows the run in which it first occurs.
            full = next(key for key in self._counts if part in key)
            first[part] = min(first.get(part, math.inf), first[full] + full.index(part) / _USED_CHARS)
        return {key: self.weight(key) * (1 + math.log(counts[key])) for key in sorted(counts, key=first.__getitem__)}

    def weight(self, key: str) -> float:
        """Return the general rarity of a word."""
        if _CHINESE.match(key):
            return _RARE if len(key) <= _LONG_HAN else _COMMON
        return _COMMON if key in COMMON or self._written[key] in COMMON else _RARE


def _without_names(found: re.Match[str]) -> str:
    """Return a run without whitespace, unless it is a URL, a path, or a file name."""
    bare = found[0].strip(_EDGES)
    is_name = sum(map(bare.count, "./\\@")) > 1 or _FILE.fullmatch(bare)
    return " " if is_name else found[0]


def _words_in(text: str) -> tuple[list[str], list[str]]:
    """Return the words of `text` except stop words, and its Chinese runs between them."""
    english: list[str] = []
    chinese: list[str] = []
    for word in words(text):
        for run in _RUN.findall(word):
            if _CHINESE.match(run):
                chinese += filter(None, map(_content, _CHINESE_STOP.sub(" ", run).split()))
            elif 1 < len(run) <= _MAX_WORD and run not in _UNINFORMATIVE and not any(map(str.isdigit, run)):
                english.append(run)
    return english, chinese


def _content(run: str) -> str:
    """Return a Chinese run without a leading function word; "" for a single character."""
    if len(run) > 2 and run[0] in CHINESE_LEADING:
        run = run[1:]
    return run if len(run) > 1 else ""


def _repeated(clauses: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the parts of Chinese runs that recur in several texts, with the number of texts; without those inside an
    equally frequent longer one."""
    counts: Counter[str] = Counter()
    for runs in clauses:
        counts.update({part for run in runs for part in _parts(run) if part})
    found = {part: count for part, count in counts.most_common(_MAX_PARTS) if count > 1}
    kept: dict[str, int] = {}
    for part in sorted(found, key=len, reverse=True):
        if not any(part in longer and found[part] <= count for longer, count in kept.items()):
            kept[part] = found[part]
    return kept


def _parts(run: str) -> Iterator[str]:
    used = run[:_CLAUSE]
    for size in range(2, min(_LONG_HAN, len(used)) + 1):
        for start in range(len(used) - size + 1):
            yield used[start : start + size].rstrip(_TRAILING)
