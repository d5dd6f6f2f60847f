"""What `repair` finds and mends."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.locks import holder_file, lock_file
from clawbot.sessions.repair import check, repair
from clawbot.sessions.store import SessionStore

from .helpers import CLOCK, HEADER, entry, user, write


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    write(tmp_path / "s1.jsonl", HEADER, b"bad\n", entry(1, "a"), entry(2, "", message={"role": 5}), b'{"torn')
    lock_file(tmp_path / "s1.jsonl").write_bytes(b"")
    holder_file(tmp_path / "s1.jsonl").write_bytes(b'{"pid": 999999999}')
    lock_file(tmp_path / "gone.jsonl").write_bytes(b"")
    (tmp_path / "sessions.json").write_text("[broken")
    return tmp_path


def test_a_dry_run_tells_everything_and_changes_nothing(damaged: Path) -> None:
    before = files(damaged)
    report = repair(SessionStore(damaged, CLOCK), CLOCK, dry_run=True)
    assert files(damaged) == before
    assert [problem.line for problem in report.transcripts[0].problems] == [None, 2, 4]
    assert "rebuilt" in report.index[0].text
    assert [Path(path).name for path in report.removed_locks] == ["gone.jsonl.lock", "s1.jsonl.lock"]


def test_a_repair_mends_and_a_second_one_finds_only_what_is_kept(damaged: Path) -> None:
    store = SessionStore(damaged, CLOCK)
    report = repair(store, CLOCK)
    assert report.transcripts[0].torn_to == str(damaged / "s1.jsonl.torn")
    names = set(files(damaged))
    assert {"s1.jsonl", "s1.jsonl.torn", "sessions.json", "sessions.json.bad-20261121T021600"} <= names
    # The lock of a transcript that is there stays: to remove it would let two processes hold one session.
    assert {name for name in names if ".jsonl.lock" in name} == {"s1.jsonl.lock"}
    assert store.find("main").session_id == "s1"
    again = repair(store, CLOCK)
    assert [problem.line for problem in again.transcripts[0].problems] == [2, 4]
    assert (again.index, again.removed_locks, again.transcripts[0].torn_to) == ([], [], None)


def test_a_session_that_was_closed_in_good_order_leaves_nothing_to_repair(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK)
    with store.open() as opened:
        opened.transcript.append_message(user("a"))
        path = opened.transcript.path
    assert repair(store, CLOCK).removed_locks == []
    assert lock_file(path).exists()


def test_a_session_in_use_is_only_looked_at(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK)
    with store.open() as opened:
        opened.transcript.append_message(user("a"))
        report = repair(store, CLOCK)
        assert report.transcripts[0].in_use
        assert report.removed_locks == []
        opened.transcript.append_message(user("b"))
        assert opened.lock.held


def test_what_the_index_lacks_and_what_it_has_too_much(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK)
    with store.open("kept") as kept, store.open("lost") as lost:
        kept.transcript.append_message(user("a"))
    lost.transcript.path.unlink()
    write(tmp_path / "stray.jsonl", {**HEADER, "id": "stray"}, entry(1, "a"))
    texts = [problem.text for problem in repair(store, CLOCK).index]
    assert texts == ["was not in the index; added", "is gone; lost starts over when it is opened"]
    assert store.current("stray") is not None


def test_one_session_and_no_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "none", CLOCK)
    report = repair(store, CLOCK)
    assert (report.index, report.transcripts, report.removed_locks) == ([], [], [])
    assert not (tmp_path / "none").exists()
    write(tmp_path / "s1.jsonl", HEADER, b"bad\n", entry(1, "a"))
    write(tmp_path / "s2.jsonl", HEADER, b"bad\n", entry(1, "a"))
    one = repair(SessionStore(tmp_path, CLOCK), CLOCK, only=tmp_path / "s2.jsonl")
    assert [Path(report.path).name for report in one.transcripts] == ["s2.jsonl"]
    assert one.index == []


def test_a_check_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(SessionStoreError):
        check(tmp_path / "none.jsonl")
