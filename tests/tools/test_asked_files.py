"""Changes of instructions are shown and asked for, by whatever name and tool; what was shown is what is written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.config.paths import INSTRUCTIONS
from clawbot.config.schema_agent import AgentSettings, AskedWord, FileSettings, ToolSettings
from clawbot.context.privacy import privacy_of
from clawbot.tools.changing import AskedFiles
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion, ToolOutcome
from clawbot.tools.registry import Toolbox
from clawbot.tools.text import full_diff
from tests.tools.conftest import User, box_of, call, nobody

pytestmark = pytest.mark.usefixtures("all_seen")

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("write", {"content": "obey the page\n"}),
    ("append", {"content": "obey the page\n"}),
    ("edit", {"old": "rule", "new": "obey the page"}),
]
NO = ApprovalAnswer("deny", reason="The user declined.")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    for name in ("AGENTS.md", "USER.md", "notes.md", "rules/agents.md", "rules/house.md", "projects/site/AGENTS.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("rule\n", encoding="utf-8")
    return folder


def toolbox(workspace: Path, ask: list[AskedWord] | None = None, asked: AskedFiles | None = None) -> Toolbox:
    files = FileSettings() if ask is None else FileSettings(ask=ask)
    return box_of(workspace, AgentSettings(tools=ToolSettings(files=files)), asked=asked)


def change(box: Toolbox, user: User, tool: str, path: str, **arguments: Any) -> Awaitable[ToolOutcome]:
    return box.run(call(tool, {"path": path, **arguments}), user)


def texts(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def apply(before: str, diff: str) -> str:
    """`before` as the unified `diff` changes it; AssertionError where the diff does not fit it."""
    out: list[str] = []
    at, lines = 0, before.split("\n")
    old = [f"{line}\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
    rows = diff.split("\n")[2:]
    for number, row in enumerate(rows):
        if row.startswith("@@"):
            start, _, size = row.split()[1][1:].partition(",")
            until = int(start) - (size != "0")
            out += old[at:until]
            at = until
            continue
        if row.startswith("\\"):
            continue
        bare = number + 1 < len(rows) and rows[number + 1].startswith("\\")
        line = row[1:] if bare else f"{row[1:]}\n"
        if row[0] in " -":
            assert old[at] == line
            at += 1
        if row[0] in " +":
            out.append(line)
    return "".join([*out, *old[at:]])


# -- what is asked for -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "more"), CHANGES)
@pytest.mark.parametrize(
    "path",
    [
        "AGENTS.md", "./rules/../AGENTS.md", "{root}/AGENTS.md", "link.md", "rules/agents.md", "chain.md", "twin.md",
        "folder/AGENTS.md", "projects/site/AGENTS.md",
    ],
)  # fmt: skip
async def test_a_refused_change_of_instructions_changes_nothing(
    workspace: Path, tool: str, more: dict[str, Any], path: str
) -> None:
    (workspace / "link.md").symlink_to("AGENTS.md")
    (workspace / "chain.md").symlink_to("link.md")
    (workspace / "twin.md").hardlink_to(workspace / "AGENTS.md")
    (workspace / "folder").symlink_to(".")
    before, user = texts(workspace), User(NO)
    outcome = await change(toolbox(workspace), user, tool, path.format(root=workspace), **more)
    [question] = user.asked
    assert outcome.is_error
    assert "was not changed. The user declined." in outcome.text
    assert texts(workspace) == before
    assert question.tool == tool
    assert question.command.startswith(f"{tool} ")
    assert "+obey the page" in question.diff
    assert question.risks == ("changes what the agent obeys in every later conversation",)
    assert "tools.files.ask" in question.remedy


@pytest.mark.parametrize("name", INSTRUCTIONS)
async def test_making_a_file_of_instructions_is_asked_for(workspace: Path, name: str) -> None:
    (workspace / "AGENTS.md").unlink()
    for path in (name, name.lower(), f"new/{name}", name.replace("S", "ſ")):
        for tool in ("write", "append"):
            user = User(NO)
            outcome = await change(toolbox(workspace), user, tool, path, content="obey\n")
            assert outcome.is_error, path
            assert user.asked[0].diff == f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+obey"
            assert not (workspace / path).exists()


async def test_a_folder_does_not_take_the_place_of_instructions(workspace: Path) -> None:
    outcome = await change(toolbox(workspace), User(NO), "write", "SOUL.md/x.md", content="x")
    assert outcome.is_error
    assert not (workspace / "SOUL.md").exists()


@pytest.mark.parametrize("target", ["rules/house.md", "rules/none.md", "USER.md"])
async def test_what_instructions_link_to_is_asked_for(workspace: Path, target: str) -> None:
    (workspace / "AGENTS.md").unlink()
    (workspace / "AGENTS.md").symlink_to(target)
    user = User(NO)
    outcome = await change(toolbox(workspace), user, "write", target, content="obey\n")
    assert outcome.is_error
    [question] = user.asked
    assert question.command == f"write {target}"
    assert question.reach == "it is AGENTS.md by another name"


async def test_what_a_hook_put_into_the_prompt_is_asked_for(workspace: Path) -> None:
    asked = AskedFiles(workspace, ["instructions"])
    box = toolbox(workspace, asked=asked)
    assert not (await change(box, User(NO), "write", "rules/style.md", content="one\n")).is_error
    asked.add_prompted(["AGENTS.md", "rules/style.md", "projects/site/USER.md", "memory/2026-11-20.md", "MEMORY.md"])
    assert (await change(box, User(NO), "write", "rules/style.md", content="two\n")).is_error
    for path in ("projects/site/USER.md", "memory/2026-11-20.md", "MEMORY.md"):
        assert not (await change(box, User(NO), "write", path, content="known\n")).is_error


async def test_what_is_known_and_not_obeyed_is_written_unasked(workspace: Path) -> None:
    box = toolbox(workspace)
    for path in ("USER.md", "IDENTITY.md", "MEMORY.md", "memory/2026-11-20.md", "notes.md", "MY_AGENTS.md"):
        for tool in ("write", "append"):
            outcome = await box.run(call(tool, {"path": path, "content": "Anna, she/her\n"}), nobody)
            assert not outcome.is_error, outcome.text


async def test_the_ritual_ends_unasked_and_is_begun_by_nobody(workspace: Path) -> None:
    ritual = workspace / "BOOTSTRAP.md"
    ritual.write_text("# the first conversation\n", encoding="utf-8")
    box = toolbox(workspace)
    assert (await change(box, User(NO), "append", "BOOTSTRAP.md", content="obey\n")).is_error
    assert not (await box.run(call("write", {"path": "BOOTSTRAP.md", "content": " \n"}), nobody)).is_error
    assert not ritual.read_text(encoding="utf-8").strip()
    assert (await change(box, User(NO), "write", "BOOTSTRAP.md", content="obey\n")).is_error
    assert (await change(box, User(NO), "write", "AGENTS.md", content="")).is_error


async def test_what_stays_as_it_is_needs_no_question(workspace: Path) -> None:
    outcome = await toolbox(workspace).run(call("write", {"path": "AGENTS.md", "content": "rule\n"}), nobody)
    assert not outcome.is_error


async def test_a_mistake_is_told_before_anybody_is_asked(workspace: Path) -> None:
    box = toolbox(workspace)
    for tool, more in (("edit", {"old": "none", "new": "x"}), ("append", {"content": ""}), ("write", {"text": "x"})):
        assert (await box.run(call(tool, {"path": "AGENTS.md", **more}), nobody)).is_error


@pytest.mark.parametrize(
    ("ask", "paths"),
    [
        ([], []),
        (["instructions"], ["AGENTS.md"]),
        (["all"], ["AGENTS.md", "USER.md", "notes.md", "new/x.py"]),
        (["instructions", "all"], ["AGENTS.md", "USER.md", "notes.md", "new/x.py"]),
    ],
)
async def test_what_is_asked_for_is_a_setting(workspace: Path, ask: list[AskedWord], paths: list[str]) -> None:
    box, asked = toolbox(workspace, ask), []
    for path in ("AGENTS.md", "USER.md", "notes.md", "new/x.py", "MEMORY.md", "memory/2026-11-20.md", "memory.md"):
        user = User(NO)
        outcome = await change(box, user, "write", path, content="x\n")
        assert outcome.is_error == bool(user.asked)
        asked += [path] * len(user.asked)
    assert asked == paths


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "more", "text"),
    [(tool, more, "rule\nobey the page\n" if tool == "append" else "obey the page\n") for tool, more in CHANGES],
)
async def test_yes_writes_what_was_shown_and_holds_once(
    workspace: Path, tool: str, more: dict[str, Any], text: str
) -> None:
    user, box = User(ApprovalAnswer("once"), NO), toolbox(workspace)
    outcome = await change(box, user, tool, "AGENTS.md", **more)
    assert not outcome.is_error, outcome.text
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == text
    assert apply("rule\n", user.asked[0].diff) == text
    assert (await change(box, user, "append", "AGENTS.md", content="more\n")).is_error
    assert len(user.asked) == 2


async def test_always_holds_for_that_file_and_for_all_tools_and_sessions_of_the_run(workspace: Path) -> None:
    user, box = User(ApprovalAnswer("always"), NO), toolbox(workspace)
    for tool, more in (CHANGES[2], *CHANGES[:2]):
        assert not (await change(box, user, tool, "AGENTS.md", **more)).is_error
    session = box.for_session(privacy_of("agent:main:main"))
    assert not (await change(session, user, "append", "agents.md/../AGENTS.md", content="x\n")).is_error
    assert len(user.asked) == 1
    assert (await change(box, user, "append", "SOUL.md", content="x\n")).is_error
    assert (await change(toolbox(workspace), user, "append", "AGENTS.md", content="x\n")).is_error


async def test_a_file_that_changes_while_the_user_is_asked_is_left_alone(workspace: Path) -> None:
    file = workspace / "AGENTS.md"
    user = User(ApprovalAnswer("once"), before=lambda: file.write_text("mine\n", encoding="utf-8"))
    for tool, more in CHANGES:
        file.write_text("rule\n", encoding="utf-8")
        outcome = await change(toolbox(workspace), user, tool, "AGENTS.md", **more)
        assert outcome.is_error
        assert "has become another one since you called" in outcome.text
        assert file.read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("kind", ["link", "gone", "made"])
async def test_a_name_that_leads_elsewhere_by_then_is_not_followed(workspace: Path, kind: str) -> None:
    file, user_file = workspace / "AGENTS.md", workspace / "USER.md"

    def meanwhile() -> None:
        if kind == "made":
            file.write_text("mine\n", encoding="utf-8")
            return
        file.unlink()
        if kind == "link":
            file.symlink_to("USER.md")

    if kind == "made":
        file.unlink()
    user = User(ApprovalAnswer("once"), before=meanwhile)
    assert (await change(toolbox(workspace), user, "write", "AGENTS.md", content="obey\n")).is_error
    assert user_file.read_text(encoding="utf-8") == "rule\n"
    assert not file.exists() or file.read_text(encoding="utf-8") in ("rule\n", "mine\n")


async def test_another_text_than_the_one_shown_is_not_written(workspace: Path) -> None:
    user = User(ApprovalAnswer("once", command="edit SOUL.md"))
    outcome = await change(toolbox(workspace), user, "write", "AGENTS.md", content="obey\n")
    assert outcome.is_error
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "rule\n"


async def test_a_question_that_is_cancelled_writes_nothing(workspace: Path) -> None:
    asked = asyncio.Event()

    async def wait(question: ApprovalQuestion) -> ApprovalAnswer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    running = asyncio.create_task(
        toolbox(workspace).run(call("write", {"path": "AGENTS.md", "content": "obey\n"}), wait)
    )
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "rule\n"


async def test_an_approved_change_keeps_mode_and_line_ends(workspace: Path) -> None:
    file = workspace / "AGENTS.md"
    file.write_bytes(b"one\r\ntwo\r\n")
    file.chmod(0o640)
    user = User(ApprovalAnswer("once"))
    assert not (await change(toolbox(workspace), user, "append", "AGENTS.md", content="three\n")).is_error
    assert file.read_bytes() == b"one\r\ntwo\r\nthree\r\n"
    assert os.stat(file).st_mode & 0o777 == 0o640  # noqa: PTH116 - a coroutine


# -- the diff ----------------------------------------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(["a", "b", "", "-x", "+x", "@@ -1 +1 @@", "\\ No newline", "\r", "\u2028", "\x85", "中"])
)
FILES = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@given(before=FILES, after=FILES)
def test_the_diff_says_all_that_changes(before: str, after: str) -> None:
    assert apply(before, full_diff(before.encode(), after.encode(), "AGENTS.md")) == after


@pytest.mark.parametrize("after", ["{}end\n", "new\n{}", "{}"])
def test_the_diff_of_a_large_change_is_complete(after: str) -> None:
    old = "".join(f"old {number}\n" for number in range(3_000))
    new = after.format("".join(f"new {number}\n" for number in range(3_000)))
    for before in (old, f"same\n{old}same too\n"):
        assert apply(before, full_diff(before.encode(), new.encode(), "AGENTS.md")) == new


def test_a_name_can_not_pass_for_a_line_of_the_diff() -> None:
    diff = full_diff(None, b"x\n", "AGENTS.md\n+++ b/harmless.md")
    assert diff == "--- /dev/null\n+++ b/AGENTS.md\\n+++ b/harmless.md\n@@ -0,0 +1 @@\n+x"


def test_bytes_that_are_no_text_show_in_the_diff() -> None:
    assert "-\\xff" in full_diff(b"\xff\n", b"\xfe\n", "SOUL.md")
    assert "-\\xff\n+\\\\xff" in full_diff(b"\xff\n", b"\\xff\n", "SOUL.md")
    assert "+\ufeffa" in full_diff(b"a\n", b"\xef\xbb\xbfa\n", "SOUL.md")
