"""What a walk over a hostile folder tells, and where it stops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clawbot.trees import DEEPEST, MAX_PROBLEMS, TreeWalk
from tests.hostile import KINDS, make_deep, make_things, removed


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_level_by_level_sorted_and_without_what_is_skipped(tmp_path: Path) -> None:
    touch(
        tmp_path / "b" / "x", tmp_path / "a" / "y", tmp_path / "c", tmp_path / ".git" / "config", tmp_path / "a" / "no"
    )
    (tmp_path / "link").symlink_to("a")
    with opened(tmp_path) as top:
        walk = TreeWalk(top, skips=lambda path: path == "a/no", ignored={".git"})
        found = [(entry.path, entry.is_folder) for entry in walk]
    assert found == [("a", True), ("b", True), ("c", False), ("link", False), ("a/y", False), ("b/x", False)]
    assert walk.is_complete
    assert walk.problems == []


def test_a_deep_folder_is_left_out_and_told(tmp_path: Path) -> None:
    with removed(tmp_path / "top") as folder:
        make_deep(folder, 1500)
        touch(folder / "z.md")
        with opened(folder) as top:
            walk = TreeWalk(top)
            paths = [entry.path for entry in walk]
    assert paths[:2] == ["d", "z.md"]
    assert max(path.count("/") for path in paths) == DEEPEST
    assert not walk.is_complete
    [problem] = walk.problems
    assert problem.endswith(f"was not entered: it is more than {DEEPEST} folders deep")


def test_what_the_tools_may_make_is_walked(tmp_path: Path) -> None:
    with removed(tmp_path / "top") as folder:
        make_deep(folder, DEEPEST)
        with opened(folder) as top:
            walk = TreeWalk(top)
            assert [entry.name for entry in walk][-1] == "n.md"
    assert walk.is_complete


@pytest.mark.parametrize(("most", "whole"), [(11, True), (10, False), (3, False), (0, False)])
def test_no_more_entries_are_read_than_there_is_room_for(tmp_path: Path, most: int, whole: bool) -> None:
    touch(*(tmp_path / folder / f"{number}" for folder in "ab" for number in range(4)), tmp_path / "c")
    with opened(tmp_path) as top:
        walk = TreeWalk(top, most=most)
        told = list(walk)
    assert walk.is_complete is whole
    assert len(told) == min(most, 11)
    assert walk.visited == min(most + 1, 11)
    assert bool(walk.problems) is not whole


def test_a_folder_that_became_a_link_is_not_entered(tmp_path: Path) -> None:
    touch(tmp_path / "in" / "a" / "x", tmp_path / "out" / "secret")
    with opened(tmp_path / "in") as top:
        walk = iter(TreeWalk(top))
        assert next(walk).path == "a"
        (tmp_path / "in" / "a").rename(tmp_path / "in" / "b")
        (tmp_path / "in" / "a").symlink_to(tmp_path / "out")
        assert list(walk) == []


def test_many_problems_are_told_as_a_few(tmp_path: Path) -> None:
    touch(*(tmp_path / f"{number}" / "below" / "x" for number in range(20)))
    with opened(tmp_path) as top:
        walk = TreeWalk(top, deepest=1)
        assert len(list(walk)) == 40
    assert len(walk.problems) == MAX_PROBLEMS


def test_hostile_things_are_made_through_no_link_and_no_pipe(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(outside)
    os.mkfifo(top / "pipe")
    make_things(top, [((name,), kind, b"gone") for name in ("link", "pipe") for kind in KINDS])
    assert outside.read_text() == "kept"
    assert (top / "pipe").is_fifo()
