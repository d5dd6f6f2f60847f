"""Reads the words and patterns of the languages: one folder each, named by its code.

`words.toml` of a folder holds lists and texts, `patterns.toml` patterns that code asks for by name. A language that has
nothing of a name adds nothing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

Language = Literal["en", "zh", "ja", "ko", "de", "es", "fr"]

LANGUAGES: tuple[Language, ...] = ("en", "zh", "ja", "ko", "de", "es", "fr")
ALPHABETIC: tuple[Language, ...] = ("en", "de", "es", "fr")
"""The languages with spaces between their words: no pattern of the others matches without one of their characters."""

_FOLDER = Path(__file__).parent

THESAURUS = _FOLDER / "thesaurus.txt"
"""The concepts in English and Chinese; `thesaurus.txt` of another language has its words for them."""


def path_of(language: Language, name: str) -> Path:
    """Return the path of the file `name` of a language."""
    return _FOLDER / language / name


@cache
def table(language: Language, name: str = "words") -> Mapping[str, Any]:
    """Return the TOML table `name` of a language, empty if it has none. Blocks at the first call."""
    path = path_of(language, f"{name}.toml")
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


@cache
def text_in(name: str, *languages: Language) -> str:
    """Return the text `name` of `languages` (all by default), without anything between them."""
    return "".join([table(language).get(name, "") for language in languages or LANGUAGES])


def words_in(name: str, *languages: Language) -> frozenset[str]:
    """Return the words of the list `name` in `languages` (all by default)."""
    return frozenset(" ".join([table(language).get(name, "") for language in languages or LANGUAGES]).split())


def pattern_in(name: str, *languages: Language) -> str:
    """Return the pattern `name` of `languages` (all by default): its lines are alternatives."""
    found = [table(language, "patterns").get(name, "") for language in languages or LANGUAGES]
    return "|".join([line for lines in found for line in lines.splitlines()])


def longest_first(words: Iterable[str]) -> list[str]:
    """Return `words` sorted by length, and those of one length alphabetically: the order for a pattern of them."""
    return sorted(sorted(words), key=len, reverse=True)
