"""A line that a dream wrote names the dream and the conversation behind it."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from clawbot.cli.main import root
from clawbot.config.load import load_settings
from clawbot.history import History, history_of
from clawbot.messages import ToolCallBlock
from clawbot.plugins.dreaming.applying import apply
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.forget.world import World, world
from tests.plugins.dreaming.stage import proposal
from tests.program import say

__all__ = ["world"]

DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


async def noted(world: World, session: str, path: str, line: str) -> str:
    """Let a tool write `line` in a conversation; returns the id of that."""
    append = ToolCallBlock("c", "append", {"path": path, "content": line})
    world.model = PurposeModel(chat=[calls(append), says("Noted.")])
    runtime = await Runtime.open(RuntimeOptions(session=session, approvals=False, watch=False, flush_at_end=False))
    await say(runtime, f"note {line}")
    await runtime.close()
    world.clock.forward(days=1)
    return runtime.agent.conversation.session_id


def dreamed(world: World, *names: str) -> History:
    history = history_of(load_settings(world.paths).settings, world.paths, "main", world.clock)
    for name in names:
        values = DATA["proposals"][name]
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        done = apply(world.workspace, history, proposal(**{**values, **lists}))
        assert done.status == "written", done
        world.clock.forward(days=1)
    return history


def run(*arguments: str) -> str:
    result = CliRunner().invoke(root, ["memory", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda case: case["name"])
async def test_a_line_of_a_dream_goes_back_to_the_conversation_behind_it(world: World, case: dict[str, Any]) -> None:
    for path, text in (DATA["notes"]["memory"], DATA["notes"]["by_hand"]):
        (world.workspace / path).write_text(f"{text}\n", "utf-8")
    keys = ["agent:main:main", "agent:main:work", ""]
    ids = [await noted(world, key, *DATA["notes"][note]) for key, note in zip(keys, ("first", "second"), strict=False)]
    dreamed(world, *case["proposals"])
    if "later" in case:
        (world.workspace / case["later"][0]).write_text(case["later"][1], "utf-8")
    ident, key, file = [*ids, ""][case["session"]], keys[case["session"]], case.get("file", "MEMORY.md")
    line = (world.workspace / file).read_text("utf-8").splitlines().index(case["text"]) + 1
    found = json.loads(await asyncio.to_thread(run, "blame", f"{file}:{line}", "--json"))
    assert (found["by"], found["session"], found["key"], found["guess"]) == ("dream", ident, key, False)
    assert (found["sources"], bool(found["entry"])) == (case["sources"], bool(ident))
    shown = await asyncio.to_thread(run, "blame", f"{file}:{line}")
    assert "by: dream" in shown
    assert f"conversation: {ident} ({key})" in shown or not ident
    runtime = await world.open()
    author = await runtime.sessions.author(file, line)
    await runtime.close()
    assert author is not None
    assert (author.session, author.entry) == (found["session"], found["entry"])


def test_a_note_that_is_forgotten_is_no_source_any_more(world: World) -> None:
    path, text = DATA["notes"]["first"]
    (world.workspace / path).write_text(text, "utf-8")
    history = dreamed(world, "add")
    assert json.loads(run("log", "--json"))["entries"][0]["sources"] == [f"{path}:1"]
    run("forget", path)
    assert [change.author.sources for change in history.changes() if change.author.by == "dream"] == [()]
