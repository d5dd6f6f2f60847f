"""read, write and append: what comes back, what is on disk, and what is capped."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.config.schema_agent import AgentSettings, ToolSettings
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from clawbot.tools.text import compare, cut_middle
from tests.tools.conftest import Run, box_of, call, names, nobody

pytestmark = pytest.mark.usefixtures("all_seen")


async def test_read_gives_the_text_as_it_is(run: Run) -> None:
    outcome = await run("read", path="MEMORY.md")
    assert (outcome.text, outcome.is_error, outcome.summary) == ("# Memory\n- prefers tabs\n", False, "2 lines")


async def test_read_by_absolute_path_inside(run: Run, workspace: Path) -> None:
    assert (await run("read", path=str(workspace / "MEMORY.md"))).text.startswith("# Memory")


async def test_read_a_part_and_go_on(run: Run, workspace: Path) -> None:
    (workspace / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)), encoding="utf-8")
    first = await run("read", path="long.txt", limit=200)
    assert first.text.endswith("line 200\n[showing lines 1-200 of 5,000; continue with offset=201]")
    last = await run("read", path="long.txt", offset=4999)
    assert last.text == "line 4999\nline 5000\n[showing lines 4,999-5,000 of 5,000]"


async def test_read_behind_the_end_says_how_long_it_is(run: Run) -> None:
    outcome = await run("read", path="MEMORY.md", offset=9)
    assert outcome.is_error
    assert "has 2 lines; offset=9" in outcome.text


@pytest.mark.parametrize("ending", ["", "\n"])
async def test_a_last_line_counts_with_and_without_line_break(run: Run, workspace: Path, ending: str) -> None:
    (workspace / "x").write_text(f"a\nb\nc{ending}", encoding="utf-8")
    assert "lines 1-1 of 3;" in (await run("read", path="x", limit=1)).text
    assert "has 3 lines" in (await run("read", path="x", offset=4)).text


async def test_read_stops_at_the_output_cap_between_lines(workspace: Path) -> None:
    (workspace / "wide.txt").write_text("".join(f"{n:04} {'x' * 95}\n" for n in range(1, 101)), encoding="utf-8")
    box = box_of(workspace, AgentSettings(tools=ToolSettings(output_max_chars=2500)))
    text = (await box.run(call("read", {"path": "wide.txt"}), nobody)).text
    assert len(text) <= 2500
    assert text.endswith("[showing lines 1-19 of 100; continue with offset=20]")
    assert "0019 x" in text
    following = (await box.run(call("read", {"path": "wide.txt", "offset": 20}), nobody)).text
    assert following.startswith("0020 ")


async def test_one_endless_line_is_cut_and_said_so(run: Run, workspace: Path) -> None:
    (workspace / "minified.js").write_text("x" * 500_000 + "\nend\n", encoding="utf-8")
    outcome = await run("read", path="minified.js")
    assert len(outcome.text) <= 40_000
    assert outcome.text.endswith("[showing lines 1-1 of 2; continue with offset=2; line 1 is very long and was cut]")
    assert (await run("read", path="minified.js", offset=2)).text.startswith("end\n")


async def test_read_shows_bad_bytes_and_says_so(run: Run, workspace: Path) -> None:
    (workspace / "latin.txt").write_bytes(b"caf\xe9\n")
    assert (await run("read", path="latin.txt")).text == (
        "caf\ufffd\n[the file is not valid UTF-8: bad bytes are shown as \ufffd]"
    )


async def test_read_refuses_binary_with_type_and_size(run: Run, workspace: Path) -> None:
    (workspace / "cat.png").write_bytes(b"\x89PNG\0\0")
    outcome = await run("read", path="cat.png")
    assert (outcome.is_error, outcome.text) == (True, "cat.png is no text: image/png, 6 bytes.")


async def test_read_of_an_empty_and_of_a_missing_file(run: Run, workspace: Path) -> None:
    (workspace / "empty").touch()
    assert (await run("read", path="empty")).text == "[empty is empty]"
    missing = await run("read", path="memory/1999-01-01.md")
    assert (missing.is_error, missing.text) == (True, "memory/1999-01-01.md does not exist.")
    assert "is a folder" in (await run("read", path="memory")).text


async def test_write_makes_private_files_and_folders(run: Run, workspace: Path) -> None:
    outcome = await run("write", path="a/b/new.md", content="one\ntwo\n")
    assert outcome.text == "Created a/b/new.md (+2 -0 lines, 8 bytes)."
    assert stat.S_IMODE((workspace / "a/b/new.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((workspace / "a/b").stat().st_mode) == 0o700


async def test_write_replaces_keeps_the_mode_and_shows_the_diff(run: Run, workspace: Path) -> None:
    (workspace / "MEMORY.md").chmod(0o640)
    outcome = await run("write", path="MEMORY.md", content="# Memory\n- prefers spaces\n- and tea\n")
    assert outcome.summary == "+2 -1"
    assert outcome.details["diff"].splitlines()[3:] == [
        " # Memory",
        "-- prefers tabs",
        "+- prefers spaces",
        "+- and tea",
    ]
    assert stat.S_IMODE((workspace / "MEMORY.md").stat().st_mode) == 0o640
    assert names(workspace) == ["MEMORY.md", "memory"]


async def test_write_that_fails_leaves_the_old_file_and_no_litter(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = await run("write", path="MEMORY.md", content="new")
    assert outcome.is_error
    assert "No space left on device" in outcome.text
    assert (workspace / "MEMORY.md").read_text(encoding="utf-8") == "# Memory\n- prefers tabs\n"
    assert names(workspace) == ["MEMORY.md", "memory"]


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (None, "note", b"note\n"),
        (b"", "note\n", b"note\n"),
        (b"old\n", "note", b"old\nnote\n"),
        (b"no line break", "note", b"no line break\nnote\n"),
        (b"crlf\r\n", "a\nb", b"crlf\r\na\r\nb\r\n"),
        (b"\xff bad\n", "好", b"\xff bad\n\xe5\xa5\xbd\n"),
    ],
)
async def test_append_puts_text_on_lines_of_its_own(
    run: Run, workspace: Path, before: bytes | None, content: str, after: bytes
) -> None:
    if before is not None:
        (workspace / "log.md").write_bytes(before)
    outcome = await run("append", path="log.md", content=content)
    assert not outcome.is_error
    assert (workspace / "log.md").read_bytes() == after


async def test_append_makes_the_folder_and_never_moves_the_file(run: Run, workspace: Path) -> None:
    await run("append", path="notes/today.md", content="first")
    inode = (workspace / "notes/today.md").stat().st_ino
    assert (await run("append", path="notes/today.md", content="second\nthird")).summary == "+2 -0"
    assert (workspace / "notes/today.md").stat().st_ino == inode
    assert (workspace / "notes/today.md").read_text(encoding="utf-8") == "first\nsecond\nthird\n"


async def test_append_takes_back_half_a_note_when_the_disk_is_full(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = os.write
    writes = iter([3])

    def filling(handle: int, data: bytes) -> int:
        room = next(writes, None)
        if room is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return genuine(handle, data[:room])

    target = workspace / "memory/2026-11-20.md"
    monkeypatch.setattr(os, "write", filling)
    outcome = await run("append", path="memory/2026-11-20.md", content="a long note")
    monkeypatch.undo()
    assert (outcome.is_error, outcome.text) == (True, "Nothing was appended: the disk is full.")
    assert target.read_text(encoding="utf-8") == "proxy moved to 8443\n"


async def test_half_a_character_is_refused_by_name(run: Run) -> None:
    assert "half a character at position 1" in (await run("append", path="x.md", content="a\ud83d")).text


@settings(max_examples=60, deadline=None)
@given(before=st.lists(st.sampled_from("abc"), max_size=12), after=st.lists(st.sampled_from("abc"), max_size=12))
def test_counts_of_a_change_add_up(before: list[str], after: list[str]) -> None:
    change = compare("\n".join(before) + "\n" * bool(before), "\n".join(after) + "\n" * bool(after), "x")
    assert change.added - change.removed == len(after) - len(before)
    assert (change.added, change.removed) != (0, 0) or before == after


def test_a_huge_change_is_counted_without_a_diff() -> None:
    before = "same\n" + "".join(f"a{n}\n" for n in range(3000))
    change = compare(before, "same\nnew\n", "x")
    assert (change.added, change.removed, change.diff) == (1, 3000, "")


def test_a_cut_names_what_is_missing() -> None:
    text = cut_middle("a" * 300 + "b" * 100, 100, "Ask for less.")
    assert text == "a" * 75 + "\n[... 300 of 400 characters left out here. Ask for less. ...]\n" + "b" * 25


# -- files of Windows ------------------------------------------------------------------------------------------------

WIDE = ("utf-16-le", "utf-16-be", "utf-32-le")


def wide(path: Path, name: str, text: str) -> Path:
    path.write_bytes(f"\ufeff{text}".encode(name))
    return path


def text_in(path: Path, name: str) -> str:
    """The text of a file that must still have its one mark."""
    text = path.read_bytes().decode(name)
    assert text.count("\ufeff") == 1
    return text.removeprefix("\ufeff")


@pytest.mark.parametrize("name", WIDE)
async def test_a_file_in_utf_16_is_read_and_searched(run: Run, workspace: Path, name: str) -> None:
    wide(workspace / "notes.md", name, "会议\nthe ibis\nlast")
    assert (await run("read", path="notes.md")).text == "会议\nthe ibis\nlast"
    assert (await run("read", path="notes.md", offset=2, limit=1)).text.startswith("the ibis\n[showing lines 2-2 of 3;")
    assert (await run("grep", pattern="ibis")).text == "notes.md:2:the ibis"
    # A pattern that has to be searched for by a process of its own.
    assert (await run("grep", pattern="(?e)(?:ibix){e<=1}")).text == "notes.md:2:the ibis"


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(
    ("before", "after"),
    [("one\n", "one\n会 two\n"), ("one", "one\n会 two\n"), ("one\r\n", "one\r\n会 two\r\n"), ("", "会 two\n")],
)
async def test_what_is_appended_has_the_encoding_of_the_file(
    run: Run, workspace: Path, name: str, before: str, after: str
) -> None:
    file = wide(workspace / "notes.md", name, before)
    assert not (await run("append", path="notes.md", content="会 two")).is_error
    assert text_in(file, name) == after


@pytest.mark.parametrize("name", WIDE)
async def test_an_edit_keeps_the_encoding_of_the_file(run: Run, workspace: Path, name: str) -> None:
    file = wide(workspace / "notes.md", name, "会议 at 9\r\nend\r\n")
    outcome = await run("edit", path="notes.md", old="会议 at 9\nend", new="会议 at 10\nend")
    assert (outcome.is_error, outcome.summary) == (False, "+1 -1")
    assert text_in(file, name) == "会议 at 10\r\nend\r\n"


async def test_broken_utf_16_is_not_edited(run: Run, workspace: Path) -> None:
    file = workspace / "notes.md"
    file.write_bytes("\ufeffone".encode("utf-16-le") + b"x")
    outcome = await run("edit", path="notes.md", old="one", new="two")
    assert outcome.is_error
    assert "broken UTF-16" in outcome.text
    assert "not valid" in (await run("read", path="notes.md")).text


@pytest.mark.parametrize("name", WIDE)
async def test_the_user_is_shown_a_change_of_such_a_file_as_text(workspace: Path, name: str) -> None:
    file = wide(workspace / "AGENTS.md", name, "one\n")
    box = box_of(workspace, AgentSettings())
    shown: list[str] = []

    async def approve(question: ApprovalQuestion) -> ApprovalAnswer:
        shown.append(question.diff)
        return ApprovalAnswer("once")

    outcome = await box.run(call("append", {"path": "AGENTS.md", "content": "会议"}), approve)
    assert not outcome.is_error, outcome.text
    assert shown[0].endswith(" one\n+会议")
    assert text_in(file, name) == "one\n会议\n"
