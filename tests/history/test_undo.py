"""Undo: byte by byte, what came later stays, and a contradiction changes nothing."""

from __future__ import annotations

import codecs
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawbot.authors import Author, recording
from clawbot.guarded import GuardedFolder
from clawbot.history import Change, History, HistoryError
from clawbot.tools.append_only import AppendOnlyFile
from clawbot.tools.folder import WorkspaceFolder
from tests.history.conftest import NOTE

CASES: list[dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["cases"]
FORMS: dict[str, Callable[[str], bytes]] = {
    "utf-8": str.encode,
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "utf-16": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
}
EDIT = Author("tool:edit", "s1", "agent:main:main", "e1")
UNDO = Author("chat:/undo", "s1", "agent:main:main")


def put(files: GuardedFolder, path: str, data: bytes | None) -> None:
    if data is None:
        files.erase(path)
    elif not files.create(path, data):
        files.replace(path, data)


def held(files: GuardedFolder, path: str) -> bytes | None:
    return files.read(path, 1000) if files.state(path) else None


def made(history: History, files: GuardedFolder, path: str, data: bytes | None, author: Author = EDIT) -> Change:
    with recording(history, author):
        put(files, path, data)
    return history.changes()[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_undo_restores_what_was_and_leaves_what_came_later(
    history: History, files: GuardedFolder, case: dict[str, Any], form: str
) -> None:
    before, after, now, result = (
        None if case.get(name, "gone") == "gone" else FORMS[form](case[name])
        for name in ("before", "after", "now", "result")
    )
    put(files, NOTE, before)
    change = made(history, files, NOTE, after)
    if now != after:
        put(files, NOTE, now)
    undone = history.undo(change.id[:6])
    assert bool(undone.conflict) is ("result" not in case)
    assert held(files, NOTE) == (result if "result" in case else now)
    newest = history.changes()[0]
    assert (newest.author.undoes, newest.id == undone.id) == ((change.id, True) if "result" in case else ("", False))


def test_undo_in_a_conversation_goes_back_step_by_step_and_repeats_nothing(
    history: History, files: GuardedFolder
) -> None:
    made(history, files, "MEMORY.md", b"other\n", Author("tool:edit", "s2"))
    made(history, files, NOTE, b"one\n")
    made(history, files, "MEMORY.md", b"dream\n", Author("dream"))
    made(history, files, NOTE, b"one\ntwo\n")
    made(history, files, "USER.md", b"by hand\n", Author("user", "s1"))
    paths = [history.undo_last(UNDO)[0].path for _ in range(3)]
    assert paths == [NOTE, "MEMORY.md", NOTE]
    with pytest.raises(HistoryError):
        history.undo_last(UNDO)
    assert [held(files, path) for path in ("MEMORY.md", NOTE, "USER.md")] == [b"other\n", None, b"by hand\n"]


def test_what_a_dream_wrote_at_once_is_undone_at_once(history: History, files: GuardedFolder) -> None:
    for path, job in (("MEMORY.md", "j1"), ("memory/garden.md", "j2"), ("MEMORY.md", "j2"), (NOTE, "j2")):
        made(history, files, path, f"{path} {job}\n".encode(), Author("dream", job=job))
    assert [undone.path for undone in history.undo_last(UNDO)] == [NOTE, "MEMORY.md", "memory/garden.md"]
    assert [held(files, path) for path in ("MEMORY.md", "memory/garden.md", NOTE)] == [b"MEMORY.md j1\n", None, None]
    assert [undone.path for undone in history.undo_last(UNDO)] == ["MEMORY.md"]


def test_an_undo_can_be_undone_and_the_change_then_undone_again(history: History, files: GuardedFolder) -> None:
    change = made(history, files, NOTE, b"a\n")
    undo = history.undo(change.id)
    with pytest.raises(HistoryError, match=f"undone already.*{undo.id}"):
        history.undo(change.id)
    history.undo(undo.id)
    assert held(files, NOTE) == b"a\n"
    assert history.undo_last(UNDO)[0].removed
    assert held(files, NOTE) is None


def test_a_note_that_was_renamed_is_named_as_before_and_found_by_its_changes(
    history: History, files: GuardedFolder
) -> None:
    first = made(history, files, NOTE, b"a\n")
    with recording(history, EDIT):
        files.rename(NOTE, "2026-11-20-trip.md")
    renamed = history.changes()[0]
    put(files, "memory/2026-11-20-trip.md", b"a\nb\n")
    assert [change.id for change in history.changes(renamed.path)] == [renamed.id, first.id]
    assert history.undo(first.id).path == renamed.path
    assert held(files, renamed.path) == b"b\n"
    assert history.undo(renamed.id).path == NOTE
    assert held(files, NOTE) == b"b\n"
    with pytest.raises(HistoryError, match="undone already"):
        history.undo(renamed.id)


@pytest.mark.parametrize("before", [b"", b"a", b"a\r\n", codecs.BOM_UTF16_LE + "a\n".encode("utf-16-le")])
def test_what_was_appended_is_taken_back_to_the_byte(history: History, files: GuardedFolder, before: bytes) -> None:
    put(files, NOTE, before or None)
    with recording(history, Author("flush", "s1")):
        AppendOnlyFile(WorkspaceFolder(files.root), NOTE, lambda _: None).add("", "- new\n- lines", complete=False)
    assert b"n" in (held(files, NOTE) or b"")
    [undone] = history.undo_last(UNDO)
    assert held(files, NOTE) == (before or None)
    assert undone.removed is (not before)


def test_an_undo_names_its_problem(history: History, files: GuardedFolder) -> None:
    ids = [made(history, files, NOTE, data).id for data in (b"a\n", b"b\n")]
    put(files, NOTE, b"a\n")
    put(files, "USER.md", b"c\n")
    added = made(history, files, "USER.md", b"c\nd\n").id
    put(files, "USER.md", b"e\nc\n")
    for ident, problem in (
        ("", "There is no change"),
        ("zz", "There is no change"),
        (ids[1], "nothing to undo"),
        (added, "Nothing of that is left"),
    ):
        with pytest.raises(HistoryError, match=problem):
            history.undo(ident)
    for path in history.folder.glob("objects/*/*"):
        path.write_bytes(b"damaged")
    with pytest.raises(HistoryError, match="not stored"):
        history.undo(ids[0])
