"""Modes and rules: what is denied, asked and allowed, however a call is spelled, and that no call widens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawbot.config.schema_agent import AgentSettings, PermissionSettings
from clawbot.context.privacy import privacy_of
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.tools.permissions import Permissions
from clawbot.tools.protocol import ApprovalAnswer, Need, ToolOutcome
from clawbot.tools.registry import Toolbox
from clawbot.tools.shell_calls import commands_in
from tests.tables import load_table
from tests.tools.conftest import TABLES, User, box_of, link, names
from tests.tools.test_shell_reach import make_repository

pytestmark = pytest.mark.usefixtures("all_seen")

NO = ApprovalAnswer("deny", reason="Nobody can be asked here.")


def rules(**given: Any) -> Permissions:
    return Permissions(PermissionSettings.model_validate(given))


def box(workspace: Path, shell: str = "ask", **given: Any) -> Toolbox:
    settings = {"permissions": given, "tools": {"shell": {"approval": shell, "sandbox": "off"}}}
    return box_of(workspace, AgentSettings.model_validate(settings))


async def run(toolbox: Toolbox, user: User, tool: str, **arguments: Any) -> ToolOutcome:
    return await toolbox.run(ToolCallBlock("c1", tool, arguments), user)


def contents(folder: Path) -> dict[Path, str]:
    return {path: path.read_text() for path in folder.rglob("*") if path.is_file()}


class Poke:
    """Stands for a tool of an MCP server whose settings allow it: it asks for nothing itself."""

    read_only = False
    needs: frozenset[Need] | None = frozenset()
    spec = ToolSpec("mcp__post__send", "Send.", {"type": "object", "properties": {}})

    def title(self, arguments: dict[str, Any]) -> str:
        return "send"

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        return ToolOutcome("sent")


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "path", "way"), TABLES["file_rules"])
def test_a_change_of_a_file(given: dict[str, Any], path: str, way: str) -> None:
    if "*(src/**)" in given.get("deny", []):
        with pytest.raises(ValueError, match="pattern"):
            rules(**given)
        return
    assert rules(**given).of_file("write", tuple(path.split("/"))).way == way


BARRED = ["git push", "rm *"]


@pytest.mark.parametrize("command", TABLES["hidden_commands"])
def test_a_denied_command_is_found_where_it_hides(command: str) -> None:
    denied = rules(deny=[f"shell({pattern})" for pattern in BARRED])
    assert denied.of_command(command).way == "deny", commands_in(command, ("git", "rm"))


@pytest.mark.parametrize(
    "command", ["$X push", "git $X", "sh script.sh", "python3 -c 'import os'", "eval $X", "echo a | sh", 'git pu"$X"']
)
def test_what_can_not_be_looked_through_asks_where_something_is_denied(command: str) -> None:
    assert rules(deny=["shell(git push)"], allow=["shell"]).of_command(command).way == "ask"


def ways(denied: str, rows: list[str]) -> dict[str, str]:
    settled = rules(deny=[f"shell({denied})"], allow=["shell"])
    return {row: settled.of_command(row.replace(r"\n", "\n")).way for row in rows}


def test_no_spelling_of_a_denied_command_runs_unasked() -> None:
    found = ways("git push", TABLES["pushes"].splitlines())
    assert {row: way for row, way in found.items() if way not in ("deny", "ask")} == {}
    assert sum(way == "deny" for way in found.values()) > 150


def test_commands_of_every_day_are_not_asked_about_because_another_one_is_denied() -> None:
    assert {row: way for row, way in ways("git push", TABLES["everyday"].splitlines()).items() if way != "allow"} == {}


@pytest.mark.parametrize(("denied", "fitting", "others"), TABLES["other_rules"])
def test_rules_of_other_forms(denied: str, fitting: list[str], others: list[str]) -> None:
    assert set(ways(denied, fitting).values()) <= {"deny", "ask"}
    assert set(ways(denied, others).values()) == {"allow"}


@pytest.mark.parametrize("command", ["git pull", "echo git push", "ls -la", "gitpush"])
def test_other_commands_are_left_alone(command: str) -> None:
    assert rules(deny=["shell(git push)"]).of_command(command).way == "usual"


def test_an_allowed_command_is_this_command_and_nothing_behind_it() -> None:
    allowed = rules(allow=["shell(make test)", "shell(npm run <anything>)"])
    assert allowed.of_command("make test").way == "allow"
    assert allowed.of_command("npm run lint").way == "allow"
    assert allowed.of_command("make test; rm -rf /").way == "usual"
    assert allowed.of_command("npm run lint && rm -rf /").way == "usual"


@pytest.mark.parametrize("rule", ["", "write(", "read(src/**)", "mcp__*(x)", "write()", "two words"])
def test_what_is_no_rule_stops_the_start(rule: str) -> None:
    with pytest.raises(ValueError, match=r"tool|pattern"):
        PermissionSettings.model_validate({"deny": [rule]})


# -- the tool loop ----------------------------------------------------------------------------------------------------


async def test_as_shipped_files_are_changed_unasked(workspace: Path) -> None:
    user = User(NO)
    assert not (await run(box(workspace), user, "write", path="a.txt", content="x")).is_error
    assert not user.asked


@pytest.mark.parametrize(
    ("tool", "arguments"),
    load_table(__file__, "in_plan_mode_nothing_is_changed_and_nobody_is_asked"),
)
async def test_in_plan_mode_nothing_is_changed_and_nobody_is_asked(
    workspace: Path, tool: str, arguments: dict[str, Any]
) -> None:
    user = User(ApprovalAnswer("always"))
    settings = AgentSettings.model_validate({"permissions": {"mode": "plan", "allow": [tool]}})
    before = contents(workspace)
    outcome = await run(box_of(workspace, settings, [Poke()]), user, tool, **arguments)
    assert outcome.is_error
    assert "plan mode" in outcome.text
    assert not user.asked
    assert contents(workspace) == before


@pytest.mark.parametrize(("rule", "command", "runs"), TABLES["rules_for_reading"])
async def test_a_rule_says_the_same_in_both_places_of_the_settings(
    workspace: Path, outside: Path, rule: str, command: str, runs: bool
) -> None:
    make_repository(workspace.parent)
    (workspace.parent / ".env").write_text("KEY=x\n")
    (workspace / "keys" / "deep").mkdir(parents=True)
    for secret in (workspace / "id_rsa", workspace / "keys" / "deep" / "a.pem"):
        secret.write_text("tabs\n")
    for name, target in (
        ("env", "../.env"),
        ("out", outside / "secret.txt"),
        ("folder", outside),
        ("hidden", "id_rsa"),
    ):
        link(workspace / name, target)
    nothing: dict[str, list[str]] = {}
    for permissions, shell in (({"allow": [f"shell({rule})"]}, nothing), (nothing, {"allow": [rule]})):
        given = {"permissions": permissions, "tools": {"shell": {"sandbox": "off", **shell}}}
        user = User(NO)
        await run(box_of(workspace, AgentSettings.model_validate(given)), user, "shell", command=command)
        assert [question.command for question in user.asked] == ([] if runs else [command]), given


async def test_in_plan_mode_what_reads_runs(workspace: Path) -> None:
    planning = box(workspace, "allow", mode="plan")
    assert "tabs" in (await run(planning, User(NO), "read", path="MEMORY.md")).text
    assert "tabs" in (await run(planning, User(NO), "shell", command="cat MEMORY.md")).text


async def test_in_ask_mode_each_change_is_shown_first(workspace: Path) -> None:
    asking = box(workspace, "allow", mode="ask")
    user = User(NO)
    assert (await run(asking, user, "write", path="a.txt", content="x")).is_error
    assert (await run(asking, user, "shell", command="touch b.txt")).is_error
    assert [question.command for question in user.asked] == ["write a.txt", "touch b.txt"]
    assert "+x" in user.asked[0].diff
    assert names(workspace) == ["MEMORY.md", "memory"]


async def test_a_tool_of_a_server_is_asked_about_once_and_then_always_allowed(workspace: Path) -> None:
    settings = AgentSettings.model_validate({"permissions": {"ask": ["mcp__*"]}})
    toolbox, user = box_of(workspace, settings, [Poke()]), User(NO, ApprovalAnswer("always"))
    assert (await run(toolbox, user, "mcp__post__send")).is_error
    assert (await run(toolbox, user, "mcp__post__send")).text == "sent"
    assert (await run(toolbox, user, "mcp__post__send")).text == "sent"
    assert len(user.asked) == 2
    assert toolbox.grants() == [("", "mcp__post__send")]
    toolbox.take_back("mcp__post__send")
    await run(toolbox, user, "mcp__post__send")
    assert len(user.asked) == 3


async def test_a_denied_folder_is_denied_through_a_link(workspace: Path) -> None:
    (workspace / "secret").mkdir()
    link(workspace / "open", workspace / "secret")
    denied = box(workspace, deny=["write(secret/**)"])
    outcome = await run(denied, User(NO), "write", path="open/a.txt", content="x")
    assert "permissions.deny" in outcome.text
    assert not list((workspace / "secret").iterdir())


async def test_a_rule_that_denies_wins_over_what_was_always_allowed_and_over_an_edited_command(workspace: Path) -> None:
    denied = box(workspace, "allow", deny=["shell(touch)"], allow=["shell"])
    user = User(ApprovalAnswer("once", command="touch b.txt"))
    assert "permissions.deny" in (await run(denied, user, "shell", command="touch a.txt")).text
    asked = box(workspace, "ask", deny=["shell(touch)"])
    assert "permissions.deny" in (await run(asked, user, "shell", command="mkdir c")).text
    assert not (workspace / "b.txt").exists()


async def test_instructions_are_asked_about_whatever_a_rule_allows(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("be kind\n")
    user = User(NO)
    outcome = await run(box(workspace, allow=["write", "edit"]), user, "write", path="AGENTS.md", content="obey")
    assert outcome.is_error
    assert len(user.asked) == 1


async def test_what_was_always_allowed_is_listed_and_taken_back(workspace: Path) -> None:
    toolbox, user = box(workspace, mode="ask"), User(ApprovalAnswer("always"))
    await run(toolbox, user, "shell", command="touch a.txt")
    await run(toolbox, user, "write", path="b.txt", content="x")
    await run(toolbox, user, "shell", command="touch a.txt")
    await run(toolbox, user, "write", path="b.txt", content="y")
    assert len(user.asked) == 2
    assert set(toolbox.grants()) == {("shell", "touch a.txt"), ("", "b.txt")}
    for _, grant in toolbox.grants():
        toolbox.take_back(grant)
    assert toolbox.grants() == []
    await run(toolbox, user, "shell", command="touch a.txt")
    await run(toolbox, user, "write", path="b.txt", content="z")
    assert len(user.asked) == 4


async def test_a_session_that_may_know_less_obeys_the_same_mode(workspace: Path) -> None:
    toolbox = box(workspace)
    narrowed = toolbox.for_session(privacy_of("agent:main:main"))
    toolbox.permissions.mode = "plan"
    assert (await run(narrowed, User(NO), "write", path="a.txt", content="x")).is_error
