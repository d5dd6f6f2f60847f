"""A model that says what a test tells it to, tools that record how they were called, and what an agent needs else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from clawbot.agent.deps import AgentDeps, CurrentModel, FrontEnd, MemoryAccess, OpenModel, SessionRules
from clawbot.agent.status import Profile
from clawbot.clock import Clock, SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, ModelInfo, StreamPart, TextPart, ToolCallPart
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolSpec
from clawbot.sessions.store import SessionStore
from clawbot.tools.protocol import Need, ToolOutcome
from clawbot.tools.registry import Toolbox

Answer = Sequence[StreamPart | Exception | Callable[[], Any]]


class Stalling:
    """A step of a model that never ends; `reached` is set when it is there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await asyncio.Event().wait()


class FakeModel:
    """Plays `answers`, one for each call: parts are yielded, exceptions raised, functions called and awaited."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self.closed_streams = 0
        self.closed = False
        self.info = ModelInfo(ref="fake/model", window=8000)

    def answer_to(self, request: ChatRequest) -> Answer:
        """The next answer."""
        return self.answers.pop(0)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        self.requests.append(request)
        try:
            for part in self.answer_to(request):
                if isinstance(part, Exception):
                    raise part
                if callable(part):
                    await part()
                else:
                    yield part
        finally:
            self.closed_streams += 1

    async def warm(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        self.closed = True


def says(text: str) -> list[StreamPart]:
    """An answer of plain text."""
    return [TextPart(text), FinalPart(AssistantMessage([TextBlock(text)], stop_reason="stop"))]


def calls(*calls: ToolCallBlock, text: str = "") -> list[StreamPart]:
    """An answer that calls tools."""
    spoken: list[StreamPart] = [TextPart(text)] if text else []
    content: list[Any] = [TextBlock(text)] if text else []
    return [
        *spoken,
        *(ToolCallPart(call) for call in calls),
        FinalPart(AssistantMessage([*content, *calls], stop_reason="toolUse")),
    ]


class FakeTool:
    """A tool that answers with `answer`; `started` is set when it runs, and it waits for `release` if that is given."""

    read_only = True

    def __init__(
        self,
        name: str,
        answer: str = "done",
        release: asyncio.Event | None = None,
        needs: frozenset[Need] | None = frozenset(),
    ) -> None:
        self.needs = needs
        self.spec = ToolSpec(name, f"The tool {name}.", {"type": "object", "properties": {}})
        self.answer = answer
        self.release = release
        self.started = asyncio.Event()
        self.arguments: list[dict[str, Any]] = []

    def title(self, arguments: dict[str, Any]) -> str:
        return self.spec.name

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        self.arguments.append(arguments)
        self.started.set()
        if self.release is not None:
            await self.release.wait()
        return ToolOutcome(self.answer)


def time_is_up(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Callable[[], Awaitable[None]]:
    """A wait without end, in which the time of what may take so many seconds runs out."""
    scopes: list[asyncio.Timeout] = []
    real = asyncio.timeout

    def timeout(delay: float | None) -> asyncio.Timeout:
        scope = real(delay)
        if delay == seconds:
            scopes.append(scope)
        return scope

    async def stall() -> None:
        scopes[0].reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "timeout", timeout)
    return stall


def agent_deps(
    workspace: Path,
    *,
    model: ChatModel | None = None,
    open_model: OpenModel | None = None,
    settings: AgentSettings | None = None,
    store: SessionStore | None = None,
    tools: Toolbox | None = None,
    clock: Clock | None = None,
    **more: Any,
) -> AgentDeps:
    """What an agent of `workspace` works with; `model` answers whatever reference is opened, unless `open_model`
    does. `more` are fields of the structs in it, and `consent`."""
    chat, clock = model or FakeModel(), clock or SystemClock()

    async def open_same(_ref: str) -> ChatModel:
        return chat

    async def find_models() -> list[ModelInfo]:
        return [ModelInfo(ref="offline")]

    def of(kind: type[Any], **default: Any) -> Any:
        return kind(**default | {name: more.pop(name) for name in kind.__struct_fields__ if name in more})

    consent = more.pop("consent", None)
    return AgentDeps(
        profile=of(Profile, agent_id="main"),
        settings=settings or AgentSettings(workspace=workspace),
        workspace=workspace,
        store=store or SessionStore(workspace / "sessions", clock, cwd=workspace),
        tools=tools or Toolbox([], 1000),
        clock=clock,
        model=CurrentModel(open_model or open_same, chat, "fake/model", find=find_models, consent=consent),
        front=of(FrontEnd),
        memory=of(MemoryAccess),
        rules=of(SessionRules),
        **more,
    )
