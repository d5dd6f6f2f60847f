"""The program's own rewrites: what somebody saves between the read and the write is never lost, whatever is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.agent.notes import NoteRequest, keep_note
from clawbot.config.env import save_key
from clawbot.config.mcp_file import change_servers
from clawbot.config.paths import Paths
from clawbot.errors import ClawbotError
from clawbot.forget.files import FileEditor
from clawbot.tools.workspace_files import read_workspace_file, write_workspace_file

NOW = datetime(2026, 11, 20, 16, 12, tzinfo=UTC)
SESSION = "0a1b2c3d-1111-4111-8111-111111111111"
NOTE = f"# Session\n\n- **Session ID**: {SESSION}\n\nuser: hello\n"
MINE = "- added by hand 手写\n"

Write = Callable[[Path], object]


def _forget(path: Path) -> bool:
    return FileEditor(path.parent, dry_run=False).change(path, lambda data: data.replace(b"- tea\n", b""))


def _forget_all(path: Path) -> bool:
    def none_of_ours(data: bytes) -> bytes | None:
        _save(path, data, once=True)
        return None if data == b"- tea\n" else data.replace(b"- tea\n", b"")

    return FileEditor(path.parent, dry_run=False).change(path, none_of_ours)


def _note(path: Path) -> object:
    request = NoteRequest(SESSION, NOW.timestamp() - 60, f"{NOTE}\nuser: and more\n", "plan", NOW, NOW.timestamp())
    return keep_note(path.parents[1], request, lambda _write: None)


def _edit(path: Path) -> None:
    known = read_workspace_file(path.parent, path.name)
    write_workspace_file(path.parent, path.name, f"{known}- coffee\n", known)


def _save(path: Path, before: bytes, *, once: bool = False, by: str = "rename") -> None:
    """Save `before` with a line more, as an editor does."""
    if once and MINE.encode() in before:
        return
    wide = before.startswith(b"\xff\xfe")
    data = before + MINE.encode("utf-16-le" if wide else "utf-8")
    if by == "rename":
        path.with_suffix(".swp").write_bytes(data)
        path.with_suffix(".swp").replace(path)
    else:
        path.write_bytes(data)


# The writer, its file and what that holds; whether it writes over the new content, or refuses in words.
REWRITES: dict[str, tuple[Write, str, bytes, str]] = {
    "forget a line": (_forget, "notes.md", b"# Plan\n- tea\n", ""),
    "forget in Windows' lines": (_forget, "notes.md", b"\xef\xbb\xbf# Plan\r\n- tea\n", ""),
    "forget a whole note": (_forget_all, "notes.md", b"- tea\n", ""),
    "the note of a session": (_note, "memory/2026-11-20-plan.md", NOTE.encode(), ""),
    "a key": (lambda path: save_key(Paths(path.parent), "A", "1"), ".env", b"B='2'\n", "another program: try again"),
    "a server": (
        lambda path: change_servers(path, {"new": {"command": "x"}}), "mcp.json",
        b'{"mcpServers": {"old": {"command": "y"}}}\n// ', "another program: try again",
    ),
    "/edit": (_edit, "notes.md", b"# Plan\n- tea\n", "save again"),
    "/edit in UTF-16": (_edit, "notes.md", "# 计划\n- tea\n".encode("utf-16"), "save again"),
    "/edit of an empty file": (_edit, "notes.md", b"", "save again"),
}  # fmt: skip


@pytest.mark.parametrize("by", ["rename", "in place"])
@pytest.mark.parametrize("name", REWRITES)
def test_what_is_saved_at_the_last_moment_stays(
    tmp_path: Path, name: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, file, before, refusal = REWRITES[name]
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(before)
    genuine = os.fsync

    def saved_meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", genuine)
        genuine(handle)
        _save(path, before, by=by)

    monkeypatch.setattr(os, "fsync", saved_meanwhile)
    problem = ""
    try:
        write(path)
    except ClawbotError as error:
        problem = str(error)
    after = path.read_bytes()
    assert MINE in after.decode("utf-16" if after.startswith(b"\xff\xfe") else "utf-8")
    assert refusal in problem
    assert bool(problem) == bool(refusal)
    assert refusal or b"- tea\n" not in after
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    if refusal:
        write(path)
        assert path.read_bytes() != after, "it is written as soon as nobody interferes"
