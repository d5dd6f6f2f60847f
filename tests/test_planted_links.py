"""What a command planted in the workspace: no writer of the program follows it out, and no start fails over it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from clawbot.agent.events import TurnEnded
from clawbot.agent.notes import NoteRequest, keep_note, rename_note
from clawbot.cli.main import root
from clawbot.clock import SystemClock
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.context.workspace import OLD_RECORD, seed_workspace
from clawbot.errors import ClawbotError
from clawbot.files import ensure_private_dir, write_out
from clawbot.forget.files import FileEditor, StubbornFileError
from clawbot.llm.scripted.record import Recorder, answer_at
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.export import default_target, write_export
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.tools.append_only import AppendOnlyFile
from clawbot.tools.folder import WorkspaceFolder
from clawbot.tools.workspace_files import write_workspace_file
from clawbot.tui.pasting import keep_picture

NOW = datetime(2026, 11, 20, 16, 12, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
SESSION = "0a1b2c3d-1111-4111-8111-111111111111"
NOTE = "memory/2026-11-20-api-plan.md"
OLD_NOTE = f"# Session\n\n- **Session ID**: {SESSION}\n\nuser: hello\n"
SECRET = b"s3cr3t-of-the-user"
LEFT = ".2026-11-01-tea.md.x.tmp"

Writer = Callable[[Path], object]


def _seed(workspace: Path, home: Path | None = None) -> None:
    record = Paths(home or find_home()).workspace_record(workspace)
    seed_workspace(workspace, shipped("workspace_template"), SystemClock(), record)


def _export(workspace: Path, target: Path | None = None) -> None:
    folder = ensure_private_dir(find_home() / "sessions")
    with Transcript.create(folder, cwd=workspace, clock=SystemClock()) as made:
        transcript = made.path
    write_export(
        transcript, target or default_target(workspace, "main", "md", NOW), "md", SystemClock(), below=workspace
    )


def _keep_note(workspace: Path) -> None:
    text, began = OLD_NOTE + "\nuser: and more\n", NOW.timestamp() - 60
    keep_note(workspace, NoteRequest(SESSION, began, text, "api-plan", NOW, NOW.timestamp()), lambda _write: None)


def _forget(workspace: Path, after: bytes | None) -> None:
    FileEditor(workspace, dry_run=False).change(workspace / NOTE, lambda _: after)


def _append(workspace: Path) -> None:
    AppendOnlyFile(WorkspaceFolder(workspace), "memory/2026-11-20.md", lambda _write: None).add(
        "", "tea", complete=False
    )


def _record(workspace: Path) -> None:
    async def record() -> None:
        recorder, answer = Recorder(workspace / "talk.yaml"), answer_at("/chat/completions")
        assert answer is not None
        answer.take(b'{"choices": [{"message": {"content": "tea"}, "finish_reason": "stop"}]}')
        for text in ("what do I drink?", "and you?"):  # the first turn makes the file, the second is appended
            await recorder.end(recorder.begin(text, answer))
        if recorder.error is not None:
            raise recorder.error

    asyncio.run(record())


WRITERS: dict[str, tuple[Writer, tuple[str, ...]]] = {
    "seed": (_seed, (*map(str, (OLD_RECORD.parent, OLD_RECORD)), "memory", "AGENTS.md", "MEMORY.md", "BOOTSTRAP.md")),
    "seed the state folder": (lambda top: _seed(top, top), ("workspaces",)),
    "export": (_export, ("exports", "exports/main-2026-11-20-161200.md")),
    "export to a path": (lambda top: _export(top, top / "a/b/x.md"), ("a", "a/b", "a/b/x.md")),
    "export by another name": (lambda top: _export(top, top.parent / "alias/a/new.md"), ("a", "a/new.md")),
    "sessions export": (lambda top: write_out(top / "a/x.md", b"tea", top), ("a", "a/x.md")),
    "picture": (lambda top: keep_picture(PNG, top, NOW), ("attachments", "attachments/clipboard-20261120-161200.png")),
    "note": (_keep_note, ("memory", NOTE)),
    "note again": (_keep_note, ("memory", NOTE)),
    "new name of a note": (lambda top: rename_note(top, NOTE, "other"), ("memory", NOTE, "memory/2026-11-20-other.md")),
    "forget": (lambda top: _forget(top, b"tea\n"), ("memory", NOTE)),
    "forget all": (lambda top: _forget(top, None), ("memory", NOTE)),
    "day note": (_append, ("memory", "memory/2026-11-20.md")),
    "edit": (lambda top: write_workspace_file(top, "a/b/x.md", "tea"), ("a", "a/b", "a/b/x.md")),
    "record of a script": (_record, ("talk.yaml",)),
}
OVER_A_NOTE = ("note again", "new name of a note", "forget", "forget all")
PLACES = [(name, place) for name, (_, places) in WRITERS.items() for place in places]


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _furnish(top: Path, name: str) -> None:
    """The workspace for the writer `name`, and `outside` with what writers look for in folders."""
    for folder in ("workspace", "outside"):
        shutil.rmtree(top / folder, ignore_errors=True)
    (top / "workspace").mkdir()
    if not (top / "alias").is_symlink():
        (top / "alias").symlink_to("workspace")
    for file in ("file", *(f"folder/{n}" for n in (Path(NOTE).name, "2026-11-20.md", "x.md", LEFT, OLD_RECORD.name))):
        _put(top / "outside" / file, f"{OLD_NOTE}{SECRET.decode()}\n")
    os.utime(top / "outside/folder" / LEFT, (0, 0))
    if name in OVER_A_NOTE:
        _put(top / "workspace" / NOTE, OLD_NOTE)


def _seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in `folder`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path.relative_to(folder))] = (mode, path.read_bytes() if stat.S_ISREG(mode) else b"")
    return found


def _plant(path: Path, target: Path | str) -> None:
    """Put a link in the place of whatever is at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        path.rename(path.with_name(f"{path.name}.aside"))
    path.symlink_to(target)


