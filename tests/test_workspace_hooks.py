"""Through the whole program: what a hook of the workspace may, and what the chat says of one that changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from clawbot.agent.events import CommandOutput, Notice
from clawbot.cli.main import root
from clawbot.config.paths import find_home
from clawbot.runtime import Runtime, RuntimeOptions
from tests.hooks.stage import write_handler, write_hook
from tests.program import say

HANDLER = "async def handle(event): await event.hook.tell('{}')\n"


@pytest.fixture
def lint() -> Path:
    return write_hook(
        find_home() / "workspace" / "hooks", "lint", HANDLER.format("one"), head="events: agent:bootstrap"
    )


def enable() -> None:
    assert CliRunner().invoke(root, ["hooks", "enable", "lint"]).exit_code == 0


async def notices(runtime: Runtime, text: str) -> list[str]:
    """What is told with `text`, each once: the hook runs whenever a prompt is made."""
    told = [event.text for event in await say(runtime, text) if isinstance(event, Notice)]
    return list(dict.fromkeys(told))


async def opened() -> Runtime:
    return await Runtime.open(RuntimeOptions(model="offline").unattended())


async def test_one_that_changed_is_off_and_the_chat_says_once_what_to_do(lint: Path) -> None:
    enable()
    write_handler(lint, HANDLER.format("two"))
    off = "The hook lint is off: its HOOK.md or its code changed since you enabled it. "
    runtime = await opened()
    try:
        assert await notices(runtime, "hello") == [f"{off}Read {lint}, then `clawbot hooks enable lint`."]
        assert await notices(runtime, "hello") == []
        [shown] = [event.text for event in await say(runtime, "/hooks") if isinstance(event, CommandOutput)]
        assert "changed since you enabled it: read it, then `clawbot hooks enable lint`" in shown
    finally:
        await runtime.close()
    enable()
    runtime = await opened()
    try:
        assert await notices(runtime, "hello") == ["two"]
    finally:
        await runtime.close()


async def test_one_that_was_trusted_and_can_t_be_read_any_more_is_told(lint: Path) -> None:
    enable()
    (lint / "HOOK.md").write_text("---\nevents: agent:boot\n---\n")
    runtime = await opened()
    try:
        [told] = await notices(runtime, "hello")
        assert told.startswith("The hook lint does not run (`clawbot hooks check` lists what to do): HOOK.md: events: ")
        assert await notices(runtime, "hello") == []
    finally:
        await runtime.close()


async def test_one_that_changes_while_the_program_runs_is_told_at_its_next_event(lint: Path) -> None:
    enable()
    runtime = await opened()
    try:
        assert await notices(runtime, "hello") == ["one"]
        write_handler(lint, HANDLER.format("two"))
        [told] = await notices(runtime, "hello")
        assert told.startswith("The hook lint is off: ")
        assert await notices(runtime, "hello") == []
    finally:
        await runtime.close()
