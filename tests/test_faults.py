"""Processes that are killed at a step: what the tests of crashes stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .faults import count_steps, kill_at_each, run_killed

REPLACE = """
    from pathlib import Path
    from clawbot.files import write_atomic
    Path("before").write_text("not counted")
    arm()
    write_atomic(Path("file"), b"new")
"""


def test_a_kill_at_every_step_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "file"
    seen = []
    for step in range(1, count_steps(REPLACE, cwd=tmp_path) + 1):
        file.write_text("old")
        assert run_killed(REPLACE, step, cwd=tmp_path)
        seen.append(file.read_text())
    assert set(seen) == {"old", "new"}
    assert seen == sorted(seen, reverse=True)
    assert len(list(tmp_path.glob(".file.*.tmp"))) == seen.count("old") - 1


def test_code_that_takes_fewer_steps_is_not_killed(tmp_path: Path) -> None:
    assert not run_killed("arm()", 1, cwd=tmp_path)
    assert not run_killed("arm(); open('new', 'w').close()", 3, cwd=tmp_path)
    assert run_killed("arm(); open('new', 'w').close()", 2, cwd=tmp_path)


@pytest.mark.parametrize(("code", "words"), [("1 / 0", "ZeroDivisionError"), ("pass", "never called arm")])
def test_code_that_fails_fails_the_test(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        run_killed(code, 1, cwd=tmp_path)


@pytest.mark.parametrize(("every", "runs"), [(1, 6), (4, 3)])
def test_each_step_has_a_copy_of_its_own_and_the_last_is_whole(tmp_path: Path, every: int, runs: int) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").write_text("old")
    copies = kill_at_each("import clawbot.files", REPLACE, place=place, into=tmp_path / "copies", every=every)
    assert len(copies) == runs
    assert [copy.joinpath("file").read_text() for copy in (copies[0], copies[-1])] == ["old", "new"]
    assert (place / "file").read_text() == "old"


@pytest.mark.parametrize(("code", "words"), [("arm(); 1 / 0", "ZeroDivisionError"), ("pass", "ended with 768")])
def test_code_that_fails_at_no_step_fails_the_test(tmp_path: Path, code: str, words: str) -> None:
    (tmp_path / "place").mkdir()
    with pytest.raises(AssertionError, match=words):
        kill_at_each("", code, place=tmp_path / "place", into=tmp_path / "copies")
