"""What is attached by typing or pasting: paths, and the picture in the clipboard."""

from __future__ import annotations

import base64
import stat
import sys
from pathlib import Path

import pytest
from msgspec import structs
from textual.events import Paste

from clawbot.tui.pasting import ClipboardError, complete_path, keep_picture, pasted_mention, read_picture, readers
from tests.tables import load_table
from tests.tui.chat_host import chatting, screen_text, until
from tests.tui.fake_runtime import NOW, FakeRuntime


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "Pictures").mkdir()
    for name in ("plan.md", "my shot.png", ".hidden", "图.png"):
        (tmp_path / name).write_text("x")
    return tmp_path


def test_a_path_is_completed_by_what_is_in_its_folder(home: Path) -> None:
    assert complete_path("~") == ["@~/"]
    assert complete_path("~/p") == ["@~/Pictures/", "@~/plan.md"]
    assert complete_path("~/my") == ['@"~/my shot.png"']
    assert complete_path(f"{home}/.h") == [f"@{home}/.hidden"]
    assert not any("hidden" in found for found in complete_path("~/"))
    assert complete_path("/no/such/folder/x") == complete_path("~nobody-here/x") == complete_path("/\0/x") == []


@pytest.mark.parametrize(
    "pasted", ["{}/my shot.png", "'{}/my shot.png'", "{}/my\\ shot.png", "file://{}/my%20shot.png "]
)
def test_a_path_that_was_dragged_into_the_terminal_is_a_mention(home: Path, pasted: str) -> None:
    assert pasted_mention(pasted.format(home), Path("/elsewhere")) == f'@"{home}/my shot.png"'


def test_a_file_of_the_workspace_is_named_as_there(home: Path) -> None:
    assert pasted_mention(f"{home}/图.png\n", home) == "@图.png"
    assert pasted_mention("~/plan.md", home) == "@plan.md"


@pytest.mark.parametrize(
    "pasted",
    load_table(__file__, "any_other_text_stays_as_it_is"),
)
def test_any_other_text_stays_as_it_is(home: Path, pasted: str) -> None:
    assert pasted_mention(pasted.format(home, home), home) is None


async def test_the_path_of_a_picture_becomes_a_mention(tmp_path: Path) -> None:
    picture = tmp_path / "my shot.png"
    picture.write_bytes(b"\x89PNG")
    async with chatting(FakeRuntime(tmp_path)) as (app, pilot):
        prompt = app.chat.composer.prompt
        prompt.take("what is this? ")
        prompt.post_message(Paste(f"'{picture}' "))
        await until(pilot, lambda: prompt.text == f'what is this? @"{picture}" ')
        prompt.take("/export ")
        prompt.post_message(Paste(str(picture)))
        await until(pilot, lambda: prompt.text == f"/export {picture}")
        prompt.take("")
        prompt.post_message(Paste(f"{picture} is gone"))
        await until(pilot, lambda: prompt.text == f"{picture} is gone")


PNG = b"\x89PNG\r\n\x1a\n" + bytes(600)


def program(folder: Path, name: str, printed: bytes) -> dict[str, str]:
    """The environment in which the program `name` prints that."""
    (folder / "printed").write_bytes(printed)
    file = folder / name
    file.write_text(
        f"#!{sys.executable}\nimport sys\nsys.stdout.buffer.write(open({str(folder / 'printed')!r}, 'rb').read())\n"
    )
    file.chmod(0o700)
    return {"PATH": str(folder), "DISPLAY": ":0", "WSL_DISTRO_NAME": "x"}


def test_each_system_has_its_programs() -> None:
    assert [command[0] for command in readers("darwin", {})] == ["pngpaste", "osascript"]
    assert [command[0] for command in readers("win32", {})] == ["powershell.exe"]
    linux = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}
    assert [command[0] for command in readers("linux", linux)] == ["wl-paste", "xclip"]
    assert readers("linux", {}) == []


@pytest.mark.parametrize(
    ("name", "platform", "printed"),
    [
        ("xclip", "linux", PNG),
        ("powershell.exe", "linux", base64.b64encode(PNG) + b"\r\n"),
        ("osascript", "darwin", "«data PNGf".encode() + PNG.hex().upper().encode() + "»\n".encode()),
    ],
)
async def test_a_picture_is_read_as_the_program_prints_it(
    tmp_path: Path, name: str, platform: str, printed: bytes
) -> None:
    assert await read_picture(program(tmp_path, name, printed), platform) == PNG


async def test_without_a_picture_or_a_program_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ClipboardError, match="no picture") as told:
        await read_picture(program(tmp_path, "xclip", b"only words"), "linux")
    assert "@picture.png" in told.value.hint
    with pytest.raises(ClipboardError) as told:
        await read_picture({"PATH": "/nowhere", "WAYLAND_DISPLAY": "w"}, "linux")
    assert "wl-paste" in told.value.hint


def test_it_is_kept_for_the_user_alone_and_never_outside_the_workspace(tmp_path: Path) -> None:
    first, second = (keep_picture(PNG, tmp_path, NOW) for _ in "12")
    assert first != second
    assert (tmp_path / first).read_bytes() == PNG
    assert stat.S_IMODE((tmp_path / second).stat().st_mode) == 0o600
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "attachments").symlink_to(tmp_path)
    with pytest.raises(ClipboardError):
        keep_picture(PNG, workspace, NOW)


async def test_ctrl_v_attaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = FakeRuntime(tmp_path)
    runtime.status = structs.replace(runtime.status, workspace=tmp_path)
    for name, value in program(tmp_path, "xclip", PNG).items():
        monkeypatch.setenv(name, value)
    async with chatting(runtime) as (app, pilot):
        prompt = app.chat.composer.prompt
        await pilot.press("a", "ctrl+v")
        await until(pilot, lambda: prompt.text.startswith("a @attachments/clipboard-20261120-"))
        program(tmp_path, "xclip", b"")
        await pilot.press("ctrl+v")
        await until(pilot, lambda: "There is no picture" in screen_text(app))
