"""The one file of a silent turn: whatever a model or another program does, no byte that stood in it changes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.sessions.entries import MemoryWrite
from clawbot.text.secrets import MARK, consented_in, secret_values
from clawbot.tools.append_only import AppendOnlyFile, addition, described, is_on_disk, note_path, remainder
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.protocol import ToolError, ToolOutcome
from clawbot.tools.registry import Toolbox
from tests.tables import load_table
from tests.tools.conftest import call, nobody

NOTE = "memory/2026-11-20.md"


class Notes:
    """A toolbox with the two tools of one file, what was announced, and what happens at each announcement."""

    def __init__(self, workspace: Path, path: str = NOTE) -> None:
        self.announced: list[MemoryWrite] = []
        self.on_announce: Callable[[], None] = lambda: None
        self.file = AppendOnlyFile(WorkspaceFolder(workspace), path, self._announce)
        self.box = Toolbox(self.file.tools, 10_000)

    def _announce(self, write: MemoryWrite) -> None:
        self.announced.append(write)
        self.on_announce()

    def run(self, name: str, content: str = "- new\n", **arguments: Any) -> ToolOutcome:
        return asyncio.run(self.box.run(call(name, {"content": content, **arguments}), nobody))


@pytest.fixture
def notes(workspace: Path) -> Notes:
    return Notes(workspace)


@pytest.fixture
def day(workspace: Path) -> Path:
    return workspace / NOTE


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["append", "write"])
def test_both_tools_add_at_the_end(notes: Notes, day: Path, name: str) -> None:
    """Sheet 8.4, BUG: the flush could overwrite the file."""
    before = day.read_bytes()
    outcome = notes.run(name, "- one\n- two", path=NOTE)
    assert day.read_bytes() == before + b"- one\n- two\n"
    assert (outcome.text, outcome.is_error, outcome.summary) == (f"Added lines 2-3 to {NOTE}.", False, "+2")


def test_no_tool_but_these_two_and_both_say_what_they_are(notes: Notes) -> None:
    assert [spec.name for spec in notes.box.specs] == ["append", "write"]
    assert all(NOTE in spec.description and "appends only" in spec.description for spec in notes.box.specs)
    assert "no tool 'edit'" in notes.run("edit").text


def test_a_write_is_recorded_with_its_place_before_it_is_done(notes: Notes, day: Path, workspace: Path) -> None:
    before = day.read_bytes()
    seen: list[bytes] = []
    notes.on_announce = lambda: seen.append(day.read_bytes())
    notes.run("append", "\n\n- 苹果\n- b\n\n")
    added = "\n- 苹果\n- b\n".encode()
    digest = hashlib.sha256(added).hexdigest()
    assert notes.file.writes == (MemoryWrite(NOTE, len(before), len(added), 3, 4, digest),)
    assert tuple(notes.announced) == notes.file.writes
    assert seen == [before]
    assert is_on_disk(WorkspaceFolder(workspace), notes.file.writes[0])


@pytest.mark.parametrize(
    "path",
    ["MEMORY.md", "memory/2026-11-20-notes.md", "memory/../MEMORY.md", "/etc/passwd", "Memory/2026-11-20.md", "."],
)
@pytest.mark.parametrize("name", ["append", "write"])
def test_other_paths_are_refused_and_the_one_is_named(notes: Notes, workspace: Path, name: str, path: str) -> None:
    before = tree(workspace)
    outcome = notes.run(name, path=path)
    assert outcome.is_error
    assert f"only {NOTE} can be written" in outcome.text
    assert tree(workspace) == before
    assert not notes.announced
    assert notes.file.trouble == ""
    assert notes.run(name, path=str(workspace / NOTE)).is_error


@pytest.mark.parametrize("path", [NOTE, f"./{NOTE}", f" {NOTE} ", "", None])
def test_ways_to_name_the_file(notes: Notes, day: Path, path: str | None) -> None:
    assert not notes.run("append", path=path).is_error
    assert day.read_text() == "proxy moved to 8443\n- new\n"


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x.md", "memory/../../x.md", "a\0b"])
def test_a_path_that_leads_elsewhere_is_no_place_of_a_note(path: str) -> None:
    with pytest.raises(ToolError):
        note_path(path)


@pytest.mark.parametrize("linked", ["folder", "file", "dangling", "inside"])
def test_symlinks_are_refused(workspace: Path, outside: Path, linked: str) -> None:
    notes = Notes(workspace, "memory/today.md")
    place = workspace / "memory" / "today.md"
    if linked == "folder":
        (workspace / "memory").rename(workspace / "old")
        (workspace / "memory").symlink_to(outside)
    elif linked == "file":
        place.symlink_to(outside / "secret.txt")
    elif linked == "dangling":
        place.symlink_to(outside / "new.txt")
    else:
        place.symlink_to(workspace / "MEMORY.md")
    before = tree(workspace), tree(outside)
    outcome = notes.run("append")
    assert outcome.is_error
    assert "symlink" in outcome.text
    assert "symlink" in notes.file.trouble
    assert (tree(workspace), tree(outside)) == before
    assert not notes.announced


@pytest.mark.parametrize("kind", ["folder", "pipe", "hard link"])
def test_what_is_no_plain_file_is_refused(notes: Notes, day: Path, outside: Path, kind: str) -> None:
    day.unlink()
    make: dict[str, Callable[[], object]] = {
        "folder": day.mkdir,
        "pipe": lambda: os.mkfifo(day),
        "hard link": lambda: os.link(outside / "secret.txt", day),
    }
    make[kind]()
    outcome = notes.run("append")
    assert outcome.is_error
    assert ("hard link" in outcome.text) == (kind == "hard link")
    assert (outside / "secret.txt").read_text() == "secret"
    assert notes.file.trouble == outcome.text
    assert not notes.announced


@pytest.mark.parametrize(("kind", "content"), [("symlink", ""), ("link", "secret"), ("link", "proxy moved to 8443\n")])
def test_a_link_that_is_made_in_between_is_refused(
    notes: Notes, day: Path, workspace: Path, outside: Path, kind: str, content: str
) -> None:
    (outside / "secret.txt").write_text(content)

    def swap() -> None:
        if kind == "symlink":
            (workspace / "memory").rename(workspace / "old")
            (workspace / "memory").symlink_to(outside)
        else:
            day.unlink()
            os.link(outside / "secret.txt", day)

    notes.on_announce = swap
    assert notes.run("append").is_error
    assert tree(outside) == {"secret.txt": content.encode()}
    assert tree(workspace / "old") == ({"2026-11-20.md": b"proxy moved to 8443\n"} if kind == "symlink" else {})


def test_a_file_that_may_not_be_written_stays(notes: Notes, day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def guarded(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if path == day.name and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", guarded)
    before = day.read_bytes()
    assert "permission denied" in notes.run("append").text
    assert "permission denied" in notes.file.trouble
    assert day.read_bytes() == before
    assert not notes.file.writes


def test_binary_and_huge_files_are_left_alone(notes: Notes, day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day.write_bytes("notes".encode("utf-16-le"))
    assert "no text" in notes.run("append").text
    day.write_bytes(b"x" * 101)
    monkeypatch.setattr("clawbot.tools.append_only.CHANGE_BYTES", 100)
    assert "too large" in notes.run("append").text


def test_a_new_file_gets_its_folder_and_is_private(tmp_path: Path) -> None:
    notes = Notes(tmp_path)
    assert notes.run("write", "# 2026-11-20\n\n- 你好").text == f"Added lines 1-3 to {NOTE}."
    place = tmp_path / NOTE
    assert place.read_text(encoding="utf-8") == "# 2026-11-20\n\n- 你好\n"
    assert place.stat().st_mode & 0o777 == 0o600
    assert place.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_written_when_no_record_can_be_kept(workspace: Path, day: Path, exists: bool) -> None:
    if not exists:
        day.unlink()
    before = tree(workspace)
    notes = Notes(workspace)

    def fail() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    notes.on_announce = fail
    outcome = notes.run("append")
    assert "no record" in outcome.text
    assert "No space left" in notes.file.trouble
    assert tree(workspace) == before
    assert not notes.file.writes


class FullDisk:
    """`os.write` on a disk that takes `room` more bytes."""

    def __init__(self, room: int, code: int) -> None:
        self.room = room
        self.code = code
        self.real = os.write

    def __call__(self, handle: int, data: bytes) -> int:
        if not self.room:
            raise OSError(self.code, os.strerror(self.code))
        done = self.real(handle, data[: self.room])
        self.room -= done
        return done


@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_nothing_half_written_stays_on_a_full_disk(notes: Notes, day: Path, room: int, code: int) -> None:
    before = day.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", FullDisk(room, code))
        outcome = notes.run("append", "- 一二三四五\n")
    assert outcome.is_error
    assert day.read_bytes() == before
    assert notes.file.trouble == outcome.text
    assert not notes.file.writes
    assert not notes.run("append", "- 一二三四五\n").is_error
    assert notes.file.trouble == ""
    assert day.read_bytes() == before + "- 一二三四五\n".encode()


LONGER = b"a much longer text than the one before\nwith lines\n"


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        ("append", b"proxy moved to 8443\nfrom the editor\n- new\n"),
        ("remove", b"- new\n"),
        (b"", b"- new\n"),
        (b"short", b"short\n- new\n"),
        (LONGER, LONGER + b"- new\n"),
    ],
)
@pytest.mark.parametrize("in_place", [True, False])
def test_what_an_editor_does_in_between_is_kept_and_the_position_is_right(
    notes: Notes, day: Path, workspace: Path, edit: str | bytes, after: bytes, in_place: bool
) -> None:
    def change() -> None:
        notes.on_announce = lambda: None
        text = day.read_bytes() + b"from the editor" if edit == "append" else edit
        if isinstance(text, str):
            day.unlink()
            return
        target = day if in_place else day.with_suffix(".tmp")
        target.write_bytes(text)
        target.replace(day)

    notes.on_announce = change
    assert not notes.run("append").is_error
    assert day.read_bytes() == after
    assert len(notes.announced) == 2
    assert notes.announced[-1] == notes.file.writes[0]
    assert is_on_disk(WorkspaceFolder(workspace), notes.file.writes[0])


def test_a_file_that_is_replaced_right_after_the_write_gets_the_text(
    notes: Notes, day: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes went to a file that has lost its name: they are not taken for stored."""
    real = os.write

    def write(handle: int, data: bytes) -> int:
        monkeypatch.setattr(os, "write", real)
        other = day.with_suffix(".tmp")
        other.write_bytes(b"banana- new\n")
        other.replace(day)
        return real(handle, data)

    monkeypatch.setattr(os, "write", write)
    assert not notes.run("append").is_error
    assert day.read_bytes() == b"banana- new\n- new\n"
    assert notes.file.writes[0].offset == len(b"banana- new\n")


