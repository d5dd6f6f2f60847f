"""Transcripts as documents of the memory index."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.config.schema_memory import SessionSyncSettings
from clawbot.indexing.transcripts import PART_BYTES, TranscriptDocuments
from clawbot.memory.documents.memory_files import UNSETTLED, UnreadableDocumentError
from clawbot.memory.values import Hit
from clawbot.messages import UserMessage
from clawbot.sessions.entries import OFFER, CustomEntry
from clawbot.sessions.names import END_MARK
from clawbot.sessions.text import spoken_part
from clawbot.sessions.transcript import Transcript
from tests.clocks import StillClock
from tests.memory.index_host import House, WordEmbedder, find, paths
from tests.sessions.helpers import CLOCK, HEADER, answer, entry, result, said, user, write

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
    assert document.text == "# 1970-01-01\nUser: 我喜欢乌龙茶\n# 2026-11-21\nAssistant: Noted: oolong."
    assert document.line_numbers == (2, 2, 3, 3)
    assert document.date == date(2026, 11, 21)
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
    async with house.opened(WordEmbedder(), documents, sources=["memory"]) as index:
        # No longer a source: gone, without building anything anew.
        report = await index.sync()
        assert (report.removed, report.rebuilt) == (1, False)


def long_talk(folder: Path, bytes_: int) -> Path:
    """A talk of some size: numbered facts, with the output of tools between them."""
    with Transcript.create(folder, cwd=folder, clock=CLOCK) as transcript:
        number = 0
        while transcript.path.stat().st_size < bytes_:
            transcript.append_message(user(f"the shelf fact{number} holds jar{number}"))
            transcript.append_message(said("", f"call{number}"))
            transcript.append_message(result(f"call{number}", f"tooloutput{number} " * 700))
            transcript.append_message(said(f"Noted: jar{number}."))
            number += 1
        return transcript.path


async def test_of_a_long_talk_only_its_growth_is_read_and_embedded(tmp_path: Path) -> None:
    house, embedder = House(tmp_path), WordEmbedder()
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    path = long_talk(sessions, 5 * PART_BYTES)
    documents = TranscriptDocuments(sessions, ANY_CHANGE, UTC)
    async with house.opened(embedder, documents, sources=["memory", "sessions"]) as index:
        report = await index.sync()
        assert (report.added, report.changed) == (6, 0)
        [_, count] = (await index.status()).source_counts
        assert (count.files, count.total_files) == (1, 1)
        before = len(embedder.texts)
        more(path, "the cellar fact holds a walrus")
        report = await index.sync()
        assert (report.added, report.changed, report.unchanged) == (0, 1, 5)
        assert report.pieces_embedded == len(embedder.texts) - before <= 2
        [hit, *_] = (await find(index, "walrus")).hits
        assert (hit.path, hit.line) == (f"sessions/{path.name}", path.read_bytes().count(b"\n"))
        assert hit.said is not None
        assert (hit.said.who, hit.location) == ("user", f"sessions/{path.name}#{hit.said.entry}")
        assert hit.said.entry in path.read_text().splitlines()[hit.line - 1]
        assert not any("tooloutput" in hit.snippet for hit in (await find(index, "tooloutput7")).hits)
        assert (await index.verify()).clean


@given(st.lists(st.integers(0, 400), max_size=30), st.integers(20, 900))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_parts_together_say_what_the_whole_says(tmp_path: Path, sizes: list[int], part: int) -> None:
    texts = [f"{number} x{'x' * size}" for number, size in enumerate(sizes)]
    asked = ["Store it, or reply with NO_REPLY.", "NO_REPLY"]
    path = write(
        tmp_path / "s1.jsonl",
        HEADER,
        *(entry(number + 1, text) for number, text in enumerate(texts)),
        *([entry(97, asked[0]), answer(98, asked[1]), entry(99, "last")]),
    )
    whole = spoken_part(path)
    parts = [spoken_part(path, start, start + part) for start in range(0, path.stat().st_size, part)]
    assert [one.text for each in parts for one in each.lines] == [one.text for one in whole.lines]
    assert [one.text for one in whole.lines] == [*texts, "last"]
    assert all(each.settled for each in parts)


def test_what_asked_for_silence_waits_for_its_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "Store it, or reply with NO_REPLY."))
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, UTC)
    [listed] = documents.list().files
    document = documents.read(listed)
    assert document is not None
    assert (document.text, document.state.mtime_ns) == ("", UNSETTLED)
    write(path, path.read_bytes(), answer(2, "Nothing stands in the way of NO_REPLY as a word."))
    [listed] = documents.list().files
    document = documents.read(listed)
    assert document is not None
    assert "User: Store it" in document.text


def test_a_talk_that_another_one_has_followed_is_due_whatever_it_has_grown_by(tmp_path: Path) -> None:
    path = talk(tmp_path, "hello")
    os.utime(path, (1_795_000_000, 1_795_000_000))
    documents = TranscriptDocuments(tmp_path, SessionSyncSettings(), UTC)
    first = documents.list().files
    more(path, "my dog is called Bruno")
    os.utime(path, (1_795_000_010, 1_795_000_010))
    assert documents.list().files == first
    assert not documents.owns(path)
    following = talk(tmp_path, "a new talk")
    os.utime(following, (1_795_000_020, 1_795_000_020))
    assert documents.owns(following)
    [old] = [state for state in documents.list().files if path.name in state.path]
    assert old.size == path.stat().st_size


def test_a_talk_that_has_ended_is_due_though_records_come_behind_its_end(tmp_path: Path) -> None:
    path = talk(tmp_path, "hello")
    documents = TranscriptDocuments(tmp_path, SessionSyncSettings(), UTC)
    first = documents.list().files
    with Transcript.open(path, clock=CLOCK) as transcript:
        transcript.append_message(user("my dog is called Bruno"))
        assert documents.list().files == first
        transcript.append(CustomEntry(custom_type=END_MARK, data={}))
        assert documents.owns(path)
        ended = documents.list().files
        assert ended != first
        transcript.append(CustomEntry(custom_type=OFFER, data={}))
    assert documents.list().files == ended


async def test_days_asked_for_are_those_on_which_it_was_said(tmp_path: Path) -> None:
    house = House(tmp_path)
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    clock = StillClock(datetime(2026, 11, 20, 22, 0, tzinfo=UTC))
    with Transcript.create(sessions, cwd=sessions, clock=clock) as transcript:
        transcript.append_message(UserMessage("the launch is at the Foo Bar"))
        clock.forward(hours=4)
        transcript.append_message(UserMessage("the launch is moved to the Zoo"))
    documents = TranscriptDocuments(sessions, ANY_CHANGE, UTC)
    async with house.opened(WordEmbedder(), documents, sources=["memory", "sessions"]) as index:
        await index.sync()
        for day, place in ((20, "Foo Bar"), (21, "Zoo")):
            only = date(2026, 11, day)
            found = await find(index, "launch", after=only, before=only)
            assert [(place in hit.snippet, hit.said.at.date()) for hit in found.hits if hit.said] == [(True, only)]
        assert not (await find(index, "launch", before=date(2026, 11, 19))).hits


def test_a_transcript_that_was_deleted_is_gone_and_a_folder_that_is_away_has_lost_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    path = talk(folder, "the port is 8443")
    documents = TranscriptDocuments(folder, ANY_CHANGE, None)
    assert not documents.is_gone(f"sessions/{path.name}")
    path.unlink()
    assert documents.is_gone(f"sessions/{path.name}")
    folder.rmdir()
    assert not documents.is_gone(f"sessions/{path.name}")


def test_of_transcripts_that_are_gone_nothing_is_held(tmp_path: Path) -> None:
    documents = TranscriptDocuments(tmp_path, ANY_CHANGE, None)
    old, new = (talk(tmp_path, *(f"{word} {'x' * 2_000} {number}" for number in range(200))) for word in ("old", "new"))
    for state in documents.list().files:
        documents.describe(Hit(state.path, 1, 1, 0.5, "x", "sessions", 1))
    old.rename(tmp_path / f"{old.name}.reset.2026-11-21T02-16-00.000Z")
    new.unlink()
    documents.list()
    assert [*documents._shown] == [f"{old.name}.reset.2026-11-21T02-16-00.000Z"]
    assert len({inode for inode, _ in documents._lines_before}) == 1
