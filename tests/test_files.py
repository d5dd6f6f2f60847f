"""Durable writes: what an error says."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clawbot.files import create_complete, read_plain, unreported, write_atomic, write_out
from clawbot.guarded import GuardedFolder, parts_below
from tests.hostile import device


@pytest.mark.parametrize("write", [write_atomic, create_complete])
def test_a_write_that_fails_names_the_file_and_leaves_nothing(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert callable(write)
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "note.md", b"tea")
    assert caught.value.filename == str(tmp_path / "note.md")
    assert list(tmp_path.iterdir()) == []


def test_what_need_not_last_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_atomic(tmp_path / "lock.json", "茶".encode(), lasting=False)
    assert synced == []
    write_atomic(tmp_path / "note.md", "茶".encode())
    assert len(synced) == 2
    assert [path.read_text("utf-8") for path in sorted(tmp_path.iterdir())] == ["茶", "茶"]


def test_a_device_is_written_through_and_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(device(tmp_path, "null"))
    write_out(link, b"x" * 100_000, tmp_path / "workspace")
    assert link.is_char_device()
    write_out(tmp_path / "new", b"tea", tmp_path / "workspace")
    write_out(tmp_path / "new", b"coffee", tmp_path / "workspace")
    assert (tmp_path / "new").read_bytes() == b"coffee"


def test_a_device_that_takes_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(device(tmp_path, "full"))
    with pytest.raises(OSError, match="No space left") as caught:
        write_out(tmp_path / "link", b"tea", tmp_path / "workspace")
    assert caught.value.filename == str(tmp_path / "link")
    assert (tmp_path / "link").is_char_device()


def test_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_out(pipe, "茶".encode() * 100_000, tmp_path / "workspace")
    reader.join()
    assert got == ["茶".encode() * 100_000]
    assert pipe.is_fifo()


def test_no_device_is_ever_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(device(tmp_path, "null"))
    for name in ("pipe", "link"):
        with pytest.raises(OSError, match="is no plain file"):
            write_atomic(tmp_path / name, b"tea")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_char_device()


def test_a_plain_file_is_read_up_to_a_bound_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"tea")
    (tmp_path / "link").symlink_to("file")
    assert read_plain(tmp_path / "link", 3) == b"tea"
    with pytest.raises(OSError, match="is larger than"):
        read_plain(tmp_path / "file", 2)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match=r"is no plain file|Is a directory"):
            read_plain(path, 10)


def test_no_link_in_the_place_of_the_temporary_file_becomes_another_name_of_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    link: Callable[..., None] = os.link
    secret.write_bytes(b"secret")
    (tmp_path / "workspace").mkdir()

    def swapped(name: str, *arguments: object, src_dir_fd: int, **options: object) -> None:
        os.unlink(name, dir_fd=src_dir_fd)
        os.symlink(secret, name, dir_fd=src_dir_fd)
        link(name, *arguments, src_dir_fd=src_dir_fd, **options)

    monkeypatch.setattr(os, "link", swapped)
    GuardedFolder(tmp_path / "workspace").create("note.md", b"tea")
    assert secret.stat().st_nlink == 1


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("{top}/workspace/a/x.md", ("a", "x.md")),
        ("{top}/alias/a/x.md", ("a", "x.md")),
        ("{top}/alias/out/x.md", ("out", "x.md")),
        ("{top}/to a/x.md", ("a", "x.md")),
        ("{top}/workspace/in/x.md", ("in", "x.md")),
        ("{top}/workspace/a/../x.md", ("x.md",)),
        ("x.md", ("a", "x.md")),
        ("{top}/workspace", ()),
        ("{top}/workspace/../x.md", ()),
        ("{top}/workspace2/x.md", ()),
    ],
)
def test_a_path_is_followed_to_where_it_enters_a_folder_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, parts: tuple[str, ...]
) -> None:
    (tmp_path / "workspace/a").mkdir(parents=True)
    (tmp_path / "alias").symlink_to("workspace")
    (tmp_path / "to a").symlink_to("workspace/a")
    (tmp_path / "workspace/out").symlink_to(tmp_path)
    (tmp_path / "workspace/in").symlink_to("a")
    monkeypatch.chdir(tmp_path / "workspace/a")
    for root in ("workspace", "alias"):
        assert parts_below(tmp_path / root, Path(path.format(top=tmp_path))) == parts


def test_the_same_lines_are_reported_once_a_day(tmp_path: Path) -> None:
    now, file = datetime(2026, 11, 26, 9, tzinfo=UTC), tmp_path / "told"
    assert unreported(file, ["a"], now) == ["a"]
    assert unreported(file, ["a"], now + timedelta(hours=5)) == ()
    assert unreported(file, ["b"], now) == ["b"]
    assert unreported(file, ["b"], now + timedelta(days=1)) == ["b"]
    assert unreported(file, [], now) == ()
    file.write_bytes(b"x" * 5_000)
    assert unreported(file, ["b"], now) == ["b"]
    assert unreported(tmp_path / "no" / "folder", ["a"], now) == ["a"]
