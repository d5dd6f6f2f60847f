"""A transcript that grows for weeks: what an append, a page of history or an update of the index looks at is small."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawbot.sessions.entries import CompactionEntry, Entry
from clawbot.sessions.lines import FIRST_BLOCK, LARGEST_BLOCK, ByteSource
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import MAX_POSITIONS, Transcript

from .helpers import CLOCK, HEADER, entry, opened, said, user, write

PAGE = 50


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[Transcript]:
    with Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK) as created:
        yield created


class Counted(list[Entry]):
    """Entries that tell how often somebody went through them."""

    looks = 0

    def __iter__(self) -> Iterator[Entry]:
        Counted.looks += 1
        return super().__iter__()


def test_an_append_looks_at_no_earlier_entry(transcript: Transcript) -> None:
    Counted.looks = 0
    transcript.entries = Counted()
    for number in range(20):
        transcript.append_message(user(f"{number}"))
    assert Counted.looks == 0
    assert len({one.id for one in transcript.entries}) == 20
    assert transcript.bytes_read < 1_000


def test_an_id_that_the_file_has_is_not_given_again(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"))
    with opened(path) as transcript:
        taken = transcript._new_id()
    path.write_bytes(path.read_bytes().replace(b"00000001", taken.encode()))
    with opened(path) as transcript:
        assert transcript.append_message(user("b")).id != taken
        first, second = transcript.entries
        transcript.append(CompactionEntry(summary="s", first_kept_entry_id=second.id, tokens_before=1))
        assert transcript._ids == {one.id for one in transcript.entries}
        assert first.id not in transcript._ids


def test_scrolling_through_all_keeps_few_places_and_reads_little_for_a_page(transcript: Transcript) -> None:
    number = 20 * MAX_POSITIONS // PAGE * PAGE
    for at in range(number):
        transcript.append_message(user(f"{at} {'x' * 80}"))
    before = transcript.bytes_read
    pages = [transcript.history(limit=PAGE)]
    while page := transcript.history(before=pages[-1][0].entry_id, limit=PAGE):
        pages.append(page)
        assert len(transcript._positions) <= MAX_POSITIONS
    seen = [item.message.text.split()[0] for page in reversed(pages) for item in page if item.message]
    assert seen == [f"{at}" for at in range(number)]
    assert transcript.bytes_read - before <= (len(pages) + 1) * 2 * FIRST_BLOCK
    again = transcript.history(before=pages[0][0].entry_id, limit=PAGE)
    assert [item.entry_id for item in again] == [item.entry_id for item in pages[1]]


def test_who_wants_the_last_words_alone_reads_no_more(transcript: Transcript) -> None:
    for at in range(2_000):
        transcript.append_message(user(f"{at} 你好 {'x' * 200}"))
    with Transcript.open_history(transcript.path, clock=CLOCK) as opened:
        assert opened.history(limit=PAGE) == transcript.history(limit=PAGE)
        [before] = opened.history(before=opened.history(limit=1)[0].entry_id, limit=1)
        assert before.message is not None
        assert before.message.text.startswith("1998 ")
        assert opened.bytes_read < 10 * FIRST_BLOCK < transcript.size
        assert opened.entries == []


def test_an_update_writes_as_much_after_many_turns_as_after_few(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK, cwd=Path("/w"))
    index = tmp_path / "sessions.json"
    with store.open() as session:
        sizes = []
        for at in range(200):
            session.transcript.append_message(user(f"{at}"))
            session.transcript.append_message(said(f"{at}"))
            session.record = store.update(session.record)
            sizes.append(index.stat().st_size)
        assert len(set(sizes)) == 1
        assert session.transcript.bytes_read < 1_000


def test_a_long_talk_is_opened_in_few_reads_and_keeps_the_collector_out(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1_000):
        transcript.append_message(user(f"{at} {'x' * 2_000}"))
    reads: list[int] = []
    read = ByteSource.read

    def counted(source: ByteSource, start: int, end: int) -> bytes:
        reads.append(end - start)
        return read(source, start, end)

    monkeypatch.setattr(ByteSource, "read", counted)
    with opened(transcript.path) as found:
        assert found.entries == transcript.entries
        assert len(reads) < 20
        assert max(reads) <= LARGEST_BLOCK
        # A million objects that hold no cycles would be searched for some at every hundred thousand new ones.
        assert not any(map(gc.is_tracked, [*found.entries, *found.context()]))


def test_an_entry_longer_than_a_block_and_lines_between_the_path_are_read_as_they_are(tmp_path: Path) -> None:
    long = "y" * (LARGEST_BLOCK + 1)
    path = write(
        tmp_path / "s1.jsonl",
        HEADER,
        entry(1, "a"),
        b"{torn\n",
        entry(2, long, parent=1),
        b"\n",
        entry(3, "c", parent=2),
    )
    with opened(path) as transcript:
        assert [item.message.text for item in transcript.context()] == ["a", long, "c"]
        assert [one.parent_id for one in transcript.entries] == [None, "00000001", "00000002"]
