"""Which places of a text a query meant, for the eye: its words in any form, also while the last one is being typed,
and runs of Chinese by pairs of characters."""

from __future__ import annotations

import re
from collections.abc import Iterator

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff"
_RUN = re.compile(f"(?P<wide>[{_WIDE}]+)|(?P<word>[^\\W_{_WIDE}]+)")
# Words that stand in every sentence: to mark them hides the others.
_COMMON = re.compile(
    "a|about|an|and|any|are|as|at|be|been|but|by|can|could|did|do|does|for|from|had|has|have|he|her|his|how|i|if|in|is|"
    "it|its|me|my|not|of|on|or|our|she|should|so|that|the|their|them|then|there|they|this|to|was|we|were|what|when|"
    "where|which|who|why|will|with|would|you|your"
)
_COMMON_WIDE = frozenset("的了吗呢吧是在有和与或我你您他她它们这那么什为哪怎谁几个把被就都也还要会能请")
_SUFFIXES = ("ings", "ing", "ies", "ied", "ed", "es", "s", "ly", "e", "y")
_STEM = 3  # characters that a stem keeps at least
_BEGUN = 3  # characters from which on the last word of a query may be the beginning of a longer one


def marks(query: str, text: str) -> list[tuple[int, int]]:
    """The ranges of `text` (start, end) that answer `query`, in their order and without overlap.

    Common words count only when the query holds no others. A word at the very end of the query also means the words
    that begin with it.
    """
    stems, pairs = _wanted(query)
    begun = _begun(query)
    found: list[tuple[int, int]] = []
    for run in _RUN.finditer(text):
        if run["wide"]:
            found += _wide_marks(run["wide"], run.start(), pairs)
        elif _stem(run["word"]) in stems or (begun and run["word"].casefold().startswith(begun)):
            found.append(run.span())
    return found


def _begun(query: str) -> str:
    """The word at the end of the query, as far as it is typed; empty when that is too short or a common word."""
    words = [run["word"].casefold() for run in _RUN.finditer(query) if run["word"] and run.end() == len(query)]
    return next((word for word in words if len(word) >= _BEGUN and not _COMMON.fullmatch(word)), "")


def _wanted(query: str) -> tuple[set[str], set[str]]:
    """The stems of the query's words, and the pairs of its wide characters; single ones stand alone."""
    runs = list(_RUN.finditer(query))
    words = [run["word"].casefold() for run in runs if run["word"]]
    pairs = {pair for run in runs if run["wide"] for pair in _pairs(run["wide"])}
    telling = {_stem(word) for word in words if not _COMMON.fullmatch(word)}
    telling_pairs = {pair for pair in pairs if not _COMMON_WIDE & set(pair)}
    if telling or telling_pairs:
        return telling, telling_pairs
    return {_stem(word) for word in words}, pairs


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


def _wide_marks(run: str, offset: int, pairs: set[str]) -> list[tuple[int, int]]:
    """The stretches of a run that the pairs cover."""
    found: list[tuple[int, int]] = []
    for at in range(len(run)):
        length = next((size for size in (2, 1) if run[at : at + size] in pairs), 0)
        if not length:
            continue
        start, end = offset + at, offset + min(len(run), at + length)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _stem(word: str) -> str:
    """`word` without the ending that changes with its place in a sentence: moved, moving and moves are one."""
    word = word.casefold()
    for suffix in _SUFFIXES:
        stem = word.removesuffix(suffix)
        if stem != word and len(stem) >= _STEM and not word.endswith("ss"):
            return stem[:-1] if stem[-1] == stem[-2] not in "lse" and len(stem) > _STEM else stem
    return word
