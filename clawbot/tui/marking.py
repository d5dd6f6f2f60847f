"""Which places of a text a query meant, for the eye: what search finds it by, also while the last word is typed."""

from __future__ import annotations

import re
from functools import lru_cache

from clawbot.text.language import STOP_WORDS
from clawbot.text.query import query_tokens
from clawbot.text.tokens import tokens_of

_LAST_WORD = re.compile(r"[^\W_]+\Z")
_BEGUN = 3  # characters from which on the last word of a query may be the beginning of a longer one


def marks(query: str, text: str) -> list[tuple[int, int]]:
    """The ranges of `text` (start, end) that answer `query`, in their order and without overlap.

    A word at the very end of the query also means the words that begin with it.
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
    """The tokens that answer `query`, and the word at its end as far as it is typed: "" when that is too short or
    stands in every sentence."""
    match = _LAST_WORD.search(query)
    begun = match[0].casefold() if match else ""
    return query_tokens(query), begun if len(begun) >= _BEGUN and begun not in STOP_WORDS else ""
