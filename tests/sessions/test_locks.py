"""Two processes on one session, and what a dead one leaves behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clawbot.sessions import locks
from clawbot.sessions.errors import SessionLockedError, SessionStoreError
from clawbot.sessions.locks import SessionLock, holder_file, holder_of, lock_file, remove_left_over
from clawbot.sessions.store import SessionStore

from .helpers import CLOCK, failing, texts

HOLDER = """
    import sys
    from pathlib import Path
    from clawbot.clock import SystemClock
    from clawbot.messages import UserMessage
    from clawbot.sessions.store import SessionStore

    opened = SessionStore(Path(sys.argv[2]), SystemClock()).open()
    opened.transcript.append_message(UserMessage("from the other process"), sync=True)
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    program = [sys.executable, "-c", textwrap.dedent(HOLDER), "chat", str(folder)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_process_is_told_who_holds_the_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK)
    with another_process(tmp_path) as process:
        with pytest.raises(SessionLockedError) as caught:
            store.open()
        assert caught.value.pid == process.pid
        assert caught.value.command.endswith("chat")
        assert caught.value.since
        summary = store.list()[0]
        assert (summary.locked, summary.title) == (True, "from the other process")


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, CLOCK)
    with another_process(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert holder_file(store.list()[0].path).exists()
        assert not store.list()[0].locked
        with store.open() as opened:
            assert texts(opened.transcript) == ["from the other process"]
            holder = holder_of(opened.transcript.path)
            assert holder is not None
            assert holder.pid == os.getpid()


@pytest.mark.parametrize("note", [b"", b"{", b'{"pid": -5}', b'{"pid": 4194305}', b'{"pid": 99999999999999999999}'])
def test_a_holder_that_nobody_can_tell(tmp_path: Path, note: bytes) -> None:
    path = tmp_path / "s.jsonl"
    lock = SessionLock(path)
    lock.acquire("s", CLOCK)
    holder_file(path).write_bytes(note)
    with pytest.raises(SessionLockedError, match="open in another process") as caught:
        SessionLock(path).acquire("s", CLOCK)
    assert caught.value.pid is None
    assert holder_of(path) is None
    lock.release()
    lock.release()
    assert not holder_file(path).exists()


def test_the_note_holds_no_words_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/clawbot", "-p", "my secret words"])
    path = tmp_path / "s.jsonl"
    SessionLock(path).acquire("s", CLOCK)
    note = json.loads(holder_file(path).read_text())
    assert note["command"] == "clawbot"
    assert holder_file(path).stat().st_mode & 0o777 == 0o600


def test_a_full_disk_does_not_keep_a_lock_from_holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "write_atomic", failing(errno.ENOSPC))
    lock = SessionLock(tmp_path / "s.jsonl")
    lock.acquire("s", CLOCK)
    assert lock.held
    with pytest.raises(SessionLockedError):
        SessionLock(tmp_path / "s.jsonl").acquire("s", CLOCK)


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SessionStoreError, match="Could not lock"):
        SessionLock(tmp_path / "file" / "s.jsonl").acquire("s", CLOCK)


def test_only_what_a_dead_process_or_a_gone_transcript_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"")
    assert not remove_left_over(path)
    lock = SessionLock(path)
    lock.acquire("s", CLOCK)
    assert not remove_left_over(path)
    lock.release()
    assert not remove_left_over(path)
    holder_file(path).write_bytes(b'{"pid": 999999999}')
    assert remove_left_over(path)
    assert (lock_file(path).exists(), holder_file(path).exists()) == (True, False)
    path.unlink()
    assert remove_left_over(path)
    assert not lock_file(path).exists()


RACER = """
    import sys
    from pathlib import Path
    from clawbot.clock import SystemClock
    from clawbot.sessions.errors import SessionLockedError
    from clawbot.sessions.store import SessionStore

    print("ready", flush=True)
    sys.stdin.readline()
    try:
        opened = SessionStore(Path(sys.argv[1]), SystemClock()).open()
        print("mine", flush=True)
    except SessionLockedError:
        print("locked", flush=True)
    sys.stdin.read()
"""


def test_of_many_that_begin_one_session_at_once_one_gets_it(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RACER), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        answers = [racer.stdout.readline() for racer in racers if racer.stdout]
        assert answers == ["ready\n"] * 4
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        assert sorted(racer.stdout.readline() for racer in racers if racer.stdout) == ["locked\n"] * 3 + ["mine\n"]
        assert len(list(tmp_path.glob("*.jsonl"))) == 1
    finally:
        for racer in racers:
            racer.kill()
            racer.communicate()
