"""What the store gets of a document."""

from __future__ import annotations

from datetime import date
from functools import reduce
from operator import or_
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking import document_chunks
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.dates import TIME_WORDS
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.records import CJK, DATED, NUMBERED, QUESTION, ChunkRecord, origin_of
from clawbot.memory.values import Origin, Source
from tests.memory.search.notes import CLASSIC, LINES, Searcher, build
from tests.tables import load_table


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
    load_table(__file__, "chinese_times"),
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


FLAGS = document_chunks._flags_of_words
NAMES = sorted(document_chunks._TIME_NAMES | TIME_WORDS | document_chunks._NUMBER_NAMES)


@pytest.mark.parametrize("line", ["so {} it is", "so ({}), it is", "*{}*!", "_{}_", '"{}"?', "at {}."])
def test_no_word_that_tells_is_passed_over(line: str) -> None:
    for name in NAMES:
        for text in (line.format(name), line.format(name.title())):
            assert document_chunks._flags(text) & (DATED | NUMBERED) == reduce(or_, map(FLAGS.judge, text.split()), 0)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("Twenty-one guests came", NUMBERED),
        ("we met on 12.3. in town", DATED | NUMBERED),
        ("at 14h30 (or later)", DATED | NUMBERED),
        ("foo_two is a name", 0),
        ("nothing of the kind", 0),
        ("it was _Monday_", DATED),
    ],
)
def test_flags_of_a_line(text: str, flags: int) -> None:
    assert document_chunks._flags(text) == flags


NOTE = """# Session: 2026-11-20 14:00–15:10 (Europe/Berlin)

- **Session Key**: agent:main:main
- **Session ID**: 0b5ce1de
- **Source**: /new

## Conversation Summary

14:02 user: the proxy listens on 8443
> and the old port is closed

2026-11-21 00:12 assistant: I wrote down the proxy's port
> 8443, as you said

my own remark below it
"""


def document(text: str, source: Source = "memory") -> Document:
    path = "sessions/a.jsonl" if source == "sessions" else "memory/a.md"
    return Document(FileState(path, source, len(text), 0), text, b"", None)


def origins(text: str, source: Source = "memory") -> dict[str, Origin]:
    return {chunk.text.split("\n")[0]: origin_of(chunk.flags) for chunk in chunks_of(document(text, source), LINES)}


def test_the_note_of_a_session_tells_who_said_what() -> None:
    found = origins(NOTE)
    assert found["14:02 user: the proxy listens on 8443"] == "user"
    assert found["2026-11-21 00:12 assistant: I wrote down the proxy's port"] == "agent"
    assert {text: origin for text, origin in found.items() if text.startswith(">")} in (
        {},
        {"> and the old port is closed": "user", "> 8443, as you said": "agent"},
    )
    assert found["my own remark below it"] == "file"


def test_a_transcript_tells_it_too() -> None:
    said = origins("# 2026-11-20\nUser: which port?\nAssistant: it is 8443", "sessions")
    assert said == {"# 2026-11-20": "file", "User: which port?": "user", "Assistant: it is 8443": "agent"}


def test_talk_in_a_note_of_the_user_is_the_users_file() -> None:
    assert set(origins("# Talk\n\nuser: one\nassistant: two\n\nAnna: three\n").values()) == {"file"}


def test_a_chunk_of_both_is_the_agents() -> None:
    [chunk] = chunks_of(document(NOTE), CLASSIC)
    assert origin_of(chunk.flags) == "agent"


@pytest.mark.parametrize("settings", [LINES, CLASSIC], ids=["lines", "classic"])
def test_where_all_else_is_equal_the_users_file_comes_first_then_the_users_words(
    tmp_path: Path, settings: MemorySearchSettings
) -> None:
    head = NOTE.partition("14:02")[0]
    notes = {
        "memory/2026-11-18-a.md": f"{head}assistant: the proxy listens on 8443\n",
        "memory/2026-11-19-b.md": f"{head}user: the proxy listens on 8443\n",
        "memory/2026-11-20-c.md": "# Notes\n\nBob: the proxy listens on 8443\n",
    }
    hits = Searcher(build(tmp_path / "index.sqlite", notes, settings), settings).ask("8443").hits
    assert {hit.path: hit.origin for hit in hits} == {
        "memory/2026-11-18-a.md": "agent",
        "memory/2026-11-19-b.md": "user",
        "memory/2026-11-20-c.md": "file",
    }
    if settings is LINES:
        assert [hit.origin for hit in hits] == ["file", "user", "agent"]
