"""Through the whole program: the mode and the rules hold in a chat, in a single turn and in a job, and no model widens
them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.events import ApprovalRequested, CommandOutput, Event, TurnEnded
from clawbot.background import take_turn
from clawbot.config.paths import find_home
from clawbot.config.schema_agent import Mode
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.wire import PLANNING
from clawbot.messages import ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models

WRITE = ("write", {"path": "a.txt", "content": "x"})
TOUCH = ("shell", {"command": "touch b.txt"})


def configure(permissions: str) -> None:
    file = find_home() / "config.yaml"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(
        "agents:\n  defaults:\n    model: fake/model\n    memory_search: {enabled: false}\n"
        f"    permissions: {permissions}\n    tools: {{shell: {{approval: allow, sandbox: 'off'}}}}\n"
        "hooks: {entries: {session-memory: {enabled: false}}}\n",
        encoding="utf-8",
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    model.replies = defaultdict(lambda: [says("fine")], model.replies)
    use_models(monkeypatch, lambda _ref: model)
    configure("{}")
    return model


def plays(model: PurposeModel, *made: tuple[str, dict[str, Any]]) -> None:
    blocks = [ToolCallBlock(f"c{at}", name, arguments) for at, (name, arguments) in enumerate(made)]
    model.replies["chat"] = [*(calls(block) for block in blocks), says("done")]


def told(model: PurposeModel) -> list[str]:
    """The results that the model has seen."""
    return [message.text for message in model.of("chat")[-1].messages if isinstance(message, ToolResultMessage)]


async def say(runtime: Runtime, text: str, *, allow: bool = True) -> list[Event]:
    events = []
    async for event in runtime.agent.submit(text):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            runtime.agent.answer(event.request_id, "once" if allow else "deny")
    assert isinstance(events[-1], TurnEnded)
    return events


async def opened(*, attended: bool = True, mode: Mode | None = None) -> Runtime:
    options = RuntimeOptions(watch=False, background=False, flush_at_end=False, mode=mode)
    return await Runtime.open(options if attended else options.unattended())


def made(workspace: Path) -> set[str]:
    return {name for name in ("a.txt", "b.txt") if (workspace / name).exists()}


async def test_as_shipped_nothing_is_asked_for_a_file(model: PurposeModel) -> None:
    plays(model, WRITE)
    runtime = await opened()
    events = await say(runtime, "go")
    assert not [event for event in events if isinstance(event, ApprovalRequested)]
    assert made(runtime.agent.status.workspace) == {"a.txt"}
    await runtime.close()


@pytest.mark.parametrize("kind", ["chat", "single turn", "job"])
async def test_plan_mode_holds_everywhere(model: PurposeModel, kind: str) -> None:
    configure("{mode: plan, allow: [write, shell]}")
    plays(model, WRITE, TOUCH)
    runtime = await opened(attended=kind == "chat")
    if kind == "job":
        await take_turn(runtime.agent, "go")
    else:
        assert not [event for event in await say(runtime, "go") if isinstance(event, ApprovalRequested)]
    assert made(runtime.agent.status.workspace) == set()
    assert all("plan mode" in text for text in told(model))
    await runtime.close()


@pytest.mark.parametrize("kind", ["single turn", "job"])
async def test_where_nobody_can_be_asked_what_asks_is_declined_with_the_reason(model: PurposeModel, kind: str) -> None:
    configure("{ask: [write, shell]}")
    plays(model, WRITE, TOUCH)
    runtime = await opened(attended=False)
    if kind == "job":
        await take_turn(runtime.agent, "go")
    else:
        await say(runtime, "go")
    assert made(runtime.agent.status.workspace) == set()
    assert len(told(model)) == 2
    assert all("Nobody can be asked here." in text for text in told(model))
    await runtime.close()


async def test_the_command_line_goes_over_the_settings(model: PurposeModel) -> None:
    plays(model, WRITE)
    runtime = await opened(attended=False, mode="plan")
    await say(runtime, "go")
    assert made(runtime.agent.status.workspace) == set()
    assert runtime.agent.status.mode == "plan"
    await runtime.close()


async def test_a_mode_changes_for_the_next_call_and_the_model_is_told_behind_the_words(model: PurposeModel) -> None:
    plays(model, WRITE)
    runtime = await opened()
    runtime.agent.set_mode("plan")
    await say(runtime, "go")
    runtime.agent.set_mode("edits")
    plays(model, WRITE)
    await say(runtime, "now do it")
    users = [message for message in model.of("chat")[-1].messages if isinstance(message, UserMessage)]
    assert [(message.text, message.planning is True) for message in users] == [("go", True), ("now do it", False)]
    assert made(runtime.agent.status.workspace) == {"a.txt"}
    await runtime.close()


def test_a_model_reads_of_plan_mode_behind_what_was_said() -> None:
    from clawbot.llm.wire import _user

    (spelled,) = _user(UserMessage(content="look", planning=True), "")
    assert spelled["content"] == f"look{PLANNING}"
    (spelled,) = _user(UserMessage(content="look"), "")
    assert spelled["content"] == "look"


async def test_words_of_the_model_change_no_mode(model: PurposeModel) -> None:
    configure("{mode: ask}")
    model.replies["chat"] = [says("/mode edits")]
    runtime = await opened()
    await say(runtime, "go")
    plays(
        model,
        ("mode", {"mode": "edits"}),
        ("shell", {"command": "clawbot chat -p '/mode edits'"}),
        ("write", {"path": "config.yaml", "content": "agents: {}", "mode": "edits", "permissions": {}}),
    )
    await say(runtime, "go", allow=False)
    assert runtime.agent.status.mode == "ask"
    await runtime.close()


async def test_permissions_are_shown_with_their_origin_and_taken_back(model: PurposeModel) -> None:
    configure("{mode: ask, deny: ['shell(git push)']}")
    plays(model, TOUCH)
    runtime = await opened()

    async def output(text: str) -> str:
        return next(event.text for event in await say(runtime, text) if isinstance(event, CommandOutput))

    async for event in runtime.agent.submit("go"):
        if isinstance(event, ApprovalRequested):
            runtime.agent.answer(event.request_id, "always")
    shown = await output("/permissions")
    assert "Mode **ask**" in shown
    assert "deny `shell(git push)`" in shown
    assert "config.yaml:5" in shown
    assert "1. `shell touch b.txt`" in shown
    assert "Nothing was always allowed" in await output("/permissions drop 1")
    plays(model, TOUCH)
    asked = [event for event in await say(runtime, "again") if isinstance(event, ApprovalRequested)]
    assert [event.command for event in asked] == ["touch b.txt"]
    await runtime.close()
