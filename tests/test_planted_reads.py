"""What a command planted in the workspace: no reader of the program is led out by it, waits for it or fails over it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from clawbot.agent.events import TurnEnded
from clawbot.agent.notes import locate_note
from clawbot.background import _heartbeat_file
from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home, shipped
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import StartupContextSettings
from clawbot.config.schema_memory import ExtraPath
from clawbot.config.switches import Switches
from clawbot.context.bootstrap import read_bootstrap
from clawbot.context.privacy import privacy_of
from clawbot.context.startup import startup_quote
from clawbot.context.workspace import FILES, FOLDERS, bent_paths, diff_workspace, mend_workspace
from clawbot.errors import ClawbotError
from clawbot.forget.files import FileEditor, Phrase, still_there
from clawbot.forget.notes import Notes
from clawbot.guarded import GuardedFolder
from clawbot.hooks.discovery import find_hooks
from clawbot.importing.habits import _notes_in, _text
from clawbot.memory.documents.indexed_text import count_notes
from clawbot.memory.documents.memory_files import MemoryDocuments, UnreadableDocumentError
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.skills.discovery import SkillCatalog
from clawbot.tools.workspace_files import list_workspace_files, read_workspace_file
from tests.test_planted_links import _at_step, _plant, _put, _swapper, shut

NOW = datetime(2026, 11, 20, 16, 12, tzinfo=UTC)
NOTE = "memory/2026-11-20-api-plan.md"
SESSION = "0a1b2c3d-1111-4111-8111-111111111111"
SECRET = "s3cr3t-of-the-user"
HOOK = f"---\nname: h\ndescription: {SECRET}\nevents: [session:end]\n---\n"
SKILL = f"---\nname: s\ndescription: {SECRET}\n---\n"

Reader = Callable[[Path], object]


def _index(workspace: Path, *extra: str) -> list[object]:
    documents = MemoryDocuments(workspace, [ExtraPath(path=Path(path)) for path in extra])
    found: list[object] = [documents.list()]
    for path in (NOTE, "MEMORY.md", "a/b/x.md"):
        with contextlib.suppress(ClawbotError):
            found.append(documents.read_path(path))
    for state in documents.list().files:
        with contextlib.suppress(UnreadableDocumentError):
            found.append(documents.read(state))
    return found


def _settings() -> Settings:
    return Settings.model_validate({}, context={"home": find_home()})


def _hooks(workspace: Path) -> object:
    return find_hooks(Paths(find_home()), _settings().hooks, workspace, Switches())


def _skills(workspace: Path) -> object:
    return SkillCatalog(Paths(find_home()), _settings().skills, workspace).scan()


def _to_forget(workspace: Path) -> object:
    notes = Notes(workspace, MemoryDocuments(workspace, ()))
    return notes.paths, [notes.text(path) for path in notes.paths]


def _left(workspace: Path) -> object:
    found = list(still_there([workspace], Phrase(SECRET), FileEditor(workspace, dry_run=False), ()))
    assert not any(SECRET in left.why for left in found)
    return [left for left in found if not left.unseen]


def _diff(workspace: Path) -> object:
    record = Paths(find_home()).workspace_record(workspace)
    return diff_workspace(workspace, shipped("workspace_template"), record, ["USER.md"])


X = ("a", "a/b", "a/b/x.md")
READERS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "prompt": (lambda top: read_bootstrap(top, privacy_of("main")), ("AGENTS.md", "MEMORY.md", "BOOTSTRAP.md")),
    "heartbeat": (_heartbeat_file, ("HEARTBEAT.md",)),
    "start quote": (lambda top: startup_quote(top, NOW, StartupContextSettings()), ("memory", NOTE)),
    "index": (_index, ("MEMORY.md", "memory", NOTE)),
    "index of a folder": (lambda top: _index(top, "a/b"), X),
    "number of notes": (count_notes, ("memory", "MEMORY.md")),
    "note of a session": (lambda top: locate_note(top, "memory/2026-11-20-x.md", SESSION, 0.0), ("memory", NOTE)),
    "diff": (_diff, ("USER.md",)),
    "edit": (lambda top: read_workspace_file(top, "a/b/x.md"), X),
    "list": (list_workspace_files, X),
    "hooks": (_hooks, ("hooks/h", "hooks/h/HOOK.md", "hooks/h/handler.py", "hooks/h/other.py")),
    "skills": (_skills, ("skills/s", "skills/s/SKILL.md")),
    "notes to forget": (_to_forget, ("USER.md", "memory", NOTE)),
    "rest after forgetting": (_left, X),
    "notes elsewhere": (_notes_in, X),
    "what other programs read": (lambda top: _text(top, "CLAUDE.md"), ("CLAUDE.md",)),
    "what is bent": (bent_paths, ("memory", "USER.md", ".clawbot", "exports")),
}
PLACES = [(name, place) for name, (_, places) in READERS.items() for place in places]
# What these read is off until the user trusts it, by its real path and its content.
RACED = [(name, place) for name, place in PLACES if name not in ("hooks", "skills")]


def _furnish(top: Path) -> Path:
    """A workspace that has everything, and outside of it the same with a secret in it."""
    for name, words in (("workspace", "tea"), ("outside", SECRET)):
        shutil.rmtree(top / name, ignore_errors=True)
        for place in (*FILES, "CLAUDE.md", NOTE, "a/b/x.md", "exports/x.md", "attachments/x.md", ".clawbot/x"):
            _put(top / name / place, f"# {words}\n\n- **Session ID**: {SESSION}\n\n{words}\n")
        _put(top / name / "hooks/h/HOOK.md", HOOK.replace(SECRET, words))
        _put(top / name / "hooks/h/handler.py", "async def handle(event):\n    pass\n")
        _put(top / name / "hooks/h/other.py", f"# {words}\n")
        _put(top / name / "skills/s/SKILL.md", SKILL.replace(SECRET, words))
    return top / "workspace"


def _read(name: str, workspace: Path) -> str:
    """What the reader returns, or why it refuses."""
    try:
        return repr(READERS[name][0](workspace))
    except (ClawbotError, OSError) as error:
        return repr(error)


@pytest.mark.parametrize("name", READERS)
def test_each_reader_reads_where_nothing_is_in_its_way(tmp_path: Path, name: str) -> None:
    read = READERS[name][0](_furnish(tmp_path))
    assert bool(read) == (name not in ("what is bent", "rest after forgetting"))


@pytest.mark.parametrize("kind", ["out", "missing", "loop", "fifo", "folder", "file", "shut"])
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_no_reader_is_led_out_or_waits(tmp_path: Path, name: str, place: str, kind: str) -> None:
    workspace = _furnish(tmp_path)
    path = workspace / place
    with contextlib.ExitStack() as during:
        match kind:
            case "out":
                _plant(path, tmp_path / "outside" / place)
            case "missing":
                _plant(path, tmp_path / "outside/nothing")
            case "loop":
                _plant(path, path.name)
            case "shut":
                during.enter_context(shut(path))
            case _:
                path.rename(tmp_path / "aside")
                os.mkfifo(path) if kind == "fifo" else path.mkdir() if kind == "folder" else path.touch()
        assert SECRET not in _read(name, workspace)


@pytest.mark.long
@pytest.mark.parametrize(("name", "place"), RACED)
def test_nor_by_a_link_that_takes_its_place_at_any_step(tmp_path: Path, name: str, place: str) -> None:
    number = done = 0
    workspace = _furnish(tmp_path)
    while number <= done:
        number += 1
        _furnish(tmp_path)
        swap, _back = _swapper(workspace / place, tmp_path / "outside" / place)
        with _at_step(number, swap, lambda: None) as count:
            read = _read(name, workspace)
            done = count()
        assert SECRET not in read, f"step {number}"
    assert done


@pytest.mark.parametrize("place", [*FOLDERS, "AGENTS.md", "USER.md", "BOOTSTRAP.md"])
@pytest.mark.parametrize("kind", ["fifo", "loop", "out", "other"])
def test_what_is_bent_is_named_and_set_aside(tmp_path: Path, place: str, kind: str) -> None:
    workspace = _furnish(tmp_path)
    path = workspace / place
    path.rename(tmp_path / "aside")
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "loop":
            path.symlink_to(path.name)
        case "out":
            path.symlink_to(tmp_path / "outside" / place)
        case _:
            path.touch() if place in FOLDERS else path.mkdir()
    named = [bent.path for bent in bent_paths(workspace)]
    if kind == "out" and place in ("hooks", "skills"):
        assert named == []
        return
    assert named == [path]
    [line] = mend_workspace(workspace)
    assert str(path) in line
    assert bent_paths(workspace) == []
    assert os.path.lexists(workspace / f"{place}.bent-1")


def test_doctor_names_it_and_mends_it() -> None:
    workspace = find_home() / "workspace"
    (workspace / "exports").mkdir(parents=True)
    os.mkfifo(workspace / "memory")
    run = CliRunner().invoke(root, ["doctor", "--no-ping"])
    assert f"{workspace}/memory is a link or a file, not a folder" in run.output
    assert "clawbot doctor --fix" in run.output
    run = CliRunner().invoke(root, ["doctor", "--no-ping", "--fix"])
    assert f"{workspace}/memory is now memory.bent-1" in run.output
    assert not (workspace / "memory").exists()
    assert (workspace / "memory.bent-1").is_fifo()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("place", ["", *FOLDERS])
def test_a_folder_that_was_shut_is_opened_again(tmp_path: Path, place: str) -> None:
    workspace = _furnish(tmp_path)
    (workspace / place).chmod(0)
    assert [bent.path for bent in bent_paths(workspace)] == [workspace / place]
    assert mend_workspace(workspace)
    assert bent_paths(workspace) == []


def test_only_the_folder_itself_is_opened_again(tmp_path: Path) -> None:
    for name in ("memory", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0)
    (tmp_path / "link").symlink_to("outside")
    GuardedFolder(tmp_path).unshut("memory")
    assert (tmp_path / "memory").stat().st_mode & 0o777 == 0o700
    with pytest.raises(NotADirectoryError):
        GuardedFolder(tmp_path).unshut("link")
    assert (tmp_path / "outside").stat().st_mode & 0o777 == 0


@pytest.mark.parametrize("kind", ["shut", "file"])
async def test_a_workspace_that_was_used_and_is_bent_itself_stops_no_start(tmp_path: Path, kind: str) -> None:
    workspace = find_home() / "workspace"
    options = RuntimeOptions(model="offline").unattended()
    await (await Runtime.open(options)).close()
    if kind == "file":
        workspace.rename(tmp_path / "aside")
        workspace.touch()
    with shut(workspace) if kind == "shut" else contextlib.nullcontext():
        runtime = await Runtime.open(options)
        [notice] = [notice.text for notice in runtime.notices if "clawbot doctor --fix" in notice.text]
        events = [event async for event in runtime.agent.submit("hello")]
        await runtime.close()
    assert str(workspace) in notice
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].status == "done"
