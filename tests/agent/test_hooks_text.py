"""The hooks and the agents, told to people and to programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.commands import run_command
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import CommandOutput
from clawbot.agent.slash import parse_command
from clawbot.agent.status import NO_HOOKS, AgentInfo, HookStatus, hooks_text, result_of, state_of
from clawbot.clock import SystemClock
from tests.agent.fakes import agent_deps
from tests.tables import load_table

AT = datetime(2026, 11, 20, 20, 30, tzinfo=UTC)


def hook(**values: Any) -> HookStatus:
    usual: dict[str, Any] = {"description": "", "source": "home", "folder": "/h", "enabled": True, "ready": True}
    return HookStatus(**{"name": "greet", "events": ("command:new", "session:start"), **usual, **values})


AGENTS = (
    AgentInfo("main", Path("/ws"), "openai/gpt-5", current=True),
    AgentInfo("work", Path("/工作"), "offline", current=False),
)


@pytest.fixture
async def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Agent]:
    async def status() -> list[HookStatus]:
        return [hook(status="ok", topic="command:new", duration_ms=12, at=AT), hook(name="log", enabled=False)]

    deps = agent_deps(tmp_path, agents=AGENTS, clock=SystemClock(ZoneInfo("UTC")))
    agent = Agent(deps, Conversation(deps.store, deps.store.open("main"), deps.clock))
    monkeypatch.setattr(agent.hooks, "status", status)
    yield agent
    await agent.close()


async def output(agent: Agent, text: str) -> CommandOutput:
    command = parse_command(text)
    assert command is not None
    (said,) = (await run_command(command, agent)).events
    assert isinstance(said, CommandOutput)
    msgspec.json.encode(said)
    return said


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "ready"),
        ({"enabled": False, "ready": False}, "off"),
        ({"enabled": False, "ready": False, "missing": ("bin: gh",)}, "off"),
        ({"ready": False, "missing": ("bin: gh",)}, "missing"),
        ({"ready": False, "problem": "no handler.py"}, "broken"),
        ({"enabled": False, "ready": False, "problem": "no handler.py"}, "broken"),
    ],
)
def test_the_state_of_a_hook(values: dict[str, Any], state: str) -> None:
    assert state_of(hook(**values)) == state


@pytest.mark.parametrize(
    ("status", "said"),
    load_table(__file__, "the_last_run_of_a_hook"),
)
def test_the_last_run_of_a_hook(status: str, said: str) -> None:
    assert result_of(hook(status=status, duration_ms=1_200)) == said


def test_what_keeps_a_hook_from_running_stands_below_it() -> None:
    found = [
        hook(ready=False, missing=("bin: gh", "env: 变量")),
        hook(name="slow", status="timeout", topic="command:new", duration_ms=9, error="longer\nthan 10 s", at=AT),
    ]
    assert hooks_text(found, timezone(timedelta(hours=8))).split("\n") == [
        "- **greet** missing · command:new, session:start · never · home",
        "  - bin: gh, env: 变量",
        "- **slow** ready · command:new, session:start · command:new: timed out, 9 ms, 2026-11-21 04:30 · home",
        "  - longer than 10 s",
    ]


def test_no_hooks_are_said_to_be_none() -> None:
    assert hooks_text([], None) == NO_HOOKS


async def test_hooks_are_told_by_a_command(agent: Agent) -> None:
    said = await output(agent, "/hooks")
    assert said.text.startswith("- **greet** ready · command:new, session:start · command:new: ok, 12 ms, 2026-11-20")
    assert [(item["name"], item["enabled"], item["durationMs"]) for item in said.data] == [
        ("greet", True, 12),
        ("log", False, 0),
    ]


@pytest.mark.parametrize("text", ["/agent", "/AGENT  work "])
async def test_agents_are_told_by_a_command(agent: Agent, text: str) -> None:
    said = await output(agent, text)
    assert said.text.split("\n")[:2] == [
        "- **main** openai/gpt-5 · /ws · this one",
        "- **work** offline · /工作",
    ]
    assert "clawbot --agent ID" in said.text
    assert said.data[1] == {"agentId": "work", "workspace": "/工作", "model": "offline", "current": False}
