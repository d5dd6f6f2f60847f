"""The words and patterns of dreams, read from `words.toml`."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from clawbot.text.statements import marks
from clawbot.text.tables import packaged_table

OTHER = "other"


class Words(Struct, frozen=True):
    """The content of `words.toml`."""

    sections: dict[str, frozenset[str]]


@cache
def table() -> Words:
    """Return the table, read once. Blocks."""
    return packaged_table("clawbot.plugins.dreaming", "words.toml", Words)


def sections(line: str) -> frozenset[str]:
    """Return the titles, in small letters, of the section of MEMORY.md in which `line` belongs."""
    known, found = table().sections, marks(line)
    return known[next((name for name in known if name in found), OTHER)]
