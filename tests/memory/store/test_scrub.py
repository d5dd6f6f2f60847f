"""What was deleted from an index is nowhere in its files any more: not in the keyword index, free pages, or the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.memory.store.writer import IndexWriter
from tests.memory.store.making import chunks, embed_all, kept_in, put, record

KEPT = "\n".join(f"- line {number} of what stays" for number in range(300))


def bytes_of(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.is_file())


@pytest.mark.parametrize("size", [1, 400])
def test_nothing_is_left_of_deleted_lines(path: Path, writer: IndexWriter, size: int) -> None:
    gone = "\n".join(f"- Xylophonia {number} 花生酱" for number in range(size))
    put(writer, {"MEMORY.md": KEPT})
    put(writer, {"MEMORY.md": KEPT, "memory/gone.md": gone, "memory/half.md": f"{gone}\n- this stays"})
    embed_all(writer)
    writer.cache.put_many("provider", {b"1" * 16: b"\0" * 8})
    # From then on the words stand in one segment, of which none is written anew for its own sake.
    assert writer.scrub()
    with writer.transaction():
        writer.remove(["memory/gone.md"])
        writer.replace_file(record("memory/half.md", "- this stays"), chunks("- this stays"))
    assert b"ylophoni" in bytes_of(path)
    assert writer.scrub()
    assert b"ylophoni" not in bytes_of(path)
    assert "花".encode() not in bytes_of(path)
    assert kept_in(writer) == 0
    writer.close()
    again = IndexWriter.open(path)
    assert set(again.known()) == {"MEMORY.md", "memory/half.md"}
    again.close()
