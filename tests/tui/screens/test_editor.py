"""The built-in editor: what it saves, what it asks before it does, what it refuses."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot

from clawbot.config.schema import Settings, TuiSettings
from clawbot.errors import ClawbotError
from clawbot.tui.screens.editor import EditorError, EditorScreen, edit_external, editor_command
from tests.tables import load_table
from tests.tui.chat_host import PENDING, Host, Runtime, seen, showing, until

RULES = "# Rules\n\n- 用户喜欢制表符 🎉\n" + "".join(f"line {number}\n" for number in range(4, 100))


def runtime() -> Runtime:
    return Runtime(files={"AGENTS.md": RULES, "MEMORY.md": "one\n", "memory/2026-10-02.md": "# Notes\n"})


async def opened(screen: EditorScreen, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: not screen.area.disabled)


@pytest.mark.long
async def test_the_file_is_shown_with_its_token_cost() -> None:
    below = runtime()
    async with showing(EditorScreen(below, "AGENTS.md")) as (host, pilot):
        await until(pilot, lambda: f"{len(RULES) // 4:,} tokens · saved" in seen(host))
        assert "- 用户喜欢制表符 🎉" in seen(host)


async def test_it_opens_at_the_line() -> None:
    screen = EditorScreen(runtime(), "AGENTS.md", 60)
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: "line 60" in seen(host))
        assert screen.area.cursor_location == (59, 0)


@pytest.mark.parametrize(("line", "row"), [(0, 0), (-3, 0), (9_999, 99)])
async def test_a_line_that_does_not_exist_is_the_nearest(line: int, row: int) -> None:
    screen = EditorScreen(runtime(), "AGENTS.md", line)
    async with showing(screen) as (_, pilot):
        await opened(screen, pilot)
        await until(pilot, lambda: screen.area.cursor_location == (row, 0))


async def test_ctrl_s_saves_and_the_result_says_so() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x")
        await until(pilot, lambda: "not saved yet" in seen(host))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: below.files["MEMORY.md"] == "xone\n")
        await until(pilot, lambda: "not saved yet" not in seen(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.result is True)


async def test_closing_an_unchanged_file_asks_nothing() -> None:
    screen = EditorScreen(runtime(), "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("escape")
        await until(pilot, lambda: host.result is False)


@pytest.mark.parametrize(("key", "result", "text"), [("s", True, "xone\n"), ("d", False, "one\n")])
async def test_closing_with_changes_asks(key: str, result: bool, text: str) -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x", "escape")
        await until(pilot, lambda: "has changes that are not saved" in seen(host))
        await pilot.press(key)
        await until(pilot, lambda: host.result is result)
        assert below.files["MEMORY.md"] == text


async def test_escape_at_the_question_goes_on_editing() -> None:
    screen = EditorScreen(runtime(), "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x", "escape")
        await until(pilot, lambda: "has changes that are not saved" in seen(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.screen is screen)
        await pilot.press("y")
        assert screen.area.text == "xyone\n"


@pytest.mark.parametrize("key", ["n", "enter", "/", "喜"])
async def test_who_types_on_at_the_question_discards_nothing(key: str) -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x", "escape")
        await until(pilot, lambda: "has changes that are not saved" in seen(host))
        await pilot.press(key)
        await until(pilot, lambda: host.screen is screen)
        await pilot.press("d")
        assert screen.area.text == "xdone\n"
        assert host.result is PENDING
        assert host.result is PENDING


async def change_on_disk(host: Host, pilot: Pilot[None], below: Runtime, screen: EditorScreen) -> None:
    await opened(screen, pilot)
    await pilot.press("x")
    below.files["MEMORY.md"] = "theirs\n"
    await pilot.press("ctrl+s")
    await until(pilot, lambda: "has changed on disk" in seen(host))


async def test_a_change_on_disk_can_be_overwritten() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await change_on_disk(host, pilot, below, screen)
        await pilot.press("o")
        await until(pilot, lambda: below.files["MEMORY.md"] == "xone\n")


async def test_a_change_on_disk_can_be_reloaded() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await change_on_disk(host, pilot, below, screen)
        await pilot.press("r")
        await until(pilot, lambda: screen.area.text == "theirs\n")
        assert below.files["MEMORY.md"] == "theirs\n"
        assert not screen.dirty


@pytest.mark.few(1)
@pytest.mark.parametrize("taken", [(), ("MEMORY-2.md",), ("MEMORY-2.md", "MEMORY-3.md")])
async def test_of_a_change_on_disk_both_are_kept(taken: tuple[str, ...]) -> None:
    below = runtime()
    below.files.update(dict.fromkeys(taken, "other\n"))
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await change_on_disk(host, pilot, below, screen)
        await pilot.press("k")
        await until(pilot, lambda: screen.area.text == "theirs\n")
        mine = f"MEMORY-{len(taken) + 2}.md"
        assert (below.files["MEMORY.md"], below.files[mine]) == ("theirs\n", "xone\n")
        assert all(below.files[name] == "other\n" for name in taken)
        assert host.notices == [f"Your text is in {mine}."]


async def test_a_change_on_disk_while_it_is_asked_is_asked_about_again() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await change_on_disk(host, pilot, below, screen)
        below.files["MEMORY.md"] = "theirs again\n"
        await pilot.press("o")
        await until(pilot, lambda: bool(host.notices))
        assert host.notices == ["Not saved: MEMORY.md: It has changed on disk in this moment: save again."]
        assert (screen.area.text, below.files["MEMORY.md"]) == ("xone\n", "theirs again\n")


async def test_a_change_on_disk_and_no_decision_touches_neither() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await change_on_disk(host, pilot, below, screen)
        await pilot.press("escape")
        await until(pilot, lambda: host.screen is screen)
        assert (screen.area.text, below.files["MEMORY.md"]) == ("xone\n", "theirs\n")


async def test_the_same_change_on_disk_is_no_question() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x")
        below.files["MEMORY.md"] = "xone\n"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: not screen.dirty)
        assert host.screen is screen


async def test_windows_line_ends_are_kept_and_are_no_change() -> None:
    below = runtime()
    below.files["MEMORY.md"] = "one\r\ntwo\r\n"
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (_, pilot):
        await opened(screen, pilot)
        assert not screen.dirty
        await pilot.press("x", "ctrl+s")
        await until(pilot, lambda: below.files["MEMORY.md"] == "xone\r\ntwo\r\n")


async def test_a_save_that_fails_keeps_the_text_and_the_screen() -> None:
    below = runtime()
    below.faults["write"] = OSError(28, "No space left on device", "MEMORY.md")
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await opened(screen, pilot)
        await pilot.press("x", "escape")
        await until(pilot, lambda: "has changes that are not saved" in seen(host))
        await pilot.press("s")
        await until(pilot, lambda: bool(host.notices))
        assert "No space left on device" in host.notices[0]
        assert screen.dirty
        assert host.result is PENDING


@pytest.mark.parametrize(
    "fault",
    [
        ClawbotError("../x lies outside the workspace."),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        PermissionError(13, "Permission denied", "MEMORY.md"),
    ],
)
async def test_a_file_that_cannot_be_read_is_told_and_closes(fault: Exception) -> None:
    below = runtime()
    below.faults["read"] = fault
    async with showing(EditorScreen(below, "MEMORY.md")) as (host, pilot):
        await until(pilot, lambda: host.result is False)
        assert host.notices[0].startswith("Not read: MEMORY.md")


async def test_a_new_file_begins_empty_and_exists_once_saved() -> None:
    below = runtime()
    screen = EditorScreen(below, "memory/new.md")
    async with showing(screen) as (_, pilot):
        await opened(screen, pilot)
        await pilot.press("h", "i", "ctrl+s")
        await until(pilot, lambda: below.files.get("memory/new.md") == "hi")


async def test_without_a_file_one_can_be_chosen() -> None:
    screen = EditorScreen(runtime())
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: "memory/2026-10-02.md" in seen(host))
        await pilot.press(*"2026", "enter")
        await until(pilot, lambda: "# Notes" in seen(host))


async def test_without_a_choice_nothing_is_edited() -> None:
    async with showing(EditorScreen(runtime())) as (host, pilot):
        await until(pilot, lambda: "MEMORY.md" in seen(host))
        await pilot.press("escape")
        await until(pilot, lambda: host.result is False)


async def test_a_new_name_can_be_typed_in_the_choice() -> None:
    screen = EditorScreen(runtime())
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: "MEMORY.md" in seen(host))
        await pilot.press(*"ideas.md")
        await until(pilot, lambda: "new file ideas.md" in seen(host))
        await pilot.press("enter")
        await opened(screen, pilot)
        assert screen.file == "ideas.md"


async def test_tokens_are_counted_when_the_typing_pauses() -> None:
    below = runtime()
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (_, pilot):
        await until(pilot, lambda: below.counted == ["one\n"])
        await pilot.press(*"a long word")
        await until(pilot, lambda: below.counted[-1] == "a long wordone\n")
        assert len(below.counted) < len("a long word")


async def test_control_characters_of_a_file_do_not_reach_the_terminal_and_stay_in_the_file() -> None:
    below = runtime()
    evil = "\x1b]0;owned\x07 and \x9b31m\n"
    below.files["MEMORY.md"] = evil
    screen = EditorScreen(below, "MEMORY.md")
    async with showing(screen) as (host, pilot):
        await until(pilot, lambda: "owned" in seen(host))
        assert not [sign for sign in seen(host) if sign in "\x1b\x07\x9b"]
        await pilot.press("x", "ctrl+s")
        await until(pilot, lambda: below.files["MEMORY.md"] == "x" + evil)


async def test_with_an_external_editor_in_the_settings_it_is_opened_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    below = runtime()
    below.settings = Settings(tui=TuiSettings(editor="external"))
    monkeypatch.setenv("EDITOR", "no-such-editor")
    async with showing(EditorScreen(below, "MEMORY.md", 3)) as (host, pilot):
        await until(pilot, lambda: host.result is False)
        assert "no-such-editor is not installed" in host.notices[0]


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
    load_table(__file__, "each_editor_is_told_the_line_in_its_way"),
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
