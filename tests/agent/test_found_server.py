"""A model server that was found by itself hears nothing before the user has allowed it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from clawbot.agent.agent import Agent
from clawbot.agent.events import ApprovalRequested, Event, ModelChanged, ModelLoading, Notice
from clawbot.clock import SystemClock
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatModel, DetectedServer, LoadingPart, ModelInfo
from clawbot.llm.servers import LocalModel, ServerConsent
from clawbot.tools.protocol import Decision
from tests.agent.fakes import Answer, FakeModel, says
from tests.agent.gate_host import House, talk

BASE = "http://127.0.0.1:8080/v1"
FOUND = DetectedServer("llamafile/qwen", "llama.cpp", BASE)
SERVER = LocalModel(FOUND.ref, FOUND.server, BASE)


class Found:
    """An agent for whose `auto` a server was found."""

    def __init__(self, house: House, *, interactive: bool = True) -> None:
        self.file = house.folder / "servers.json"
        self.consent = ServerConsent(self.file)
        self.server = FakeModel(says("from the server"), says("again"))
        house.open_model = self._open
        agent = house.open(FakeModel(), interactive=interactive, consent=self.consent)
        agent.deps.model.chat = OfflineModel(SystemClock(), found=FOUND)
        agent.deps.model.ref = "auto"
        self.agent: Agent = agent

    async def _open(self, ref: str) -> ChatModel:
        assert ref == "auto"
        return self.server

    async def say(self, text: str, answer: Decision = "deny") -> list[Event]:
        events: list[Event] = []
        async for event in self.agent.submit(text):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                assert not self.server.requests
                assert self.agent.answer(event.request_id, answer)
        return events


def kinds(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize(("answer", "kept"), [("always", True), ("once", False)])
async def test_it_answers_once_it_is_allowed(house: House, answer: Decision, kept: bool) -> None:
    found = Found(house)
    events = await found.say("what is the capital of France?", answer)
    (asked,) = kinds(events, ApprovalRequested)
    assert isinstance(asked, ApprovalRequested)
    assert BASE in asked.command
    assert asked.asks
    assert len(found.server.requests) == 1
    assert [event.model for event in events if isinstance(event, ModelChanged)] == ["fake/model"]
    assert not kinds(await found.say("and of Spain?"), ApprovalRequested)
    assert ServerConsent(found.file).covers(SERVER) is kept
    if kept:
        assert stat.S_IMODE(found.file.stat().st_mode) == 0o600


async def test_it_hears_nothing_when_it_is_refused(house: House) -> None:
    found = Found(house)
    events = await found.say("what is the capital of France?")
    assert not found.server.requests
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert FOUND.ref in notice.text
    assert not kinds(await found.say("and of Spain?"), ApprovalRequested)
    assert not found.server.requests


async def test_where_nobody_can_be_asked_the_offline_model_answers_and_says_why(house: House) -> None:
    found = Found(house, interactive=False)
    events = await found.say("what is the capital of France?")
    assert not found.server.requests
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.level == "warning"
    assert f"--model {FOUND.ref}" in notice.text


def test_what_a_setting_names_needs_no_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consent = ServerConsent(tmp_path / "servers.json")
    ollama = LocalModel("ollama_chat/qwen3", "Ollama", "http://127.0.0.1:11434")
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    assert not consent.covers(ollama)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1")
    assert consent.covers(ollama)
    assert not consent.covers(SERVER)
    assert consent.covers(LocalModel("local/qwen", "clawbot's own server", BASE))


def test_a_damaged_file_allows_nothing(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    file.write_text('{"allowed": "http')
    consent = ServerConsent(file)
    assert not consent.covers(SERVER)
    consent.allow(BASE, always=True)
    assert ServerConsent(file).covers(SERVER)


class LoadingModel(FakeModel):
    """A model whose server has a window of 4,096 tokens, and says so when it has loaded."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(*answers)
        self.loaded = asyncio.Event()

    async def wait_ready(self) -> AsyncGenerator[LoadingPart, None]:
        if self.info.window is None:
            yield LoadingPart("m")
            await self.loaded.wait()
            self.info = ModelInfo(ref="fake/model", window=4_096)
            yield LoadingPart("m", done=True)


def loading(house: House) -> tuple[LoadingModel, Agent]:
    brain = LoadingModel(says("hello"), says("again"))
    agent = house.open(brain)
    brain.info = ModelInfo(ref="fake/model")
    return brain, agent


async def test_the_first_request_to_a_server_that_loads_fits_its_window(house: House) -> None:
    small = FakeModel(says("hello"))
    await talk(house.open(small, window=4_096, session="small"), "hello")
    brain, agent = loading(house)
    events: list[Event] = []
    async for event in agent.submit("hello"):
        events.append(event)
        if isinstance(event, ModelLoading):
            assert not brain.requests
            brain.loaded.set()
    assert [event.done for event in events if isinstance(event, ModelLoading)] == [False, True]
    (request,) = brain.requests
    assert [tool.name for tool in request.tools] == [tool.name for tool in small.requests[0].tools]
    assert agent.status.window == 4_096


async def test_the_wait_for_a_server_that_loads_can_be_stopped(house: House) -> None:
    brain, agent = loading(house)
    async for event in agent.submit("hello"):
        if isinstance(event, ModelLoading):
            assert agent.interrupt()
    assert not brain.requests
    brain.loaded.set()
    await talk(agent, "hello")
    assert len(brain.requests) == 1
