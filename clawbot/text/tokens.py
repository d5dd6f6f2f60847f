"""The tokenizer for indexed text and queries.

The keyword index is FTS5 with `FTS5_TOKENIZER`, for which letters and digits are words and everything else, including
`_`, separates them. So `user_id`, `v1.2.3` and `foo/bar.py` are sequences of words, and a phrase finds them. This
module adds what FTS5 lacks: scripts without spaces are spread into characters and pairs, camelCase is split.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from operator import add
from typing import NamedTuple

from clawbot.languages.stems import stem
from clawbot.text.language import CJK
from clawbot.text.patterns import lazy_re

TOKENIZER_VERSION = 2
"""Increment with every change of `index_text`: an index of another version is rebuilt."""

FTS5_TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The `tokenize` option of the FTS5 table for which `index_text` is written."""

# Halfwidth and fullwidth forms, ideographs and radicals that double another one, decomposed Hangul, ligatures,
# numbers in circles, letters that pose as bold or italic. Superscripts and fractions are not among them: 10² is no 102.
_DOUBLES = (
    r"\u1100-\u11ff\u2160-\u217f\u2460-\u24ff\u2e80-\u2fdf\u3131-\u318e\u3200-\u33ff\ua960-\ua97f\ud7b0-\ud7fb"
    r"\uf900-\ufaff\ufb00-\ufb06\uff01-\uffee\U0001d400-\U0001d7ff\U0002f800-\U0002fa1f"
)
_ACCENTS = r"\u0300-\u036f"
_MARKS = rf"{_ACCENTS}\u3099\u309a"
INVISIBLE = r"\u00ad\u200b-\u200d\u2060\ufeff"
"""Invisible characters inside words, for a character class: soft hyphens, zero-width characters."""

_LONE_SURROGATES = r"\ud800-\udfff"
_MAX_CAMEL = 64

# A capital letter after a small one, or before two small ones in a row of capitals; APIs is not split.
_HUMP = r"(?:(?<=[a-z][A-Z])|(?<=[A-Z0-9][A-Z])(?=[a-z]{2}))"
# wi-fi, e-mail, to-do: many write such words together. Longer first parts are words by themselves.
_HYPHEN = r"(?<=[A-Za-z]-)(?<![\w-]{3}-)(?=[A-Za-z]{2})"
_ASCII_WORK = lazy_re(rf"[A-Z-](?:{_HUMP}|{_HYPHEN})")
_WORK = lazy_re(rf"[A-Z{CJK}{_DOUBLES}{_MARKS}{_LONE_SURROGATES}{INVISIBLE}-](?:(?<![A-Z-])|{_HUMP}|{_HYPHEN})")
_DOUBLED = lazy_re(rf"[^\W{_LONE_SURROGATES}]?[{_MARKS}]+|[{_DOUBLES}]+")
_ACCENT = lazy_re(rf"[{_ACCENTS}]")
_INVISIBLE = lazy_re(rf"[{INVISIBLE}]+")
_SURROGATE = lazy_re(rf"[{_LONE_SURROGATES}]")
_CAMEL = lazy_re(r"(?<![A-Za-z0-9])(?=[A-Z]*[a-z0-9]+[A-Z]|[A-Z]{2,}[a-z]{2})[A-Za-z0-9]+(?![A-Za-z0-9])")
_COMPOUND = lazy_re(r"(?<![\w-])[A-Za-z]{1,2}-[A-Za-z]{2,}(?![\w-])")
_HUMPS = lazy_re(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z]{2})")
_TOKEN = lazy_re(r"[^\W_]+")
_FOREIGN_TOKEN = lazy_re(r"(?:[^\W_]|[\ue000-\uf8ff])+")
_UNPLAIN = lazy_re(f"[{_DOUBLES}{_MARKS}{_LONE_SURROGATES}{INVISIBLE}]")  # without a plain form of its own
_TOKEN_RUN = lazy_re(f"(?P<cjk>[{CJK}]+)|(?P<word>[^\\W_{CJK}]+)")
CJK_RUN = lazy_re(f"[{CJK}]+")
"""Matches a run of Han, kana or Hangul."""


