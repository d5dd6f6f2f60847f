"""What is recorded: every change once, with its author; what others changed; and nothing that a limit drops."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.agent.notes import NoteRequest, keep_note, rename_note
from clawbot.authors import Author, recording
from clawbot.files import digest_of
from clawbot.guarded import ChangedFileError, GuardedFolder
from clawbot.history import Change, History
from clawbot.tools.workspace_files import write_workspace_file
from tests.clocks import StillClock
from tests.history.conftest import NOTE, opened

EDIT = Author("tool:edit", "s1", "agent:main:main", "e1")
ROOT = Path(__file__).parents[2]


def brief(changes: list[Change]) -> list[tuple[str, str, str, str]]:
    """Who, where, and what the file became, oldest first."""
    return [(each.author.by, each.path, each.before[:4], each.after[:4]) for each in reversed(changes)]


def short(data: bytes) -> str:
    return digest_of(data)[:4]


def test_every_way_to_change_a_file_is_recorded_once(history: History, files: GuardedFolder) -> None:
    with recording(history, EDIT):
        files.create(NOTE, b"a\n")
        files.create(NOTE, b"not written")
        files.replace(NOTE, b"a\n")
        files.replace(str(files.root / NOTE), b"b\n")
        with pytest.raises(ChangedFileError):
            files.replace_known(NOTE, b"other", b"not written")
        files.replace_known(NOTE, b"b\n", b"c\n")
        GuardedFolder(files.root / "memory").replace("2026-11-20.md", b"d\n")
        files.create("AGENTS.md", b"no memory\n")
        files.create("notes/trip.md", b"no memory\n")
        GuardedFolder(files.root.parent).create("elsewhere.md", b"no memory\n")
        files.replace_known(NOTE, b"d\n", None)
        write_workspace_file(files.root, "USER.md", "e\n")
    with recording(None, EDIT):
        files.create("MEMORY.md", b"not recorded\n")
    a, b, c, d, e = (short(f"{text}\n".encode()) for text in "abcde")
    steps = [("", a), (a, b), (b, c), (c, d), (d, "")]
    assert brief(history.changes()) == [
        *(("tool:edit", NOTE, *step) for step in steps),
        ("tool:edit", "USER.md", "", e),
    ]
    assert {change.author for change in history.changes()} == {EDIT}
    assert brief(history.notice()) == [("user", "MEMORY.md", "", short(b"not recorded\n"))]


def test_the_note_of_a_session_is_recorded_when_it_is_made_grows_and_gets_a_name(
    history: History, files: GuardedFolder
) -> None:
    moment = datetime(2026, 11, 20, tzinfo=UTC)
    with recording(history, Author("hook:session-memory", "s1")):
        for text in ("user: one", "user: one\n\nuser: two"):
            request = NoteRequest("s1", 0.0, f"s1\n\n{text}", "talk", moment, moment.timestamp())
            kept = keep_note(files.root, request, lambda _: None)
        path = rename_note(files.root, kept.path, "harbour")
    changes = history.changes(path)
    assert [(change.path, change.was) for change in changes] == [
        ("memory/2026-11-20-harbour.md", kept.path), (kept.path, ""), (kept.path, "")
    ]  # fmt: skip
    assert {change.author.by for change in changes} == {"hook:session-memory"}


def test_what_others_change_is_theirs_whether_it_is_noticed_or_found_later(
    history: History, files: GuardedFolder, tmp_path: Path, clock: StillClock
) -> None:
    memory, note, old = files.root / "MEMORY.md", files.root / NOTE, files.root / "memory" / "2020-01-01.md"
    old.write_bytes(b"old\n")
    memory.write_bytes(b"m\n")
    assert history.notice() == []
    old.write_bytes(b"older\n")
    note.write_bytes(b"a\n")
    memory.unlink()
    os.utime(files.root)
    assert {each[:4] for each in brief(history.notice())} == {
        ("user", "memory/2020-01-01.md", "?", short(b"older\n")),
        ("user", NOTE, "", short(b"a\n")),
        ("user", "MEMORY.md", short(b"m\n"), ""),
    }
    with recording(history, EDIT):
        files.replace(NOTE, b"b\n")
    note.write_bytes(b"c\n")
    with recording(history, EDIT):
        files.replace(NOTE, b"d\n")
    assert brief(history.changes(NOTE))[-2:] == [
        ("user", NOTE, short(b"b\n"), short(b"c\n")),
        ("tool:edit", NOTE, short(b"c\n"), short(b"d\n")),
    ]
    assert opened(tmp_path, clock).notice() == []
    assert opened(tmp_path, clock).changes() == history.changes()


def test_what_a_command_changed_is_the_commands_and_what_was_changed_before_is_the_users(
    history: History, files: GuardedFolder
) -> None:
    (files.root / NOTE).write_bytes(b"a\n")
    history.notice()
    (files.root / "MEMORY.md").write_bytes(b"by hand\n")
    began = (files.root / "MEMORY.md").stat().st_ctime + 0.001
    while (files.root / NOTE).stat().st_ctime < began:
        (files.root / NOTE).write_bytes(b"by command\n")
    history.notice_since(Author("tool:shell", "s1"), began)
    assert {(by, path) for by, path, _, _ in brief(history.changes())} == {
        ("user", "MEMORY.md"), ("tool:shell", NOTE)
    }  # fmt: skip


def test_a_history_that_cannot_be_written_stops_no_change_and_is_logged_once(
    history: History, files: GuardedFolder, caplog: pytest.LogCaptureFixture
) -> None:
    history.folder.write_bytes(b"a file where the folder should be")
    with caplog.at_level(logging.WARNING), recording(history, EDIT):
        files.create(NOTE, b"a\n")
        files.replace(NOTE, b"b\n")
        files.erase(NOTE)
    assert not files.state(NOTE)
    assert [record.message for record in caplog.records if "not recorded" in record.message] != []
    assert len(caplog.records) == 1


def test_only_the_user_can_read_it(history: History, files: GuardedFolder) -> None:
    with recording(history, EDIT):
        files.create(NOTE, b"a\n")
    history.notice()
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in [history.folder, *history.folder.rglob("*")]}
    assert modes == {True: 0o700, False: 0o600}


def test_the_oldest_changes_go_first_and_no_content_that_another_one_needs(
    history: History, files: GuardedFolder, tmp_path: Path, clock: StillClock
) -> None:
    with recording(history, EDIT):
        for number in range(6):
            files.replace(NOTE, os.urandom(400_000) + f"{number}".encode())
            clock.forward(days=1)
    every = history.changes()
    limited = opened(tmp_path, clock, max_mb=1, max_days=300)
    limited.prune()
    kept = limited.changes()
    assert 1 <= len(kept) < 3
    assert kept == every[: len(kept)]
    assert None not in [limited.content(digest) for change in kept for digest in (change.before, change.after)]
    assert limited.size <= 1.1 * 1024**2
    assert limited.undo(kept[0].id).id
    clock.forward(days=400)
    limited.prune()
    assert limited.changes() == []
    assert limited.notice() == []
    assert len(list(history.folder.glob("objects/*/*"))) == 1
    with recording(limited, EDIT):
        files.replace(NOTE, b"goes on\n")
    assert len(limited.changes()) == 1


def test_two_processes_and_threads_write_one_history(
    history: History, files: GuardedFolder, tmp_path: Path, clock: StillClock
) -> None:
    story = f"""
from pathlib import Path
from clawbot.authors import Author, recording
from clawbot.guarded import GuardedFolder
from tests.clocks import StillClock
from tests.history.conftest import opened
with recording(opened(Path({str(tmp_path)!r}), StillClock()), Author("other")):
    for number in range(20):
        GuardedFolder(Path({str(files.root)!r})).replace("memory/other.md", str(number).encode())
"""

    def write(name: str) -> None:
        with recording(opened(tmp_path, clock), Author(name)):
            for number in range(20):
                files.replace(f"memory/{name}.md", str(number).encode())

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    other = subprocess.Popen([sys.executable, "-c", story], cwd=ROOT)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert other.wait() == 0
    for name in ("one", "two", "other"):
        texts = [history.content(change.after) for change in reversed(history.changes(f"memory/{name}.md"))]
        assert texts == [str(number).encode() for number in range(20)]
    assert history.notice() == []
