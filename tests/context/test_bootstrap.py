"""What of the workspace goes into the prompt: order, caps, refusals, and that an edit is seen at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import Struct

from clawbot.context.bootstrap import Bootstrap, load_bootstrap
from clawbot.files import MAX_GUARDED_BYTES

SEEDED = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"]


class Limits(Struct, frozen=True):
    max_chars: int = 20_000
    total_max_chars: int = 60_000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in [*SEEDED, "BOOTSTRAP.md", "MEMORY.md"]:
        (folder / name).write_text(f"text of {name}\n\n", encoding="utf-8")
    return folder


def load(workspace: Path, limits: Limits | None = None, *, main_session: bool = True) -> Bootstrap:
    return load_bootstrap(workspace, limits or Limits(), main_session=main_session)


def texts(bootstrap: Bootstrap) -> dict[str, str]:
    return {file.name: file.text for file in bootstrap.files}


def test_order_and_text(workspace: Path) -> None:
    bootstrap = load(workspace)
    assert [file.name for file in bootstrap.files] == [*SEEDED, "BOOTSTRAP.md", "MEMORY.md"]
    assert texts(bootstrap)["SOUL.md"] == "text of SOUL.md"
    assert bootstrap.notices == ()


def test_memory_is_for_the_main_session_alone(workspace: Path) -> None:
    (workspace / "memory.md").write_text("lower", encoding="utf-8")
    assert not {"MEMORY.md", "memory.md"} & set(texts(load(workspace, main_session=False)))


def test_one_of_the_two_spellings_of_memory_is_used(workspace: Path) -> None:
    (workspace / "memory.md").write_text("lower", encoding="utf-8")
    assert "memory.md" not in texts(load(workspace))
    (workspace / "MEMORY.md").unlink()
    (workspace / "memory.md").write_text("lower", encoding="utf-8")
    assert list(texts(load(workspace)).values())[-1] == "lower"


def test_missing_files(workspace: Path) -> None:
    for name in ["SOUL.md", "BOOTSTRAP.md", "MEMORY.md"]:
        (workspace / name).unlink()
    bootstrap = load(workspace)
    assert texts(bootstrap)["SOUL.md"] == f"[MISSING] Expected at: {workspace / 'SOUL.md'}"
    assert [file.name for file in bootstrap.files if file.missing] == ["SOUL.md"]
    assert not {"BOOTSTRAP.md", "MEMORY.md"} & set(texts(bootstrap))


def test_an_emptied_ritual_is_over(workspace: Path) -> None:
    (workspace / "BOOTSTRAP.md").write_text("\n", encoding="utf-8")
    assert "BOOTSTRAP.md" not in texts(load(workspace))


def test_an_edit_of_the_same_size_within_the_same_instant_is_seen(workspace: Path) -> None:
    path = workspace / "AGENTS.md"
    before = path.stat()
    assert texts(load(workspace))["AGENTS.md"] == "text of AGENTS.md"
    path.write_text("TEXT of AGENTS.md\n\n", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert texts(load(workspace))["AGENTS.md"] == "TEXT of AGENTS.md"


@pytest.mark.parametrize("kind", ["symlink out", "hard link", "too large", "pipe", "folder", "loop"])
def test_what_is_refused_counts_as_missing_and_is_reported(workspace: Path, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret", encoding="utf-8")
    path = workspace / "USER.md"
    path.unlink()
    match kind:
        case "symlink out":
            path.symlink_to(secret)
        case "hard link":
            path.hardlink_to(secret)
        case "too large":
            path.write_bytes(b"x" * (MAX_GUARDED_BYTES + 1))
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(path)
    bootstrap = load(workspace)
    assert texts(bootstrap)["USER.md"].startswith("[MISSING]")
    assert bootstrap.notice.startswith("USER.md is not in the prompt: it ")


def test_a_symlink_within_the_workspace_is_followed(workspace: Path) -> None:
    (workspace / "USER.md").unlink()
    (workspace / "USER.md").symlink_to("SOUL.md")
    assert texts(load(workspace))["USER.md"] == "text of SOUL.md"


def test_invalid_utf8_is_shown_and_reported(workspace: Path) -> None:
    (workspace / "USER.md").write_bytes(b"caf\xe9")
    bootstrap = load(workspace)
    assert texts(bootstrap)["USER.md"] == "caf\ufffd"
    assert "USER.md is not valid UTF-8" in bootstrap.notice


def test_a_long_file_keeps_head_and_tail_around_a_marker(workspace: Path) -> None:
    lines = "".join(f"line {n:05}\n" for n in range(1, 2501))
    (workspace / "AGENTS.md").write_text(lines, encoding="utf-8")
    file = load(workspace).files[0]
    assert file.truncated
    assert file.raw_chars == 27_499
    assert len(file.text) <= 20_000
    assert file.text.startswith("line 00001\n")
    assert file.text.endswith("line 02500")
    assert "kept 14000+4000 chars of 27499" in file.text
    assert "read AGENTS.md from line 1273 for the full content" in file.text


def test_the_total_is_shared_in_order_and_then_ends(workspace: Path) -> None:
    for name in SEEDED:
        (workspace / name).write_text(name[0] * 1000, encoding="utf-8")
    bootstrap = load(workspace, Limits(max_chars=2000, total_max_chars=2500))
    assert [len(file.text) for file in bootstrap.files] == [1000, 1000, 500]
    assert [file.truncated for file in bootstrap.files] == [False, False, True]
    assert bootstrap.files[-1].text.endswith("…")
    assert "bootstrap.total_max_chars is used up: USER.md, TOOLS.md, BOOTSTRAP.md, MEMORY.md." in bootstrap.notice


def test_placeholders_take_of_the_room(workspace: Path) -> None:
    (workspace / "AGENTS.md").unlink()
    placeholder = len(f"[MISSING] Expected at: {workspace / 'AGENTS.md'}")
    bootstrap = load(workspace, Limits(total_max_chars=placeholder + 63))
    assert [file.name for file in bootstrap.files] == ["AGENTS.md"]
