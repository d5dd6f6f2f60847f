"""Owns how text becomes words: one tokenizer for what is indexed and for what is asked.

The keyword index is FTS5 with `FTS5_TOKENIZER`, which takes letters and digits as words and everything else, also `_`,
as gaps. So `user_id`, `v1.2.3` and `foo/bar.py` are rows of neighbouring words, and a phrase finds them whole. What
FTS5 does not know is added here: scripts without blanks are spread into characters and pairs, camelCase is taken apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from clawbot.text.language import CJK
from clawbot.text.stems import stem

TOKENIZER_VERSION = 2
"""Changes with every change of what `index_text` returns: an index of another version is built anew."""

FTS5_TOKENIZER = "porter unicode61 remove_diacritics 2"
"""The `tokenize` option of the FTS5 table that `index_text` is written for."""

# Halfwidth and fullwidth forms, ideographs and radicals that double another one, decomposed Hangul, ligatures,
# numbers in circles, letters that pose as bold or italic. Superscripts and fractions are not among them: 10² is no 102.
_DOUBLES = (
    r"\u1100-\u11ff\u2160-\u217f\u2460-\u24ff\u2e80-\u2fdf\u3131-\u318e\u3200-\u33ff\ua960-\ua97f\ud7b0-\ud7fb"
    r"\uf900-\ufaff\ufb00-\ufb06\uff01-\uffee\U0001d400-\U0001d7ff\U0002f800-\U0002fa1f"
)
_ACCENTS = r"\u0300-\u036f"
_MARKS = rf"{_ACCENTS}\u3099\u309a"
INVISIBLE = r"\u00ad\u200b-\u200d\u2060\ufeff"
"""What stands within a word without being seen, to stand inside a character class: soft hyphens, zero-width signs."""

_LONE_SURROGATES = r"\ud800-\udfff"
_LONGEST_CAMEL = 64

# A capital letter after a small one, or before two small ones in a row of capitals; APIs stays whole.
_HUMP = r"(?:(?<=[a-z][A-Z])|(?<=[A-Z0-9][A-Z])(?=[a-z]{2}))"
# wi-fi, e-mail, to-do: many write such words together. Longer first parts are words by themselves.
_HYPHEN = r"(?<=[A-Za-z]-)(?<![\w-]{3}-)(?=[A-Za-z]{2})"
_ASCII_WORK = re.compile(rf"[A-Z-](?:{_HUMP}|{_HYPHEN})")
_WORK = rf"[A-Z{CJK}{_DOUBLES}{_MARKS}{_LONE_SURROGATES}{INVISIBLE}-](?:(?<![A-Z-])|{_HUMP}|{_HYPHEN})"
_DOUBLED = re.compile(rf"[^\W{_LONE_SURROGATES}]?[{_MARKS}]+|[{_DOUBLES}]+")
_ACCENT = re.compile(rf"[{_ACCENTS}]")
_INVISIBLE = re.compile(rf"[{INVISIBLE}]+")
_SURROGATE = re.compile(rf"[{_LONE_SURROGATES}]")
_CAMEL = re.compile(r"(?<![A-Za-z0-9])(?=[A-Z]*[a-z0-9]+[A-Z]|[A-Z]{2,}[a-z]{2})[A-Za-z0-9]+(?![A-Za-z0-9])")
_COMPOUND = re.compile(r"(?<![\w-])[A-Za-z]{1,2}-[A-Za-z]{2,}(?![\w-])")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z]{2})")
_TOKEN = re.compile(r"[^\W_]+")
_FOREIGN_TOKEN = re.compile(r"(?:[^\W_]|[\ue000-\uf8ff])+")


@cache
def cjk_run() -> re.Pattern[str]:
    """A run of Han, kana or Hangul. Compiled when it is needed: large classes take a millisecond or more."""
    return re.compile(f"[{CJK}]+")


@cache
def _work() -> re.Pattern[str]:
    return re.compile(_WORK)


def index_text(text: str) -> str:
    """What the keyword index stores for `text`: mostly `text` itself.

    Runs of Chinese, Japanese and Korean come as characters and pairs in turn (`数据库`: `数 数据 据 据库 库`), so that
    a phrase of the same form still finds its place. The parts of camelCase words and the joined form of `wi-fi` stand
    after the text, so that nothing comes between its own words. Lone surrogates, which SQLite can't store, become
    question marks.
    """
    work = _ASCII_WORK if text.isascii() else _work()
    if work.search(text) is None:
        return text
    spread = spread_text(text)
    parts = [part for word in _CAMEL.findall(spread) for part in camel_parts(word)]
    parts += [word.replace("-", "") for word in _COMPOUND.findall(spread)]
    return f"{spread}\n{' '.join(parts)}" if parts else spread


def spread_text(text: str) -> str:
    """`text` in plain forms and with its CJK runs spread, as `index_text` does, but without the other forms behind it.

    Between double quotes this is the FTS5 phrase that finds `text`.
    """
    if text.isascii():
        return text
    return cjk_run().sub(_spread_run, plain_forms(text))


def plain_forms(text: str) -> str:
    """`text` with characters that only double others replaced by those (fullwidth, ligatures, decomposed accents),
    and without those that are not seen within a word (soft hyphens, zero-width signs).

    What a character becomes does not depend on its surroundings, so that index and query always agree.
    """
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", _SURROGATE.sub("?", text))
    return _DOUBLED.sub(_compose, text)


def camel_parts(word: str) -> list[str]:
    """The parts of a camelCase word: getUserName is get, User, Name. Empty when it has one part or is just long."""
    if len(word) > _LONGEST_CAMEL:
        return []
    parts = _HUMPS.split(word)
    return parts if len(parts) > 1 else []


def words_of(text: str) -> list[str]:
    """The words that the index keeps of `text`, in lower case and in the index's order, before stemming."""
    indexed = index_text(text)
    if indexed.isascii():
        return _TOKEN.findall(indexed.lower())
    return [_fold(token) for token in _FOREIGN_TOKEN.findall(indexed)]


