"""Which files are memory, how they are read, and what survives bad files, links and files that go away."""

from __future__ import annotations

import contextlib
import errno
import os
import time
import unicodedata
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clawbot.config.schema_memory import ExtraPath
from clawbot.files import version_of
from clawbot.memory.documents import memory_files, walking
from clawbot.memory.documents.days import date_of
from clawbot.memory.documents.memory_files import (
    UNSETTLED,
    DocumentSource,
    ForbiddenPathError,
    MemoryDocuments,
    UnreadableDocumentError,
)
from clawbot.memory.documents.walking import FileState
from clawbot.memory.values import Issue
from clawbot.text.encoding import decoded

NO_RIGHTS = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    write(folder / "MEMORY.md", "# Memory\n- 喜欢乌龙茶\n")
    write(folder / "memory" / "2026-03-02.md", "- proxy on 8443\n")
    return folder


@pytest.fixture(autouse=True)
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads happen a minute after all writes, unless a test says otherwise."""
    read_after(60, monkeypatch)


def read_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on files are read so long after they were written: no program can set back when that was."""
    monkeypatch.setattr(memory_files, "time", SimpleNamespace(time_ns=lambda: time.time_ns() + int(seconds * 1e9)))


def write(path: Path, text: str | bytes = "text\n") -> Path:
    """A file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def documents(workspace: Path, *extras: ExtraPath | Path | str) -> MemoryDocuments:
    found = [extra if isinstance(extra, ExtraPath) else ExtraPath(path=Path(extra)) for extra in extras]
    return MemoryDocuments(workspace, found)


def paths(source: MemoryDocuments) -> list[str]:
    return [state.path for state in source.list().files]


def state(path: str) -> FileState:
    return FileState(path, "memory", 0, 0)


def test_it_is_a_document_source(workspace: Path) -> None:
    source: DocumentSource = documents(workspace)
    assert source.source == "memory"


def test_the_order_of_the_listing_is_fixed(workspace: Path, tmp_path: Path) -> None:
    write(workspace / "memory.md")
    write(workspace / "memory" / "b" / "deep" / "x.md")
    write(workspace / "memory" / "a" / "会议.md")
    write(workspace / "memory" / "z.md")
    write(tmp_path / "notes" / "n.md")
    assert paths(documents(workspace, tmp_path / "notes")) == [
        "MEMORY.md",
        "memory.md",
        "memory/2026-03-02.md",
        "memory/z.md",
        "memory/a/会议.md",
        "memory/b/deep/x.md",
        "../notes/n.md",
    ]


def test_size_and_time_are_in_the_state(workspace: Path) -> None:
    found = (workspace / "MEMORY.md").stat()
    assert documents(workspace).list().files[0] == FileState("MEMORY.md", "memory", found.st_size, found.st_ctime_ns)


def test_only_files_of_markdown_and_no_folders_of_tools(workspace: Path) -> None:
    for name in ("x.txt", "x.md.tmp", ".git/x.md", "node_modules/x.md", "sub/.venv/x.md"):
        write(workspace / "memory" / name)
    write(workspace / "NOTES.md")
    (workspace / "memory" / "folder.md").mkdir()
    listing = documents(workspace).list()
    assert [found.path for found in listing.files] == ["MEMORY.md", "memory/2026-03-02.md"]
    assert listing.issues == ()


@pytest.mark.parametrize("name", ["UPPER.MD", "2026-03-04.Md", "long.markdown", "2026-03-05-TALK.MARKDOWN"])
def test_every_ending_of_markdown_is_one(workspace: Path, name: str) -> None:
    file = write(workspace / "memory" / name, "- otter\n")
    source = documents(workspace)
    assert f"memory/{name}" in paths(source)
    found = source.read_path(f"memory/{name}")
    assert found is not None
    assert (found.text, found.date is not None) == ("- otter\n", name.startswith("2026"))
    assert source.owns(file)


@pytest.mark.parametrize("name", [".trash/x.md", ".obsidian/a/x.md", "sub/.hidden/x.md", ".x.md", "sub/.#lock.md"])
def test_hidden_files_and_folders_are_no_memory(workspace: Path, name: str) -> None:
    file = write(workspace / "memory" / name)
    source = documents(workspace)
    assert paths(source) == ["MEMORY.md", "memory/2026-03-02.md"]
    assert source.list().issues == ()
    assert not source.owns(file)
    assert not source.owns(workspace / "memory" / ".trash")
    with pytest.raises(ForbiddenPathError, match="no memory file"):
        source.read_path(f"memory/{name}")


def test_hidden_files_are_memory_where_the_settings_name_them(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / ".vault" / "a.md")
    write(tmp_path / ".vault" / ".trash" / "b.md")
    assert paths(documents(workspace, tmp_path / ".vault"))[2:] == ["../.vault/a.md"]
    named = documents(workspace, ExtraPath(path=tmp_path / ".vault", pattern=".trash/*.md"))
    assert paths(named)[2:] == ["../.vault/.trash/b.md"]
    assert named.owns(tmp_path / ".vault" / ".trash" / "b.md")


@pytest.mark.parametrize("name", [".git/x.md", "笔记/node_modules/x.md", "sub/.venv/deep/x.md"])
def test_what_is_in_folders_of_tools_cannot_be_asked_for(workspace: Path, name: str) -> None:
    path = write(workspace / "memory" / name)
    for asked in (f"memory/{name}", str(path)):
        with pytest.raises(ForbiddenPathError, match="no memory file"):
            documents(workspace).read_path(asked)


def test_a_folder_of_tools_that_is_configured_is_memory(workspace: Path) -> None:
    write(workspace / "memory" / ".venv" / "x.md", "text\n")
    source = documents(workspace, "memory/.venv")
    found = source.read_path("memory/.venv/x.md")
    assert found is not None
    assert found.state.path in paths(source)
    assert source.owns(workspace / "memory" / ".venv" / "x.md")


def test_extra_paths_are_files_folders_and_patterns(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "one.md")
    for name in ("a.md", "deep/b.md", "deep/c.txt", "deep/deeper/d.txt"):
        write(tmp_path / "notes" / name)
    write(workspace / "docs" / "e.md")
    source = documents(
        workspace,
        tmp_path / "one.md",
        ExtraPath(path=tmp_path / "notes", pattern="deep/*.{md,txt}"),
        "docs",
    )
    assert paths(source)[2:] == ["../one.md", "../notes/deep/b.md", "../notes/deep/c.txt", "docs/e.md"]


def test_the_workspace_itself_as_an_extra_path(workspace: Path) -> None:
    write(workspace / "plan.md")
    assert paths(documents(workspace, ".")) == ["MEMORY.md", "memory/2026-03-02.md", "plan.md"]


def test_an_extra_path_that_gives_nothing_is_reported(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "x.txt")
    assert documents(workspace, tmp_path / "gone", tmp_path / "x.txt").list().issues == (
        Issue("../gone", "it is not there"),
        Issue("../x.txt", "only files that end with .md or .markdown are indexed"),
    )


def test_a_missing_workspace_is_an_issue_and_a_missing_memory_is_none(tmp_path: Path) -> None:
    assert documents(tmp_path).list() == walking.Listing((), ())
    listing = documents(tmp_path / "gone").list()
    assert listing.files == ()
    assert [issue.path for issue in listing.issues] == [str(tmp_path / "gone")]
    assert list(listing.hidden) == ["MEMORY.md", "memory.md", "memory"]


def test_extra_paths_outside_of_a_missing_workspace_are_listed(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "beside" / "笔记.md")
    source = documents(workspace, tmp_path / "beside", tmp_path / "disk" / "notes", tmp_path / "deleted", "inside")
    workspace.rename(tmp_path / "moved")
    listing = source.list()
    assert [found.path for found in listing.files] == ["../beside/笔记.md"]
    assert sorted(listing.hidden) == ["../disk/notes", "MEMORY.md", "inside", "memory", "memory.md"]
    assert [issue.path for issue in listing.issues] == ["../disk/notes", "../deleted", str(workspace)]


def test_a_workspace_that_goes_away_while_it_is_listed_hides_its_files(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.scandir
    (tmp_path / "nothing").mkdir()

    def vanish(_: int) -> contextlib.AbstractContextManager[Iterator[os.DirEntry[str]]]:
        workspace.rename(tmp_path / "moved")
        return real(tmp_path / "nothing")

    source = documents(workspace)
    monkeypatch.setattr(os, "scandir", vanish)
    assert "memory" in source.list().hidden


def test_links_are_not_followed_and_reported(workspace: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "secret.md")
    (workspace / "memory" / "link.md").symlink_to(outside)
    (workspace / "memory" / "linked").symlink_to(outside.parent)
    (workspace / "memory" / "dangling.md").symlink_to(tmp_path / "nowhere")
    (workspace / "MEMORY.md").unlink()
    (workspace / "MEMORY.md").symlink_to(outside)
    (tmp_path / "extra").symlink_to(outside.parent)
    listing = documents(workspace, tmp_path / "extra").list()
    assert [found.path for found in listing.files] == ["memory/2026-03-02.md"]
    assert [issue.path for issue in listing.issues] == [
        "MEMORY.md",
        "memory/dangling.md",
        "memory/link.md",
        "memory/linked",
        "../extra",
    ]
    folder = "it is a link to a folder, and links are not followed: name what it leads to in extra_paths"
    told = {issue.path: issue.text for issue in listing.issues}
    assert (told["memory/linked"], told["../extra"]) == (folder, folder)
    assert {told[path] for path in told if path.endswith(".md")} == {"it is a symlink, and links are not followed"}
    # As the remedy says.
    assert "../outside/secret.md" in paths(documents(workspace, outside.parent))


def test_a_memory_folder_that_is_a_link_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    (workspace / "memory").rename(tmp_path / "elsewhere")
    (workspace / "memory").symlink_to(tmp_path / "elsewhere")
    listing = documents(workspace).list()
    assert [found.path for found in listing.files] == ["MEMORY.md"]
    assert [issue.path for issue in listing.issues] == ["memory"]


def test_a_workspace_behind_a_link_works(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "way").symlink_to(workspace)
    source = documents(tmp_path / "way")
    assert paths(source) == ["MEMORY.md", "memory/2026-03-02.md"]
    assert source.read_path("MEMORY.md") is not None


def test_a_file_with_two_names_is_listed_once(workspace: Path) -> None:
    os.link(workspace / "MEMORY.md", workspace / "memory.md")
    os.link(workspace / "memory" / "2026-03-02.md", workspace / "memory" / "again.md")
    source = documents(workspace, "memory", "memory/2026-03-02.md", workspace / "MEMORY.md")
    assert paths(source) == ["MEMORY.md", "memory/2026-03-02.md"]


def test_what_is_no_plain_file_is_reported_and_never_opened(workspace: Path) -> None:
    os.mkfifo(workspace / "memory" / "pipe.md")
    listing = documents(workspace).list()
    assert listing.issues == (Issue("memory/pipe.md", "it is no plain file"),)
    with pytest.raises(UnreadableDocumentError, match="no plain file"):
        documents(workspace).read(state("memory/pipe.md"))


def test_a_name_that_is_no_utf_8_is_reported(workspace: Path) -> None:
    name = b"caf\xe9.md"
    try:
        Path(os.fsdecode(bytes(workspace / "memory") + b"/" + name)).write_text("x", encoding="utf-8")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    listing = documents(workspace).list()
    assert [found.path for found in listing.files] == ["MEMORY.md", "memory/2026-03-02.md"]
    [issue] = listing.issues
    assert issue.path.encode()
    assert "not UTF-8" in issue.text


def test_a_file_that_is_too_large_is_reported(workspace: Path) -> None:
    os.truncate(write(workspace / "memory" / "dump.md"), walking.MAX_FILE_BYTES + 1)
    listing = documents(workspace).list()
    assert listing.issues == (Issue("memory/dump.md", "it is larger than 20 MB and not indexed"),)
    with pytest.raises(UnreadableDocumentError, match="larger than 20 MB"):
        documents(workspace).read(state("memory/dump.md"))


@NO_RIGHTS
def test_what_may_not_be_read_is_reported(workspace: Path) -> None:
    (workspace / "memory" / "2026-03-02.md").chmod(0)
    with pytest.raises(UnreadableDocumentError, match="permission"):
        documents(workspace).read(state("memory/2026-03-02.md"))
    (workspace / "memory").chmod(0)
    try:
        assert [issue.path for issue in documents(workspace).list().issues] == ["memory"]
    finally:
        (workspace / "memory").chmod(0o700)


def test_a_folder_that_cannot_be_listed_is_reported(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    listing = documents(workspace).list()
    assert [found.path for found in listing.files] == ["MEMORY.md"]
    assert listing.issues == (Issue("memory", "it can't be read: give yourself permission to read it"),)
    assert listing.hidden == {"memory": listing.issues[0]}


@pytest.mark.parametrize(("number", "hides"), [(errno.EIO, True), (errno.EACCES, True), (errno.ELOOP, False)])
def test_a_folder_that_cannot_be_opened_hides_what_is_below(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, number: int, hides: bool
) -> None:
    write(workspace / "memory" / "sub" / "x.md")
    real = os.open

    def refuse(path: str, flags: int, **options: int) -> int:
        if path == "sub":
            raise OSError(number, os.strerror(number))
        return real(path, flags, **options)

    monkeypatch.setattr(os, "open", refuse)
    listing = documents(workspace).list()
    assert [found.path for found in listing.files] == ["MEMORY.md", "memory/2026-03-02.md"]
    assert [issue.path for issue in listing.issues] == ["memory/sub"]
    assert list(listing.hidden) == (["memory/sub"] if hides else [])


def test_a_root_whose_folder_refuses_is_hidden(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "lstat", refuse)
    assert list(documents(workspace).list().hidden) == ["MEMORY.md", "memory.md", "memory"]


def test_what_is_hidden() -> None:
    assert walking.is_hidden("memory/a.md", ["memory"])
    assert walking.is_hidden("memory", ["x", "memory"])
    assert not walking.is_hidden("memory-2/a.md", ["memory"])
    assert walking.is_hidden("记忆/a.md", [""])
    assert not walking.is_hidden("../a.md", [""])
    assert not walking.is_hidden("a.md", [])


def test_too_many_issues_are_summed_up(workspace: Path) -> None:
    for number in range(walking.MAX_ISSUES + 20):
        (workspace / "memory" / f"{number}.md").symlink_to("nowhere")
    issues = documents(workspace).list().issues
    assert len(issues) == walking.MAX_ISSUES + 1
    assert issues[-1].text == "20 more files could not be taken"


@pytest.mark.long
def test_a_folder_tree_that_is_very_deep(workspace: Path) -> None:
    folder = workspace / "memory"
    for _ in range(1_200):
        folder = folder / "d"
        folder.mkdir()
    (folder / "x.md").write_text("deep", encoding="utf-8")
    try:
        assert paths(documents(workspace))[-1].endswith("d/d/x.md")
    finally:
        # What clears temporary folders away goes down by recursion, and would not reach the ground.
        (folder / "x.md").unlink()
        while folder.name == "d":
            folder.rmdir()
            folder = folder.parent


def test_reading_gives_text_digest_state_and_date(workspace: Path) -> None:
    source = documents(workspace)
    listed = source.list().files[1]
    found = source.read(listed)
    assert found is not None
    assert (found.state, found.text, found.date) == (listed, "- proxy on 8443\n", date(2026, 3, 2))
    assert found.digest == bytes.fromhex(version_of(b"- proxy on 8443\n"))
    assert len(found.digest) == 16


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\xef\xbb\xbf# \xe6\xa0\x87\xe9\xa2\x98\n", "# 标题\n"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\rb\n", "a\rb\n"),
        (b"a\0b\n", "a\ufffdb\n"),
        (b"", ""),
        *(
            ("\ufeff# 会议\r\n- ibis\r\n".encode(name), "# 会议\n- ibis\n")
            for name in ("utf-16-le", "utf-16-be", "utf-32-le")
        ),
    ],
)
def test_marks_and_line_breaks_of_other_systems(workspace: Path, raw: bytes, text: str) -> None:
    write(workspace / "memory" / "x.md", raw)
    found = documents(workspace).read(state("memory/x.md"))
    assert found is not None
    assert found.text == text
    assert found.digest == bytes.fromhex(version_of(raw))
    assert text.count("\n") == raw.count(b"\n")


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_read_or_refused(workspace: Path, raw: bytes) -> None:
    write(workspace / "memory" / "x.md", raw)
    source = documents(workspace)
    try:
        text = decoded(raw)
    except UnicodeDecodeError:
        with pytest.raises(UnreadableDocumentError):
            source.read(state("memory/x.md"))
        return
    found = source.read(state("memory/x.md"))
    assert found is not None
    assert found.text.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"one\ntwo\n\xff\xfe", "not UTF-8 (line 3)"),
        ("会议".encode("utf-16") + b"x", "it is broken UTF-16"),
        ("会议".encode("gbk"), "line 1"),
    ],
)
def test_what_is_no_utf_8_is_refused_by_name(workspace: Path, raw: bytes, reason: str) -> None:
    write(workspace / "memory" / "x.md", raw)
    with pytest.raises(UnreadableDocumentError) as caught:
        documents(workspace).read(state("memory/x.md"))
    assert reason in caught.value.message
    assert caught.value.message.startswith("memory/x.md: ")
    assert caught.value.issue.text.endswith("save it as UTF-8 to have it indexed")


def test_a_file_that_vanished_is_no_error(workspace: Path) -> None:
    source = documents(workspace)
    listed = source.list().files[1]
    (workspace / "memory" / "2026-03-02.md").unlink()
    assert source.read(listed) is None
    (workspace / "memory").rmdir()
    (workspace / "memory").write_text("a file now", encoding="utf-8")
    assert source.read(listed) is None


def test_a_file_that_vanishes_while_it_is_listed_is_no_error(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    class Vanishing:
        """Lists a folder, then has its files deleted."""

        def __init__(self, folder: int) -> None:
            with real(folder) as entries:
                self.entries = list(entries)
            (workspace / "memory" / "2026-03-02.md").unlink()

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(os, "scandir", Vanishing)
    assert documents(workspace).list() == walking.Listing(documents(workspace).list().files, ())


def test_a_file_that_became_a_link_is_refused(workspace: Path, tmp_path: Path) -> None:
    source = documents(workspace)
    listed = source.list().files[1]
    secret = write(tmp_path / "outside" / "2026-03-02.md", "secret")
    (workspace / "memory" / "2026-03-02.md").unlink()
    (workspace / "memory" / "2026-03-02.md").symlink_to(secret)
    with pytest.raises(UnreadableDocumentError, match="symlink"):
        source.read(listed)
    (workspace / "memory" / "2026-03-02.md").unlink()
    (workspace / "memory").rmdir()
    (workspace / "memory").symlink_to(secret.parent)
    with pytest.raises(UnreadableDocumentError, match="symlink"):
        source.read(listed)


def test_a_time_that_was_set_back_hides_no_change(workspace: Path) -> None:
    source = documents(workspace)
    path = workspace / "memory" / "2026-03-02.md"
    os.utime(path, (1_577_836_800, 1_577_836_800))
    before = source.list().files[1]
    changed = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed:  # the next tick of the file system's clock
        write(path, "- proxy on 9443\n")
        os.utime(path, (1_577_836_800, 1_577_836_800))
    after = source.list().files[1]
    assert (after.path, after.size) == (before.path, before.size)
    assert after != before


def test_a_file_written_a_moment_ago_is_read_again(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes within one tick of the file system's clock leave the same time, and may leave the same size."""
    source = documents(workspace)
    read_after(0, monkeypatch)
    write(workspace / "memory" / "now.md", "version 1")
    found = source.read(state("memory/now.md"))
    assert found is not None
    assert found.state.mtime_ns == UNSETTLED
    assert found.state not in source.list().files
    read_after(30, monkeypatch)
    again = source.read(state("memory/now.md"))
    assert again is not None
    assert again.state in source.list().files


