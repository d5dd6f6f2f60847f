"""What crashes, full disks and other programs do to a transcript: good lines are never lost, nothing is rewritten."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.lines import LineAppender
from clawbot.sessions.transcript import Transcript

from .helpers import CLOCK, HEADER, entry, failing, line, opened, texts, user, write


def problem_lines(transcript: Transcript) -> list[int | None]:
    return [problem.line for problem in transcript.problems]


def test_a_torn_last_line_goes_into_a_side_file(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), b'{"type":"message","id":"0000')
    with opened(path) as transcript:
        assert texts(transcript) == ["a"]
        assert transcript.torn == tmp_path / "s1.jsonl.torn"
        assert "s1.jsonl.torn" in transcript.problems[0].text
        transcript.append_message(user("b"))
    assert (tmp_path / "s1.jsonl.torn").read_bytes() == b'{"type":"message","id":"0000'
    assert (tmp_path / "s1.jsonl.torn").stat().st_mode & 0o777 == 0o600
    again = opened(path)
    assert texts(again) == ["a", "b"]
    assert again.problems == []


def test_each_torn_end_gets_a_side_file_of_its_own(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER)
    for torn in (b'{"a', b'{"b', b'{"b'):
        with path.open("ab") as stream:
            stream.write(torn)
        opened(path).close()
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if ".torn" in file.name} == {
        "s1.jsonl.torn": b'{"a',
        "s1.jsonl.torn.2": b'{"b',
    }


def test_a_whole_last_line_without_its_line_break_is_completed(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, line(entry(1, "a")).rstrip())
    with opened(path) as transcript:
        assert texts(transcript) == ["a"]
        assert path.read_bytes().endswith(b"}\n")
        transcript.append_message(user("b"))
    assert texts(opened(path)) == ["a", "b"]
    assert not list(tmp_path.glob("*.torn*"))


def test_a_block_of_zero_bytes_after_a_power_cut(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), b"\0" * 5000)
    transcript = opened(path)
    assert texts(transcript) == ["a"]
    assert path.read_bytes().endswith(b"}\n")
    write(path, HEADER, entry(1, "a"), b"\0" * 50 + line(entry(2, "b")), b"\0" * 9 + b"\n", entry(3, "c"))
    transcript = opened(path)
    assert texts(transcript) == ["a", "b", "c"]
    assert problem_lines(transcript) == [4]


def test_bad_lines_are_kept_skipped_and_reported(tmp_path: Path) -> None:
    parts = (
        line(HEADER),
        line(entry(1, "a")),
        b"not json\n",
        line(entry(2, "b")),
        b"[1]\n",
        b"17\n",
        line(entry(3, "c")),
    )
    path = write(tmp_path / "s1.jsonl", *parts)
    with opened(path) as transcript:
        assert texts(transcript) == ["a", "b", "c"]
        assert problem_lines(transcript) == [3, 5, 6]
        transcript.append_message(user("d"))
    assert path.read_bytes().startswith(b"".join(parts))
    assert texts(opened(path)) == ["a", "b", "c", "d"]


def test_a_lost_line_breaks_the_chain_and_the_one_before_stands_in(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s1.jsonl", HEADER, entry(1, "a"), entry(2, "b"), b'{"lost"\n', entry(4, "d"), entry(5, "e")
    )
    transcript = opened(path)
    assert texts(transcript) == ["a", "b", "d", "e"]
    assert [(problem.line, "parent" in problem.text) for problem in transcript.problems] == [(4, False), (5, True)]
    assert [item.entry_id for item in transcript.history()] == ["00000001", "00000002", "00000004", "00000005"]


def test_loops_and_parents_that_come_later_do_not_hang(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a", 3), entry(2, "b", 2), entry(3, "c", 1), entry(1, "d", 3))
    assert texts(opened(path)) == ["a", "c", "d"]
    path = write(tmp_path / "s2.jsonl", HEADER, entry(1, "a"), entry(2, "b", 2), entry(3, "c"))
    assert texts(opened(path)) == ["a", "b", "c"]


def test_duplicate_lines_and_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), entry(2, "b"), entry(2, "b"), entry(3, "c"))
    assert texts(opened(path)) == ["a", "b", "c"]


@pytest.mark.parametrize("header", [b"", b"garbage\n", b'{"type":"session"}\n', b'{"type":"session","id":7}\n'])
def test_without_a_good_header_the_entries_open(tmp_path: Path, header: bytes) -> None:
    path = write(tmp_path / "s1.jsonl", header, entry(1, "a"), entry(2, "b"))
    before = path.read_bytes()
    transcript = opened(path)
    assert texts(transcript) == ["a", "b"]
    assert transcript.session_id == "s1"
    assert any("header" in problem.text for problem in transcript.problems)
    assert path.read_bytes() == before


def test_an_empty_file_and_a_torn_header_become_a_session(tmp_path: Path) -> None:
    for content in (b"", b'{"type":"sess'):
        path = tmp_path / "s1.jsonl"
        path.write_bytes(content)
        with opened(path) as transcript:
            transcript.append_message(user("a"))
        again = opened(path)
        assert (again.session_id, texts(again)) == ("s1", ["a"])
        assert again.header is not None


def test_crlf_bom_blank_lines_and_broken_bytes(tmp_path: Path) -> None:
    parts = [line(HEADER), line(entry(1, "a")), line(entry(2, "b\ud800")), line(entry(3, "XX"))]
    text = b"\xef\xbb\xbf" + b"\n\n".join(parts).replace(b"\n", b"\r\n").replace(b"XX", b"\xff\xfe")
    path = write(tmp_path / "s1.jsonl", text)
    transcript = opened(path)
    assert texts(transcript) == ["a", "b\ufffd", "\ufffd\ufffd"]
    assert transcript.session_id == HEADER["id"]
    assert transcript.problems == []


def test_an_entry_behind_a_torn_one_on_the_same_line_is_found(tmp_path: Path) -> None:
    torn = b'{"type":"message","id":"000000ff","parentId":"00000001","timesta'
    whole = json.dumps(entry(2, "whole"), separators=(",", ":")).encode()
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), torn + whole + b"\n", entry(3, "last"))
    transcript = opened(path)
    assert texts(transcript) == ["a", "whole", "last"]
    assert problem_lines(transcript) == [3]


def test_a_huge_line_and_a_deep_one(tmp_path: Path) -> None:
    deep = b'{"type":"message","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "y" * 5_000_000), deep, entry(2, "b"))
    transcript = opened(path)
    assert [len(text) for text in texts(transcript)] == [5_000_000, 1]
    assert problem_lines(transcript) == [3]


def test_many_problems_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), b"bad\n" * 300, entry(2, "b"))
    problems = opened(path).problems
    assert len(problems) == 101
    assert "200 more" in problems[-1].text


class FailingWrite:
    """`os.write` on a disk that has room for `room` bytes: a short count, then the error `number` (None: none left)."""

    def __init__(self, room: int, number: int | None) -> None:
        self.room = room
        self.number = number
        self.real = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if not self.room and self.number is not None:
            raise OSError(self.number, os.strerror(self.number))
        written = self.real(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize(("room", "number"), [(0, errno.ENOSPC), (10, errno.ENOSPC), (10, None), (0, errno.EIO)])
def test_a_full_disk_leaves_no_torn_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, number: int | None
) -> None:
    transcript = Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)
    transcript.append_message(user("a"))
    before = transcript.path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", FailingWrite(room, number))
        with pytest.raises(SessionStoreError) as caught:
            transcript.append_message(user("b"))
    assert str(transcript.path) in caught.value.message
    assert caught.value.hint
    assert transcript.path.read_bytes() == before
    assert texts(transcript) == ["a"]
    transcript.append_message(user("c"))
    assert texts(opened(transcript.path)) == ["a", "c"]


def test_when_even_cutting_back_fails_the_next_line_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)
    transcript.append_message(user("a"))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", FailingWrite(12, errno.ENOSPC))
        patch.setattr(os, "ftruncate", failing(errno.EIO))
        with pytest.raises(SessionStoreError):
            transcript.append_message(user("b"))
    transcript.append_message(user("c"))
    again = opened(transcript.path)
    assert texts(again) == ["a", "c"]
    assert problem_lines(again) == [3]


def test_a_failed_fsync_is_a_failed_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.EIO))
        with pytest.raises(SessionStoreError):
            transcript.append_message(user("a"), sync=True)
    assert texts(opened(transcript.path)) == []


def test_sync_reaches_the_disk_and_no_sync_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    transcript = Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)
    assert len(synced) >= 2  # the file and its folder
    synced.clear()
    transcript.append_message(user("a"))
    assert synced == []
    transcript.append_message(user("b"), sync=True)
    assert len(synced) == 1


def test_a_full_disk_does_not_keep_anybody_from_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "s1.jsonl", HEADER, entry(1, "a"), b'{"torn')

    with monkeypatch.context() as patch:
        patch.setattr("clawbot.sessions.lines.create_complete", failing(errno.ENOSPC))
        transcript = opened(path)
    assert texts(transcript) == ["a"]
    transcript.append_message(user("b"))
    assert b'{"torn' in path.read_bytes()
    assert texts(opened(path)) == ["a", "b"]


def test_a_transcript_that_was_deleted_or_replaced_is_not_written_to(tmp_path: Path) -> None:
    transcript = Transcript.create(tmp_path, cwd=Path("/w"), clock=CLOCK)
    transcript.path.unlink()
    with pytest.raises(SessionStoreError, match="deleted or replaced"):
        transcript.append_message(user("a"))
    transcript.path.write_bytes(line(HEADER))
    with pytest.raises(SessionStoreError, match="deleted or replaced"):
        transcript.append_message(user("a"))


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    with pytest.raises(SessionStoreError, match="folder"):
        Transcript.create(tmp_path / "folder", cwd=Path("/w"), clock=CLOCK)
    with pytest.raises(SessionStoreError):
        LineAppender(tmp_path / "folder" / "x.jsonl")


WRITER = """
    import sys
    from pathlib import Path
    from clawbot.clock import SystemClock
    from clawbot.messages import UserMessage
    from clawbot.sessions.errors import SessionStoreError
    from clawbot.sessions.transcript import Transcript

    transcript = Transcript.create(Path(sys.argv[1]), cwd=Path("/w"), clock=SystemClock(), session_id="s1")
    for number in range(1_000_000):
        try:
            transcript.append_message(UserMessage(f"{number} " + "x" * 500), sync=number % 7 == 0)
        except SessionStoreError as error:
            print("full", error, flush=True)
            sys.exit(3)
        print(number, flush=True)
