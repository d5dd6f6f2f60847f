"""`kill -9` at every step of a recorded change, an undo, a scan and a bound: each file is whole, and no change is lost
or doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.authors import Author, recording
from clawbot.files import digest_of
from clawbot.guarded import GuardedFolder
from clawbot.history import History
from tests.clocks import StillClock
from tests.faults import kill_at_each
from tests.history.conftest import NOTE, opened

IMPORTS = """
    from pathlib import Path
    from clawbot.authors import Author, recording
    from clawbot.guarded import GuardedFolder
    from clawbot.tools.append_only import AppendOnlyFile
    from clawbot.tools.folder import WorkspaceFolder
    from tests.clocks import StillClock
    from tests.history.conftest import NOTE, opened
"""
STORY = """
    from pathlib import Path
    from clawbot.authors import Author, recording
    from clawbot.guarded import GuardedFolder
    from clawbot.tools.append_only import AppendOnlyFile
    from clawbot.tools.folder import WorkspaceFolder
    from tests.clocks import StillClock
    from tests.history.conftest import NOTE, opened

    history = opened(Path.cwd(), StillClock())
    files = GuardedFolder(Path.cwd() / "workspace")
    arm()
    with recording(history, Author("tool:edit", "s1")):
        {action}
"""
BEFORE, AFTER = b"one\n", b"one\ntwo\n"
# What is done, what the note holds before and after it, and who did it.
ACTIONS = {
    "create": ('files.create("memory/new.md", b"new\\n")', None, b"new\n", "tool:edit"),
    "replace": ('files.replace(NOTE, b"one\\ntwo\\n")', BEFORE, AFTER, "tool:edit"),
    "append": (
        'AppendOnlyFile(WorkspaceFolder(files.root), NOTE, lambda _: None).add("", "two", complete=False)',
        BEFORE, AFTER, "tool:edit",
    ),
    "rename": ('files.rename(NOTE, "new.md")', BEFORE, None, "tool:edit"),
    "erase": ("files.erase(NOTE)", BEFORE, None, "tool:edit"),
    "undo": ('history.undo_last(Author("undo", "s1"))', BEFORE, None, "undo"),
    "notice": ("history.notice()", b"by hand\n", b"by hand\n", "user"),
    "prune": ("opened(Path.cwd(), StillClock(StillClock().moment.replace(year=2030))).prune()", BEFORE, BEFORE, ""),
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / "workspace" / "memory").mkdir(parents=True)
    history = opened(folder, StillClock())
    history.notice()
    with recording(history, Author("tool:write", "s1")):
        GuardedFolder(folder / "workspace").create(NOTE, BEFORE)
    history.notice()
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", ACTIONS)
def test_a_kill_leaves_whole_files_and_a_history_that_fits_them(home: Path, tmp_path: Path, name: str) -> None:
    action, before, after, by = ACTIONS[name]
    path = "memory/new.md" if name == "create" else NOTE
    if name == "notice":
        (home / "workspace" / NOTE).write_bytes(b"by hand\n")
    homes = kill_at_each(IMPORTS, STORY.format(action=action), place=home, into=tmp_path / "steps")
    assert len(homes) > 5
    for number, killed in enumerate(homes, 1):
        where = f"{name}, step {number} of {len(homes)}"
        file = killed / "workspace" / path
        held = file.read_bytes() if file.exists() else None
        assert held in (before, after), where
        assert not list((killed / "workspace").rglob("*.tmp")) or number < len(homes), where
        history = opened(killed, StillClock())
        history.notice()
        check(history, killed / "workspace", where)
        made = [change for change in history.changes() if change.author.by == by]
        done = held == after and (name != "rename" or not file.exists())
        assert len(made) == (done if by else 0), where
        history.prune()
        assert not [*history.folder.rglob("*.tmp")], where


def check(history: History, workspace: Path, where: str) -> None:
    """Each file is what its last change made of it, and each change begins with what the one before has made."""
    changes = history.changes()
    assert len({change.id for change in changes}) == len(changes), where
    states: dict[str, str] = {}
    for change in reversed(changes):
        assert change.before == states.pop(change.was or change.path, change.before), where
        states[change.path] = change.after
        assert change.author.by != "user" or "notice" in where, where
    for path, digest in states.items():
        file = workspace / path
        assert (digest_of(file.read_bytes()) if file.exists() else "") == digest, where
