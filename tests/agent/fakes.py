"""A model that says what a test tells it to, and tools that note how they were called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart, TextPart, ToolCallPart
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, ToolSpec
from clawbot.tools.protocol import ToolOutcome

Answer = Sequence[StreamPart | Exception | Callable[[], Any]]


class FakeModel:
    """Plays `answers`, one for each call: parts are yielded, exceptions raised, functions called and awaited."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self.closed_streams = 0
        self.closed = False
        self.info = ModelInfo(ref="fake/model", window=8000)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        self.requests.append(request)
        try:
            for part in self.answers.pop(0):
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

    def __init__(self, name: str, answer: str = "done", release: asyncio.Event | None = None) -> None:
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
