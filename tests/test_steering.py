"""Through the whole program: a message that is sent while a turn runs is said in that turn, once its tools are done."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from pathlib import Path

import pytest

from clawbot.agent.events import ApprovalRequested, Event, MessageSteered, Notice
from clawbot.config.paths import find_home
from clawbot.llm.protocol import ModelInfo
from clawbot.messages import AssistantMessage, ToolCallBlock, ToolResultMessage, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.unsent import UnsentFile
from clawbot.text.intents import INTENTS
from tests.agent.fakes import calls, says
from tests.agent.gate_host import PurposeModel
from tests.program import use_models
from tests.tui.chat_host import chatting, page_text, send, until
from tests.tui.fake_runtime import FakeRuntime, Hold, reply


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> PurposeModel:
    model = PurposeModel()
    model.info = ModelInfo(ref="fake/model", window=60_000)
    model.replies = defaultdict(lambda: [says("fine")], model.replies)
    use_models(monkeypatch, lambda _ref: model)
    file = find_home() / "config.yaml"
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(
        "agents: {defaults: {model: fake/model, memory_search: {enabled: false}, permissions: {mode: ask}}}\n"
        "hooks: {entries: {session-memory: {enabled: false}}}\n",
        encoding="utf-8",
    )
    return model


class Talk:
    """Reads what comes of texts, each by a task of its own. A turn is held open by the question of its tool."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.events: dict[str, list[Event]] = defaultdict(list)
        self._came = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def say(self, text: str) -> None:
        self._tasks.append(asyncio.create_task(self._read(text)))

    async def _read(self, text: str) -> None:
        async for event in self.runtime.agent.submit(text):
            self.events[text].append(event)
            self._came.set()

    async def came(self, text: str, kind: str) -> None:
        async with asyncio.timeout(100):
            while kind not in self.kinds(text):
                self._came.clear()
                await self._came.wait()

    def kinds(self, text: str) -> list[str]:
        return [type(event).__name__ for event in self.events[text]]

    def allow(self, text: str) -> None:
        question = next(event for event in self.events[text] if isinstance(event, ApprovalRequested))
        assert self.runtime.agent.answer(question.request_id, "once")

    async def done(self) -> None:
        await asyncio.gather(*self._tasks)


async def talking(model: PurposeModel, *, steers: bool) -> Talk:
    model.replies["chat"] = [
        calls(ToolCallBlock("c1", "write", {"path": "a", "content": "x"})),
        says("done"),
        says("2"),
    ]
    runtime = await Runtime.open(RuntimeOptions(watch=False, background=False, flush_at_end=False))
    runtime.agent.steers = steers
    talk = Talk(runtime)
    talk.say("go")
    await talk.came("go", "ApprovalRequested")
    return talk


def said(model: PurposeModel, call: int) -> list[str]:
    """Who spoke in the messages of one call of the model, and what the user said."""
    return [
        message.text if isinstance(message, UserMessage) else type(message).__name__.removesuffix("Message").lower()
        for message in model.of("chat")[call].messages
        if isinstance(message, UserMessage | AssistantMessage | ToolResultMessage)
    ]


async def test_it_is_heard_after_the_tools_and_its_place_stays(model: PurposeModel) -> None:
    talk = await talking(model, steers=True)
    talk.say("in blue, please")
    await talk.came("in blue, please", "MessageQueued")
    talk.allow("go")
    await talk.done()
    assert said(model, 1) == ["go", "assistant", "toolresult", "in blue, please"]
    assert model.of("chat")[1].messages[:1] == model.of("chat")[0].messages
    assert [kind for kind in talk.kinds("go") if kind in ("TurnStarted", "MessageSteered", "TurnEnded")] == [
        "TurnStarted", "MessageSteered", "TurnEnded",
    ]  # fmt: skip
    assert talk.kinds("in blue, please") == ["MessageQueued", "TurnEnded"]
    assert len(model.of("chat")) == 2
    runtime = talk.runtime
    history = [item.message for item in await runtime.sessions.history()]
    assert [type(message) for message in history[-5:]] == [
        UserMessage, AssistantMessage, ToolResultMessage, UserMessage, AssistantMessage,
    ]  # fmt: skip
    folder, key = (
        runtime.agent.conversation.session.transcript.path.parent,
        runtime.agent.conversation.session.record.key,
    )
    await runtime.agent.outbox.settle()
    assert UnsentFile(folder, key).read() == []
    await runtime.close()


