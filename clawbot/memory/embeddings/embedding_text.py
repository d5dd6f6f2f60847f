"""The text that is embedded: for the offline model only meaningful words, for other models the full text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import compress
from typing import TYPE_CHECKING

from clawbot.text.language import STOP_WORDS
from clawbot.text.patterns import lazy_re

if TYPE_CHECKING:
    from clawbot.memory.values import ChunkKind

EMBEDDING_TEXT_VERSION = 1
"""Increment when the same chunk is embedded as another text than before."""

# Longer "names" are sentences with a colon.
_SPEAKER = lazy_re(
    r"\s*(?:>[ \t]?)*(?:\[?(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+(?:[-–—][ \t]+)?)?[*_<@]{0,3}"
    r"(?P<name>[^\W\d_][^\n:：*<>|/，。,!?！？]{0,39}?)\s*[*_>]{0,3}(?::[*_]{0,3}(?=\s)|：)\s*"
)
WORD_EDGES = ".,!?;:()[]{}\"'“”‘’*_`~<>"
_MAX_REMEMBERED = 50_000
_MAX_REMEMBERED_CHARS = 40
UNDER_HEADINGS: frozenset[ChunkKind] = frozenset({"item", "table"})
"""Chunks that mean little without their heading."""


def split_speaker(text: str) -> tuple[str | None, str]:
    """Return the speaker of `text`, a chunk of dialogue (`Anna: …`), and the speech; None and the full text without a
    name."""
    found = _SPEAKER.match(text)
    return (found["name"], text[found.end() :]) if found else (None, text)


def heading_name(text: str) -> str:
    """Return the text of a heading without its marks."""
    return text.split("\n", 1)[0].strip("# \t")


def chunk_embedding_text(text: str, kind: ChunkKind, above: str, *, remote: bool) -> str:
    """Return the text to embed for a chunk of `kind` below the heading `above`, as in the file ("" without one).

    Items and table rows mean little without their heading; dialogue and prose have neighbours. Offline vectors are
    means over words, so speakers and stop words would only blur them.
    """
    name = heading_name(above) if kind in UNDER_HEADINGS or (remote and kind != "heading") else ""
    if remote:
        return f"{name}\n{text}" if name else text
    if kind == "dialogue":
        text = split_speaker(text)[1]
    elif kind == "heading":
        text = heading_name(text)
    meaningful = _meaningful_words(text) or text
    return f"{name} {meaningful}" if name else meaningful


def query_embedding_text(text: str, *, remote: bool) -> str:
    """Return the text to embed for a query, reduced like chunks."""
    return text if remote else _meaningful_words(text) or text


class Remembered(dict[str, int], ABC):
    """Memoises a property of words by spelling: a few thousand words make up most text."""

    def __missing__(self, word: str) -> int:
        judged = self.judge(word)
        if len(word) <= _MAX_REMEMBERED_CHARS:
            if len(self) >= _MAX_REMEMBERED:
                self.clear()
            self[word] = judged
        return judged

    @abstractmethod
    def judge(self, word: str) -> int:
        """Return the property of a new word: a truth value, or flags."""


class _Meaningful(Remembered):
    """Whether a word is meaningful."""

    def judge(self, word: str) -> bool:
        return word.lower().strip(WORD_EDGES).replace("'", "").replace("’", "") not in STOP_WORDS


_meaningful = _Meaningful()


def _meaningful_words(text: str) -> str:
    words = text.split()
    return " ".join(compress(words, map(_meaningful.__getitem__, words)))
