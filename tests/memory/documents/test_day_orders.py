"""Days of notes in extra paths, and names that may be of two days."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from clawbot.config.schema_memory import ExtraPath
from clawbot.memory.documents.memory_files import MemoryDocuments

APRIL, MARCH = date(2026, 4, 3), date(2026, 3, 4)


def days(workspace: Path, *extra: Path) -> dict[str, date | None]:
    """The day of each note, by its name."""
    documents = MemoryDocuments(workspace, [ExtraPath(path=path) for path in extra])
    read = {state.path: documents.read(state) for state in documents.list().files}
    return {Path(path).name: found.date if found else None for path, found in read.items()}


def write(*files: Path) -> None:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("- text\n")


@pytest.fixture(autouse=True)
def _no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_TIME", "LANG"):
        monkeypatch.delenv(name, raising=False)


def test_extra_paths_have_days_and_the_folders_above_them_say_nothing(tmp_path: Path) -> None:
    vault = tmp_path / "2025-01-01-backup" / "2024" / "01" / "vault"
    write(vault / "Daily/2026-03-05.md", vault / "2026/03/06.md", vault / "plan.md", vault / "2026/07 July/x.md")
    write(tmp_path / "alone" / "2026-03-07.md", tmp_path / "w/memory/journals/2026_03_08.md")
    assert days(tmp_path / "w", vault, tmp_path / "alone" / "2026-03-07.md") == {
        "2026-03-05.md": date(2026, 3, 5),
        "06.md": date(2026, 3, 6),
        "plan.md": None,
        "x.md": date(2026, 7, 31),
        "2026-03-07.md": date(2026, 3, 7),
        "2026_03_08.md": date(2026, 3, 8),
    }


@pytest.mark.parametrize(
    ("locale", "others", "day"),
    [
        ("", (), None),
        ("en_US.UTF-8", (), MARCH),
        ("de_DE.UTF-8", (), APRIL),
        ("en_US.UTF-8", ("25-04-2026.md",), APRIL),
        ("de_DE.UTF-8", ("04-25-2026.md",), MARCH),
        ("", ("2025/25-04-2025.md",), APRIL),
        ("en_US.UTF-8", ("25-04-2026.md", "04-26-2026.md"), MARCH),
    ],
)
def test_the_names_of_the_folder_decide_and_else_the_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str, others: tuple[str, ...], day: date | None
) -> None:
    monkeypatch.setenv("LANG", locale)
    write(*(tmp_path / "memory" / name for name in ("03-04-2026.md", *others)))
    assert days(tmp_path)["03-04-2026.md"] == day
    (found,) = MemoryDocuments(tmp_path, []).ambiguous()
    assert (found.path, found.day, found.by_folder) == ("memory/03-04-2026.md", day, len(others) == 1)


def test_another_order_lets_the_note_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "memory" / "03-04-2026.md", tmp_path / "memory" / "2026-04-03.md")
    documents = MemoryDocuments(tmp_path, [])
    before = {state.path: state for state in documents.list().files}
    write(tmp_path / "memory" / "25-04-2026.md")
    after = {state.path: state for state in documents.list().files}
    assert after["memory/03-04-2026.md"] != before["memory/03-04-2026.md"]
    assert after["memory/2026-04-03.md"] == before["memory/2026-04-03.md"]
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    assert {state.path: state for state in MemoryDocuments(tmp_path, []).list().files} == after
