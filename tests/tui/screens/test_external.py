"""The user's own editor."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App

from clawbot.tui.screens.editor import EditorError, edit_external, editor_command


class Lending(App[None]):
    """An app whose terminal can be lent, as it can in a real one."""

    def __init__(self) -> None:
        super().__init__()
        self.notices: list[str] = []

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        yield

    def notify(self, message: str, **options: object) -> None:
        self.notices.append(message)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}")
    return folder


def program(folder: Path, name: str, body: str = "") -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        ("vim", ["+7", "notes.md"]),
        ("nano -l", ["-l", "+7", "notes.md"]),
        ("hx", ["notes.md:7"]),
        ("code", ["--wait", "--goto", "notes.md:7"]),
        ("code -w", ["-w", "--goto", "notes.md:7"]),
        ("unheard-of --flag 'two words'", ["--flag", "two words", "notes.md"]),
    ],
)
def test_each_editor_is_told_the_line_in_its_way(bin_folder: Path, editor: str, arguments: list[str]) -> None:
    name = editor.split()[0]
    program(bin_folder, name)
    assert editor_command({"EDITOR": editor}, Path("notes.md"), 7) == [name, *arguments]


def test_visual_comes_before_editor_and_no_line_is_no_argument(bin_folder: Path) -> None:
    program(bin_folder, "vim")
    assert editor_command({"VISUAL": "vim", "EDITOR": "nano"}, Path("a b.md")) == ["vim", "a b.md"]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "Neither $VISUAL nor $EDITOR is set. Set one, for example: export EDITOR=nano"),
        ({"EDITOR": "  "}, "Neither $VISUAL nor $EDITOR is set."),
        ({"EDITOR": "nope"}, "nope is not installed."),
        ({"EDITOR": "vim 'x"}, "can't be read"),
    ],
)
def test_a_missing_editor_is_told(bin_folder: Path, environ: dict[str, str], said: str) -> None:
    with pytest.raises(EditorError) as caught:
        editor_command(environ, Path("x.md"))
    assert said in f"{caught.value}"


async def test_the_editor_edits_and_interrupts_are_given_back(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bin_folder, "ed1", "open(sys.argv[-1], 'a').write('added')")
    monkeypatch.setenv("EDITOR", "ed1")
    file = tmp_path / "x.md"
    file.write_text("text ")
    before = signal.getsignal(signal.SIGINT)
    app = Lending()
    async with app.run_test():
        assert await edit_external(app, file)
    assert file.read_text() == "text added"
    assert signal.getsignal(signal.SIGINT) is before
    assert app.notices == []


async def test_an_editor_that_fails_is_told(bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bin_folder, "ed2", "sys.exit(3)")
    monkeypatch.setenv("EDITOR", "ed2")
    app = Lending()
    async with app.run_test():
        assert not await edit_external(app, tmp_path / "x.md")
    assert app.notices == ["ed2 ended with code 3."]


async def test_a_terminal_that_cannot_be_lent_is_told(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(bin_folder, "ed3")
    monkeypatch.setenv("EDITOR", "ed3")
    app = Lending()
    monkeypatch.setattr(Lending, "suspend", App.suspend)
    async with app.run_test():
        assert not await edit_external(app, tmp_path / "x.md")
    assert app.notices == ["This terminal can't be lent to another program."]