def test_two_programs_that_add_at_the_same_time_lose_nothing(workspace: Path, day: Path) -> None:
    begin = threading.Barrier(2)

    def fill(name: str) -> list[MemoryWrite]:
        file = AppendOnlyFile(WorkspaceFolder(workspace), NOTE, lambda _: None)
        begin.wait()
        for number in range(30):
            with contextlib.suppress(ToolError):  # the other one was faster five times
                file.add("", f"- {name} {number}", complete=False)
        return list(file.writes)

    with ThreadPoolExecutor(2) as pool:
        writes = [write for done in pool.map(fill, ["一", "two"]) for write in done]
    lines = day.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "proxy moved to 8443"
    assert len(lines) == len(set(lines)) == len(writes) + 1
    assert {line.split()[1] for line in lines[1:]} == {"一", "two"}
    for write in writes:
        assert is_on_disk(WorkspaceFolder(workspace), write)
        assert write.line == write.end_line
        digest = hashlib.sha256(f"{lines[write.line - 1]}\n".encode()).hexdigest()
        assert digest == write.digest


def test_a_file_that_never_holds_still_is_given_up(notes: Notes, day: Path) -> None:
    def edit() -> None:
        with day.open("ab") as stream:
            stream.write(b"x\n")

    notes.on_announce = edit
    outcome = notes.run("append")
    assert "keeps changing" in outcome.text
    assert notes.file.trouble == outcome.text
    assert b"new" not in day.read_bytes()


