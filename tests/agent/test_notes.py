"""Which note is a session's, among thousands."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from clawbot.agent.notes import find_note

SESSION = "0a1b2c3d-你好"
BEGAN = datetime(2026, 3, 7, 5, 0, tzinfo=UTC).timestamp()


def note(folder: Path, name: str, session: str = SESSION) -> Path:
    path = folder / name
    path.write_text(f"# Session\n\n- **Session ID**: {session}\n", "utf-8")
    return path


@pytest.mark.parametrize("day", ["2026-03-06", "2026-03-07", "2027-01-01"])
def test_a_note_is_found_by_the_id_in_it_whatever_its_name_and_zone(tmp_path: Path, day: str) -> None:
    note(tmp_path, f"{day}-a.md", "another")
    wanted = note(tmp_path, f"{day}-端口-2.md")
    note(tmp_path, f"{day}-z.md", "another")
    assert find_note(tmp_path, SESSION, BEGAN) == wanted
    assert find_note(tmp_path, "unknown", BEGAN) is None


def test_notes_of_days_before_the_session_are_not_looked_into(tmp_path: Path) -> None:
    old = note(tmp_path, "2026-03-05-port.md")
    assert find_note(tmp_path, SESSION, BEGAN) is None
    assert find_note(tmp_path, SESSION, 0.0) == old


@pytest.mark.parametrize("since", [-1e17, 1e17])
def test_a_beginning_that_cannot_be_right_breaks_nothing(tmp_path: Path, since: float) -> None:
    note(tmp_path, "2026-03-05-port.md", "another")
    assert find_note(tmp_path, SESSION, since) is None
