"""Durable writes: what an error says."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from clawbot.files import create_exclusive, write_atomic


@pytest.mark.parametrize("write", [write_atomic, create_exclusive])
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
