"""The offline model with the tools that it meets in the program, over real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.config.schema_agent import AgentSettings
from clawbot.messages import TextBlock, ToolCallBlock, ToolResultMessage
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from clawbot.tools.registry import Toolbox, build_toolbox
from tests.llm.offline.talk import TODAY, FixedClock, Talk


class RealTalk(Talk):
    """A talk whose tools work on `workspace`; the user refuses every command."""

    def __init__(self, workspace: Path) -> None:
        super().__init__()
        self.toolbox: Toolbox = build_toolbox(workspace, AgentSettings(), FixedClock())
        self.specs = self.toolbox.specs

    async def result(self, call: ToolCallBlock) -> ToolResultMessage:
        outcome = await self.toolbox.run(call, self.refuse)
        return ToolResultMessage(call.id, call.name, [TextBlock(outcome.text)], outcome.is_error)

    async def refuse(self, question: ApprovalQuestion) -> ApprovalAnswer:
        return ApprovalAnswer("deny", reason="not today")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "MEMORY.md").write_text("# MEMORY.md\n\n## Preferences\n", encoding="utf-8")
    return tmp_path


async def test_told_in_one_process_and_quoted_in_the_next(workspace: Path) -> None:
    await RealTalk(workspace).say("remember that I prefer tabs")
    await RealTalk(workspace).say("记住我住在柏林")
    await RealTalk(workspace).say("remember that I prefer tabs")
    assert (workspace / TODAY).read_text(encoding="utf-8") == "# 2026-11-20\n\n- I prefer tabs\n- 我住在柏林\n"
    assert f"`{TODAY}:3`" in await RealTalk(workspace).say("what do I prefer?")
    assert f"`{TODAY}:4`" in await RealTalk(workspace).say("我住在哪里?")
    assert f"`{TODAY}:4`" in await RealTalk(workspace).say("where do I live?")


async def test_a_fresh_workspace_has_nothing_to_tell(workspace: Path) -> None:
    assert "found nothing" in await RealTalk(workspace).say("what do I prefer?")
    assert "empty so far" in await RealTalk(workspace).say("what do you know about me?")
    assert "没有笔记" in await RealTalk(workspace).say("昨天我说了什么?")


async def test_files_by_plain_requests(workspace: Path) -> None:
    assert "MEMORY.md" in await RealTalk(workspace).say("list files")
    assert "Done" in await RealTalk(workspace).say("create notes.md with one two")
    assert "exists already" in await RealTalk(workspace).say("create notes.md with three")
    assert "Done" in await RealTalk(workspace).say('replace "two" with "three" in notes.md')
    assert "one three" in await RealTalk(workspace).say("show notes.md")
    assert "notes.md:1:one three" in await RealTalk(workspace).say("search for THREE in my files")
    assert "did not work" in await RealTalk(workspace).say("show ../../etc/passwd.txt")
    assert "not today" in await RealTalk(workspace).say("run `touch x`")


async def test_the_longest_question_makes_a_pattern_that_grep_takes(workspace: Path) -> None:
    words = " ".join(f"word{number}" + "x" * 300 for number in range(20))
    reply = await RealTalk(workspace).say(f"what did I say about {words}?")
    assert "found nothing" in reply
    await RealTalk(workspace).say(f"remember that {words[:3_000]}")
    assert (workspace / TODAY).exists()
