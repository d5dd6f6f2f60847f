"""Prepares the chunks of a document for the store: text, words, heading, and origin (a file, the user or the agent)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from msgspec import structs

from clawbot.languages.tables import pattern_in, text_in, words_in
from clawbot.memory.chunking.chunks import Chunk, chunk
from clawbot.memory.dates import TIME_WORDS, means_yesterday, without_marks
from clawbot.memory.documents.indexed_text import indexed_text, is_session_note, speakers_of
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.embeddings.embedding_text import UNDER_HEADINGS, WORD_EDGES, Remembered, split_speaker
from clawbot.memory.store.records import (
    BY_AGENT,
    BY_USER,
    CJK,
    DATED,
    DEPTH_SHIFT,
    MAX_DEPTH,
    NUMBERED,
    QUESTION,
    ChunkRecord,
)
from clawbot.memory.translations import compounds_in
from clawbot.text.language import CJK as CJK_CHARACTERS
from clawbot.text.tokens import index_text

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


_FLAGS = {"user": BY_USER, "assistant": BY_AGENT}
# The speaker marks of transcripts.
_USER, _AGENT = "User: ", "Assistant: "


def origins_of(document: Document) -> Sequence[int]:
    """Return the origin flag of each line of `document`, 0 for written text; empty if nobody speaks."""
    if document.state.source == "sessions":
        return [_origin_of(line) for line in document.text.split("\n")]
    if is_session_note(document.text):
        return [_FLAGS.get(who, 0) for who in speakers_of(document.text.split("\n"))]
    return ()


def _origin_of(line: str) -> int:
    if line.startswith(_USER):
        return BY_USER
    return BY_AGENT if line.startswith(_AGENT) else 0


_CJK = re.compile(f"[{CJK_CHARACTERS}]")
_TIME_NAMES = words_in("of_time", "en")
_MAX_TIME_WORD = max(map(len, TIME_WORDS))
_TIME_FIGURES = re.compile(
    r"(?:19|20)\d{2}(?:[-/.]\d{1,2}){0,2}|\d{1,2}:\d{2}|\d{1,2}[ap]m|\d{1,2}\.\d{1,2}\.(?:\d{2}){1,2}|\d{1,2}h(?:\d{2})?",
    re.IGNORECASE,
)
_GERMAN_DAY = re.compile(r"\W*\d{1,2}\.\d{1,2}\.\W*")
_CHINESE_TIME = re.compile(pattern_in("time", "zh"))
_NOT_CHINESE = re.compile(r"[\u3041-\u30ff\uac00-\ud7a3]")
_TIME = re.compile(pattern_in("time", "ja", "ko"))
_NUMERAL = re.compile(rf"[\d{text_in('numerals', 'zh')}]")
_NUMBER_NAMES = words_in("numbers", "en")
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBER_NAMES))})\b", re.IGNORECASE)
_LETTER = re.compile("[A-Za-z]")


_GERMAN = words_in("often", "de")
_ENOUGH_GERMAN = 3


def chunks_of(document: Document, settings: MemorySearchSettings) -> list[ChunkRecord]:
    """Return the chunks of `document` in the configured profile, in order. Line numbers are those of the file.

    Lines excluded by `indexed_text` are in no chunk. A chunk starts with its text, also the first one.
    """
    headings: list[int] = []
    chunks: list[ChunkRecord] = []
    origins = origins_of(document)
    text = indexed_text(document)
    lines = text.split("\n")
    # The compounds of German are worth splitting.
    compounds = compounds_in if len(_GERMAN.intersection(text.lower().split())) >= _ENOUGH_GERMAN else None
    for found in _without_labels([*_from_their_text(chunk(text, settings), text)]):
        is_heading = found.kind == "heading"
        # A table row has the column names as its last heading, which is not a chunk.
        depth = min(len(found.headings), len(headings))
        above = headings[depth - 1] if depth else None
        origin = reduce(or_, origins[found.start_line - 1 : found.end_line], 0) if origins else 0
        if found.kind == "item":
            origin |= _depth(lines[found.start_line - 1]) << DEPTH_SHIFT
        chunks.append(_record(found, document.line_numbers, above, origin, compounds))
        if is_heading:
            headings[depth:] = [len(chunks) - 1]
    return chunks


def _depth(line: str) -> int:
    """Return how far an item is indented, in steps of two columns; one column is a step too."""
    if line[:1] not in (" ", "\t"):
        return 0
    indent = line.expandtabs(4)
    return min(MAX_DEPTH, (len(indent) - len(indent.lstrip(" ")) + 1) // 2)


def _from_their_text(chunks: Sequence[Chunk], text: str) -> Iterator[Chunk]:
    """`chunks` of `text`, the first one without its leading blank lines."""
    for number, found in enumerate(chunks):
        blank = text[: len(text) - len(text.lstrip())].count("\n") if not number else 0
        yield structs.replace(found, start_line=max(found.start_line, blank + 1)) if blank else found


def _without_labels(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """`chunks`, with lines that begin with a label (`Shopping: milk`) as prose: nobody else speaks next to them, and no
    other line of the file begins with that name."""
    names = [split_speaker(found.text)[0] if found.kind == "dialogue" else None for found in chunks]
    lines = Counter(names)
    for found, name, before, after in zip(chunks, names, [None, *names], [*names[1:], None], strict=False):
        is_label = name is not None and lines[name] == 1 and before is None and after is None
        yield structs.replace(found, kind="prose") if is_label else found


def _record(
    found: Chunk,
    lines: tuple[int, ...] | None,
    above: int | None,
    origin: int,
    compounds: Callable[[str], list[str]] | None,
) -> ChunkRecord:
    text, kind = found.text, found.kind
    # A line found by both: `- 8443` below `## Proxy`.
    named = f"{text}\n{found.headings[-1]}" if found.headings and kind in UNDER_HEADINGS else text
    speaker, content = split_speaker(text) if kind == "dialogue" else (None, text)
    return ChunkRecord(
        start_line=found.start_line if lines is None else lines[found.start_line - 1],
        end_line=found.end_line if lines is None else lines[found.end_line - 1],
        kind=kind,
        text=text,
        indexed="\n".join((index_text(named), *compounds(named))) if compounds else index_text(named),
        heading=above,
        speaker=speaker,
        # The time of a message is not part of its content.
        flags=_flags(content) | origin,
    )


def _flags(text: str) -> int:
    flags = QUESTION if text.endswith(("?", "？")) else 0
    if _may_have_flags(text):
        for of_word in set(map(_flags_of_words.__getitem__, text.split())):
            flags |= of_word
    if not text.isascii() and _CJK.search(text):
        flags |= CJK
        if not flags & DATED and (_CHINESE_TIME.search(text) or (_NOT_CHINESE.search(text) and _TIME.search(text))):
            flags |= DATED
    elif ("hier" in text or "Hier" in text) and means_yesterday(text):
        flags |= DATED
    return flags


_FLAGS_OF_NAMES = {
    name: (DATED if name in _TIME_NAMES or name in TIME_WORDS else 0) | (NUMBERED if name in _NUMBER_NAMES else 0)
    for name in (*_TIME_NAMES, *TIME_WORDS, *_NUMBER_NAMES)
}
# Small letters, punctuation as spaces, digits as one sign. Within ASCII, where that is one pass in C.
_FIGURE = "0"
_SMALL = dict(zip(string.ascii_uppercase, string.ascii_lowercase, strict=True))
_PARTS = str.maketrans(dict.fromkeys(string.punctuation, " ") | dict.fromkeys(string.digits, _FIGURE) | _SMALL)
_FLAGGED_PARTS = frozenset(" ".join((*_TIME_NAMES, *TIME_WORDS, *_NUMBER_NAMES)).translate(_PARTS).split())


def _may_have_flags(text: str) -> bool:
    """Return whether a word of `text` may have flags: a test that costs a third of asking for each word."""
    if not text.isascii():
        return True
    parts = text.translate(_PARTS)
    return _FIGURE in parts or not _FLAGGED_PARTS.isdisjoint(parts.split())


class _WordFlags(Remembered):
    """Whether a word is of a date or time (DATED), whether it holds a number (NUMBERED)."""

    def judge(self, word: str) -> int:
        bare = word.strip(WORD_EDGES)
        name = bare.lower()
        if "_" not in word and name.isascii() and name.isalpha():
            # Nearly all words: no pattern is needed.
            return _FLAGS_OF_NAMES.get(name, 0)
        of_time = name in _TIME_NAMES or (len(name) <= _MAX_TIME_WORD and without_marks(name) in TIME_WORDS)
        has_figures = _NUMERAL.search(word) is not None
        if has_figures and not of_time:
            of_time = _TIME_FIGURES.fullmatch(bare) is not None or _GERMAN_DAY.fullmatch(word) is not None
        is_number = has_figures or (_LETTER.search(word) and _NUMBER_WORD.search(word))
        return (DATED if of_time else 0) | (NUMBERED if is_number else 0)


_flags_of_words = _WordFlags()
