"""Prepares the chunks of a document for the store: text, words, heading, and origin (a file, the user or the agent)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from msgspec import structs

from clawbot.memory.chunking.chunks import Chunk, chunk
from clawbot.memory.documents.indexed_text import indexed_text, is_session_note, who_says
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.embeddings.embedding_text import UNDER_HEADINGS, WORD_EDGES, Remembered, split_speaker
from clawbot.memory.store.records import CJK, DATED, QUESTION, SAID_BY_AGENT, SAID_BY_USER, ChunkRecord
from clawbot.text.language import CJK as CJK_CHARACTERS
from clawbot.text.tokens import index_text

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings


_FLAGS = {"user": SAID_BY_USER, "assistant": SAID_BY_AGENT}
# The speaker marks of transcripts.
_USER, _AGENT = "User: ", "Assistant: "


def origins_of(document: Document) -> Sequence[int]:
    """The origin flag of each line of `document`, 0 for written text; empty if nobody speaks."""
    if document.state.source == "sessions":
        return [_told_by(line) for line in document.text.split("\n")]
    if is_session_note(document.text):
        return [_FLAGS.get(who, 0) for who in who_says(document.text.split("\n"))]
    return ()


def _told_by(line: str) -> int:
    if line.startswith(_USER):
        return SAID_BY_USER
    return SAID_BY_AGENT if line.startswith(_AGENT) else 0


_CJK = re.compile(f"[{CJK_CHARACTERS}]")
_TIME_WORD = re.compile(
    r"yesterday|today|tonight|tomorrow|ago|last|next|since|recently|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|january|february|march|april|may|june|july|august|september|october|november|december|mornings?|evenings?"
    r"|weekends?|years?|months?|weeks?|days?|hours?|(?:19|20)\d{2}(?:[-/.]\d{1,2}){0,2}|\d{1,2}:\d{2}|\d{1,2}[ap]m",
    re.IGNORECASE,
)
_CHINESE_TIME = re.compile(
    r"[今明昨前后後当當去][天年晚早]|[上下本这這][个個]?(?:周|週|月|星期|礼拜|禮拜)|(?:周|週|星期|礼拜|禮拜)[一二三四五六日天末]"
    r"|[\d一二三四五六七八九十两兩]+[个個]?(?:月|日|号|號|点|點|年|天|小时|小時|分钟|分鐘)|周末|週末|最近|刚才|剛才|早上|晚上|下午|上午|凌晨"
)


def chunks_of(document: Document, settings: MemorySearchSettings) -> list[ChunkRecord]:
    """The chunks of `document` in the configured profile, in order. Line numbers are those of the file.

    Lines excluded by `indexed_text` are in no chunk. A chunk starts with its text, also the first one.
    """
    headings: list[int] = []
    chunks: list[ChunkRecord] = []
    origins = origins_of(document)
    for found in _from_their_text(chunk(text := indexed_text(document), settings), text):
        is_heading = found.kind == "heading"
        # A table row has the column names as its last heading, which is not a chunk.
        depth = min(len(found.headings), len(headings))
        above = headings[depth - 1] if depth else None
        said_by = reduce(or_, origins[found.start_line - 1 : found.end_line], 0)
        chunks.append(_record(found, document.line_numbers, above, said_by))
        if is_heading:
            headings[depth:] = [len(chunks) - 1]
    return chunks


def _from_their_text(chunks: Sequence[Chunk], text: str) -> Iterator[Chunk]:
    """`chunks` of `text`, the first one without its leading blank lines."""
    for number, found in enumerate(chunks):
        blank = text[: len(text) - len(text.lstrip())].count("\n") if not number else 0
        yield structs.replace(found, start_line=max(found.start_line, blank + 1)) if blank else found


def _record(found: Chunk, lines: tuple[int, ...] | None, above: int | None, said_by: int) -> ChunkRecord:
    text, kind = found.text, found.kind
    # A line found by both: `- 8443` below `## Proxy`.
    named = f"{text}\n{found.headings[-1]}" if found.headings and kind in UNDER_HEADINGS else text
    speaker, said = split_speaker(text) if kind == "dialogue" else (None, text)
    return ChunkRecord(
        start_line=found.start_line if lines is None else lines[found.start_line - 1],
        end_line=found.end_line if lines is None else lines[found.end_line - 1],
        kind=kind,
        text=text,
        indexed=index_text(named),
        heading=above,
        speaker=speaker,
        # The time of a message is not part of its content.
        flags=_flags(said) | said_by,
    )


def _flags(text: str) -> int:
    flags = QUESTION if text.endswith(("?", "？")) else 0
    dated = any(map(_speaks_of_time.__getitem__, text.split()))
    if not text.isascii() and _CJK.search(text):
        flags |= CJK
        dated = dated or _CHINESE_TIME.search(text) is not None
    return flags | DATED if dated else flags


class _SpeaksOfTime(Remembered):
    """Whether an English word is a date or time word."""

    def judge(self, word: str) -> bool:
        return _TIME_WORD.fullmatch(word.strip(WORD_EDGES)) is not None


_speaks_of_time = _SpeaksOfTime()
