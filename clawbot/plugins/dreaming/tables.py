"""The words and patterns of dreams, read from `words.toml`."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from msgspec import Struct

from clawbot.text.language import fold
from clawbot.text.statements import marks
from clawbot.text.tables import packaged_table

OTHER = "other"


class Words(Struct, frozen=True):
    """The content of `words.toml`."""

    sections: dict[str, frozenset[str]]
    usual: dict[str, str]
    instructions: dict[str, list[str]]
    lasting: dict[str, list[str]]
    slots: dict[str, list[str]]
    frames: dict[str, list[str]]


@cache
def table() -> Words:
    """Return the table, read once. Blocks."""
    return packaged_table("clawbot.plugins.dreaming", "words.toml", Words)


def sections(line: str) -> frozenset[str]:
    """Return the titles, in small letters, of the section of MEMORY.md in which `line` belongs."""
    known, found = table().sections, marks(line)
    return known[next((name for name in known if name in found), OTHER)]


def is_order(text: str) -> bool:
    """Return whether `text` gives orders to whoever reads it, or uses the marks of prompts and commands."""
    plain = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    return pattern("instructions", "patterns").search(fold(plain)) is not None


@cache
def pattern(section: str, name: str) -> re.Pattern[str]:
    """Return the pattern `name` of a section, for folded text."""
    lines: list[str] = getattr(table(), section)[name]
    return re.compile("|".join(f"(?:{each})" for each in lines), re.IGNORECASE)


@cache
def usual() -> frozenset[str]:
    """Return the words that name nothing and nobody."""
    return frozenset(table().usual["words"].split())


def has(section: str, name: str, text: str) -> bool:
    """Return whether `text` has the pattern `name` of a section."""
    return pattern(section, name).search(fold(text)) is not None
