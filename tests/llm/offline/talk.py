"""A small conversation for the tests: the offline model, the tools over real files, and the loop between them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.clock import epoch_ms
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatRequest, FinalPart, Purpose, StreamPart, TextPart
from clawbot.memory.search.scale import on_scale
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from clawbot.text.language import CHAT_WORDS, STOP_WORDS
from clawbot.tools.protocol import ApprovalAnswer, ApprovalQuestion
from clawbot.tools.registry import build_toolbox

NOW = datetime(2026, 11, 20, 10, 41, tzinfo=ZoneInfo("Europe/Berlin"))
TODAY = "memory/2026-11-20.md"
TOOLS = ("read", "write", "append", "list", "grep", "shell", "memory_search")
MOST_ROUNDS = 6  # more than the model may take, so that a loop shows


class FixedClock:
    """A clock that stands still."""

    def __init__(self, now: datetime = NOW) -> None:
        self.moment = now

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0


class Files:
    """A workspace with `texts` (path -> text) below the folder of the test, and the real tools over it. A tool that is
    `given` answers that text, one that is `failing` as an error; the memory search finds lines with common words."""

    def __init__(
        self,
        texts: Mapping[str, str] | None = None,
        failing: Mapping[str, str] | None = None,
        given: Mapping[str, str] | None = None,
    ) -> None:
        self.root = Path(tempfile.mkdtemp(dir=Path.cwd()))
        for path, text in (texts or {}).items():
            self.root.joinpath(path).parent.mkdir(exist_ok=True)
            self.root.joinpath(path).write_text(text, encoding="utf-8", newline="")
        self.failing = failing or {}
        self.given = given or {}
        self.calls: list[ToolCallBlock] = []
        self.toolbox = build_toolbox(self.root, AgentSettings(), FixedClock(), Paths(find_home()))

    @property
    def texts(self) -> dict[str, str]:
        """What the files hold now."""
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in files}

    async def run(self, call: ToolCallBlock) -> ToolResultMessage:
        """Run one call; the user refuses every command."""
        self.calls.append(call)
        text = self.failing.get(call.name) or self.given.get(call.name)
        is_error = call.name in self.failing
        if text is None and call.name == "memory_search":
            text = self.search(**call.arguments)
        elif text is None:
            outcome = await self.toolbox.run(call, _refuse)
            text, is_error = outcome.text, outcome.is_error
        return ToolResultMessage(call.id, call.name, [TextBlock(text)], is_error)

    def search(self, query: str) -> str:
        """The lines of the notes with words of `query`, those with most of them first."""
        wanted = _words(query)
        found = [
            hit(name, number, line, round(len(wanted & _words(line)) / max(len(wanted), 1), 3))
            for name, text in self.texts.items()
            if name == "MEMORY.md" or name.startswith("memory/")
            for number, line in enumerate(text.splitlines(), 1)
            if wanted & _words(line)
        ]
        return json.dumps({"results": sorted(found, key=lambda result: -result["score"])[:6]})


async def _refuse(question: ApprovalQuestion) -> ApprovalAnswer:
    return ApprovalAnswer("deny", reason="not today")


def searched(*results: dict[str, Any]) -> Files:
    """Files whose memory search answers `results`."""
    return Files(given={"memory_search": json.dumps({"results": results})})


def hit(path: str, line: int, snippet: str, score: float = 0.5, origin: str = "file") -> dict[str, Any]:
    """A result as the tool answers it; `score` is the share of a perfect line's."""
    shown = on_scale(score, "hybrid")
    return {"path": path, "startLine": line, "snippet": snippet, "score": shown, "origin": origin}


def _words(text: str) -> set[str]:
    words = re.findall(r"[a-z]{3,}|[\u4e00-\u9fff]", text.lower())
    return set(words) - STOP_WORDS - CHAT_WORDS - set("我的你在是了什么吗")


class Talk:
    """A session: every `say` starts with a new model, as a new process would."""

    def __init__(
        self,
        files: Files | None = None,
        tools: Sequence[str] = TOOLS,
        system: str = "",
        clock: FixedClock | None = None,
    ) -> None:
        self.files = files or Files()
        index = (ToolSpec(name, "Searches.", {"type": "object"}) for name in ("memory_search", "sessions_read"))
        known = (*self.files.toolbox.specs, *index)
        self.specs = tuple(spec for spec in known if spec.name in tools)
        self.system = system
        self.clock = clock or FixedClock()
        self.messages: list[Message] = []

    async def say(self, text: str, purpose: Purpose = "chat") -> str:
        """Say something, run the tools that the model wants, and return its reply."""
        self.messages.append(UserMessage(text, timestamp=epoch_ms(self.clock.now()) + len(self.messages)))
        for _ in range(MOST_ROUNDS):
            answer = await self.ask(purpose)
            self.messages.append(answer)
            if not answer.tool_calls:
                return answer.text
            for call in answer.tool_calls:
                self.messages.append(await self.files.run(call))
        raise AssertionError("the model calls tools without an end")

    async def ask(self, purpose: Purpose = "chat", **options: Any) -> AssistantMessage:
        """One call of the model with the messages so far."""
        request = ChatRequest(self.system, tuple(self.messages), self.specs, purpose=purpose, **options)
        last = (await collect(OfflineModel(self.clock), request))[-1]
        assert isinstance(last, FinalPart)
        return last.message


async def collect(model: OfflineModel, request: ChatRequest) -> list[Any]:
    """All parts of one answer; the stream is checked for what every model promises."""
    parts: list[StreamPart] = []
    async with aclosing(model.stream(request)) as stream:
        parts.extend([part async for part in stream])
    final = parts[-1]
    assert isinstance(final, FinalPart)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == final.message.text
    return parts
