"""One live conversation: what is on disk when, queueing, interrupting, commands, failing disks and models."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from msgspec import structs

from clawbot.agent.agent import Agent
from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    ContextUsed,
    Event,
    MessageFinished,
    MessageQueued,
    ModelChanged,
    Notice,
    SessionChanged,
    TextDelta,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from clawbot.context.prompt import NO_TOOLS
from clawbot.llm.errors import AuthenticationError, RefusedError
from clawbot.llm.protocol import ChatModel, FinalPart, ModelInfo, TextPart
from clawbot.messages import AssistantMessage, Cost, TextBlock, ToolCallBlock, Usage
from clawbot.sessions.errors import SessionStoreError
from clawbot.sessions.store import SessionStore
from clawbot.sessions.transcript import Transcript
from clawbot.tools.protocol import ApprovalQuestion, Approver, ToolOutcome
from tests.agent.fakes import FakeModel, FakeTool, Stalling, calls, says
from tests.agent.gate_host import House, ended, lines, talk


class AskingTool(FakeTool):
    """A tool that asks before it answers."""

    async def run_approved(self, arguments: dict[str, object], approve: Approver) -> ToolOutcome:
        answer = await approve(ApprovalQuestion("shell", "rm x", "/w", "rm x", "all", remedy="Set tools.shell.allow."))
        return ToolOutcome(f"{answer.decision} {answer.command or ''} {answer.reason}".strip())


@pytest.fixture
def house(house: House) -> House:
    """One whose models answer by another's name, but for those of `gone`."""

    async def open_model(ref: str) -> ChatModel:
        if ref.startswith("gone/"):
            raise RefusedError("there is no such model.", provider=ref)
        other = FakeModel(says("from the other"))
        other.info = ModelInfo(ref=ref, reason="chosen")
        return other

    house.open_model = open_model
    return house


def said(agent: Agent) -> list[str]:
    """The roles of the messages on disk, in order."""
    return [str(line["message"]["role"]) for line in lines(agent) if line["type"] == "message"]


async def test_a_message_yields_its_events_in_order_and_lands_on_disk(house: House) -> None:
    agent = house.open(FakeModel(says("hi")))
    events = await talk(agent, "hello")
    assert [type(event) for event in events] == [TurnStarted, TextDelta, MessageFinished, ContextUsed, TurnEnded]
    assert ended(events).status == "done"
    assert said(agent) == ["user", "assistant"]


async def test_the_user_message_is_on_disk_before_the_model_is_called(house: House) -> None:
    """Reference sheet 3.6, BUG: nothing is written until the first assistant message exists."""
    seen: list[list[str]] = []

    async def look() -> None:
        seen.append(said(agent))

    agent = house.open(FakeModel([look, *says("hi")]))
    await talk(agent, "hello")
    assert seen == [["user"]]


async def test_texts_typed_during_a_turn_wait_in_their_order(house: House) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        started.set()
        await release.wait()

    model = FakeModel([start, *says("one")], says("two"), says("three"))
    agent = house.open(model)
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


async def test_closing_the_stream_of_a_queued_text_withdraws_it(house: House) -> None:
    release, started = asyncio.Event(), asyncio.Event()

    async def start() -> None:
        started.set()
        await release.wait()

    model = FakeModel([start, *says("one")])
    agent = house.open(model)
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


async def test_an_interrupt_keeps_what_was_said_and_the_next_turn_goes_on(house: House) -> None:
    stall = Stalling()
    agent = house.open(FakeModel([TextPart("as I "), stall], says("again")))
    turn = asyncio.create_task(talk(agent, "hello"))
    await stall.reached.wait()
    assert agent.interrupt()
    assert ended(await turn).status == "interrupted"
    stored = lines(agent)[-1]["message"]
    assert stored["stopReason"] == "aborted"
    assert ended(await talk(agent, "go on")).status == "done"
    assert not agent.interrupt()


async def test_a_failing_model_ends_the_turn_with_what_to_do(house: House) -> None:
    problem = AuthenticationError("the key is wrong.", provider="OpenAI", hint="Set OPENAI_API_KEY.")
    agent = house.open(FakeModel([problem], says("fine now")))
    end = ended(await talk(agent, "hello"))
    assert (end.status, end.error_kind) == ("failed", "authentication")
    assert end.error == "OpenAI: the key is wrong."
    assert end.hint == "Set OPENAI_API_KEY."
    assert ended(await talk(agent, "hello")).status == "done"


async def test_approval_is_an_event_and_its_answer_a_call(house: House) -> None:
    agent = house.open(FakeModel(calls(ToolCallBlock("1", "shell")), says("done")), AskingTool("shell"))
    events: list[Event] = []
    async for event in agent.submit("go"):
        events.append(event)
        if isinstance(event, ApprovalRequested):
            assert agent.answer(event.request_id, "once", "rm y")
            assert not agent.answer(event.request_id, "deny")
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert finished.output == "once rm y"


