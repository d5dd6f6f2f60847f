"""What the store gets of a document."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.records import CJK, DATED, NUMBERED, QUESTION, ChunkRecord

LINES = MemorySearchSettings()
CLASSIC = MemorySearchSettings(profile="classic")


def made(
    text: str, settings: MemorySearchSettings = LINES, numbers: tuple[int, ...] | None = None
) -> list[ChunkRecord]:
    state = FileState("memory/a.md", "memory", len(text), 1)
    return chunks_of(Document(state, text, b"", date(2026, 11, 21), numbers), settings)


def flags(text: str) -> int:
    [chunk] = made(text)
    return chunk.flags


def test_an_item_is_found_by_its_heading_too() -> None:
    text = "# Setup\n\n## Proxy\n\n- port 8443\n\nprose about it\n\n# Other\n\n- else\n"
    chunks = made(text)
    assert [(chunk.text, chunk.heading) for chunk in chunks] == [
        ("# Setup", None),
        ("## Proxy", 0),
        ("- port 8443", 1),
        ("prose about it", 1),
        ("# Other", None),
        ("- else", 4),
    ]
    assert "Proxy" in chunks[2].indexed
    assert "Setup" not in chunks[2].indexed
    assert chunks[3].indexed == "prose about it"


def test_levels_that_are_left_out_and_empty_headings() -> None:
    chunks = made("intro\n\n### Deep\n\na\n\n# Top\n\nb\n\n#\n\nc\n")
    above = {chunk.text: chunks[chunk.heading].text if chunk.heading is not None else None for chunk in chunks}
    assert above["intro"] is None
    assert above["a"] == "### Deep"
    assert above["# Top"] is None
    assert above["b"] == "# Top"


def test_rows_of_a_table_stand_under_their_heading_and_their_columns() -> None:
    rows = "\n".join(f"| host{number} | {number} |" for number in range(200))
    chunks = made(f"# Hosts\n\n| name | port |\n|---|---|\n{rows}\n")
    row = next(chunk for chunk in chunks if "host150" in chunk.text)
    assert row.heading == 0
    assert "name | port" in row.indexed


def test_who_speaks() -> None:
    chunks = made("Anna: hello there\nBen: hi\n\n小王：明天见\n")
    assert [chunk.speaker for chunk in chunks] == ["Anna", "Ben", "小王"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", 0),
        ("Shall we meet?", QUESTION),
        ("we met yesterday.", DATED),
        ("Since (2019), he lives there", DATED | NUMBERED),
        ("at 12:30 sharp", DATED | NUMBERED),
        ("room 1234", NUMBERED),
        ("we saw Twelve of them, often", NUMBERED),
        ("someone tended it", 0),
        ("version 1.2.3", NUMBERED),
        ("乌龙茶", CJK),
        ("明天出发吗？", CJK | DATED | QUESTION),
        ("三月五日开会", CJK | DATED | NUMBERED),
        ("上周三见面", CJK | DATED | NUMBERED),
        ("naïve café", 0),
        ("café on Monday", DATED),
        ("Der Zahnarzt ist am Donnerstag", DATED),
        ("nächste Woche", DATED),
        ("am 12.3. frei", DATED | NUMBERED),
        ("el 3 de mayo", DATED | NUMBERED),
        ("la semana próxima", DATED),
        ("le loyer est payé, août", DATED),
        ("Hier, nous avons vu le voisin", DATED),
        ("Hier ist der Schlüssel für das Haus", 0),
        ("先週の火曜に会った", CJK | DATED),
        ("어제 만났다", CJK | DATED),
        ("家賃は八万円", CJK | NUMBERED),
        ("김치를 먹었다", CJK),
    ],
)
def test_flags(text: str, expected: int) -> None:
    assert flags(text) == expected


@pytest.mark.parametrize(
    "time",
    [
        "后天",
        "去年",
        "这个星期",
        "上周",
        "周末",
        "星期天",
        "禮拜六",
        "5号",
        "两个月",
        "十年",
        "最近",
        "剛才",
        "晚上",
        "上午",
        "凌晨",
    ],
)
def test_chinese_times(time: str) -> None:
    assert flags(f"我{time}在家") & DATED


@pytest.mark.parametrize("text", ["上海", "下面", "星星", "月光", "最好", "天上", "早点", "刚刚", "个月", "期一"])
def test_what_is_no_chinese_time(text: str) -> None:
    assert not flags(f"我{text}在家") & DATED


def test_lines_of_a_transcript_are_those_of_its_file() -> None:
    chunks = made("User: one\nAssistant: two\nUser: three", numbers=(3, 5, 9))
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(3, 3), (5, 5), (9, 9)]


def test_a_label_is_not_a_speaker() -> None:
    note = "# 2026-03-02\n\nShopping: milk\n\n- a call\n\n待办：交房租\n\nA walk.\n\nAnna: hello\n\nBen: hi\n"
    assert [(chunk.kind, chunk.speaker) for chunk in made(note)] == [
        ("heading", None),
        ("prose", None),
        ("item", None),
        ("prose", None),
        ("prose", None),
        ("dialogue", "Anna"),
        ("dialogue", "Ben"),
    ]
    repeated = made("Anna: hello\n\n- a list\n\nA walk.\n\nAnna: bye\n")
    assert [chunk.speaker for chunk in repeated] == ["Anna", None, None, "Anna"]


def test_the_classic_profile_has_neither_headings_nor_speakers() -> None:
    [chunk] = made("# Setup\n\nAnna: hello\n", CLASSIC)
    assert (chunk.heading, chunk.speaker, chunk.kind) == (None, None, "prose")


@given(st.text(alphabet="#-|>`* \nab:數?1", max_size=300))
def test_any_text_has_chunks_whose_headings_come_before_them(text: str) -> None:
    for settings in (LINES, CLASSIC):
        for number, chunk in enumerate(made(text, settings)):
            assert chunk.heading is None or chunk.heading < number
            assert chunk.start_line <= chunk.end_line
