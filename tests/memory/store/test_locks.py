"""Opening an index where no lock can be taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clawbot.memory.store.errors import StoreError
from clawbot.memory.store.locks import WriterLock, opening
from clawbot.memory.store.reader import IndexReader
from tests.memory.store.making import opened, put


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose folder nobody may write to, for the superuser too."""
    path = tmp_path / "main.sqlite"
    writer = opened(path)
    put(writer, {"a.md": "milk"})
    writer.close()
    for lock in (*tmp_path.glob("*.swap"), *tmp_path.glob("*.lock")):
        lock.unlink()
    real = os.open

    def refuse(name: str | Path, flags: int, *more: int, **others: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(13, "Permission denied", str(name))
        return real(name, flags, *more, **others)

    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK)
    monkeypatch.setattr(os, "open", refuse)
    return path


def test_an_index_in_a_folder_of_others_is_read_without_a_lock(read_only: Path) -> None:
    with opening(read_only):
        reader = IndexReader(read_only)
    assert reader.postings("milk", 9).tolist() != []
    reader.close()
    assert not list(read_only.parent.glob("*.swap"))


def test_it_can_not_be_written_and_says_so(read_only: Path) -> None:
    with pytest.raises(StoreError, match="Check the permissions"):
        WriterLock(read_only).acquire(0)
