"""Names that one file may have on some file system fold to the same, all others don't; and which file is meant."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from clawbot.text.names import composed, fold_name, on_disk
from tests.tables import load_table


@pytest.mark.parametrize(
    ("one", "other"),
    load_table(__file__, "names_of_one_file"),
)
def test_names_of_one_file(one: str, other: str) -> None:
    assert fold_name(one) == fold_name(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("AGENTS.md", "AGENTS.md "), ("笔记.md", "筆記.md"), ("A.md", "Á.md"), ("SOUL.md", "SOUL_md")],
)
def test_names_of_two_files(one: str, other: str) -> None:
    assert fold_name(one) != fold_name(other)


COMPOSED = "Überblick-größe.md"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def both_fit(folder: Path) -> bool:
    """Whether the file system holds both names side by side; makes the composed one."""
    (folder / COMPOSED).write_text("composed")
    return not (folder / DECOMPOSED).exists()


def test_the_spellings_differ_and_look_the_same() -> None:
    assert COMPOSED != DECOMPOSED
    assert composed(COMPOSED) == composed(DECOMPOSED) == COMPOSED
    assert composed("ascii.md") == "ascii.md"


def test_a_file_is_found_by_a_name_that_looks_the_same(tmp_path: Path) -> None:
    folder = tmp_path / unicodedata.normalize("NFD", "Größen")
    folder.mkdir()
    (folder / DECOMPOSED).write_text("x")
    asked = tmp_path / "Größen" / COMPOSED
    assert on_disk(asked).read_text() == "x"
    assert on_disk(asked).samefile(folder / DECOMPOSED)
    # What is not there yet goes into the folder that is.
    assert on_disk(tmp_path / "Größen" / "neü.md").parent.samefile(folder)


def test_what_exists_as_it_is_spelled_wins(tmp_path: Path) -> None:
    if not both_fit(tmp_path):
        pytest.skip("this file system takes both for one")
    (tmp_path / DECOMPOSED).write_text("decomposed")
    assert on_disk(tmp_path / COMPOSED).read_text() == "composed"
    assert on_disk(tmp_path / DECOMPOSED).read_text() == "decomposed"


@pytest.mark.parametrize("path", ["nothing/here.md", "nichts/größe.md", "a\0ü.md", "ü" * 300, "/ü", "../ü/../ü.md"])
def test_a_path_to_nothing_stays_as_it_is(tmp_path: Path, path: str) -> None:
    assert on_disk(tmp_path / path) == tmp_path / path


def test_a_dangling_link_is_found_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / DECOMPOSED).symlink_to(tmp_path / "nowhere")
    assert on_disk(tmp_path / COMPOSED).is_symlink()
    assert on_disk(tmp_path / COMPOSED / "ü.md").name == "ü.md"