@contextlib.contextmanager
def shut(path: Path) -> Iterator[None]:
    """Nobody may open what has this name: for root, rights are none."""
    opens = os.open

    def refused(name: str, *arguments: int, **options: int) -> int:
        if Path(os.fspath(name)).name == path.name:
            raise PermissionError(13, "Permission denied", name)
        return opens(name, *arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "open", refused)
        yield


def _write(name: str, workspace: Path) -> None:
    """Let the writer write; that it refuses is as good as that it writes something else."""
    with contextlib.suppress(ClawbotError, OSError, StubbornFileError):
        WRITERS[name][0](workspace)


@pytest.mark.parametrize("name", WRITERS)
def test_each_writer_writes_where_nothing_is_in_its_way(tmp_path: Path, name: str) -> None:
    _furnish(tmp_path, name)
    writer, places = WRITERS[name]
    writer(tmp_path / "workspace")
    assert (tmp_path / "workspace" / places[-1]).exists() == (name != "forget all")


@pytest.mark.parametrize("kind", ["file", "folder", "missing", "loop", "pipe", "other", "shut"])
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_no_writer_follows_a_link_out(tmp_path: Path, name: str, place: str, kind: str) -> None:
    _furnish(tmp_path, name)
    path = tmp_path / "workspace" / place
    if kind in ("file", "folder", "missing", "loop"):
        _plant(path, path.name if kind == "loop" else tmp_path / "outside" / kind)
    else:
        if os.path.lexists(path):
            path.rename(path.with_name(f"{path.name}.aside"))
        _put(path / "x", "")  # a folder in the place of a file
        if kind == "pipe":
            shutil.rmtree(path)
            os.mkfifo(path)
    before = _seen(tmp_path / "outside")
    with shut(path) if kind == "shut" else contextlib.nullcontext():
        _write(name, tmp_path / "workspace")
    _nothing_got_out_or_in(tmp_path, before)


def _nothing_got_out_or_in(top: Path, before: dict[str, tuple[int, bytes]], when: str = "") -> None:
    assert _seen(top / "outside") == before, when
    assert not any(SECRET in data for _, data in _seen(top / "workspace").values()), when


STEPS = ("open", "mkdir", "stat", "lstat", "readlink", "scandir", "listdir", "rename", "replace", "link", "unlink")


