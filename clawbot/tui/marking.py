"""Highlights the words of a query in a text, as search matches them, also while the last word is being typed."""

from __future__ import annotations

import re
from functools import lru_cache

from clawbot.text.language import STOP_WORDS
from clawbot.text.query import query_tokens
from clawbot.text.tokens import tokens_of

_LAST_WORD = re.compile(r"[^\W_]+\Z")
_BEGUN = 3  # minimum characters of an incomplete last word


def marks(query: str, text: str) -> list[tuple[int, int]]:
    """The ranges of `text` (start, end) that match `query`, in order and without overlaps.

    A word at the very end of the query also matches longer words.
    """
    wanted, begun = _wanted(query)
    found: list[tuple[int, int]] = []
    for start, end, token in tokens_of(text):
        if token not in wanted and not (begun and text[start:end].casefold().startswith(begun)):
            continue
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


@lru_cache(maxsize=8)
def _wanted(query: str) -> tuple[frozenset[str], str]:
    """The tokens that match `query`, and its incomplete last word: "" if that is too short or a stop word."""
    match = _LAST_WORD.search(query)
    begun = match[0].casefold() if match else ""
    return query_tokens(query), begun if len(begun) >= _BEGUN and begun not in STOP_WORDS else ""
