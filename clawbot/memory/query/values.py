"""Owns the values that a parsed question consists of, and how words become expressions of FTS5."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from clawbot.memory.text import fts_quote

Kind = Literal["word", "phrase", "identifier", "number", "cjk"]


class Term(Struct, frozen=True):
    """One thing that a query looks for.

    `match` is a complete FTS5 MATCH expression, to be used alone or joined with OR or AND. `text` is what the query
    said, in lower case. `weight`, above 0 and at most 1, is what the term counts beside the others.
    """

    match: str
    kind: Kind
    text: str
    weight: float = 1.0


class Query(Struct, frozen=True):
    """A question, taken apart.

    `content_words` are its words in lower case without stop words, each once (of Chinese the stretches between them);
    `names` its capitalised words, as written, that do not owe the capital to the start of a sentence; `raw` the
    question itself, cut to MAX_QUERY_CHARS and without characters that can't be stored.
    """

    raw: str
    terms: tuple[Term, ...]
    content_words: tuple[str, ...]
    names: tuple[str, ...]

    @property
    def match(self) -> str:
        """The MATCH expression of all pieces that hold any of the terms; empty when there are none."""
        return " OR ".join(term.match for term in self.terms)


class Found(Struct, frozen=True):
    """What a stretch of a question gives: its terms, and its words that carry meaning."""

    terms: tuple[Term, ...] = ()
    content: tuple[str, ...] = ()


def any_of(spellings: Iterable[str]) -> str:
    """The MATCH expression of several spellings of one thing; a spelling with blanks is a phrase."""
    quoted = [fts_quote(spelling) for spelling in dict.fromkeys(spellings)]
    return quoted[0] if len(quoted) == 1 else f"({' OR '.join(quoted)})"
