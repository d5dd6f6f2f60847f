"""Whatever lies in the workspace, a file tool answers in words and its work is bounded."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from clawbot.config.schema_agent import AgentSettings
from clawbot.memory.documents.indexed_text import count_notes
from clawbot.tools import listing
from clawbot.tools.paths import Barred, Bounds, Fence
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from clawbot.tools.workspace_files import list_workspace_files
from clawbot.trees import DEEPEST
from tests.hostile import Thing, make_deep, make_things, removed, things
from tests.tools.conftest import Run, box_of, call, link

pytestmark = pytest.mark.usefixtures("no_tracebacks")


@pytest.fixture
def no_tracebacks(caplog: pytest.LogCaptureFixture) -> object:
    """A tool that fails in words writes no traceback into the log."""
    yield None
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("tool", ["write", "append", "edit"])
async def test_no_more_folders_inside_each_other_than_a_walk_finds(run: Run, workspace: Path, tool: str) -> None:
    more = {"edit": {"old_string": "a", "new_string": "b"}}.get(tool, {"content": "x"})
    outcome = await run(tool, path="memory/" + "d/" * 1500 + "n.md", **more)
    assert outcome.is_error
    if tool != "edit":
        assert f"{DEEPEST} are the most" in outcome.text
    assert not (workspace / "memory" / "d").exists()
    written = await run("write", path="d/" * DEEPEST + "n.md", content="as deep as it goes")
    assert not written.is_error
    assert "as deep as it goes" in (await run("grep", pattern="deep as")).text


@pytest.mark.long
async def test_list_and_grep_over_a_deep_tree_say_what_they_left_out(run: Run, workspace: Path) -> None:
    with removed(workspace / "deep") as deep:
        make_deep(deep, 1500)
        (workspace / "deep" / "z.md").write_text("proxy\n", encoding="utf-8")
        listed = await run("list", pattern="**/*.md")
        assert not listed.is_error
        assert "deep/z.md" in listed.text.splitlines()
        assert f"it is more than {DEEPEST} folders deep" in listed.text.splitlines()[-1]
        found = await run("grep", pattern="proxy")
        assert "deep/z.md:1:proxy" in found.text.splitlines()
        assert f"it is more than {DEEPEST} folders deep" in found.text.splitlines()[-1]
        assert "deep/z.md" in list_workspace_files(workspace)


@pytest.mark.long
def test_notes_are_counted_as_far_as_a_walk_goes(tmp_path: Path) -> None:
    with removed(tmp_path / "w") as workspace:
        make_deep(workspace / "memory", 1500)
        (workspace / "memory" / "a.md").touch()
        (workspace / "memory" / "folder.md").mkdir()
        (workspace / "MEMORY.md").write_text("- a fact\n")
        assert count_notes(workspace) == 2


@pytest.mark.parametrize("memory", ["missing", "file", "link to itself", "unreadable"])
def test_a_memory_folder_that_is_none_counts_nothing(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "memory"
    if memory == "file":
        place.touch()
    elif memory == "link to itself":
        place.symlink_to(place)
    elif memory == "unreadable":
        place.mkdir()

        def refused(*_: object, **__: object) -> int:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(os, "open", refused)
    assert count_notes(tmp_path) == 0


async def test_a_wide_folder_is_read_up_to_a_bound(run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (workspace / f"{number:02}.md").touch()
    monkeypatch.setattr(listing, "MAX_TREE_ENTRIES", 10)
    outcome = await run("list")
    assert len(outcome.text.splitlines()) == 11
    assert outcome.text.splitlines()[-1] == "[there are more than 10 entries, and the rest was left out]"


@pytest.mark.parametrize("pattern", ["**/" * 500, "*" * 5000, "{a,b}" * 90, "**/a/" * 90 + "*", "[" * 400, "**/" * 160])
@pytest.mark.parametrize("tool", ["list", "grep"])
async def test_a_glob_that_explodes(run: Run, workspace: Path, tool: str, pattern: str) -> None:
    (workspace / ("a/" * 40)).mkdir(parents=True)
    (workspace / ("a/" * 40) / "f").touch()
    arguments = {"pattern": pattern} if tool == "list" else {"pattern": "x", "glob": pattern}
    outcome = await run(tool, **arguments)
    assert "failed:" not in outcome.text


UNUSABLE = {
    "long": "n" * 300,
    "long in Chinese": "会" * 100,
    "deep": "d/" * 3000 + "f",
    "longer than any": "x" * 5000,
    "half a character": chr(0xD800),
    "NUL": "a\0b",
    "nobody's home": "~nobody/x",
    "long below": "a/" + "n" * 300,
}


@pytest.mark.parametrize("tool", ["read", "list", "grep", "write", "append", "edit"])
@pytest.mark.parametrize("kind", UNUSABLE)
async def test_a_path_that_no_system_takes_is_refused_in_words(run: Run, tool: str, kind: str) -> None:
    path = UNUSABLE[kind]
    more = {
        "grep": {"pattern": "x"},
        "write": {"content": "x"},
        "append": {"content": "x"},
        "edit": {"old_string": "a", "new_string": "b"},
    }
    outcome = await run(tool, path=path, **more.get(tool, {}))
    assert outcome.is_error or (kind, tool) == ("nobody's home", "write") or (kind, tool) == ("nobody's home", "append")
    assert "failed:" not in outcome.text
    assert "Errno" not in outcome.text
    assert len(outcome.text) < 700


async def test_a_link_that_is_replaced_while_it_is_followed(
    run: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(workspace / "link", "MEMORY.md")

    def replaced(path: object, **_: object) -> str:
        raise OSError(errno.EINVAL, "Invalid argument", path)

    monkeypatch.setattr(os, "readlink", replaced)
    # Since Python 3.13 the path resolves to the link itself, which is no file.
    refusals = ("link cannot be followed: Invalid argument.", "link is a symlink, not a file: refused.")
    assert (await run("read", path="link")).text in refusals
    assert "link" in (await run("list")).text.splitlines()


def test_another_name_of_a_file_in_a_deep_barred_folder_is_refused(tmp_path: Path) -> None:
    with removed(tmp_path / "other") as other:
        make_deep(other, 1500)
        (tmp_path / "work").mkdir()
        one = tmp_path / "work" / "one"
        one.touch()
        bounds = Bounds(tmp_path / "work", Fence(denied=(Barred(other, "no"),)))
        assert not bounds.is_twin(one.stat())
        os.link(one, tmp_path / "work" / "two")
        assert bounds.is_twin(one.stat())


async def everything(_question: ApprovalQuestion) -> ApprovalAnswer:
    return ApprovalAnswer("once")


@settings(deadline=None, max_examples=25)
@given(things)
def test_no_tool_fails_over_a_hostile_tree(chosen: list[Thing]) -> None:
    with tempfile.TemporaryDirectory() as name, removed(Path(name) / "w") as workspace:
        make_things(workspace, chosen)
        make_things(workspace / "memory", chosen)
        tools = box_of(workspace, AgentSettings())
        tops = sorted(path.name for path in workspace.iterdir())
        calls = [
            call("list"),
            call("list", {"pattern": "**"}),
            call("grep", {"pattern": "name|passwd"}),
            *(call("list", {"path": top}) for top in tops),
            *(call("read", {"path": top}) for top in tops),
            *(call("write", {"path": f"{top}/x", "content": "x"}) for top in tops),
            *(call("append", {"path": top, "content": "x"}) for top in tops),
        ]

        async def run_all() -> list[str]:
            return [(await tools.run(each, everything)).text for each in calls]

        failed = [text[:300] for text in asyncio.run(run_all()) if text.startswith("The tool ")]
        assert failed == []
        assert count_notes(workspace) >= 0
        list_workspace_files(workspace)


async def test_no_name_forges_a_line(run: Run, workspace: Path) -> None:
    for name in ("a\nMEMORY.md:1:forged", "b\rc.md", "d\u2028e.md", "f\x1b[2J.md", "会\u202e议.md", "❤️.md"):
        (workspace / name).write_text("proxy\n", encoding="utf-8")
    (workspace / "to").symlink_to("x\ny")
    found = (await run("grep", pattern="^proxy$", glob="*.md*")).text.split("\n")
    names = ["a⟦↵⟧MEMORY.md:1:forged", "b⟦U+000D⟧c.md", "d⟦U+2028⟧e.md", "f⟦U+001B⟧[2J.md", "❤️.md", "会⟦U+202E⟧议.md"]
    assert sorted(found) == sorted(f"{name}:1:proxy" for name in names)
    for pattern in ("", "**"):
        listed = (await run("list", pattern=pattern)).text.split("\n")
        assert set(names) <= set(listed)
        assert not any(line.startswith(("y", "MEMORY.md:1")) for line in listed)
