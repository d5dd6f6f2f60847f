"""Each chunk knows whose words it is, results say so, and what the user wrote comes first where all else is equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.schema_memory import MemorySearchSettings
from clawbot.memory.chunking.document_chunks import chunks_of
from clawbot.memory.documents.memory_files import Document
from clawbot.memory.documents.walking import FileState
from clawbot.memory.store.records import origin_of
from clawbot.memory.values import Origin, Source
from tests.memory.search.notes import CLASSIC, LINES, Searcher, build

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