async def test_where_nobody_can_answer_a_question_is_refused_with_the_setting(house: House) -> None:
    model = FakeModel(calls(ToolCallBlock("1", "shell")), says("done"))
    agent = house.open(model, AskingTool("shell"), interactive=False)
    events = await talk(agent, "go")
    finished = next(event for event in events if isinstance(event, ToolFinished))
    assert "deny" in finished.output
    assert "tools.shell.allow" in finished.output
    assert not any(isinstance(event, ApprovalRequested) for event in events)


async def test_new_starts_a_session_and_its_text_is_the_first_message(house: House) -> None:
    """Reference sheet 5.2, GAP: `/new hello` loses "hello"."""
    # Behind `/new` memory is asked as well, before or after the new session's first turn.
    model = FakeModel(says("old"), says("fresh"), says("fresh"))
    agent = house.open(model)
    await talk(agent, "hello")
    before = agent.conversation.session_id
    events = await talk(agent, "  /NEW what now? ")
    assert any(isinstance(event, SessionChanged) and event.session_id != before for event in events)
    asked = [request for request in model.requests if request.purpose == "chat"][1:]
    assert [[message.text for message in request.messages] for request in asked] == [["what now?"]]
    assert agent.conversation.key == "main"


async def test_an_unknown_command_says_so_and_never_reaches_the_model(house: House) -> None:
    model = FakeModel()
    agent = house.open(model)
    end = ended(await talk(agent, "/statsu"))
    assert end.status == "failed"
    assert "/statsu" in end.error
    assert "/status" in end.hint
    assert model.requests == []
    assert said(agent) == []


async def test_another_model_answers_from_now_on_and_after_a_restart(house: House) -> None:
    agent = house.open(FakeModel(says("mine")))
    events = await talk(agent, "/model openai/other")
    assert any(isinstance(event, ModelChanged) and event.model == "openai/other" for event in events)
    said_by = [event.text async for event in agent.submit("hello") if isinstance(event, TextDelta)]
    assert said_by == ["from the other"]
    await agent.close()
    again = house.open(FakeModel())
    assert again.conversation.session.record.model_override == "openai/other"


async def test_a_model_that_can_not_call_tools_gets_none_and_is_told_so(house: House) -> None:
    """Its server would drop them silently, and it would promise to look things up."""
    model = FakeModel(says("hi"))
    agent = house.open(model, FakeTool("memory_search"))
    model.info = ModelInfo("fake/plain", window=8000, supports_tools=False)
    await talk(agent, "hello")
    [request] = model.requests
    assert request.tools == ()
    assert NO_TOOLS in request.system
    assert "memory_search" not in request.system


async def test_status_tells_tokens_and_cost_of_what_was_reported(house: House) -> None:
    usage = Usage(input=1000, output=10, cache_read=50, cost=Cost(total=0.25))
    final = FinalPart(AssistantMessage([TextBlock("hi")], usage=usage))
    agent = house.open(FakeModel([TextPart("hi"), final]))
    await talk(agent, "hello")
    status = next(event for event in await talk(agent, "/status") if isinstance(event, CommandOutput))
    assert status.data is not None
    assert (status.data["tokens"], status.data["cost"], status.data["exact"]) == (1060, 0.25, True)


