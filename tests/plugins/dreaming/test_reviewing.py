"""What a proposal would change in the files as they are now, and the lines that it is from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from clawbot.plugins.dreaming.applying import diff_rows, is_current, show
from clawbot.plugins.dreaming.proposals import Proposal
from clawbot.plugins.dreaming.screen import decided_text
from tests.plugins.dreaming.stage import ADD, DATABASE, DROP, PORT, SUPERSEDE, Desk, proposal

POINTER = "- hosts: memory/hosts.md"
MOVE = proposal(kind="move", text=POINTER, old=(PORT,), target="memory/hosts.md", reason="It has grown.")


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("a b c", "a b c", ""),
        ("a b c", "a x c", " a -b +x  c"),
        ("", "a", "+a"),
        ("a b c d e f g", "A b c d e f G", "-a +A  b ⋯  f -g +G"),
    ],
)
def test_a_change_is_shown_with_the_lines_around_it(before: str, after: str, rows: str) -> None:
    found = diff_rows(before.split(), after.split())
    assert " ".join(found) == rows


def lines(folder: Path, wanted: Proposal) -> dict[str, list[str]]:
    shown = show(folder, wanted)
    return {path: [row for row in rows if row[0] != " "] for path, rows in shown.diffs.items()}


def test_each_kind_is_shown_as_it_would_be_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path, memory=f"# Memory\n\n{PORT}\n{DATABASE}\n{DATABASE} on db.stg\n")
    assert lines(desk.workspace, ADD) == {"MEMORY.md": [f"+{ADD.text}"]}
    assert lines(desk.workspace, SUPERSEDE) == {
        "MEMORY.md": [f"-{PORT}", f"+{SUPERSEDE.text}", f"+{PORT} (until 2026-10-02)"]
    }
    assert lines(desk.workspace, DROP) == {"MEMORY.md": [f"-{DATABASE}"]}
    assert lines(desk.workspace, MOVE) == {
        "memory/hosts.md": [f"+{PORT}"],
        "MEMORY.md": [f"-{PORT}", f"+{POINTER}"],
    }


def test_a_line_that_a_note_has_no_more_is_marked(tmp_path: Path) -> None:
    sources = ("memory/2026-10-02.md:3", "memory/2026-10-02.md:99", "memory/gone.md:1", "../outside.md:1")
    found = show(Desk(tmp_path).workspace, proposal(sources=sources)).sources
    texts = ["- staging proxy moved to 8443; 8080 clashed with grafana", "", "", ""]
    assert [each.text for each in found] == texts
    assert [each.number for each in found] == [3, 99, 1, 1]


def test_a_file_that_can_not_be_read_is_a_problem(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (desk.workspace / "MEMORY.md").write_bytes(b"\xff\xfe\x00 no text \xff")
    assert show(desk.workspace, SUPERSEDE).problem
    (desk.workspace / "MEMORY.md").unlink()
    (desk.workspace / "MEMORY.md").symlink_to(tmp_path / "elsewhere.md")
    shown = show(desk.workspace, ADD)
    assert shown.problem
    assert not shown.diffs


def test_any_change_of_the_file_is_seen(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    shown = show(desk.workspace, ADD)
    assert is_current(desk.workspace, shown)
    desk.write(f"{desk.memory}\n")
    assert not is_current(desk.workspace, shown)


@pytest.mark.parametrize(
    ("decided", "text"),
    [
        ({}, ""),
        ({"written": 1, "already": 2}, "1 proposal written · /undo takes the last one back"),
        (
            {"written": 2, "declined": 1, "refused": 1},
            "2 proposals written, 1 declined, 1 no longer possible · /undo takes the last one back",
        ),
        ({"declined": 3}, "3 declined"),
    ],
)
def test_the_line_on_what_was_decided(decided: dict[str, int], text: str) -> None:
    assert decided_text(Counter(decided)) == text
