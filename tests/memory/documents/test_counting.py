"""How many notes there are, as the screen shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.paths import shipped
from clawbot.memory.documents.indexed_text import count_notes

TEMPLATE = (shipped("workspace_template") / "MEMORY.md").read_text()


def write(path: Path, text: str = "- text\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_is_no_note_and_neither_is_a_template(tmp_path: Path) -> None:
    assert count_notes(tmp_path / "nowhere") == 0
    write(tmp_path / "MEMORY.md", TEMPLATE)
    assert count_notes(tmp_path) == 0


@pytest.mark.parametrize("name", ["MEMORY.md", "memory.md"])
def test_what_stays_true_is_one_note_once_something_stands_there(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, TEMPLATE.replace("## Facts\n", "## Facts\n\n- otter\n"))
    assert count_notes(tmp_path) == 1


def test_what_is_hidden_or_no_markdown_does_not_count(tmp_path: Path) -> None:
    for name in ("a.md", "sub/b.MD", "c.markdown", ".trash/d.md", ".e.md", "node_modules/f.md", "g.txt", "h.md/i.md"):
        write(tmp_path / "memory" / name)
    assert count_notes(tmp_path) == 4
