"""What the store gets of a document."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking.pieces import pieces_of
from clawbot.memory.documents.memory_files import Document, FileState
from clawbot.memory.store.records import CJK, DATED, QUESTION, Piece

LINES = MemorySearchSettings()
CLASSIC = MemorySearchSettings(profile="classic")


def made(text: str, settings: MemorySearchSettings = LINES, numbers: tuple[int, ...] | None = None) -> list[Piece]:
    state = FileState("memory/a.md", "memory", len(text), 1)
    return pieces_of(Document(state, text, b"", date(2026, 11, 21), numbers), settings)


def flags(text: str) -> int:
    [piece] = made(text)
    return piece.flags


def test_an_item_is_found_by_its_heading_too() -> None:
    text = "# Setup\n\n## Proxy\n\n- port 8443\n\nprose about it\n\n# Other\n\n- else\n"
    pieces = made(text)
    assert [(piece.text, piece.heading) for piece in pieces] == [
        ("# Setup", None),
        ("## Proxy", 0),
        ("- port 8443", 1),
        ("prose about it", 1),
        ("# Other", None),
        ("- else", 4),
    ]
    assert "Proxy" in pieces[2].indexed
    assert "Setup" not in pieces[2].indexed
    assert pieces[3].indexed == "prose about it"


def test_levels_that_are_left_out_and_empty_headings() -> None:
    pieces = made("intro\n\n### Deep\n\na\n\n# Top\n\nb\n\n#\n\nc\n")
    above = {piece.text: pieces[piece.heading].text if piece.heading is not None else None for piece in pieces}
    assert above["intro"] is None
    assert above["a"] == "### Deep"
    assert above["# Top"] is None
    assert above["b"] == "# Top"


def test_rows_of_a_table_stand_under_their_heading_and_their_columns() -> None:
    rows = "\n".join(f"| host{number} | {number} |" for number in range(200))
    pieces = made(f"# Hosts\n\n| name | port |\n|---|---|\n{rows}\n")
    row = next(piece for piece in pieces if "host150" in piece.text)
    assert row.heading == 0
    assert "name | port" in row.indexed


def test_who_speaks() -> None:
    pieces = made("Anna: hello there\nBen: hi\n\n小王：明天见\n")
    assert [piece.speaker for piece in pieces] == ["Anna", "Ben", "小王"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", 0),
        ("Shall we meet?", QUESTION),
        ("we met yesterday.", DATED),
        ("Since (2019), he lives there", DATED),
        ("at 12:30 sharp", DATED),
        ("room 1234", 0),
        ("version 1.2.3", 0),
        ("乌龙茶", CJK),
        ("明天出发吗？", CJK | DATED | QUESTION),
        ("三月五日开会", CJK | DATED),
        ("上周三见面", CJK | DATED),
        ("naïve café", 0),
        ("café on Monday", DATED),
    ],
)
def test_flags(text: str, expected: int) -> None:
    assert flags(text) == expected


def test_lines_of_a_transcript_are_those_of_its_file() -> None:
    pieces = made("User: one\nAssistant: two\nUser: three", numbers=(3, 5, 9))
    assert [(piece.start_line, piece.end_line) for piece in pieces] == [(3, 3), (5, 5), (9, 9)]


def test_the_classic_profile_has_neither_headings_nor_speakers() -> None:
    [piece] = made("# Setup\n\nAnna: hello\n", CLASSIC)
    assert (piece.heading, piece.speaker, piece.kind) == (None, None, "prose")


@given(st.text(alphabet="#-|>`* \nab:數?1", max_size=300))
def test_any_text_has_pieces_whose_headings_come_before_them(text: str) -> None:
    for settings in (LINES, CLASSIC):
        for number, piece in enumerate(made(text, settings)):
            assert piece.heading is None or piece.heading < number
            assert piece.start_line <= piece.end_line
