"""Reading lines of a memory file by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.memory.backend import DEFAULT_LINES, MAX_CHARS, read_excerpt
from clawbot.memory.documents.memory_files import ForbiddenPathError, MemoryDocuments, UnreadableDocumentError


@pytest.fixture
def documents(tmp_path: Path) -> MemoryDocuments:
    (tmp_path / "memory").mkdir()
    (tmp_path / "MEMORY.md").write_text("one\ntwo\n三\nfour\n", encoding="utf-8")
    return MemoryDocuments(tmp_path, [])


def test_the_whole_of_a_short_file(documents: MemoryDocuments) -> None:
    found = read_excerpt(documents, "MEMORY.md")
    assert (found.text, found.from_line, found.to_line, found.total_lines) == ("one\ntwo\n三\nfour", 1, 4, 4)
    assert found.found
    assert not found.truncated
    assert found.next_from is None


@pytest.mark.parametrize(
    ("first", "count", "text", "following"),
    [(2, 2, "two\n三", 4), (3, 9, "三\nfour", None), (4, 1, "four", None), (0, 1, "one", 2), (-5, 1, "one", 2)],
)
def test_some_lines(documents: MemoryDocuments, first: int, count: int, text: str, following: int | None) -> None:
    found = read_excerpt(documents, "MEMORY.md", first, count)
    assert found.text == text
    assert found.next_from == following
    assert found.truncated == (following is not None)


def test_no_lines_asked_for_is_at_least_one(documents: MemoryDocuments) -> None:
    assert read_excerpt(documents, "MEMORY.md", 1, 0).text


def test_beyond_the_end_is_empty(documents: MemoryDocuments) -> None:
    found = read_excerpt(documents, "MEMORY.md", 5)
    assert (found.text, found.from_line, found.to_line, found.total_lines, found.found) == ("", 0, 0, 4, True)


def test_a_file_that_is_not_there_yet(documents: MemoryDocuments) -> None:
    found = read_excerpt(documents, "memory/2026-11-21.md")
    assert not found.found
    assert (found.path, found.text, found.total_lines) == ("memory/2026-11-21.md", "", 0)


def test_an_empty_file_is_there(documents: MemoryDocuments, tmp_path: Path) -> None:
    (tmp_path / "memory/empty.md").touch()
    found = read_excerpt(documents, "memory/empty.md")
    assert (found.text, found.total_lines, found.found, found.truncated) == ("", 0, True, False)


def test_a_long_file_comes_in_parts_that_fit_together(documents: MemoryDocuments, tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * (number % 300)}" for number in range(900)]
    (tmp_path / "memory/long.md").write_text("\n".join(lines), encoding="utf-8")
    read: list[str] = []
    following: int | None = 1
    while following is not None:
        part = read_excerpt(documents, "memory/long.md", following)
        assert len(part.text) <= MAX_CHARS
        assert part.to_line - part.from_line < DEFAULT_LINES
        read += part.text.split("\n")
        following = part.next_from
    assert read == lines


def test_a_line_beyond_all_bounds_comes_whole(documents: MemoryDocuments, tmp_path: Path) -> None:
    (tmp_path / "memory/wide.md").write_text("x" * (2 * MAX_CHARS) + "\nnext", encoding="utf-8")
    found = read_excerpt(documents, "memory/wide.md")
    assert (len(found.text), found.to_line, found.next_from) == (2 * MAX_CHARS, 1, 2)


def test_an_absolute_path_is_shown_as_the_index_shows_it(documents: MemoryDocuments, tmp_path: Path) -> None:
    assert read_excerpt(documents, str(tmp_path / "MEMORY.md")).path == "MEMORY.md"


@pytest.mark.parametrize("path", ["../secret.md", "/etc/passwd", "memory/../../x.md", "", "sessions/a.jsonl"])
def test_other_files_are_forbidden(documents: MemoryDocuments, path: str) -> None:
    with pytest.raises(ForbiddenPathError):
        read_excerpt(documents, path)


def test_bytes_that_are_no_text_are_named(documents: MemoryDocuments, tmp_path: Path) -> None:
    (tmp_path / "memory/gbk.md").write_bytes("备忘".encode("gbk"))
    with pytest.raises(UnreadableDocumentError, match="UTF-8"):
        read_excerpt(documents, "memory/gbk.md")
