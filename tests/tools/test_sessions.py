"""What file tools reach in sessions where the user is not alone: every door to the notes is shut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.schema_agent import AgentSettings
from clawbot.context.privacy import privacy_of
from clawbot.tools.registry import Toolbox
from tests.tools.conftest import box_of, call, nobody

SECRET = "The user's salary is 90,000. 用户的密码在抽屉里。"
GROUP = "agent:main:telegram:group:12"
SUB = "agent:main:subagent:2b1c"
PRIVATE = ["MEMORY.md", "USER.md", "memory/2026-11-20.md", "memory/deep/er.md"]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "memory" / "deep").mkdir(parents=True)
    for name in PRIVATE:
        (folder / name).write_text(f"{SECRET}\n", encoding="utf-8")
    (folder / "plan.md").write_text("The plan is public.\n", encoding="utf-8")
    return folder


def tools(workspace: Path, session: str) -> Toolbox:
    return box_of(workspace, AgentSettings()).for_session(privacy_of(session))


@pytest.mark.parametrize("session", [GROUP, SUB])
@pytest.mark.parametrize(
    "name", [*PRIVATE, "memory.md", "./x/../MEMORY.md", "Memory/2026-11-20.md", "link.md", "hard.md"]
)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {}),
        ("grep", {"pattern": "."}),
        ("edit", {"old": "user", "new": "x"}),
        ("write", {"content": "poison"}),
        ("append", {"content": "poison"}),
    ],
)
async def test_notes_are_neither_read_nor_changed(
    workspace: Path, session: str, name: str, tool: str, arguments: dict[str, Any]
) -> None:
    (workspace / "link.md").symlink_to("MEMORY.md")
    os.link(workspace / "MEMORY.md", workspace / "hard.md")
    outcome = await tools(workspace, session).run(call(tool, {"path": name, **arguments}), nobody)
    assert "90,000" not in outcome.text
    assert "密码" not in outcome.text
    for private in PRIVATE:
        assert (workspace / private).read_text(encoding="utf-8") == f"{SECRET}\n"


@pytest.mark.parametrize("session", [GROUP, SUB])
@pytest.mark.parametrize("arguments", [{}, {"pattern": "**"}, {"pattern": "**/*.md"}, {"path": "memory"}])
async def test_notes_are_not_even_listed(workspace: Path, session: str, arguments: dict[str, Any]) -> None:
    outcome = await tools(workspace, session).run(call("list", arguments), nobody)
    listed = outcome.text if not outcome.is_error else ""
    assert not any(word in listed for word in ("MEMORY", "USER", "memory", "deep", "2026-11-20"))
    assert ("plan.md" in listed) is ("path" not in arguments)


async def test_a_search_over_everything_finds_what_is_public(workspace: Path) -> None:
    outcome = await tools(workspace, GROUP).run(call("grep", {"pattern": "The|用户"}), nobody)
    assert outcome.text == "plan.md:1:The plan is public."


@pytest.mark.parametrize("session", ["agent:main:main", "agent:main:cron:daily"])
@pytest.mark.parametrize("name", PRIVATE)
async def test_the_user_and_their_schedule_read_all(workspace: Path, session: str, name: str) -> None:
    outcome = await tools(workspace, session).run(call("read", {"path": name}), nobody)
    assert SECRET in outcome.text


async def test_what_the_user_always_allows_holds_in_all_sessions(workspace: Path) -> None:
    """The shell remembers it, so all sessions share the one shell; the same session gets the same tools."""
    box = box_of(workspace, AgentSettings())
    group = box.for_session(privacy_of(GROUP))
    assert group is box.for_session(privacy_of(GROUP))
    assert [spec.name for spec in group.specs] == [spec.name for spec in box.specs]