async def test_it_may_state_an_intent_bring_it_up_and_end_it(model: PurposeModel) -> None:
    talk = await talking(model, steers=True)
    texts = ("When the dentist comes up, remind me to ask for the bill.", "the dentist called", "done")
    for text in texts:
        talk.say(text)
        await talk.came(text, "MessageQueued")
    talk.allow("go")
    await talk.done()
    line = "when the dentist: ask for the bill"
    stated, quote, called, ended = said(model, 1)[3:]
    assert (stated, called, ended) == texts
    assert line in quote
    file = talk.runtime.agent.deps.workspace / INTENTS
    assert re.fullmatch(rf"- {line} \(done [0-9-]+\)\n", file.read_text(encoding="utf-8"))
    assert [event.text for event in talk.events["go"] if isinstance(event, Notice)] == [
        f"{INTENTS}: {line}", f"Done: {line}",
    ]  # fmt: skip
    await talk.runtime.close()


async def test_as_shipped_it_waits_for_a_turn_of_its_own(model: PurposeModel) -> None:
    talk = await talking(model, steers=False)
    talk.say("in blue, please")
    await talk.came("in blue, please", "MessageQueued")
    talk.allow("go")
    await talk.done()
    assert said(model, 1) == ["go", "assistant", "toolresult"]
    assert talk.kinds("in blue, please")[:2] == ["MessageQueued", "TurnStarted"]
    await talk.runtime.close()


async def test_a_command_waits_for_the_end_and_so_does_what_was_sent_behind_it(model: PurposeModel) -> None:
    talk = await talking(model, steers=True)
    for text in ("one", "/status", "two"):
        talk.say(text)
        await talk.came(text, "MessageQueued")
    talk.allow("go")
    await talk.done()
    assert said(model, 1) == ["go", "assistant", "toolresult", "one"]
    assert "TurnStarted" in talk.kinds("/status")
    assert "TurnStarted" in talk.kinds("two")
    await talk.runtime.close()


async def test_without_a_further_round_it_gets_a_turn_of_its_own(model: PurposeModel) -> None:
    talk = await talking(model, steers=True)
    talk.say("in blue, please")
    await talk.came("in blue, please", "MessageQueued")
    talk.runtime.agent.interrupt()
    await talk.done()
    assert talk.kinds("in blue, please")[:2] == ["MessageQueued", "TurnStarted"]
    await talk.runtime.close()


async def test_the_page_shows_it_where_it_was_heard_and_queues_it_no_longer(tmp_path: Path) -> None:
    steered = MessageSteered(text="in blue", entry_id="e2", unsent_id="queued-in blue")
    first, second = Hold(), Hold()
    runtime = FakeRuntime(tmp_path, turns=[[first, steered, second, *reply("done")], [*reply("never")]])
    async with chatting(runtime) as (app, pilot):
        await send(app, pilot, "go")
        await until(pilot, first.reached.is_set)
        await send(app, pilot, "in blue")
        await until(pilot, lambda: app.chat.turns.queued == ["in blue"])
        first.release()
        await until(pilot, second.reached.is_set)
        await until(pilot, lambda: "in blue" in page_text(app) and app.chat.turns.queued == [])
        assert "said while the turn runs" in page_text(app)
        assert app.chat.turns.recall() is None
        second.release()
        await until(pilot, lambda: "done" in page_text(app))