class Token(NamedTuple):
    """A word's stem, or one or two characters of Chinese, Japanese or Korean, and where it stands in a text."""

    start: int
    end: int
    text: str


def tokens_of(text: str) -> Iterator[Token]:
    """The tokens of `text`, such as a line of a note, in their order: words as the index compares them; of runs of
    Chinese each character and each pair."""
    for run in _token_run().finditer(text):
        start = run.start()
        if run["cjk"]:
            for at, character in enumerate(run["cjk"], start):
                yield Token(at, at + 1, character)
                if at + 1 < run.end():
                    yield Token(at, at + 2, text[at : at + 2])
        else:
            yield Token(start, run.end(), stem(_fold(plain_forms(run["word"]))))


@cache
def _token_run() -> re.Pattern[str]:
    return re.compile(f"(?P<cjk>[{CJK}]+)|(?P<word>[^\\W_{CJK}]+)")


def fts_quote(token: str) -> str:
    """`token` as an FTS5 string, which holds no operators: a word, or several as a phrase."""
    return '"' + token.replace('"', '""').replace("\0", " ") + '"'


def _spread_run(match: re.Match[str]) -> str:
    run = match[0]
    # Blanks around it: an English word may stand right beside a Chinese one.
    pairs = [f"{left} {left}{right}" for left, right in pairwise(run)]
    return f" {' '.join((*pairs, run[-1]))} "


def _compose(match: re.Match[str]) -> str:
    # FTS5 drops the accents that don't compose, within a word and without a gap.
    return _ACCENT.sub("", unicodedata.normalize("NFKC", match[0]))


def _fold(token: str) -> str:
    """`token` as unicode61 folds it: lower case, and Latin letters (no others) without their accents."""
    if token.isascii():
        return token.lower()
    if cjk_run().fullmatch(token):
        # CJK has no case, and stands alone after the spreading.
        return token
    return "".join(_fold_character(character) for character in token)


def _fold_character(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0]
    folded = (base if base.isascii() else character).casefold()
    return folded if len(folded) == 1 else character
