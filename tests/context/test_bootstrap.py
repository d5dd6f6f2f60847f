"""What of the workspace goes into the prompt: order, caps, refusals, and that an edit is seen at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import Struct

from clawbot.config.schema_agent import BootstrapSettings
from clawbot.context.bootstrap import Bootstrap, NamedText, apply_hooked, cap_bootstrap, read_bootstrap
from clawbot.context.privacy import privacy_of
from clawbot.guarded import MAX_GUARDED_BYTES
from tests.tables import load_table

SEEDED = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name in [*SEEDED, "BOOTSTRAP.md", "MEMORY.md"]:
        (folder / name).write_text(f"text of {name}\n\n", encoding="utf-8")
    return folder


class Named(Struct, frozen=True):
    name: str
    text: str


MAIN = "agent:main:main"
GROUP = "agent:main:telegram:group:12"


def load(workspace: Path, limits: BootstrapSettings | None = None, *, session: str = MAIN) -> Bootstrap:
    return cap_bootstrap(read_bootstrap(workspace, privacy_of(session)), limits or BootstrapSettings())


def hooked(workspace: Path, *named: Named, session: str = MAIN) -> Bootstrap:
    """The files as hooks leave them that add `named`."""
    privacy = privacy_of(session)
    read = read_bootstrap(workspace, privacy)
    return apply_hooked(read, [*read.files, *named], workspace, privacy)


def texts(bootstrap: Bootstrap) -> dict[str, str]:
    return {file.name: file.text for file in bootstrap.files}


def test_order_and_text(workspace: Path) -> None:
    bootstrap = load(workspace)
    assert [file.name for file in bootstrap.files] == [*SEEDED, "BOOTSTRAP.md", "MEMORY.md"]
    assert texts(bootstrap)["SOUL.md"] == "text of SOUL.md"
    assert bootstrap.notices == ()


@pytest.mark.parametrize(
    ("session", "files"),
    [
        (GROUP, "AGENTS.md SOUL.md IDENTITY.md TOOLS.md"),
        ("agent:main:cron:daily", "AGENTS.md SOUL.md IDENTITY.md USER.md TOOLS.md"),
        ("agent:main:subagent:2b1c", "AGENTS.md TOOLS.md"),
    ],
)
def test_each_kind_of_session_gets_its_files(workspace: Path, session: str, files: str) -> None:
    (workspace / "memory.md").write_text("lower", encoding="utf-8")
    assert list(texts(load(workspace, session=session))) == files.split()


def test_a_link_gives_a_group_nothing_of_the_user(workspace: Path) -> None:
    (workspace / "TOOLS.md").unlink()
    (workspace / "TOOLS.md").symlink_to("MEMORY.md")
    bootstrap = load(workspace, session=GROUP)
    assert texts(bootstrap)["TOOLS.md"].startswith("[MISSING]")
    assert bootstrap.notice == "TOOLS.md is not in the prompt: it is a symlink to what only the user may read."
    assert texts(load(workspace))["TOOLS.md"] == "text of MEMORY.md"


def test_hooks_add_change_and_take_away(workspace: Path) -> None:
    privacy = privacy_of(MAIN)
    read = read_bootstrap(workspace, privacy)
    kept: list[NamedText] = [
        Named("SOUL.md", "another soul \n"),
        read.files[0],
        Named("packages/a/AGENTS.md", "测试先行"),
    ]
    bootstrap = apply_hooked(read, kept, workspace, privacy)
    assert texts(bootstrap) == {
        "SOUL.md": "another soul",
        "AGENTS.md": "text of AGENTS.md",
        "packages/a/AGENTS.md": "测试先行",
    }
    assert bootstrap.files[2].path == workspace / "packages/a/AGENTS.md"
    assert bootstrap.notices == ()


def test_what_hooks_leave_alone_stays_as_it_was_read(workspace: Path) -> None:
    (workspace / "SOUL.md").unlink()
    assert hooked(workspace) == read_bootstrap(workspace, privacy_of(MAIN))


def test_what_hooks_add_is_filtered_again(workspace: Path) -> None:
    """Reference sheet 11.2: the session's filter counts behind the hooks as well."""
    (workspace / "docs").mkdir()
    (workspace / "docs" / "AGENTS.md").symlink_to("../MEMORY.md")
    added = [
        Named("MEMORY.md", "x"),
        Named("docs/USER.md", "x"),
        Named("notes.md", "x"),
        Named("docs/AGENTS.md", "x"),
        Named("packages/a/AGENTS.md", "kept"),
    ]
    bootstrap = hooked(workspace, *added, session=GROUP)
    assert list(texts(bootstrap)) == ["AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md", "packages/a/AGENTS.md"]
    assert "notes.md" in texts(hooked(workspace, *added))


@pytest.mark.parametrize(
    ("name", "notice"),
    load_table(__file__, "mistakes_of_hooks_are_told_and_left_out"),
)
def test_mistakes_of_hooks_are_told_and_left_out(workspace: Path, tmp_path: Path, name: str, notice: str) -> None:
    (workspace / "out").symlink_to(tmp_path)
    bootstrap = hooked(workspace, Named(name, "x"))
    assert bootstrap.files == read_bootstrap(workspace, privacy_of(MAIN)).files
    assert bootstrap.notice == f"A file that a hook added is not in the prompt: {notice}."


def test_a_file_that_two_hooks_add_is_there_once(workspace: Path) -> None:
    bootstrap = hooked(workspace, Named("a/AGENTS.md", "first"), Named("a/AGENTS.md", "second"))
    assert texts(bootstrap)["a/AGENTS.md"] == "first"
    assert bootstrap.notice == "A hook added a/AGENTS.md twice; the first one is in the prompt."


def test_limits_count_behind_the_hooks(workspace: Path) -> None:
    capped = cap_bootstrap(hooked(workspace, Named("a/AGENTS.md", "x" * 900)), BootstrapSettings(max_chars=200))
    assert len(capped.files[-1].text) <= 200
    assert "a/AGENTS.md is cut in the prompt: 900 characters" in capped.notice


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


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-8"])
def test_a_file_of_windows_is_read_by_its_mark(workspace: Path, name: str) -> None:
    (workspace / "AGENTS.md").write_bytes("\ufeff# 会议\nBe kind.".encode(name))
    bootstrap = load(workspace)
    assert texts(bootstrap)["AGENTS.md"] == "# 会议\nBe kind."
    assert bootstrap.notice == ""


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
    bootstrap = load(workspace, BootstrapSettings(max_chars=2000, total_max_chars=2500))
    assert [len(file.text) for file in bootstrap.files] == [1000, 1000, 500]
    assert [file.truncated for file in bootstrap.files] == [False, False, True]
    assert bootstrap.files[-1].text.endswith("…")
    assert "bootstrap.total_max_chars is used up: USER.md, TOOLS.md, BOOTSTRAP.md, MEMORY.md." in bootstrap.notice


def test_placeholders_take_of_the_room(workspace: Path) -> None:
    (workspace / "AGENTS.md").unlink()
    placeholder = len(f"[MISSING] Expected at: {workspace / 'AGENTS.md'}")
    bootstrap = load(workspace, BootstrapSettings(total_max_chars=placeholder + 63))
    assert [file.name for file in bootstrap.files] == ["AGENTS.md"]