@pytest.mark.parametrize(
    ("content", "added"),
    load_table(__file__, "a_write_of_the_whole_text_adds_only_what_is_new"),
)
def test_a_write_of_the_whole_text_adds_only_what_is_new(notes: Notes, day: Path, content: str, added: str) -> None:
    notes.run("write", content)
    assert day.read_text() == f"proxy moved to 8443\n{added}"


@pytest.mark.parametrize("content", ["proxy moved to 8443\n", "proxy moved to 8443", "proxy moved to 8443\n\n "])
def test_a_write_of_what_is_there_is_no_write(notes: Notes, day: Path, content: str) -> None:
    outcome = notes.run("write", content)
    assert (outcome.is_error, outcome.summary) == (False, "+0")
    assert day.read_text() == "proxy moved to 8443\n"
    assert not notes.announced


def test_the_same_text_is_added_once(notes: Notes, day: Path) -> None:
    notes.run("append", "- new\n")
    outcome = notes.run("append", "- new")
    assert "already" in outcome.text
    assert day.read_text() == "proxy moved to 8443\n- new\n"
    assert len(notes.file.writes) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"- \xe4\xbd\xa0\n- b\n"),
        (b"no end", b"no end\n- \xe4\xbd\xa0\n- b\n"),
        (b"dos\r\n", b"dos\r\n- \xe4\xbd\xa0\r\n- b\r\n"),
        (b"dos\r\nno end", b"dos\r\nno end\r\n- \xe4\xbd\xa0\r\n- b\r\n"),
        (b"\xef\xbb\xbfbom\n", b"\xef\xbb\xbfbom\n- \xe4\xbd\xa0\n- b\n"),
        (b"latin \xe9\n", b"latin \xe9\n- \xe4\xbd\xa0\n- b\n"),
        (b"blank\n\n\n", b"blank\n\n\n- \xe4\xbd\xa0\n- b\n"),
    ],
)
def test_the_text_stands_on_lines_of_its_own(
    notes: Notes, day: Path, workspace: Path, before: bytes, after: bytes
) -> None:
    day.write_bytes(before)
    notes.run("append", "- 你\r\n- b")
    assert day.read_bytes() == after
    write = notes.file.writes[0]
    lines = after.split(b"\n")[write.line - 1 : write.end_line]
    assert [line.strip(b"\r") for line in lines] == ["- 你".encode(), b"- b"]
    assert is_on_disk(WorkspaceFolder(workspace), write)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "empty"),
        (" \n\t\n", "empty"),
        ("a\0b", "NUL"),
        ("half \ud83d", "half a character"),
        ("NO_REPLY", "is a reply"),
        ("`no_reply`.\n", "is a reply"),
    ],
)
def test_texts_that_no_note_may_hold(notes: Notes, day: Path, content: str, reason: str) -> None:
    before = day.read_bytes()
    outcome = notes.run("append", content)
    assert outcome.is_error
    assert reason.lower() in outcome.text.lower()
    assert day.read_bytes() == before
    assert notes.file.trouble == ""


