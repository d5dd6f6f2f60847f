"""When an answer in plan mode holds a plan, and how it is accepted."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from clawbot.agent.conversation import acceptance, last_plan, plan_in
from clawbot.agent.events import Event, PlanReady, TurnEnded
from clawbot.background import take_turn
from clawbot.config.schema_agent import Mode
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models
from tests.test_modes import configure

PLAN = "I looked.\n\n## Plan\n\n1. Write a.txt\n2. Read it"


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        (PLAN, PLAN.removeprefix("I looked.\n\n")),
        ("# Implementation plan:\n- one", "# Implementation plan:\n- one"),
        ("**The plan**\n\none", "**The plan**\n\none"),
        ("## 计划\n1. 写文件", "## 计划\n1. 写文件"),
        ("### План\n1. x", "### План\n1. x"),
        ("## Plan\n\n", ""),
        ("Which file do you mean? I plan nothing yet.", ""),
        ("## Planning is hard\nwhy?", ""),
        ("```md\n## Plan\n1. x\n```\nThat is how it looks.", ""),
        ("```\ncode\n```\n## Plan\n1. x", "## Plan\n1. x"),
        ("", ""),
    ],
)
def test_a_plan_begins_with_a_heading_that_says_so(answer: str, plan: str) -> None:
    assert plan_in(answer) == plan


def test_it_is_accepted_in_its_language() -> None:
    assert acceptance("## Plan\n1. x") == "The plan is accepted: carry it out."
    assert acceptance("## 计划\n1. 写一个文件") == "计划已接受，请执行。"


def asks(*, planning: bool = True, **values: Any) -> Message:
    return UserMessage(content="go", planning=planning or UNSET, **values)


def answers(text: str, **values: Any) -> Message:
    return AssistantMessage(content=[TextBlock(text), *values.pop("calls", [])], **values)


OTHER = "## Plan\n\n- another"
CALL = ToolCallBlock("c1", "read", {"path": "a"})
# A conversation, oldest message first -> the plan that the user was asked last to accept.
LAST: list[tuple[list[Message], str]] = [
    ([], ""),
    ([asks(), answers(OTHER)], OTHER),
    ([asks(planning=False), answers(OTHER)], ""),
    ([asks(), answers(PLAN), asks(), answers(OTHER)], OTHER),
    ([asks(), answers(OTHER), asks(planning=False), answers("Done."), asks(planning=False), answers(PLAN)], OTHER),
    ([asks(), answers(OTHER), asks(), answers("Which file?")], OTHER),
    ([asks(), answers(OTHER, calls=[CALL])], ""),
    ([asks(), answers(OTHER, stop_reason="aborted")], ""),
    ([asks(scheduled=True), answers(OTHER)], ""),
    ([answers(OTHER)], ""),
]


@pytest.mark.parametrize(("messages", "plan"), LAST)
def test_the_last_plan_is_found_in_a_conversation(messages: list[Message], plan: str) -> None:
    assert last_plan(messages) == plan


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    model.replies = defaultdict(lambda: [says("fine")], model.replies)
    use_models(monkeypatch, lambda _ref: model)
    configure("{mode: plan}")
    return model


async def events_of(runtime: Runtime, text: str) -> list[Event]:
    return [event async for event in runtime.agent.submit(text)]


async def opened(mode: Mode | None = None) -> Runtime:
    return await Runtime.open(RuntimeOptions(watch=False, background=False, flush_at_end=False, mode=mode))


async def test_a_turn_in_plan_mode_ends_with_its_plan_and_another_one_does_not(model: PurposeModel) -> None:
    model.replies["chat"] = [says(PLAN), says("Which one?"), says(PLAN), says("done")]
    runtime = await opened()
    events = await events_of(runtime, "go")
    (plan,) = (event for event in events if isinstance(event, PlanReady))
    assert isinstance(events[-1], TurnEnded)
    assert (plan.plan, plan.acceptance) == (plan_in(PLAN), acceptance(PLAN))
    assert not [event for event in await events_of(runtime, "go") if isinstance(event, PlanReady)]
    runtime.agent.set_mode("edits")
    assert not [event for event in await events_of(runtime, "go") if isinstance(event, PlanReady)]
    await runtime.close()


async def test_a_job_asks_nobody(model: PurposeModel) -> None:
    model.replies["chat"] = [says(PLAN)]
    runtime = await opened()
    heard: list[Event] = []
    runtime.agent.listen(heard.append)
    await take_turn(runtime.agent, "look")
    assert not [event for event in heard if isinstance(event, PlanReady)]
    await runtime.close()


async def test_accepting_changes_neither_the_prompt_nor_the_tools(model: PurposeModel, tmp_path: Path) -> None:
    """The prefix that the provider keeps stays as it is: a mode is told behind the words."""
    model.replies["chat"] = [
        says(PLAN),
        calls(ToolCallBlock("c1", "write", {"path": "a.txt", "content": "x"})),
        says(""),
    ]
    runtime = await opened()
    await events_of(runtime, "go")
    runtime.agent.set_mode("edits")
    await events_of(runtime, acceptance(PLAN))
    planned, *carried_out = model.of("chat")
    assert all((each.system, each.tools) == (planned.system, planned.tools) for each in carried_out)
    users = [message for message in carried_out[-1].messages if isinstance(message, UserMessage)]
    assert [message.planning is True for message in users] == [True, False]
    assert (runtime.agent.status.workspace / "a.txt").read_text() == "x"
    await runtime.close()