"""


def test_after_kill_9_every_acknowledged_message_is_there(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = [process.stdout.readline() for _ in range(150)]
    process.send_signal(signal.SIGKILL)
    acknowledged += process.stdout.readlines()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    last = int([number for number in acknowledged if number.endswith("\n")][-1])
    transcript = opened(tmp_path / "s1.jsonl")
    numbers = [int(text.split()[0]) for text in texts(transcript)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > last


def test_a_size_limit_of_the_system(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        check=False,
    )
    assert done.returncode == 3
    *numbers, message = done.stdout.splitlines()
    assert "File too large" in message
    transcript = opened(tmp_path / "s1.jsonl")
    assert [text.split()[0] for text in texts(transcript)] == numbers
    assert transcript.problems == []


NOISE = st.binary(min_size=1, max_size=60) | st.sampled_from(
    [b"\n", b"\r\n", b"\0" * 20, b"\xef\xbb\xbf", b'{"type":', b"{}\n"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_damage_spares_the_lines_it_did_not_hit(tmp_path: Path, data: st.DataObject) -> None:
    parts = [line(HEADER), *(line(entry(number, f"message {number}")) for number in range(1, 9))]
    whole = b"".join(parts)
    kind = data.draw(st.sampled_from(["insert", "cut", "append", "overwrite"]))
    start = len(whole) if kind == "append" else data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 200)) if kind in {"cut", "overwrite"} else 0
    noise = b"" if kind == "cut" else data.draw(NOISE)
    path = tmp_path / "s1.jsonl"
    path.write_bytes(whole[:start] + noise + whole[start + length :])
    expected, position = [], 0
    for number, part in enumerate(parts):
        # A line is spared when the damage lies neither in it nor in the line break before it.
        if number and (start + length < position or start >= position + len(part)):
            expected.append(f"message {number}")
        position += len(part)
    with opened(path) as transcript:
        assert [text for text in texts(transcript) if text in expected] == expected
        stored = transcript.append_message(user("after"))
        assert len(transcript.history(limit=100)) >= len(expected)
    again = opened(path)
    assert again.entries[-1].id == stored.id
    assert [text for text in texts(again) if text in expected] == expected
    for side in tmp_path.glob("*.torn*"):
        side.unlink()
