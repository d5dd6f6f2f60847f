"""Which files a search may look at by their path."""

from __future__ import annotations

import unicodedata
from typing import Literal

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
    scope, notes = scope_of({1: file}, "memory", SearchRequest(queries=("x",), path="*a" * 300))
    assert not scope.files
    assert len(scope.few_chunks()) == 0
    assert "longer than 500 characters" in notes[0]


def row(number: int, path: str) -> FileRow:
    return FileRow(number, path, "memory", None, 2)


@pytest.mark.parametrize(
    "wanted", ["memory/Überblick-größe.md", "memory/Über*.md", "Größen", "memory/Überblick-größe*"]
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_path_is_matched_in_any_unicode_form(wanted: str, form: Literal["NFC", "NFD"]) -> None:
    paths = ["memory/Überblick-größe.md", "Größen/a.md", "memory/b.md"]
    for stored in ("NFC", "NFD"):
        rows = {number: row(number, unicodedata.normalize(stored, path)) for number, path in enumerate(paths, 1)}
        scope, _ = scope_of(rows, "memory", SearchRequest(queries=("x",), path=unicodedata.normalize(form, wanted)))
        assert list(scope.files) == [2 if wanted == "Größen" else 1]


def test_of_two_files_that_look_the_same_the_one_that_is_spelled_so_is_meant() -> None:
    typed = "memory/größe.md"
    other = unicodedata.normalize("NFD", typed)
    rows = {1: row(1, typed), 2: row(2, other)}
    for number, path in ((1, typed), (2, other)):
        scope, _ = scope_of(rows, "memory", SearchRequest(queries=("x",), path=path))
        assert list(scope.files) == [number]