def test_secrets_are_left_out_and_the_rest_is_kept_and_told(notes: Notes, day: Path) -> None:
    outcome = notes.run("append", "- the proxy listens on 8443\n- api_key: sk-abcdefghijklmnop\n- my PIN is 4711")
    assert not outcome.is_error
    assert "2 secrets left out" in outcome.text
    assert day.read_text().endswith(f"- the proxy listens on 8443\n- api_key: {MARK}\n- my PIN is {MARK}\n")
    assert [write.secrets for write in notes.file.writes] == [2]
    assert is_on_disk(WorkspaceFolder(day.parent.parent), notes.file.writes[0])


def test_only_what_the_user_consented_to_keep_stays(workspace: Path, day: Path) -> None:
    consented = consented_in("remember --keep the door code is 4711\nmy password is hunter22")
    assert consented == {"4711"}
    known = secret_values(["the door code is 4711", "my password is hunter22"])
    file = AppendOnlyFile(WorkspaceFolder(workspace), NOTE, lambda _write: None, known, consented=consented)
    outcome = file.add("", "- door code: 4711, password: hunter22. `remember --keep` PIN 9921", complete=False)
    assert day.read_text().endswith(f"- door code: 4711, password: {MARK}. `remember --keep` PIN {MARK}\n")
    assert "looks like a password and a lock code or a PIN; only the user keeps it" in outcome.text
    assert file.writes[0].kinds == ("password", "code")


