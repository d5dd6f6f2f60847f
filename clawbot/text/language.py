"""Scripts of characters, language detection, text folding, and the stop words of the languages.

The stop words of questions come first: searches ignore them. Titles of conversations also ignore those at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from clawbot.languages.tables import longest_first, text_in, words_in
from clawbot.text.patterns import lazy_re

Language = Literal["en", "zh"]

# Characters of scripts, for use inside a character class of a regular expression.
COMMON_HAN = r"\u3400-\u4dbf\u4e00-\u9fff"
"""Chinese characters of the Basic Multilingual Plane: patterns with many classes compile faster with these alone."""

IDEOGRAPHS = rf"{COMMON_HAN}\U00020000-\U0003ffff"
"""Chinese characters without compatibility duplicates."""

HAN = rf"{IDEOGRAPHS}\uf900-\ufaff"
"""Chinese characters."""

HIRAGANA, KATAKANA = r"\u3040-\u309f", r"\u30a0-\u30ff"
"""The blocks, with their marks."""

ITERATION_MARK = r"\u3005"
"""The mark that repeats the preceding character."""

CJK = rf"\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff{IDEOGRAPHS}\uac00-\ud7a3"
"""The letters of Chinese, Japanese and Korean, which are written without spaces: no marks, no duplicates."""

_SAMPLE = 4_000
"""Characters of a text used to detect its language."""

_NOT_PROSE = lazy_re(r"```.*?```|`[^`\n]*`|https?://\S+|[\w~./\\-]*[./\\][\w./\\-]+", re.DOTALL)
_HAN_CHAR = lazy_re(f"[{HAN}]")
_KANA = lazy_re(f"[{HIRAGANA}{KATAKANA}]")
_WORD = lazy_re(f"[^\\W\\d_{HAN}{HIRAGANA}{KATAKANA}]+")

_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(fancy): plain
    for fancy, plain in zip("\u3000\u00a0\t。、“”„«»‘’「」『』《》【】", '   .,"""""\'\'""""""[]', strict=True)
}


def small_letters(text: str) -> str:
    """Return `text` in lower case, of the same length: of İ, which becomes two characters, only the first."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(char.lower()[:1] for char in text)


def detect(sample: str) -> Language | None:
    """Return the language of most of `sample`; None if it has no words. Code, paths and URLs don't count."""
    prose = _NOT_PROSE.sub(" ", sample[:_SAMPLE])
    han = len(_HAN_CHAR.findall(prose))
    words = len(_WORD.findall(prose))
    kana = len(_KANA.findall(prose))
    if han and han >= words and han >= kana:
        return "zh"
    return "en" if words or kana else None


def detect_last(texts: Iterable[str]) -> Language:
    """Return the language of the first of `texts` (newest first) that has one; English if none has."""
    return next((language for language in map(detect, texts) if language), "en")


def fold(text: str) -> str:
    """`text` with full-width and typographic characters replaced by plain ones, of the same length, so that positions
    hold."""
    return text if text.isascii() and "\t" not in text else text.translate(_PLAIN)


STOP_WORDS = words_in("stop_words", "en")
"""English words in lower case and without apostrophes."""

FOREIGN_STOP_WORDS = words_in("stop_words", "de", "es", "fr")
"""German, Spanish and French words that mean little; those that are English words or names as well are in
SHARED_STOP_WORDS."""

SHARED_STOP_WORDS = words_in("shared_stop_words")
"""Such words that are also English words or names: they mean little only in a question that is not English."""

NAMES_LIKE_STOP_WORDS = words_in("names_like_stop_words", "en")
"""Stop words that are names in this spelling, except at the start of a sentence."""

CHINESE_STOP_PHRASES = tuple(longest_first(words_in("stop_phrases")))
"""Phrases removed from a run wherever they occur, longest first: none of them occurs inside a longer word."""

CJK_PARTICLES = frozenset(text_in("particles"))
"""Characters that separate words. A pair with one of them is ignored, except the words in `CHINESE_KEPT`."""

CJK_WEAK = frozenset(text_in("weak")) - {"\n"}
"""Characters that often, but not always, separate words. A pair with one of them counts less."""

CHINESE_KEPT = words_in("kept", "zh")
"""Common meaningful words with one of the characters above."""

CALENDAR_WORDS = words_in("calendar_words", "en")
"""Capitalised English words that are not names."""

CHAT_WORDS = words_in("chat_words", "en")
"""More words of any conversation, which may be meaningful in a question but are no subject."""

ASKING = words_in("asking", "en")
"""Words of requests: what to do rather than what it is about."""

COMMON = words_in("common", "en")
"""Words common in any conversation: rarer ones are more specific."""

CHINESE_CHAT_WORDS = words_in("chat_words", "zh")
"""Phrases that are no subject, in addition to `CHINESE_STOP_PHRASES`."""

CHINESE_LEADING = frozenset(text_in("leading"))
"""Characters with which words rarely begin."""