async def test_a_full_disk_hands_the_message_back_and_loses_no_reply(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Transcript.append_message
    full = True

    def failing(self: Transcript, message: Any, *, sync: bool = False) -> object:
        if full and isinstance(message, AssistantMessage):
            raise SessionStoreError("The disk is full.", hint="Make room.")
        return append(self, message, sync=sync)

    monkeypatch.setattr(Transcript, "append_message", failing)
    agent = house.open(FakeModel(says("precious"), says("next")))
    end = ended(await talk(agent, "hello"))
    assert (end.status, end.error, end.hint) == ("failed", "The disk is full.", "Make room.")
    full = False
    await talk(agent, "and now?")
    texts = [line["message"]["content"] for line in lines(agent) if line["type"] == "message"]
    assert "precious" in json.dumps(texts)
    assert said(agent) == ["user", "assistant", "user", "assistant"]


async def test_an_unexpected_failure_is_told_and_the_conversation_stays(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    agent = house.open(FakeModel([ValueError("a bug")], says("still here")))
    end = ended(await talk(agent, "hello"))
    assert end.error_kind == "internal"
    assert "a bug" in end.error
    assert "a turn failed unexpectedly" in caplog.text
    assert ended(await talk(agent, "hello")).status == "done"


async def test_an_index_that_cannot_be_written_hides_neither_the_reply_nor_the_real_error(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of sessions is made of the transcripts, so it may be behind."""

    def failing(self: SessionStore, record: object) -> object:
        raise SessionStoreError("sessions.json: the disk is full.", hint="Make room.")

    monkeypatch.setattr(SessionStore, "update", failing)
    problem = AuthenticationError("the key is wrong.", provider="OpenAI", hint="Set OPENAI_API_KEY.")
    agent = house.open(FakeModel(says("hi"), [problem]))
    events = await talk(agent, "hello")
    assert ended(events).status == "done"
    assert [event.text for event in events if isinstance(event, Notice) and "sessions.json" in event.text]
    assert ended(await talk(agent, "hello")).error_kind == "authentication"


async def test_notes_that_cannot_be_counted_end_no_turn(house: House) -> None:
    agent = house.open(FakeModel(says("hi")))
    (house.workspace / "memory").write_text("a file where a folder belongs")
    assert ended(await talk(agent, "hello")).status == "done"


async def test_half_characters_in_a_text_reach_neither_the_events_nor_the_model(house: House) -> None:
    """A terminal or an argument that is no UTF-8 may hold such."""
    model = FakeModel(says("hi"))
    agent = house.open(model)
    events = await talk(agent, "a\udcff and \0 b")
    assert [event.text for event in events if isinstance(event, TurnStarted)] == ["a\ufffd and \0 b"]
    assert model.requests[0].messages[-1].text == "a\ufffd and \0 b"
    msgspec.json.encode(events)


async def test_closing_interrupts_what_runs_and_hands_back_what_waits(house: House) -> None:
    stalled, queued = asyncio.Event(), asyncio.Event()

    async def stall() -> None:
        stalled.set()
        await asyncio.Event().wait()

    model = FakeModel([TextPart("as I "), stall])
    agent = house.open(model)
    running = asyncio.create_task(talk(agent, "a"))
    await stalled.wait()

    async def wait_in_line() -> list[Event]:
        events = []
        async for event in agent.submit("b"):
            events.append(event)
            queued.set()
        return events

    waiting = asyncio.create_task(wait_in_line())
    await queued.wait()
    agent.interrupt()
    await agent.close()
    assert ended(await running).status == "interrupted"
    events = await waiting
    assert [type(event) for event in events] == [MessageQueued, TurnEnded]
    assert ended(events).status == "failed"
    assert len(model.requests) == 1
    assert model.closed


async def test_a_model_that_cannot_be_had_or_stored_leaves_the_old_one_in_charge(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeModel(says("still me"), says("and me"))
    agent = house.open(model)
    assert ended(await talk(agent, "/model gone/model")).status == "failed"

    def failing(self: SessionStore, record: object) -> object:
        raise SessionStoreError("The disk is full.")

    with monkeypatch.context() as full_disk:
        full_disk.setattr(SessionStore, "update", failing)
        assert ended(await talk(agent, "/model openai/other")).error == "The disk is full."
    assert agent.status.model.ref == "fake/model"
    assert not model.closed
    assert ended(await talk(agent, "hello")).status == "done"


async def test_another_session_brings_its_own_model_and_the_usual_one_where_none_was_chosen(house: House) -> None:
    agent = house.open(FakeModel())
    store = agent.deps.store
    await talk(agent, "/model openai/other")
    await agent.switch(store.open("plain"))
    assert agent.status.model.ref == "fake/model"
    await agent.switch(store.open("main"))
    assert agent.status.model.ref == "openai/other"


async def test_a_session_whose_model_is_gone_opens_all_the_same_and_says_so_once(house: House) -> None:
    agent = house.open(FakeModel(says("me again"), says("me again")))
    with agent.deps.store.open("old") as old:
        agent.deps.store.update(structs.replace(old.record, model_override="gone/model"))
    changed = await agent.switch(agent.deps.store.open("old"))
    assert (changed.session_key, agent.conversation.key) == ("old", "old")
    first, second = [await talk(agent, "hello") for _ in range(2)]
    [notice] = [event for event in first if isinstance(event, Notice)]
    assert "gone/model" in notice.text
    assert "fake/model answers" in notice.text
    assert not any(isinstance(event, Notice) for event in second)


async def test_a_switch_that_fails_gives_the_other_session_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = house.open(FakeModel(says("precious")))
    append = Transcript.append_message
    monkeypatch.setattr(Transcript, "append_message", _only_users(append))
    await talk(agent, "hello")
    with pytest.raises(SessionStoreError):
        await agent.switch(agent.deps.store.open("other"))
    assert agent.conversation.key == "main"
    agent.deps.store.open("other").close()
    monkeypatch.setattr(Transcript, "append_message", append)
    await agent.close()
    assert said(agent) == ["user", "assistant"]


def _only_users(append: Any) -> Any:
    def failing(self: Transcript, message: Any, *, sync: bool = False) -> object:
        if isinstance(message, AssistantMessage):
            raise SessionStoreError("The disk is full.")
        return append(self, message, sync=sync)

    return failing


async def test_what_is_wrong_with_the_workspace_files_is_said_once_and_again_when_it_comes_back(
    house: House,
) -> None:
    agent = house.open(FakeModel(*(says("ok") for _ in range(5))))
    memory = house.workspace / "MEMORY.md"

    async def notices() -> list[str]:
        return [event.text for event in await talk(agent, "hello") if isinstance(event, Notice)]

    assert await notices() == []
    memory.write_bytes(b"x" * 30_000)
    [cut] = await notices()
    assert "MEMORY.md is cut in the prompt: 30,000 characters" in cut
    memory.write_bytes(b"x" * 31_000)
    assert await notices() == []
    memory.write_bytes(b"caf\xe9")
    [bad] = await notices()
    assert "not valid UTF-8" in bad
    memory.write_bytes(b"x" * 30_000)
    assert await notices() == [cut]
