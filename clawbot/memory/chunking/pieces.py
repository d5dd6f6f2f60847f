"""Makes of a document what the store keeps: its pieces with their words and what they stand under."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clawbot.memory.chunking.chunks import Chunk, chunk
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.embeddings.meaning import UNDER_HEADINGS, WORD_EDGES, Remembered, split_speaker
from clawbot.memory.store.records import CJK, DATED, QUESTION, Piece
from clawbot.memory.text import CJK as CJK_CHARACTERS
from clawbot.memory.text import index_text

if TYPE_CHECKING:
    from clawbot.config.schema_memory import MemorySearchSettings

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


def pieces_of(document: Document, settings: MemorySearchSettings) -> list[Piece]:
    """The pieces of `document` in the profile of the settings, in their order. Line numbers are those of the file."""
    headings: list[int] = []
    pieces: list[Piece] = []
    for found in chunk(document.text, settings):
        is_heading = found.kind == "heading"
        # The row of a table has the names of its columns as its last heading, which is no piece.
        depth = min(len(found.headings), len(headings))
        above = headings[depth - 1] if depth else None
        pieces.append(_piece(found, document.line_numbers, above))
        if is_heading:
            headings[depth:] = [len(pieces) - 1]
    return pieces


def _piece(found: Chunk, lines: tuple[int, ...] | None, above: int | None) -> Piece:
    text, kind = found.text, found.kind
    # One line that names its item: `- 8443` below `## Proxy` is found by both.
    named = f"{text}\n{found.headings[-1]}" if found.headings and kind in UNDER_HEADINGS else text
    return Piece(
        start_line=found.start_line if lines is None else lines[found.start_line - 1],
        end_line=found.end_line if lines is None else lines[found.end_line - 1],
        kind=kind,
        text=text,
        indexed=index_text(named),
        heading=above,
        speaker=split_speaker(text)[0] if kind == "dialogue" else None,
        flags=_flags(text),
    )


def _flags(text: str) -> int:
    flags = QUESTION if text.endswith(("?", "？")) else 0
    dated = any(map(_speaks_of_time.__getitem__, text.split()))
    if not text.isascii() and _CJK.search(text):
        flags |= CJK
        dated = dated or _CHINESE_TIME.search(text) is not None
    return flags | DATED if dated else flags


class _SpeaksOfTime(Remembered):
    """Whether an English word is one of date or time."""

    def judge(self, word: str) -> bool:
        return _TIME_WORD.fullmatch(word.strip(WORD_EDGES)) is not None


_speaks_of_time = _SpeaksOfTime()