@contextlib.contextmanager
def _at_step(number: int, swap: Callable[[], None], back: Callable[[], None]) -> Iterator[Callable[[], int]]:
    """Call `swap` before the call of the system with this number, and `back` before the next one; yields the count."""
    count = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(call)
        def counting(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            with contextlib.suppress(OSError):
                (swap if count == number else back if count == number + 1 else int)()
            return call(*arguments, **options)

        return counting

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", int)
        for name in STEPS:
            patched.setattr(os, name, counted(getattr(os, name)))
        yield lambda: count


def _swapper(path: Path, target: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """What puts a link to `target` in the place of `path`, and what takes it away again, by calls of their own."""
    rename, symlink, unlink, aside = os.rename, os.symlink, os.unlink, path.with_name("aside")

    def swap() -> None:
        with contextlib.suppress(FileNotFoundError):
            rename(path, aside)
        symlink(target, path)

    def back() -> None:
        unlink(path)
        with contextlib.suppress(FileNotFoundError):
            rename(aside, path)

    return swap, back


@pytest.mark.long
@pytest.mark.parametrize("stays", [True, False], ids=["for good", "for a moment"])
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_nor_one_that_takes_its_place_at_any_step(tmp_path: Path, name: str, place: str, stays: bool) -> None:
    path, outside = tmp_path / "workspace" / place, tmp_path / "outside"
    is_folder = not path.name.endswith((".md", ".png", ".json", ".yaml"))
    number = done = 0
    while number <= done:
        number += 1
        _furnish(tmp_path, name)
        if is_folder and place != "exports":
            path.mkdir(parents=True, exist_ok=True)
        before = _seen(outside)
        swap, back = _swapper(path, outside / ("folder" if is_folder else "file"))
        with _at_step(number, swap, (lambda: None) if stays else back) as count:
            _write(name, tmp_path / "workspace")
            done = count()
        _nothing_got_out_or_in(tmp_path, before, f"step {number}")
    assert done > 5


def test_an_export_says_what_is_in_its_way(tmp_path: Path) -> None:
    _plant(tmp_path / "exports", tmp_path / "outside")
    with pytest.raises(ClawbotError, match=r"exports/main-.* exports is a link or a file, not a folder") as caught:
        _export(tmp_path)
    assert "remove what is in the way" in caught.value.hint


@pytest.mark.parametrize("command", [("sessions", "export", "main", "--output"), ("feedback",)], ids=" ".join)
def test_no_command_writes_to_a_path_through_a_planted_folder(tmp_path: Path, command: tuple[str, ...]) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    outside.mkdir()
    _plant(workspace / "a", outside)
    sessions = ensure_private_dir(Paths(find_home()).sessions("main"))
    SessionStore(sessions, SystemClock()).open().close()
    (find_home() / "config.yaml").write_text(f"agents: {{main: {{workspace: '{workspace}'}}}}", encoding="utf-8")
    for target, code in (("b/x.md", 0), ("a/x.md", 1)):
        done = CliRunner().invoke(root, [*command, str(workspace / target)])
        assert done.exit_code == code, done.output
        assert (workspace / "b/x.md").exists()
    assert "a is a link or a file, not a folder" in done.output
    assert list(outside.iterdir()) == []


BENDS = [
    *((str(OLD_RECORD.parent), kind) for kind in ("file", "fifo", "loop", "/dev/zero", "out")),
    *((str(OLD_RECORD), kind) for kind in ("folder", "fifo", "loop", "/dev/zero", "/proc/self/mem", "out", "deep")),
    *(("BOOTSTRAP.md", kind) for kind in ("folder", "fifo", "loop", "/dev/zero", "/proc/self/mem", "out")),
    *(("USER.md", kind) for kind in ("folder", "fifo", "loop", "/proc/self/mem")),
    *(("memory", kind) for kind in ("file", "fifo", "loop", "/dev/zero", "out")),
    *((place, kind) for place in ("hooks", "skills", "exports", ".git") for kind in ("file", "fifo", "loop", "out")),
]


@pytest.mark.few(8)
@pytest.mark.parametrize(("place", "kind"), BENDS)
async def test_no_start_fails_over_what_was_bent(place: str, kind: str) -> None:
    workspace = find_home() / "workspace"
    path = workspace / place
    path.parent.mkdir(parents=True)
    match kind:
        case "file":
            path.touch()
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "deep":
            path.write_text('{"x":' * 100_000, encoding="utf-8")
        case "out":
            (find_home().parent / "outside").mkdir()
            path.symlink_to(find_home().parent / "outside")
        case _:
            path.symlink_to(kind)
    runtime = await Runtime.open(RuntimeOptions(model="offline").unattended())
    events = [event async for event in runtime.agent.submit("hello")]
    await runtime.close()
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "done"
    assert Paths(find_home()).workspace_record(workspace).is_file()