@pytest.mark.parametrize(
    ("message", "kept"),
    load_table(__file__, "consent_is_the_beginning_of_a_message"),
)
def test_consent_is_the_beginning_of_a_message(message: str, kept: bool) -> None:
    assert consented_in(message) == ({"4711"} if kept else frozenset())


def test_a_secret_of_the_talk_is_left_out_in_other_words_too(workspace: Path, day: Path) -> None:
    file = AppendOnlyFile(WorkspaceFolder(workspace), NOTE, lambda _write: None, secret_values(["my PIN is 4711"]))
    file.add("", "- Opens the gate with 4711, not with 14711", complete=False)
    assert day.read_text().endswith(f"- Opens the gate with {MARK}, not with 14711\n")


def test_a_secret_that_the_user_wanted_in_the_note_stays_when_all_of_it_is_written_again(
    notes: Notes, day: Path
) -> None:
    day.write_text("- my PIN is 4711\n")
    notes.run("write", "- my PIN is 4711\n- the alarm code is 90210\n")
    assert day.read_text() == f"- my PIN is 4711\n- the alarm code is {MARK}\n"


def test_a_flood_of_text_is_stopped(notes: Notes, day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clawbot.tools.append_only.TOTAL_BYTES", 100)
    outcomes = [notes.run("append", f"- {number} {'x' * 36}") for number in range(4)]
    assert [outcome.is_error for outcome in outcomes] == [False, False, True, True]
    assert "too much" in outcomes[-1].text
    assert day.read_text().count("\n") == 3


@pytest.mark.parametrize(
    "write",
    [
        MemoryWrite("../outside/secret.txt", 0, 6, 1, 1, hashlib.sha256(b"secret").hexdigest()),
        MemoryWrite(NOTE, 0, 0, 1, 1, hashlib.sha256(b"").hexdigest()),
        MemoryWrite(NOTE, -1, 5, 1, 1, hashlib.sha256(b"proxy").hexdigest()),
        MemoryWrite(NOTE, 0, 6, 1, 1, hashlib.sha256(b"proxy").hexdigest()),
        MemoryWrite(NOTE, 1, 5, 1, 1, hashlib.sha256(b"proxy").hexdigest()),
        MemoryWrite("memory", 0, 5, 1, 1, hashlib.sha256(b"proxy").hexdigest()),
        MemoryWrite("memory/gone.md", 0, 5, 1, 1, hashlib.sha256(b"proxy").hexdigest()),
    ],
)
def test_what_is_not_on_disk_is_not_verified(workspace: Path, outside: Path, write: MemoryWrite) -> None:
    assert is_on_disk(WorkspaceFolder(workspace), MemoryWrite(NOTE, 0, 5, 1, 1, hashlib.sha256(b"proxy").hexdigest()))
    assert not is_on_disk(WorkspaceFolder(workspace), write)


TEXTS = st.text(st.sampled_from("ab 你\n\r-#"), max_size=30)


@given(before=TEXTS, text=TEXTS.filter(lambda text: bool(text.strip())))
def test_an_addition_is_whole_lines_behind_whole_lines(before: str, text: str) -> None:
    held = before.encode()
    added = addition(held, text)
    place = described("x.md", held + added, len(held), added)
    lines = (held + added).decode().split("\n")
    assert added.endswith(b"\n")
    assert not held or held.endswith(b"\n") or added[:1] in (b"\n", b"\r")
    assert place.end_line == len(lines) - 1
    assert lines[place.line - 1].strip()
    assert [line.strip() for line in lines[place.line - 1 : place.end_line]] == [
        line.strip() for line in text.strip().replace("\r\n", "\n").split("\n")
    ]


@given(before=TEXTS, text=TEXTS)
def test_the_rest_of_a_whole_text_is_part_of_it(before: str, text: str) -> None:
    rest = remainder(before.encode(), text)
    assert rest in text or rest in text.replace("\r\n", "\n")
    if plain := before.rstrip():
        assert remainder(before.encode(), f"{plain}\n- new").strip() == "- new"


PATHS = st.sampled_from([NOTE, "", "MEMORY.md", "../x", "/etc/hosts", "memory/../MEMORY.md", "memory/x.md"])


@settings(deadline=None, max_examples=60)
@given(
    st.binary(max_size=80).filter(lambda data: b"\0" not in data),
    st.lists(st.tuples(st.sampled_from(["append", "write", "edit"]), PATHS, TEXTS), max_size=5),
)
def test_no_calls_change_what_was_there(before: bytes, wanted: list[tuple[str, str, str]]) -> None:
    """Sheet 8.4: shown by the digest of the bytes that the file held."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "MEMORY.md").write_bytes(b"long term\n")
        (workspace / "memory").mkdir()
        (workspace / NOTE).write_bytes(before)
        file = AppendOnlyFile(WorkspaceFolder(workspace), NOTE, lambda _: None)
        digest = hashlib.sha256(before).hexdigest()
        for name, path, text in wanted:
            try:
                file.add(path, text, complete=name == "write")
            except ToolError:
                continue
            finally:
                now = (workspace / NOTE).read_bytes()
                assert hashlib.sha256(now[: len(before)]).hexdigest() == digest
        assert (workspace / "MEMORY.md").read_bytes() == b"long term\n"
        assert sorted(tree(workspace)) == ["MEMORY.md", NOTE]
        assert len(now if wanted else before) == len(before) + sum(write.size for write in file.writes)
        assert all(is_on_disk(WorkspaceFolder(workspace), write) for write in file.writes)


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("before", ["one\n会议", "one\r\n", ""])
def test_a_note_that_windows_wrote_is_added_to_in_its_encoding(
    notes: Notes, day: Path, workspace: Path, name: str, before: str
) -> None:
    head = f"\ufeff{before}".encode(name)
    day.write_bytes(head)
    outcome = notes.run("append", "- 新 fact\n")
    assert not outcome.is_error, outcome.text
    data = day.read_bytes()
    assert data.startswith(head)
    [line] = [line for line in data.decode(name).split("\n") if "fact" in line]
    assert line.strip("\r\ufeff") == "- 新 fact"
    [write] = notes.file.writes
    assert notes.announced == [write]
    number = data.decode(name).split("\n").index(line) + 1
    assert (write.line, write.end_line) == (number, number)
    assert is_on_disk(WorkspaceFolder(workspace), write)
    more = notes.run("write", data.decode(name).removeprefix("\ufeff") + "- more\n")
    assert not more.is_error, more.text
    assert day.read_bytes().decode(name).count("fact") == 1
    assert day.read_bytes().decode(name).replace("\r\n", "\n").endswith("- 新 fact\n- more\n")
