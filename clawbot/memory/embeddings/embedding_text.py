"""What of a text is embedded: for the offline vectors the words that carry meaning, for models the whole."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from clawbot.text.language import STOP_WORDS

if TYPE_CHECKING:
    from clawbot.memory.values import ChunkKind

EMBEDDING_TEXT_VERSION = 1
"""To be counted up when the same chunk is embedded as another text than before."""

# Longer names are sentences with a colon in them.
_SPEAKER = re.compile(
    r"\s*(?:>[ \t]?)*(?:\[?(?:\d{4}-\d{2}-\d{2}[ T])?\d{1,2}:\d{2}(?::\d{2})?\]?[ \t]+(?:[-–—][ \t]+)?)?[*_<@]{0,3}"
    r"(?P<name>[^\W\d_][^\n:：*<>|/，。,!?！？]{0,39}?)\s*[*_>]{0,3}(?::[*_]{0,3}(?=\s)|：)\s*"
)
WORD_EDGES = ".,!?;:()[]{}\"'“”‘’*_`~<>"
_MOST_REMEMBERED = 50_000
_LONGEST_REMEMBERED = 40
UNDER_HEADINGS: frozenset[ChunkKind] = frozenset({"item", "table"})
"""Chunks that say little without the heading above them."""


def split_speaker(text: str) -> tuple[str | None, str]:
    """Who says `text`, a chunk of dialogue (`Anna: …`), and what is said; None and the whole when nobody is named."""
    found = _SPEAKER.match(text)
    return (found["name"], text[found.end() :]) if found else (None, text)


def heading_name(text: str) -> str:
    """The words of a heading, without its marks."""
    return text.split("\n", 1)[0].strip("# \t")


def chunk_embedding_text(text: str, kind: ChunkKind, above: str, *, remote: bool) -> str:
    """What is embedded for a chunk of `kind` below the heading `above`, as that stands in the file ("" without one).

    An item or a row of a table says little without its heading; talk and prose have their neighbours. The vectors of
    the offline model are means of words, so who speaks and words that say nothing would only blur them.
    """
    name = heading_name(above) if kind in UNDER_HEADINGS or (remote and kind != "heading") else ""
    if remote:
        return f"{name}\n{text}" if name else text
    if kind == "dialogue":
        text = split_speaker(text)[1]
    elif kind == "heading":
        text = heading_name(text)
    said = _telling_words(text) or text
    return f"{name} {said}" if name else said


def query_embedding_text(text: str, *, remote: bool) -> str:
    """What is embedded for a question: cut down as the chunks are."""
    return text if remote else _telling_words(text) or text


class Remembered(dict[str, bool], ABC):
    """What is said of a word by its spelling, judged once: a few thousand words make up most of any text."""

    def __missing__(self, word: str) -> bool:
        judged = self.judge(word)
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[word] = judged
        return judged

    @abstractmethod
    def judge(self, word: str) -> bool:
        """The answer for a word that is not remembered."""


class _Telling(Remembered):
    """Whether a word says something."""

    def judge(self, word: str) -> bool:
        return word.lower().strip(WORD_EDGES).replace("'", "").replace("’", "") not in STOP_WORDS


_telling = _Telling()


def _telling_words(text: str) -> str:
    return " ".join([word for word in text.split() if _telling[word]])