def test_where_times_are_whole_seconds_a_moment_is_longer(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(workspace / "memory" / "fat.md")
    read_after(1, monkeypatch)
    monkeypatch.setattr(memory_files, "change_time", lambda _: time.time_ns() // 10**9 * 10**9)
    found = documents(workspace).read(state("memory/fat.md"))
    assert found is not None
    assert found.state.mtime_ns == UNSETTLED


@pytest.mark.parametrize(
    "asked", ["MEMORY.md", "./MEMORY.md", "memory/2026-03-02.md", "memory/sub/../2026-03-02.md", " MEMORY.md "]
)
def test_memory_files_may_be_read_by_path(workspace: Path, asked: str) -> None:
    source = documents(workspace)
    assert source.locate(asked).is_file()
    assert source.read_path(asked) is not None
    assert source.read_path(str(workspace / asked.strip())) is not None


def test_what_is_not_there_yet_is_located_and_empty(workspace: Path) -> None:
    source = documents(workspace)
    assert source.locate("memory/2026-11-21.md") == workspace / "memory" / "2026-11-21.md"
    assert source.read_path("memory/2026-11-21.md") is None
    assert source.read_path("memory/no/such/folder.md") is None
    assert source.read_path(f"memory/{'x' * 300}.md") is None


@pytest.mark.parametrize(
    "asked",
    [
        *["", "  ", ".", "..", "/etc/passwd", "../MEMORY.md", "memory/../AGENTS.md", "memory/../../x.md", "memory"],
        *["AGENTS.md", "memory/x.txt", "memoryx/y.md", "xMEMORY.md", "~/MEMORY.md", "~nobody/x.md", "/memory/x.md"],
        *["sessions/a.jsonl", "\ud800.md"],
    ],
)
def test_other_paths_are_refused(workspace: Path, asked: str) -> None:
    with pytest.raises(ForbiddenPathError) as caught:
        documents(workspace).locate(asked)
    assert caught.value.message.encode()


@pytest.mark.parametrize("asked", ["memory/a\0b.md", "memory/\ud800.md"])
def test_names_that_no_file_can_have_are_no_error_of_the_program(workspace: Path, asked: str) -> None:
    source = documents(workspace)
    with pytest.raises((ForbiddenPathError, UnreadableDocumentError)):
        source.read_path(asked)


def test_extra_paths_may_be_read_by_path(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "notes" / "deep" / "a.md")
    write(tmp_path / "notes" / "b.txt")
    write(tmp_path / "one.md")
    source = documents(workspace, tmp_path / "notes", tmp_path / "one.md")
    for asked in ("../notes/deep/a.md", str(tmp_path / "notes" / "deep" / "a.md"), "../one.md"):
        assert source.read_path(asked) is not None
    for asked in ("../notes/b.txt", "../two.md", "../notes.md"):
        with pytest.raises(ForbiddenPathError):
            source.locate(asked)


def test_links_are_refused_by_path(workspace: Path, tmp_path: Path) -> None:
    secret = write(tmp_path / "outside" / "secret.md")
    (workspace / "memory" / "link.md").symlink_to(secret)
    (workspace / "memory" / "linked").symlink_to(secret.parent)
    (workspace / "memory" / "folder.md").mkdir()
    source = documents(workspace)
    for asked in ("memory/link.md", "memory/linked/secret.md", "memory/folder.md"):
        with pytest.raises(ForbiddenPathError, match="refused"):
            source.locate(asked)


def test_folders_to_watch(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "notes" / "a.md")
    write(tmp_path / "single" / "one.md")
    source = documents(workspace, tmp_path / "notes", tmp_path / "single" / "one.md", tmp_path / "gone" / "x")
    assert source.watched() == (workspace, workspace / "memory", tmp_path / "notes", tmp_path / "single")
    (workspace / "memory" / "2026-03-02.md").unlink()
    (workspace / "memory").rmdir()
    assert workspace / "memory" not in source.watched()


def test_whose_change_matters(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / "notes" / "a.md")
    (workspace / "memory" / "sub").mkdir()
    source = documents(workspace, tmp_path / "notes")
    owned = ["MEMORY.md", "memory.md", "memory/x.md", "memory/sub/新.md", "memory/sub", "memory/gone", "memory"]
    for name in owned:
        assert source.owns(workspace / name), name
    assert source.owns(tmp_path / "notes" / "deep" / "b.md")
    assert source.owns(tmp_path / "notes")
    others = ["AGENTS.md", "memory/.x.md.k2.tmp", "memory/x.txt", "memory/.git/x.md", "memory/node_modules", "src/x.md"]
    for name in others:
        assert not source.owns(workspace / name), name
    assert not source.owns(tmp_path / "other.md")
    assert not source.owns(workspace)


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("memory/2026-03-02.md", date(2026, 3, 2)),
        ("memory/sub/deep/2026-03-02-api-design.md", date(2026, 3, 2)),
        ("memory/2024-02-29.md", date(2024, 2, 29)),
        ("memory/2026-02-29.md", None),
        ("memory/2026-13-01.md", None),
        ("memory/2026-03-021.md", None),
        ("memory/x-2026-03-02.md", date(2026, 3, 2)),
        ("MEMORY.md", None),
        ("../notes/2026-03-02.md", date(2026, 3, 2)),
        ("memory/２０２６-03-02.md", date(2026, 3, 2)),
        ("sessions/2026-03-02.jsonl", None),
    ],
)
def test_the_day_of_a_note(path: str, day: date | None) -> None:
    assert date_of(path) == day


