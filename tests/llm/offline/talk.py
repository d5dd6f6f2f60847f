"""A small conversation for the tests: the offline model, tools over files in memory, and the loop between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from zoneinfo import ZoneInfo

from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatRequest, FinalPart, Purpose, StreamPart, TextPart
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)

NOW = datetime(2026, 11, 20, 10, 41, tzinfo=ZoneInfo("Europe/Berlin"))
TODAY = "memory/2026-11-20.md"
TOOLS = ("read", "write", "edit", "append", "list", "grep", "shell")
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
    """The workspace: path -> text, and the tools over it with the answers of the real ones."""

    def __init__(self, texts: dict[str, str] | None = None, failing: dict[str, str] | None = None) -> None:
        self.texts = dict(texts or {})
        self.failing = failing or {}
        self.calls: list[ToolCallBlock] = []

    def run(self, call: ToolCallBlock) -> tuple[str, bool]:
        """The answer to `call`, and whether it is an error."""
        self.calls.append(call)
        if call.name in self.failing:
            return self.failing[call.name], True
        tool: Callable[..., tuple[str, bool]] = getattr(self, f"_{call.name}")
        return tool(**call.arguments)

    def _read(self, path: str) -> tuple[str, bool]:
        return (self.texts[path], False) if path in self.texts else (f"{path} does not exist.", True)

    def _write(self, path: str, content: str) -> tuple[str, bool]:
        self.texts[path] = content
        return f"Created {path}.", False

    def _append(self, path: str, content: str) -> tuple[str, bool]:
        self.texts[path] = self.texts.get(path, "") + content
        return f"Appended to {path}.", False

    def _edit(self, path: str, old: str, new: str) -> tuple[str, bool]:
        if old not in self.texts.get(path, ""):
            return f"{path} does not hold that text.", True
        self.texts[path] = self.texts[path].replace(old, new, 1)
        return f"Edited {path}.", False

    def _list(self, path: str = ".", pattern: str = "") -> tuple[str, bool]:
        if pattern:
            return "\n".join(
                sorted(name for name in self.texts if fnmatchcase(name, pattern))
            ) or "Nothing fits.", False
        inside = "" if path == "." else path.rstrip("/") + "/"
        names = {
            head + slash
            for name in self.texts
            if name.startswith(inside)
            for head, slash, _ in [name.removeprefix(inside).partition("/")]
        }
        return "\n".join(sorted(names)) or f"[{path} is empty]", False

    def _grep(self, pattern: str, path: str = "", glob: str = "*", ignore_case: bool = False) -> tuple[str, bool]:
        assert len(pattern) <= 1000, "the real tool takes no longer one"
        wanted = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        hits = [
            f"{name}:{number}:{line}"
            for name, text in sorted(self.texts.items())
            if name.startswith(path) and _fits(name, glob)
            for number, line in enumerate(text.splitlines(), 1)
            if wanted.search(line)
        ]
        if len(hits) > 200:
            hits = [*hits[:200], "[stopped after 200 matches: narrow the pattern, path or glob]"]
        return "\n".join(hits) or "No matches.", False

    def _shell(self, command: str) -> tuple[str, bool]:
        return f"ran {command}", False


def _fits(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob.replace("**/", "*")) if "/" in glob else fnmatchcase(name.rpartition("/")[2], glob)


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
        self.specs = tuple(ToolSpec(name, f"The tool {name}.", {"type": "object"}) for name in tools)
        self.system = system
        self.clock = clock or FixedClock()
        self.messages: list[Message] = []

    async def say(self, text: str, purpose: Purpose = "chat") -> str:
        """Say something, run the tools that the model wants, and return its reply."""
        self.messages.append(UserMessage(text, timestamp=len(self.messages) + 1))
        for _ in range(MOST_ROUNDS):
            answer = await self.ask(purpose)
            self.messages.append(answer)
            if not answer.tool_calls:
                return answer.text
            for call in answer.tool_calls:
                self.messages.append(await self.result(call))
        raise AssertionError("the model calls tools without an end")

    async def ask(self, purpose: Purpose = "chat", **options: Any) -> AssistantMessage:
        """One call of the model with the messages so far."""
        request = ChatRequest(self.system, tuple(self.messages), self.specs, purpose=purpose, **options)
        return (await collect(OfflineModel(self.clock), request))[-1].message

    async def result(self, call: ToolCallBlock) -> ToolResultMessage:
        """Run one call."""
        text, is_error = self.files.run(call)
        return ToolResultMessage(call.id, call.name, [TextBlock(text)], is_error)


async def collect(model: OfflineModel, request: ChatRequest) -> list[Any]:
    """All parts of one answer; the stream is checked for what every model promises."""
    parts: list[StreamPart] = []
    async with aclosing(model.stream(request)) as stream:
        parts.extend([part async for part in stream])
    final = parts[-1]
    assert isinstance(final, FinalPart)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == final.message.text
    return parts
