"""What a note is called: words as a part of a file name, and the keywords of what the user said. Does no I/O."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from .words import CHINESE_LEADING, CHINESE_STOP_PHRASES, STOP_WORDS

LONGEST = 30  # characters, of four bytes at most: with a date it is a file name everywhere (reference sheet 11.1)

_KEYWORDS = 3
_LOOKED_AT = 4_000  # characters of each text: what is beyond is a paste
_LONGEST_WORD = 20  # what is longer is an id
_NOT_PROSE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|\w+://\S+|\[redacted\]|\S*[./\\@]\S*[./\\@]\S*", re.DOTALL)
# What is told as a password or a key, up to the end of the word: it may stand in the note, but a file's name is seen by
# whoever lists the folder.
_SECRET = re.compile(
    r"(?:\b(?:pass(?:word|wd|phrase|code)|(?:api|access|secret|private)[ _-]?(?:key|token)|token|pin)\b[^\n]{0,30}?"
    r"(?:\b(?:is|are|was)\b|[=:：])|(?:密码|口令|密钥|令牌|密碼|密鑰)[^\n]{0,15}?(?:是|为|為|[=:：]))\s*"
    r"([^\s，。；！？、,;]+)",
    re.IGNORECASE,
)
HAN = r"\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA, _KATAKANA = r"\u3040-\u309f", r"\u30a0-\u30ff"
_RUN = re.compile(f"[{HAN}]+|[{_KATAKANA}]+|[^{HAN}{_HIRAGANA}{_KATAKANA}]+")
_CHINESE = re.compile(f"[{HAN}]")
_CHINESE_STOP = re.compile("|".join(sorted(CHINESE_STOP_PHRASES, key=len, reverse=True)))

# Letters and marks that show nothing: the fillers of Hangul, the joiner of graphemes, the selectors of variants.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_APOSTROPHES = "'’"
_RESERVED = re.compile(r"con|prn|aux|nul|(?:com|lpt)\d")


def fallback(texts: Iterable[str], at: datetime) -> str:
    """The name by what the user said: up to three keywords, else the time `at` as HHMM."""
    return sanitise(" ".join(keywords(texts))) or f"{at:%H%M}"


def keywords(texts: Iterable[str]) -> list[str]:
    """The words that most of `texts` are about, in the order of their first use: English ones without those that
    carry no meaning, and Chinese as it is written, cut where such words stand."""
    counts: Counter[str] = Counter()
    for text in texts:
        prose = _NOT_PROSE.sub(" ", _SECRET.sub(_without_secret, text[:_LOOKED_AT]))
        counts.update(list(dict.fromkeys(_telling(prose))))
    first = {word: place for place, word in enumerate(counts)}
    best = sorted(counts, key=lambda word: (-counts[word], first[word]))[:_KEYWORDS]
    return _fitting(sorted(best, key=first.__getitem__))


def secrets(text: str) -> frozenset[str]:
    """The words of `text` that are told as a password or a key, in lower case."""
    return frozenset(word for found in _SECRET.finditer(text) for word in words(found[1]))


def sanitise(text: str) -> str:
    """`text` as a part of a file name: letters and digits of all scripts in lower case, hyphens between the words, at
    most `LONGEST` characters. "" when no letter or digit is left, and for names that Windows keeps for itself."""
    slug = unicodedata.normalize("NFC", "-".join(words(text)))
    if len(slug) > LONGEST:
        # A word that would be cut in two is left out, unless it is the only one.
        whole = slug[: LONGEST + 1].rpartition("-")[0]
        slug = (whole or slug[:LONGEST]).strip("-")
    return "" if _RESERVED.fullmatch(slug) else slug


def words(text: str) -> list[str]:
    """The runs of letters, digits and their marks in `text`, in lower case."""
    shown: list[str] = []
    for char in _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).lower()):
        kind = unicodedata.category(char)
        if kind[0] in "LN" or (kind in ("Mn", "Mc") and shown and shown[-1] != " "):
            shown.append(char)
        elif kind != "Cf" and char not in _APOSTROPHES:
            shown.append(" ")
    return "".join(shown).split()


def _without_secret(found: re.Match[str]) -> str:
    return f"{found[0][: found.start(1) - found.start()]} "


def _telling(text: str) -> Iterator[str]:
    for word in words(text):
        for run in _RUN.findall(word):
            if _CHINESE.match(run):
                yield from filter(None, map(_content, _CHINESE_STOP.sub(" ", run).split()))
            elif 1 < len(run) <= _LONGEST_WORD and run not in STOP_WORDS and not any(map(str.isdigit, run)):
                yield run


def _content(piece: str) -> str:
    """A piece of Chinese without the little word that it may begin with; "" for a single character."""
    if len(piece) > 2 and piece[0] in CHINESE_LEADING:
        piece = piece[1:]
    return piece if len(piece) > 1 else ""


def _fitting(chosen: Sequence[str]) -> list[str]:
    """Those of `chosen` that have room together, the first one always, and that no other one contains."""
    kept: list[str] = []
    for word in chosen:
        if not any(word in other or other in word for other in kept) and len("-".join([*kept, word])) <= LONGEST:
            kept.append(word)
    return kept or list(chosen[:1])
