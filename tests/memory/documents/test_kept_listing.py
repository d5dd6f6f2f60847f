"""A listing that is kept is what a walk would list, whatever happened to the files in between."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clawbot.config.schema_memory import ExtraPath
from clawbot.memory.documents import kept_listing
from clawbot.memory.documents.memory_files import MemoryDocuments
from clawbot.memory.documents.walking import Closed, Walk

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")

EXTRAS = [
    ExtraPath(path=Path("extra")),
    ExtraPath(path=Path("../outside"), pattern="**/*.txt"),
    ExtraPath(path=Path("one/note.md")),
]


class Walks:
    """How often folders were walked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        listing = Walk.listing

        def counted(walk: Walk) -> object:
            self.count += 1
            return listing(walk)

        monkeypatch.setattr(Walk, "listing", counted)

    def of(self, work: Callable[[], object]) -> int:
        """Those that `work` takes."""
        before = self.count
        work()
        return self.count - before


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> Walks:
    return Walks(monkeypatch)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    found = tmp_path / "home" / "workspace"
    for number in range(5):
        write(found / "memory" / f"{number}.md", f"{number}")
    write(found / "MEMORY.md", "all")
    write(found / "extra" / "deep" / "er" / "日记.md", "x")
    write(found / "one" / "note.md", "x")
    write(found.parent / "outside" / "a.txt", "x")
    return found


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def kept(workspace: Path, closed: Callable[[], Closed] | None = None) -> MemoryDocuments:
    """Documents whose listing is kept."""
    found = MemoryDocuments(workspace, EXTRAS, closed, watch=True)
    found.list()
    found.list()
    return found


