"""Which files a search may look at by their path."""

from __future__ import annotations

import pytest

from clawbot.memory.search.scope import is_under, scope_of
from clawbot.memory.store.records import FileRow
from clawbot.memory.values import SearchRequest


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("memory/周记/a.md", True),
        ("./memory/周记/", True),
        (".", True),
        ("memory/**/?.md", True),
        ("memory/*.md", False),
        ("memory/周", False),
        ("x" * 600, False),
    ],
)
def test_a_path_is_a_file_a_folder_or_a_glob(wanted: str, fits: bool) -> None:
    assert is_under("memory/周记/a.md", wanted) == fits


def test_a_long_path_without_a_star_is_found() -> None:
    path = "memory/" + "x/" * 400 + "a.md"
    assert is_under(path, path)
    assert not is_under("memory/b.md", path)


def test_a_glob_that_is_too_long_finds_nothing_and_says_so() -> None:
    file = FileRow(1, "memory/a.md", "memory", None, 2)
    scope, notes = scope_of({1: file}, SearchRequest(queries=("x",), path="*a" * 300))
    assert not scope.files
    assert len(scope.few_chunks()) == 0
    assert "longer than 500 characters" in notes[0]
