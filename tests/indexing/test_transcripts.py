"""Transcripts as documents of the memory index."""

from __future__ import annotations

import os
from datetime import UTC, date
from pathlib import Path

import pytest

from clawbot.config.schema_memory import SessionSyncSettings
from clawbot.indexing.transcripts import TranscriptDocuments
from clawbot.memory.documents.memory_files import UnreadableDocumentError
from clawbot.sessions.transcript import Transcript
from tests.memory.index_host import House, WordEmbedder, find, paths
from tests.sessions.helpers import CLOCK, said, user

ANY_CHANGE = SessionSyncSettings(delta_bytes=0, delta_messages=0)


def talk(folder: Path, *texts: str) -> Path:
    """A transcript in which the user and the model speak in turn."""
    with Transcript.create(folder, cwd=folder, clock=CLOCK) as transcript:
        for number, text in enumerate(texts):
            transcript.append_message(said(text) if number % 2 else user(text))
        return transcript.path


def more(path: Path, *texts: str) -> None:
    with Transcript.open(path, clock=CLOCK) as transcript:
        for text in texts:
            transcript.append_message(user(text))


def test_what_was_said_is_a_document_under_the_lines_of_the_file(tmp_path: Path) -> None:
    path = talk(tmp_path, "我喜欢乌龙茶", "Noted: oolong.")
    os.utime(path, (1_795_000_000, 1_795_000_000))
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, UTC)
    [state] = documents.list().files
    assert (state.path, state.source) == (f"sessions/{path.name}", "sessions")
    document = documents.read(state)
    assert document is not None
    assert document.text == "User: 我喜欢乌龙茶\nAssistant: Noted: oolong."
    assert document.line_numbers == (2, 3)
    assert document.date == date(2026, 11, 18)
    assert document.state == state


def test_a_missing_folder_and_missing_files_are_no_error(tmp_path: Path) -> None:
    documents = TranscriptDocuments(tmp_path / "none", ANY_CHANGE, None)
    assert documents.list().files == ()
    assert documents.watched() == ()
    path = talk(tmp_path, "hello")
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, None)
    [state] = documents.list().files
    path.unlink()
    assert documents.read(state) is None


def test_a_transcript_that_can_t_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "x.jsonl"
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, None)
    talk(tmp_path, "hello").rename(folder)
    [state] = documents.list().files
    folder.unlink()
    folder.mkdir()
    with pytest.raises(UnreadableDocumentError, match=r"sessions/x\.jsonl"):
        documents.read(state)


async def test_transcripts_that_can_t_be_listed_stay_in_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    folder = tmp_path / "sessions"
    folder.mkdir()
    talk(folder, "the heron nests at the weir")
    transcripts = TranscriptDocuments(folder, ANY_CHANGE, None)
    async with house.opened(None, transcripts, sources=["memory", "sessions"]) as index:
        await index.sync()

        def refuse(folder: Path) -> list[object]:
            raise PermissionError(13, "Permission denied", str(folder))

        monkeypatch.setattr("clawbot.indexing.transcripts.list_transcripts", refuse)
        report = await index.sync()
        assert report.removed == 0
        assert [issue.path for issue in report.issues] == ["sessions"]
        assert len(paths(await find(index, "heron"))) == 1


def test_small_growth_waits_large_growth_does_not(tmp_path: Path) -> None:
    path = talk(tmp_path, "hello")
    documents = TranscriptDocuments(tmp_path, SessionSyncSettings(delta_bytes=10_000, delta_messages=3), None)
    first = documents.list()
    more(path, "one", "two")
    assert documents.list() == first
    more(path, "three")
    second = documents.list()
    assert second != first
    more(path, "x" * 10_001)
    assert documents.list() != second
    # Another process has not seen it before: all of it is due.
    more(path, "one")
    [fresh] = TranscriptDocuments(tmp_path, SessionSyncSettings(), None).list().files
    assert fresh.size == path.stat().st_size


def test_a_transcript_that_shrinks_is_due(tmp_path: Path) -> None:
    path = talk(tmp_path, "hello", "there")
    documents = TranscriptDocuments(tmp_path, SessionSyncSettings(), None)
    first = documents.list()
    path.write_bytes(path.read_bytes()[:-30])
    assert documents.list() != first


def test_what_was_read_is_what_it_is_compared_with(tmp_path: Path) -> None:
    path = talk(tmp_path, "hello")
    documents = TranscriptDocuments(tmp_path, SessionSyncSettings(), None)
    [listed] = documents.list().files
    more(path, "while it waited to be read")
    document = documents.read(listed)
    assert document is not None
    assert "while it waited" in document.text
    assert documents.list().files == (document.state,)


def test_changes_of_transcripts_matter_and_those_of_others_do_not(tmp_path: Path) -> None:
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, None)
    assert documents.owns(tmp_path / "a.jsonl")
    assert documents.owns(tmp_path / "a.jsonl.reset.2026-11-21")
    assert not documents.owns(tmp_path / "sessions.json")
    assert not documents.owns(tmp_path / "below" / "a.jsonl")


async def test_they_are_found_and_stay_when_a_session_is_archived(tmp_path: Path) -> None:
    """The reference forgets a conversation with `/new` (12.7)."""
    house = House(tmp_path)
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    path = talk(sessions, "the proxy listens on 8443", "I will remember port 8443.")
    documents = TranscriptDocuments(sessions, ANY_CHANGE, None)
    async with house.opened(WordEmbedder(), documents, sources=["memory", "sessions"]) as index:
        found = await find(index, "which port has the proxy")
        assert found.hits[0].path == f"sessions/{path.name}"
        assert found.hits[0].source == "sessions"
        assert found.hits[0].start_line >= 2
        archived = path.rename(path.with_name(f"{path.name}.reset.2026-11-21T10-00-00.000Z"))
        assert paths(await find(index, "which port has the proxy"))[0] == f"sessions/{archived.name}"
        status = await index.status()
        assert [(count.source, count.files) for count in status.source_counts] == [("memory", 0), ("sessions", 1)]
        assert (await index.verify()).clean
    async with house.opened(WordEmbedder(), documents) as index:
        # No longer a source: gone, without building anything anew.
        report = await index.sync()
        assert (report.removed, report.rebuilt) == (1, False)