def test_more_entries_than_anybody_has_notes_are_left_out_and_told(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write(workspace / "memory" / f"{number // 5}" / f"{number:02}.md")
    monkeypatch.setattr(walking, "MAX_TREE_ENTRIES", 25)
    assert len(paths(documents(workspace))) == 22
    monkeypatch.setattr(walking, "MAX_TREE_ENTRIES", 12)
    listing = documents(workspace).list()
    assert len(listing.files) <= 13
    assert [issue for issue in listing.issues if "more than 12 entries" in issue.text]
    assert "memory" in listing.hidden


# -- names in another Unicode form -------------------------------------------------------------------------------------

TYPED = "memory/Überblick-größe.md"
FROM_A_MAC = unicodedata.normalize("NFD", TYPED)


def test_a_file_from_a_mac_is_read_by_the_name_that_is_typed(workspace: Path) -> None:
    write(workspace / FROM_A_MAC, "- the ibis\n")
    found = documents(workspace).read_path(TYPED)
    assert found is not None
    assert (found.text, found.state.path) == ("- the ibis\n", FROM_A_MAC)
    assert documents(workspace).locate(str(workspace / TYPED)) == workspace / FROM_A_MAC


def test_two_files_that_look_the_same_are_told_and_each_is_itself(workspace: Path) -> None:
    write(workspace / FROM_A_MAC, "- decomposed\n")
    write(workspace / TYPED, "- composed\n")
    if len(list((workspace / "memory").iterdir())) < 3:
        pytest.skip("this file system takes both for one")
    source = documents(workspace)
    for path, text in ((TYPED, "- composed\n"), (FROM_A_MAC, "- decomposed\n")):
        found = source.read_path(path)
        assert found is not None
        assert found.text == text
    listing = source.list()
    assert {TYPED, FROM_A_MAC} <= {found.path for found in listing.files}
    assert {issue.path for issue in listing.issues} == {TYPED, FROM_A_MAC}
    assert all("rename one of the two" in issue.text for issue in listing.issues)


def test_an_extra_path_and_its_pattern_fit_files_from_a_mac(workspace: Path, tmp_path: Path) -> None:
    write(tmp_path / unicodedata.normalize("NFD", "Bücher") / unicodedata.normalize("NFD", "Größe-1.md"))
    source = documents(workspace, ExtraPath(path=tmp_path / "Bücher", pattern="Größe-*.md"))
    assert len(paths(source)) == 3
    assert source.list().issues == ()
