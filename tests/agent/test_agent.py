"""One live conversation: what is on disk when, queueing, interrupting, commands, failing disks and models."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.agent import Agent, AgentParts
from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    ContextUsed,
    Event,
    MessageFinished,
    MessageQueued,
    ModelChanged,
    SessionChanged,
    TextDelta,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.errors import AuthenticationError
from clawbot.llm.protocol import ChatModel, FinalPart, ModelInfo, TextPart
from clawbot.messages import AssistantMessage, Cost, TextBlock, ToolCallBlock, Usage
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.tools.protocol import AnyTool, ApprovalQuestion, Approver, ToolOutcome
from clawbot.tools.registry import Toolbox
from tests.agent.fakes import FakeModel, FakeTool, calls, says


class AskingTool(FakeTool):
    """A tool that asks before it answers."""

    async def run_approved(self, arguments: dict[str, object], approve: Approver) -> ToolOutcome:
        answer = await approve(ApprovalQuestion("shell", "rm x", "/w", "rm x", "all"))
        return ToolOutcome(f"{answer.decision} {answer.command or ''} {answer.reason}".strip())


def make(tmp_path: Path, model: ChatModel, *tools: AnyTool, interactive: bool = True, session: str = "main") -> Agent:
    clock = SystemClock()
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    store = SessionStore(tmp_path / "sessions", clock, cwd=workspace)

    async def open_model(ref: str) -> ChatModel:
        other = FakeModel(says("from the other"))
        other.info = ModelInfo(ref=ref, reason="chosen")
        return other

    async def find_models() -> list[ModelInfo]:
        return [ModelInfo(ref="offline")]

    parts = AgentParts(
        agent_id="main",
        settings=AgentSettings(workspace=workspace),
        workspace=workspace,
        store=store,
        tools=Toolbox(tools, 1000),
        clock=clock,
        open_model=open_model,
        find_models=find_models,
        interactive=interactive,
    )
    return Agent(parts, store.open(session), model)


async def talk(agent: Agent, text: str) -> list[Event]:
    return [event async for event in agent.submit(text)]


def ended(events: Sequence[Event]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    return events[-1]


def lines(agent: Agent) -> list[dict[str, Any]]:
    path = agent.conversation.session.transcript.path
    return [json.loads(line) for line in path.read_text().splitlines()]


def said(agent: Agent) -> list[str]:
    """The roles of the messages on disk, in order."""
    return [str(line["message"]["role"]) for line in lines(agent) if line["type"] == "message"]


async def test_a_message_yields_its_events_in_order_and_lands_on_disk(tmp_path: Path) -> None:
    agent = make(tmp_path, FakeModel(says("hi")))
    events = await talk(agent, "hello")
    assert [type(event) for event in events] == [TurnStarted, TextDelta, MessageFinished, ContextUsed, TurnEnded]
    assert ended(events).status == "done"
    assert said(agent) == ["user", "assistant"]
    await agent.close()


async def test_the_user_message_is_on_disk_before_the_model_is_called(tmp_path: Path) -> None:
    """Reference sheet 3.6, BUG: nothing is written until the first assistant message exists."""
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(said(agent))

    agent = make(tmp_path, FakeModel([look, *says("hi")]))
    await talk(agent, "hello")
    assert seen == [["user"]]
    await agent.close()


async def test_texts_typed_during_a_turn_wait_in_their_order(tmp_path: Path) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        started.set()
        await release.wait()

    model = FakeModel([start, *says("one")], says("two"), says("three"))
    agent = make(tmp_path, model)
    first = asyncio.create_task(talk(agent, "a"))
    await started.wait()
    queued: list[MessageQueued] = []
    rest: list[asyncio.Task[list[Event]]] = []
    for text in ("b", "c"):
        seen = asyncio.Event()

        async def follow(text: str = text, seen: asyncio.Event = seen) -> list[Event]:
            events = []
            async for event in agent.submit(text):
                events.append(event)
                if isinstance(event, MessageQueued):
                    queued.append(event)
                    seen.set()
            return events

        rest.append(asyncio.create_task(follow()))
        await seen.wait()
    release.set()
    await asyncio.gather(first, *rest)
    assert [event.position for event in queued] == [1, 2]
    assert [request.messages[-1].text for request in model.requests] == ["a", "b", "c"]
    await agent.close()


async def test_closing_the_stream_of_a_queued_text_withdraws_it(tmp_path: Path) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        started.set()
        await release.wait()

    model = FakeModel([start, *says("one")])
    agent = make(tmp_path, model)
    first = asyncio.create_task(talk(agent, "a"))
    await started.wait()
    stream = agent.submit("b")
    while not isinstance(await anext(stream), MessageQueued):
        pass
    await stream.aclose()
    release.set()
    await first
    assert len(model.requests) == 1
    assert said(agent) == ["user", "assistant"]
    await agent.close()


async def test_an_interrupt_keeps_what_was_said_and_the_next_turn_goes_on(tmp_path: Path) -> None:
    stalled = asyncio.Event()

    async def stall() -> None:
        stalled.set()
        await asyncio.Event().wait()

    agent = make(tmp_path, FakeModel([TextPart("as I "), stall], says("again")))
    turn = asyncio.create_task(talk(agent, "hello"))
    await stalled.wait()
    assert agent.interrupt()
    assert ended(await turn).status == "interrupted"
    stored = lines(agent)[-1]["message"]
    assert stored["stopReason"] == "aborted"
    assert ended(await talk(agent, "go on")).status == "done"
    assert not agent.interrupt()
    await agent.close()


async def test_a_failing_model_ends_the_turn_with_what_to_do(tmp_path: Path) -> None:
    problem = AuthenticationError("the key is wrong.", provider="OpenAI", hint="Set OPENAI_API_KEY.")
    agent = make(tmp_path, FakeModel([problem], says("fine now")))
    end = ended(await talk(agent, "hello"))
    assert (end.status, end.error_kind) == ("failed", "authentication")
    assert end.error == "OpenAI: the key is wrong."
    assert end.hint == "Set OPENAI_API_KEY."
    assert ended(await talk(agent, "hello")).status == "done"
    await agent.close()


async def test_approval_is_an_event_and_its_answer_a_call(tmp_path: Path) -> None:
    agent = make(tmp_path, FakeModel(calls(ToolCallBlock("1", "shell")), says("done")), AskingTool("shell"))
    events: list[Event] = []
    async for event in agent.submit("go"):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            assert agent.answer(event.request_id, "once", "rm y")
            assert not agent.answer(event.request_id, "deny")
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert finished.output == "once rm y"
    await agent.close()


async def test_where_nobody_can_answer_a_question_is_refused_with_the_setting(tmp_path: Path) -> None:
    model = FakeModel(calls(ToolCallBlock("1", "shell")), says("done"))
    agent = make(tmp_path, model, AskingTool("shell"), interactive=False)
    events = await talk(agent, "go")
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert "deny" in finished.output
    assert "tools.shell.allow" in finished.output
    assert not any(isinstance(event, ApprovalRequested) for event in events)
    await agent.close()


async def test_new_starts_a_session_and_its_text_is_the_first_message(tmp_path: Path) -> None:
    """Reference sheet 5.2, GAP: `/new hello` loses "hello"."""
    model = FakeModel(says("old"), says("fresh"))
    agent = make(tmp_path, model)
    await talk(agent, "hello")
    before = agent.conversation.session_id
    events = await talk(agent, "  /NEW what now? ")
    assert any(isinstance(event, SessionChanged) and event.session_id != before for event in events)
    assert [message.text for message in model.requests[1].messages] == ["what now?"]
    assert agent.conversation.key == "main"
    await agent.close()


async def test_an_unknown_command_says_so_and_never_reaches_the_model(tmp_path: Path) -> None:
    model = FakeModel()
    agent = make(tmp_path, model)
    end = ended(await talk(agent, "/statsu"))
    assert end.status == "failed"
    assert "/statsu" in end.error
    assert "/status" in end.hint
    assert model.requests == []
    assert said(agent) == []
    await agent.close()


async def test_another_model_answers_from_now_on_and_after_a_restart(tmp_path: Path) -> None:
    agent = make(tmp_path, FakeModel(says("mine")))
    events = await talk(agent, "/model openai/other")
    assert any(isinstance(event, ModelChanged) and event.model == "openai/other" for event in events)
    said_by = [event.text async for event in agent.submit("hello") if isinstance(event, TextDelta)]
    assert said_by == ["from the other"]
    await agent.close()
    again = make(tmp_path, FakeModel())
    assert again.conversation.session.record.model_override == "openai/other"
    await again.close()


async def test_status_tells_tokens_and_cost_of_what_was_reported(tmp_path: Path) -> None:
    usage = Usage(input=100, output=10, cache_read=50, cost=Cost(total=0.25))
    final = FinalPart(AssistantMessage([TextBlock("hi")], usage=usage))
    agent = make(tmp_path, FakeModel([TextPart("hi"), final]))
    await talk(agent, "hello")
    status = next(event for event in await talk(agent, "/status") if isinstance(event, CommandOutput))
    assert status.data is not None
    assert (status.data["tokens"], status.data["cost"], status.data["exact"]) == (160, 0.25, True)
    await agent.close()


async def test_a_full_disk_hands_the_message_back_and_loses_no_reply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Transcript.append_message
    full = True

    def failing(self: Transcript, message: Any, *, sync: bool = False) -> object:
        if full and isinstance(message, AssistantMessage):
            raise SessionStoreError("The disk is full.", hint="Make room.")
        return append(self, message, sync=sync)

    monkeypatch.setattr(Transcript, "append_message", failing)
    agent = make(tmp_path, FakeModel(says("precious"), says("next")))
    end = ended(await talk(agent, "hello"))
    assert (end.status, end.error, end.hint) == ("failed", "The disk is full.", "Make room.")
    full = False
    await talk(agent, "and now?")
    texts = [line["message"]["content"] for line in lines(agent) if line["type"] == "message"]
    assert "precious" in json.dumps(texts)
    assert said(agent) == ["user", "assistant", "user", "assistant"]
    await agent.close()


async def test_an_unexpected_failure_is_told_and_the_conversation_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make(tmp_path, FakeModel([ValueError("a bug")], says("still here")))
    end = ended(await talk(agent, "hello"))
    assert end.error_kind == "internal"
    assert "a bug" in end.error
    assert "a turn failed unexpectedly" in caplog.text
    assert ended(await talk(agent, "hello")).status == "done"
    await agent.close()