def save(path: Path, text: str) -> None:
    """As editors do: a new file takes the place of the old one."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def test_a_listing_is_kept_until_something_changes(workspace: Path, walks: Walks) -> None:
    documents = kept(workspace)
    first = documents.list()
    assert walks.of(documents.list) == 0
    assert documents.list() is first
    assert first == MemoryDocuments(workspace, EXTRAS).list()
    assert len(first.files) == 9


@pytest.mark.parametrize("change", [write, save, lambda path, _: path.chmod(0o640), lambda path, _: os.utime(path)])
def test_a_changed_file_is_seen(workspace: Path, walks: Walks, change: Callable[[Path, str], None]) -> None:
    documents = kept(workspace)
    names = ("memory/3.md", "MEMORY.md", "one/note.md", "extra/deep/er/日记.md", "../outside/a.txt")
    for number, name in enumerate(names):
        before = documents.list()
        change(workspace / name, "another text" * number)
        assert walks.of(documents.list) == 1
        assert documents.list() != before
        assert documents.list() == MemoryDocuments(workspace, EXTRAS).list()
    assert walks.of(documents.list) == 0


def test_what_is_no_note_does_not_matter(workspace: Path, walks: Walks) -> None:
    documents = kept(workspace)
    first = documents.list()
    write(workspace / "other.md", "x")
    write(workspace / "memory" / "picture.png", "x")
    write(workspace / "memory" / ".hidden.md", "x")
    write(workspace / "memory" / ".git" / "x.md", "x")
    (workspace / "memory" / "picture.png").unlink()
    assert walks.of(documents.list) == 0
    assert documents.list() is first


def test_another_process_may_write(workspace: Path) -> None:
    documents = kept(workspace)
    before = documents.list()
    assert os.spawnlp(os.P_WAIT, "sh", "sh", "-c", f"echo more >> '{workspace}/memory/2.md'") == 0
    assert documents.list() != before
    assert documents.list() == MemoryDocuments(workspace, EXTRAS).list()


NAMES = ("a.md", "B.markdown", "memory.md", "x.txt", ".d.md", "note.md", "é.md", "memory", "node_modules")


def _anything(choose: random.Random, root: Path, number: int) -> None:
    """Do something to the files below `root`."""
    every = sorted(root.rglob("*"))
    folders = [root / "workspace", *(one for one in every if one.is_dir() and not one.is_symlink())]
    files = [one for one in every if one.is_file() or one.is_symlink()] or [root / "workspace" / "memory" / "0.md"]
    file, other, folder = choose.choice(files), choose.choice(files), choose.choice(folders)
    place = folder / choose.choice(NAMES)
    things: dict[str, Callable[[], object]] = {
        "write": lambda: write(file, "x" * number),
        "append": lambda: write(file, file.read_text(encoding="utf-8") + "x"),
        "save": lambda: save(file, "y" * number),
        "create": lambda: place.write_text("z" * number, encoding="utf-8"),
        "create again": lambda: place.write_text("z" * number, encoding="utf-8"),
        "delete": file.unlink,
        "rename": lambda: file.rename(place),
        "make": place.mkdir,
        "remove": lambda: shutil.rmtree(folder),
        "move": lambda: folder.rename(choose.choice(folders) / place.name),
        "link": lambda: place.symlink_to(choose.choice([file, folder])),
        "hard link": lambda: os.link(file, root / "workspace" / "memory" / choose.choice(("x.txt", "note.md"))),
        "replace": lambda: file.replace(other),
    }
    things[choose.choice(list(things))]()


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(12))
def test_after_anything_it_is_what_a_walk_lists(workspace: Path, seed: int) -> None:
    choose = random.Random(seed)
    documents = kept(workspace)
    original = workspace.parent.with_name("original")
    shutil.copytree(workspace.parent, original)
    done = 0
    for number in itertools.count():
        try:
            _anything(choose, workspace.parent, number)
        except OSError:
            continue
        done += 1
        if choose.random() < 0.7:
            assert documents.list() == MemoryDocuments(workspace, EXTRAS).list()
        if done % 30 == 0:
            # Everything at once, as a checkout of another branch does.
            shutil.rmtree(workspace.parent, ignore_errors=True)
            shutil.copytree(original, workspace.parent)
        if done == 150:
            break


def test_another_folder_in_the_place_of_the_workspace_is_seen(workspace: Path) -> None:
    documents = kept(workspace)
    home = workspace.parent
    shutil.copytree(home, home.with_name("copy"))
    write(home.with_name("copy") / "workspace" / "memory" / "new.md", "x")
    # Nothing happens in a folder that is watched: those above have other names since.
    home.rename(home.with_name("old"))
    home.with_name("copy").rename(home)
    assert "memory/new.md" in {file.path for file in documents.list().files}


def test_too_many_changes_to_tell_are_walked(workspace: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = kept(workspace)
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    for number in range(limit // 2 + 10):
        for name in ("1.md", "2.md"):
            os.utime(workspace / "memory" / name, (number, number))
    write(workspace / "memory" / "late.md", "x")
    assert walks.of(documents.list) == 1
    assert documents.list() == MemoryDocuments(workspace, EXTRAS).list()
    assert walks.of(documents.list) == 0


def _none_left() -> None:
    raise OSError("none left")


@pytest.mark.parametrize(
    ("name", "value"),
    [("LOCAL", frozenset()), ("FolderWatch", _none_left), ("MAX_SECONDS", -1.0)],
    ids=["a file system that others write to", "a system without watches", "an old listing"],
)
def test_it_walks_where_changes_may_be_missed(
    workspace: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(kept_listing, name, value)
    documents = kept(workspace)
    assert walks.of(documents.list) == 1


def test_a_mount_makes_a_walk(workspace: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = kept(workspace)
    watch = documents._listings._watch
    assert watch is not None

    class Mounted:
        def poll(self, _: int) -> list[tuple[int, int]]:
            return [(0, 0)]

    with monkeypatch.context() as patch:
        patch.setattr(watch, "_mounted", Mounted())
        assert walks.of(documents.list) == 1
    assert walks.of(documents.list) == 0


def test_a_file_with_two_names_is_walked_for(workspace: Path, walks: Walks) -> None:
    # It may be written under the name that nobody watches.
    os.link(workspace / "memory" / "1.md", workspace.parent / "elsewhere")
    documents = kept(workspace)
    assert walks.of(documents.list) == 1
    before = documents.list()
    write(workspace.parent / "elsewhere", "changed")
    assert documents.list() != before


def test_a_fence_that_moves_is_seen(workspace: Path, walks: Walks) -> None:
    shut: set[str] = set()
    documents = kept(workspace, lambda: lambda path: "not yours" if Path(path).name in shut else "")
    assert walks.of(documents.list) == 0
    shut.add("deep")
    assert "extra/deep/er/日记.md" not in {file.path for file in documents.list().files}
    shut.clear()
    assert "extra/deep/er/日记.md" in {file.path for file in documents.list().files}


def test_a_child_takes_no_events_of_its_parent(workspace: Path, walks: Walks, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = kept(workspace)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert walks.of(documents.list) == 1


def test_the_first_listing_of_a_process_watches_nothing(workspace: Path) -> None:
    documents = MemoryDocuments(workspace, EXTRAS, watch=True)
    documents.list()
    assert documents._listings._watch is None
