"""Lines of memory files: their text without bullet and dates, their words,
and whether two lines are one idea; the words and patterns of `words.toml`."""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from functools import cache, lru_cache
from typing import Any, NamedTuple

from clawbot.languages.tables import pattern_in
from clawbot.memory.dates.validity import validity_of
from clawbot.text.language import CHINESE_KEPT, CJK_PARTICLES, SHARED_STOP_WORDS, STOP_WORDS, fold
from clawbot.text.patterns import lazy_re
from clawbot.text.statements import marks
from clawbot.text.tables import packaged_table
from clawbot.text.tokens import plain_forms, tokens_of

BULLET = lazy_re(r"\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
HEADING = lazy_re(r"\s{0,3}(?P<marks>#{1,6})\s+(?P<title>.*?)\s*#*\s*\Z")
_LITTLE = (STOP_WORDS | SHARED_STOP_WORDS | {"user", "users"}) - {"no", "not", "never"}
_DENIES = lazy_re(pattern_in("denies"))


def bare(line: str) -> str:
    """Return the text of `line` without its bullet and the days between which it holds."""
    return validity_of(BULLET.sub("", line, count=1)).text.strip()


def words(text: str) -> frozenset[str]:
    """Return the stems of the words in `text` that mean something, and each pair of Chinese characters without a
    particle; single ones only where there is nothing else."""
    found = [token for token in tokens_of(plain_forms(text)) if token.text not in _LITTLE]
    kept = [each.text for each in found if each.text.isascii() or each.end - each.start > 1]
    return frozenset(filter(_means_something, kept)) or frozenset(each.text for each in found)


def _means_something(word: str) -> bool:
    return word in CHINESE_KEPT or CJK_PARTICLES.isdisjoint(word)


def denies(text: str) -> bool:
    """Return whether `text` says that something is not so."""
    return _DENIES.search(plain_forms(text).lower()) is not None


class Idea(NamedTuple):
    """What is compared of a line: its words, those of them with a digit, whether it denies something, and the day of
    its end."""

    words: frozenset[str]
    figures: frozenset[str]
    denies: bool
    until: date | None


@lru_cache(16_384)
def idea_of(line: str) -> Idea:
    """Return what is compared of `line`, without its bullet and its days."""
    text = bare(line)
    found = words(text)
    return Idea(
        found, frozenset(word for word in found if any(map(str.isdigit, word))), denies(text), validity_of(line).until
    )


def is_alike(one: str, other: str, share: float) -> bool:
    """Return whether two texts are one idea: so many of their words are the same, and all figures."""
    first, second = idea_of(one), idea_of(other)
    common = len(first.words & second.words)
    return first[1:3] == second[1:3] and common >= share * max(len(first.words | second.words), 1)


def is_covered(line: str, by: str) -> bool:
    """Return whether the line `by` states all that `line` does, for the same time."""
    wanted, given = idea_of(line), idea_of(by)
    return bool(wanted.words) and wanted[2:] == given[2:] and wanted.words <= given.words


@cache
def table() -> dict[str, dict[str, Any]]:
    """Return the words and patterns of dreams, read once. Blocks."""
    return packaged_table("clawbot.plugins.dreaming", "words.toml", dict[str, dict[str, Any]])


@cache
def usual() -> frozenset[str]:
    """Return the words that name nothing and nobody."""
    return frozenset(table()["usual"]["words"].split())


@cache
def pattern(section: str, name: str) -> re.Pattern[str]:
    """Return the pattern `name` of a section, for folded text."""
    return re.compile("|".join(f"(?:{each})" for each in table()[section][name]), re.IGNORECASE)


def has(section: str, name: str, text: str) -> bool:
    """Return whether `text` has the pattern `name` of a section."""
    return pattern(section, name).search(fold(text)) is not None


def is_order(text: str) -> bool:
    """Return whether `text` gives orders to whoever reads it, or uses the marks of prompts and commands."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return has("instructions", "patterns", plain)


def sections(line: str) -> frozenset[str]:
    """Return the titles, in small letters, of the section of MEMORY.md in which `line` belongs."""
    known, found = table()["sections"], marks(line)
    return frozenset(known[next((name for name in known if name in found), "other")])