def index_text(text: str) -> str:
    """Return the text stored in the keyword index for `text`, mostly `text` itself.

    CJK runs become alternating characters and pairs (`abc`: `a ab b bc c`), so that a phrase in the same form
    still matches. The parts of camelCase words and the joined form of `wi-fi` are appended, so that nothing separates
    the original words. Lone surrogates, which SQLite can't store, become question marks.
    """
    work = _ASCII_WORK if text.isascii() else _WORK
    if work.search(text) is None:
        return text
    spread = spread_text(text)
    if _ASCII_WORK.search(spread) is None:
        return spread
    parts = [part for word in _CAMEL.findall(spread) for part in camel_parts(word)]
    parts += [word.replace("-", "") for word in _COMPOUND.findall(spread)]
    return f"{spread}\n{' '.join(parts)}" if parts else spread


def spread_text(text: str) -> str:
    """Return `text` in plain forms with spread CJK runs, like `index_text` but without the appended forms.

    In double quotes this is the FTS5 phrase that finds `text`.
    """
    if text.isascii():
        return text
    return CJK_RUN.sub(_spread_run, plain_forms(text))


def plain_forms(text: str) -> str:
    """`text` with duplicate characters replaced (fullwidth, ligatures, decomposed accents) and invisible ones inside
    words removed (soft hyphens, zero-width characters).

    The mapping of a character does not depend on its context, so index and query always agree.
    """
    if text.isascii() or _UNPLAIN.search(text) is None:
        return text
    text = _INVISIBLE.sub("", _SURROGATE.sub("?", text))
    return _DOUBLED.sub(_compose, text)


def camel_parts(word: str) -> list[str]:
    """The parts of a camelCase word: get, User, Name for getUserName. Empty if it has only one part or is too long."""
    if len(word) > _MAX_CAMEL:
        return []
    parts = _HUMPS.split(word)
    return parts if len(parts) > 1 else []


def words_of(text: str) -> list[str]:
    """Return the words indexed for `text`, in lower case and index order, before stemming."""
    indexed = index_text(text)
    if indexed.isascii():
        return _TOKEN.findall(indexed.lower())
    return [_fold(token) for token in _FOREIGN_TOKEN.findall(indexed)]


class Token(NamedTuple):
    """The stem of a word, or one or two CJK characters, and its position in a text."""

    start: int
    end: int
    text: str


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of `text`, such as a line of a note, in order: words as compared by the index; each character and pair
    of CJK runs."""
    if text.isascii():
        yield from (Token(word.start(), word.end(), stem(word[0].lower())) for word in _TOKEN.finditer(text))
        return
    for run in _TOKEN_RUN.finditer(text):
        start = run.start()
        if run["cjk"]:
            for at, character in enumerate(run["cjk"], start):
                yield Token(at, at + 1, character)
                if at + 1 < run.end():
                    yield Token(at, at + 2, text[at : at + 2])
        else:
            yield Token(start, run.end(), stem(_fold(plain_forms(run["word"]))))


def fts_quote(token: str) -> str:
    """Return `token` as an FTS5 string without operators: a word, or several as a phrase."""
    return '"' + token.replace('"', '""').replace("\0", " ") + '"'


def _spread_run(match: re.Match[str]) -> str:
    run = match[0]
    # With spaces around it: an English word may touch a Chinese one.
    parts = [""] * (2 * len(run) - 1)
    parts[::2] = run
    parts[1::2] = map(add, run, run[1:])
    return f" {' '.join(parts)} "


def _compose(match: re.Match[str]) -> str:
    # FTS5 drops the accents that don't compose, within a word and without a gap.
    return _ACCENT.sub("", unicodedata.normalize("NFKC", match[0]))


def _fold(token: str) -> str:
    """Return `token` folded like unicode61: lower case, and Latin letters (no others) without accents."""
    if token.isascii():
        return token.lower()
    if CJK_RUN.fullmatch(token):
        # CJK has no case, and is separate after the spreading.
        return token
    return "".join(_fold_character(character) for character in token)


def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0]
    folded = (base if base.isascii() else character).casefold()
    return folded if len(folded) == 1 else character
