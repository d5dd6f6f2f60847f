"""Who made a change: what a conversation writes by each way names it, and the message that asked for it."""

from __future__ import annotations

import asyncio
import errno
import json
import os

import pytest
from click.testing import CliRunner

from clawbot.agent.events import Notice
from clawbot.cli.main import root
from clawbot.config.load import load_settings
from clawbot.history import History, history_of
from clawbot.history.contents import Contents
from clawbot.mcp.serving import AppendArguments, MemoryAppendTool
from clawbot.messages import ToolCallBlock
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.scheduling.jobs import Job, Kind, Once
from clawbot.tools.folder import WorkspaceFolder
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.forget.world import World, live, world
from tests.program import say

__all__ = ["world"]


def history(world: World) -> History:
    return history_of(load_settings(world.paths).settings, world.paths, "main", world.clock)


def entries_of(world: World, session: str) -> list[str]:
    rows = (world.sessions / f"{session}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(row)["id"] for row in rows]


async def test_flush_hook_and_first_files_name_their_conversation(world: World) -> None:
    first = await live(world, "en")
    changes = history(world).changes()
    by = {change.author.by for change in changes}
    assert by >= {"workspace", "flush", "hook:session-memory"}
    for change in changes:
        author = change.author
        if author.by == "flush":
            assert author.key.startswith("agent:main:")
            assert author.entry in entries_of(world, author.session)
    [note, *_] = [change for change in changes if change.author.by == "hook:session-memory"]
    assert note.author.session == first


async def test_a_tool_names_the_message_that_called_it(world: World) -> None:
    append = ToolCallBlock("c1", "append", {"path": "memory/trip.md", "content": "- bring a coat"})
    shell = ToolCallBlock("c2", "shell", {"command": "echo '- by command' >> memory/trip.md"})
    world.model = PurposeModel(chat=[calls(append), calls(shell), says("Done.")])
    options = RuntimeOptions(approvals=False, approved=frozenset({"shell"}), watch=False)
    runtime = await Runtime.open(options)
    await runtime.workspace.write("MEMORY.md", "# Memory\n\n- by hand\n")
    await say(runtime, "note it")
    session, key = runtime.agent.conversation.session_id, runtime.agent.conversation.session.record.key
    await runtime.close()
    made = {change.author.by: change for change in history(world).changes()}
    lines = (world.sessions / f"{session}.jsonl").read_text("utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    called = [each["id"] for each in rows[made["tool:append"].author.entry]["message"]["content"] if "id" in each]
    assert called == ["c1"]
    assert made["tool:shell"].author.entry != made["tool:append"].author.entry
    for by in ("tool:append", "tool:shell", "user"):
        assert (made[by].author.session, made[by].author.key) == (session, key)
    assert made["user"].path == "MEMORY.md"


@pytest.mark.parametrize(("kind", "session"), [("prompt", "agent:main:main"), ("heartbeat", "agent:main:tidy")])
async def test_a_job_is_named(world: World, kind: Kind, session: str) -> None:
    append = ToolCallBlock("c1", "append", {"path": "memory/trip.md", "content": "- by the job"})
    (world.workspace / "HEARTBEAT.md").write_text("Tidy up.\n", "utf-8")
    world.model = PurposeModel(chat=[calls(append), says("Done."), calls(append), says("Done.")])
    runtime = await Runtime.open(RuntimeOptions(session=session, watch=False))
    await runtime.run_job(
        Job(name="tidy", agent_id="main", kind=kind, when=Once(""), session_key=session, prompt="Tidy.")
    )
    await say(runtime, "and once more")
    await runtime.close()
    assert [change.author.job for change in history(world).changes("memory/trip.md")] == ["", "tidy"]
    listed = await asyncio.to_thread(CliRunner().invoke, root, ["memory", "log", "memory/trip.md"])
    assert [line.endswith("(job tidy)") for line in listed.stdout.splitlines()] == [False, True]


async def test_the_user_is_warned_once_that_nothing_is_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_contents: Contents, _data: bytes) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "objects")

    lines = ["- one", "- two"]
    appends = [ToolCallBlock(f"c{line}", "append", {"path": "memory/trip.md", "content": line}) for line in lines]
    world.model = PurposeModel(chat=[each for call in appends for each in (calls(call), says("Done."))])
    runtime = await Runtime.open(RuntimeOptions(approvals=False, watch=False))
    monkeypatch.setattr(Contents, "add", full)
    events = [event for line in lines for event in await say(runtime, f"note {line}")]
    await runtime.close()
    assert (world.memory / "trip.md").read_text("utf-8").splitlines() == lines
    shown = [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]
    assert [("not recorded" in text, "No space left on device" in text) for text in shown] == [(True, True)]


def test_an_mcp_client_is_named(world: World) -> None:
    known = history(world)
    MemoryAppendTool(WorkspaceFolder(world.workspace), world.clock, known).act(AppendArguments("- from outside"))
    assert [change.author.by for change in known.changes()] == ["mcp:memory_append"]


def test_the_commands_list_show_and_undo_as_text_and_as_json(world: World) -> None:
    note = world.workspace / "memory" / "trip.md"
    tool = MemoryAppendTool(WorkspaceFolder(world.workspace), world.clock, history(world))
    tool.act(AppendArguments("- one"))
    tool.act(AppendArguments("- two"))
    [today] = world.memory.glob("*.md")

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, ["memory", *arguments])
        assert result.exit_code == code, result.output
        return result.stdout

    note.write_text("- by hand\n", "utf-8")
    by_hand, *entries = json.loads(run("log", "--json"))["entries"]
    assert (by_hand["by"], by_hand["path"], by_hand["before"]) == ("user", "memory/trip.md", "")
    assert [(entry["by"], entry["path"]) for entry in entries] == [("mcp:memory_append", f"memory/{today.name}")] * 2
    note.write_text("- by hand\n- again\n", "utf-8")
    again, first = json.loads(run("log", "--json", str(note)))["entries"]
    assert (again["by"], again["before"], first) == ("user", by_hand["after"], by_hand)
    assert "+- two" in run("show", entries[0]["id"])
    assert json.loads(run("show", entries[1]["id"], "--json"))["diff"].endswith("+- one\n")
    assert json.loads(run("undo", entries[1]["id"], "--json"))["path"] == f"memory/{today.name}"
    assert today.read_text("utf-8") == "- two\n"
    today.write_text("- three\n", "utf-8")
    assert "<<<<<<< now" in run("undo", entries[0]["id"], code=1)
    assert today.read_text("utf-8") == "- three\n"
    run("undo", "zz", code=1)
    run("forget", "by hand")
    assert "forget" in run("log", "memory/trip.md")
    assert "by hand" not in run("show", json.loads(run("log", "--json", "memory/trip.md"))["entries"][-1]["id"])
