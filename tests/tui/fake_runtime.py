"""A runtime that plays scripted events: the surface that the screens see, without anything below it.

A turn is a list of events and `Hold`s; a `Hold` stops the turn until the test releases it or the turn is interrupted.
An `ApprovalRequested` waits by itself for `answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from clawbot.agent import views
from clawbot.agent.events import (
    ApprovalRequested,
    CommandOutput,
    Event,
    MessageFinished,
    MessageQueued,
    Notice,
    SessionChanged,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from clawbot.agent.views import AgentInfo, CommandInfo, HistoryItem, HookStatus
from clawbot.config.schema import SessionSettings
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.budget import Budget
from clawbot.context.prompt import FileSize, Size
from clawbot.context.report import ContextPart, ContextReport, LastFlush, Tokens
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import Provider
from clawbot.memory.values import Hit, Progress, SearchResult
from clawbot.messages import AssistantMessage, TextBlock, UserMessage

MEASURED = "(measured)"
NOW = datetime(2026, 11, 20, 10, 41, tzinfo=UTC)


class RuntimeStatus(views.RuntimeStatus, frozen=True):
    """A conversation in its middle, unless a test says otherwise."""

    agent_id: str = "main"
    session_key: str = "main"
    session_id: str = "5f0c1d2e"
    model: ModelInfo = ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set", window=200_000, priced=True)
    workspace: Path = Path("/home/ada/.clawbot/workspace")
    tokens: int = 122_000
    window: int = 200_000
    exact: bool = True
    cost: float | None = 0.41
    busy: bool = False
    notes: int = 128
    budget: Budget | None = Budget(200_000, 20_000, 180_000, 176_000, 20_000, 4_000)


class SessionSummary(Struct, frozen=True):
    key: str
    session_id: str
    title: str
    updated_at: datetime
    created_at: datetime
    turns: int
    tokens: int
    ended: str
    path: Path
    locked: bool = False


PROVIDERS = [
    Provider("anthropic", "Anthropic", ("ANTHROPIC_API_KEY",), "anthropic/claude-sonnet-4-5"),
    Provider("openai", "OpenAI", ("OPENAI_API_KEY",), "openai/gpt-5"),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), "deepseek/deepseek-chat"),
]


@dataclass(frozen=True)
class FakePaths:
    """The part of clawbot.config.paths.Paths that a screen may ask for."""

    home: Path

    @property
    def hooks(self) -> Path:
        return self.home / "hooks"

    @property
    def config_file(self) -> Path:
        return self.home / "config.yaml"

    @property
    def history_file(self) -> Path:
        return self.home / "history.jsonl"

    @property
    def env_file(self) -> Path:
        return self.home / ".env"

    @property
    def log_file(self) -> Path:
        return self.home / "logs" / "clawbot.log"


@dataclass
class FakeTui:
    theme: str = "dark"
    editor: str = "builtin"


@dataclass
class FakeSettings:
    tui: FakeTui = field(default_factory=FakeTui)
    session: SessionSettings = field(default_factory=SessionSettings)

    def agent(self, agent_id: str) -> AgentSettings:
        return AgentSettings()


class Hold:
    """A place where a scripted turn waits; `reached` is set when it got there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()

    def release(self) -> None:
        self.released.set()


COMMANDS = [
    CommandInfo("/new", "[text]", "Start a fresh session; what was said stays in memory"),
    CommandInfo("/reset", "[text]", "The same as /new"),
    CommandInfo("/status", "", "Model, session and context at a glance"),
    CommandInfo("/model", "[name]", "Choose the model"),
    CommandInfo("/sessions", "", "Choose an earlier conversation"),
    CommandInfo("/context", "[detail|json]", "Where the tokens of the context go"),
    CommandInfo("/compact", "[FOCUS]", "Summarise earlier turns now"),
    CommandInfo("/agent", "[ID]", "Talk to another agent"),
    CommandInfo("/hooks", "", "Show the hooks"),
    CommandInfo("/tools", "", "What the agent can do"),
    CommandInfo("/edit", "FILE", "Edit a workspace file"),
    CommandInfo("/memory", "[QUERY]", "Search what is remembered"),
    CommandInfo("/export", "[md|json] [path]", "Write the conversation to a file"),
    CommandInfo("/help", "", "Keys and commands"),
    CommandInfo("/quit", "", "Leave"),
]

MODELS = [
    ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set", window=400_000, priced=True),
    ModelInfo(ref="anthropic/claude-sonnet-4-5", reason="ANTHROPIC_API_KEY is set", window=200_000, priced=True),
    ModelInfo(ref="ollama_chat/qwen3:8b", reason="Ollama answers on port 11434", window=40_960),
    ModelInfo(ref="offline", reason="always there: remembers, finds and quotes your notes", window=32_000),
]


def summary(number: int, title: str, *, ended: str = "open", **values: Any) -> SessionSummary:
    """A session that is `number` hours old."""
    when = NOW - timedelta(hours=number)
    return SessionSummary(
        key=values.pop("key", "main"),
        session_id=f"{number:08x}",
        title=title,
        updated_at=when,
        created_at=when - timedelta(minutes=40),
        turns=values.pop("turns", 3 + number % 20),
        tokens=values.pop("tokens", 1_200 * (number + 1)),
        ended=ended,
        path=Path(f"/home/ada/.clawbot/agents/main/sessions/{number:08x}.jsonl"),
        **values,
    )


def conversation(turns: int, *, start: datetime = NOW - timedelta(hours=1)) -> list[HistoryItem]:
    """`turns` questions with their answers, a minute apart."""
    items = []
    for number in range(turns):
        stamp = int((start + timedelta(minutes=number)).timestamp() * 1000)
        question = UserMessage(content=f"question {number}", timestamp=stamp)
        reply = AssistantMessage(content=[TextBlock(f"Answer **{number}**, in a sentence.")], timestamp=stamp)
        items.append(HistoryItem(f"u{number}", stamp, question))
        items.append(HistoryItem(f"a{number}", stamp, reply))
    return items


def context_report(**values: Any) -> ContextReport:
    """The context of a conversation in its middle."""
    parts = (
        ContextPart("system", "system prompt", 3_120),
        ContextPart("bootstrap", "bootstrap files", 6_402),
        ContextPart("tools", "tools", 2_290),
        ContextPart("summary", "summary", 4_870),
        ContextPart("messages", "messages", 71_033),
        ContextPart("toolResults", "tool results", 34_118),
        ContextPart("unaccounted", "unaccounted", 212),
        ContextPart("free", "free", 57_955),
        ContextPart("reserve", "reserve", 20_000),
    )
    files = [
        ("AGENTS.md", 8_040, 2_110),
        ("SOUL.md", 1_700, 480),
        ("USER.md", 1_180, 312),
        ("MEMORY.md", 31_120, 3_500),
    ]
    usual = ContextReport(
        model="openai/gpt-5",
        window=200_000,
        window_source="litellm's model data",
        assumed=False,
        parts=parts,
        used=122_045,
        exact=True,
        stale=False,
        reported=121_900,
        unaccounted=212,
        reserve=20_000,
        flush_at=176_000,
        compact_at=180_000,
        compactions=2,
        messages=312,
        last_flush=LastFlush("2026-11-20T09:12:00+00:00", "written", "memory/2026-11-20.md", 12, 14, 180),
        bootstrap_files=tuple(Tokens(name, tokens) for name, _, tokens in files),
        tools=tuple(Tokens(f"tool_{number}", 410 - 30 * number) for number in range(8)),
        sections=(Size("Tooling", 2_204), Size("Memory Recall", 1_480), Size("Workspace", 380)),
        files=(
            *(FileSize(name, name, False, chars, min(chars, 12_000), chars > 12_000) for name, chars, _ in files),
            FileSize("TOOLS.md", "TOOLS.md", True, 0, 0, False),
        ),
    )
    return structs.replace(usual, **values)


def reply(text: str, *, pieces: int = 1) -> list[Event]:
    """The events of a plain answer, streamed in `pieces`."""
    size = max(1, -(-len(text) // pieces))
    deltas: list[Event] = [TextDelta(text=text[at : at + size]) for at in range(0, len(text), size)]
    return [*deltas, MessageFinished(entry_id="m1", text=text, stop_reason="stop")]


def hit(path: str, line: int, snippet: str, score: float = 0.5, *, last: int = 0, source: str = "memory") -> Hit:
    """A place that a search finds."""
    return Hit(path, line, last or line, score, snippet, "sessions" if source == "sessions" else "memory")


def found(*hits: Hit, **values: Any) -> SearchResult:
    """The answer to a search."""
    return SearchResult(hits, **{"mode": "hybrid", "provider": "offline", "model": "wordllama", **values})


class FakeRuntime:
    """See the module. `turns` are played one for each message; a message beyond them is echoed."""

    def __init__(
        self,
        home: Path,
        *,
        turns: Sequence[Sequence[Event | Hold]] = (),
        history: Sequence[HistoryItem] = (),
        status: RuntimeStatus | None = None,
        sessions: Sequence[SessionSummary] = (),
        files: dict[str, str] | None = None,
        notices: Sequence[Notice] = (),
        first_start: bool = False,
    ) -> None:
        self.paths = FakePaths(home)
        self.settings = FakeSettings()
        self.status = status or RuntimeStatus()
        self.commands = list(COMMANDS)
        self.notices = list(notices)
        self.first_start = first_start
        self.files = files if files is not None else {"AGENTS.md": "# Rules\n", "memory/2026-10-02.md": "# Notes\n"}
        self.turns = [list(turn) for turn in turns]
        self.items = list(history)
        self.summaries = list(sessions)
        self.submitted: list[str] = []
        self.withdrawn: list[str] = []
        self.answers: list[tuple[str, str, str | None]] = []
        self.saved_keys: dict[str, str] = {}
        self.providers = list(PROVIDERS)
        self.exported: list[str | None] = []
        self.resumed: list[str] = []
        self.warmed = 0
        self.memory: dict[str, SearchResult] = {}  # what a search for each query finds
        self.searches: list[str] = []
        self.search_holds: dict[str, Hold] = {}  # searches that wait until they are released
        self.memory_progress: Progress | None = None
        self.memory_generation = 0
        self.on_memory_progress: Callable[[], None] | None = None
        self.saving = False
        self.on_saving: Callable[[], None] | None = None
        self.measured: RuntimeStatus | None = None  # how the conversation stands once it was measured
        self.measure_error: Exception | None = None
        self.order: list[str] = []  # the texts that were taken up, and MEASURED
        self.full_disk = False  # a turn then fails before it begins: its message could not be stored
        self.report = context_report()
        self.will_flush = False
        self.before: list[Event | Hold] = []  # what the next message causes before its turn begins
        self.on_event: Callable[[Event], None] | None = None
        self.found_hooks: list[HookStatus] = []
        self.hook_error: Exception | None = None
        self.agents = [AgentInfo(self.status.agent_id, self.status.workspace, "openai/gpt-5", current=True)]
        self.close_hold: Hold | None = None  # saving at the end waits until it is released
        self.close_error: Exception | None = None
        self.closed = False
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._interrupted = asyncio.Event()
        self._answered: dict[str, asyncio.Event] = {}

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        end = len(self.items)
        if before is not None:
            end = next(number for number, item in enumerate(self.items) if item.entry_id == before)
        return self.items[max(0, end - limit) : end]

    async def submit(self, text: str) -> AsyncGenerator[Event, None]:
        self.submitted.append(text)
        if self._turn.locked():
            self._waiting += 1
            try:
                yield MessageQueued(text=text, position=self._waiting)
                await self._turn.acquire()
            except (GeneratorExit, asyncio.CancelledError):
                self.withdrawn.append(text)
                raise
            finally:
                self._waiting -= 1
        else:
            await self._turn.acquire()
        try:
            async for event in self._play(text):
                yield event
        finally:
            self.status = structs.replace(self.status, busy=False)
            self._turn.release()

    async def _play(self, text: str) -> AsyncGenerator[Event, None]:
        self._interrupted.clear()
        self.order.append(text)
        self.status = structs.replace(self.status, busy=True)
        if self.full_disk:
            yield TurnEnded(status="failed", error="No space left on device.", hint="Make room.")
            return
        if text.startswith("/") and "\n" not in text:
            yield CommandOutput(command=text.split()[0], text=f"Output of `{text}`.")
            yield TurnEnded(status="done")
            return
        async for event in self._play_before():
            yield event
        if self._interrupted.is_set():
            yield TurnEnded(status="interrupted")
            return
        status = self.status
        yield TurnStarted(
            text=text, session_key=status.session_key, session_id=status.session_id, model=status.model.ref
        )
        async for event in self._play_turn(self.turns.pop(0) if self.turns else reply(f"You said: {text}")):
            yield event

    async def _play_turn(self, steps: Sequence[Event | Hold]) -> AsyncGenerator[Event, None]:
        for step in steps:
            if isinstance(step, Hold):
                step.reached.set()
                await self._first_of(step.released, self._interrupted)
            else:
                if isinstance(step, ApprovalRequested):
                    self._answered[step.request_id] = asyncio.Event()
                yield step
                if isinstance(step, ApprovalRequested):
                    await self._first_of(self._answered[step.request_id], self._interrupted)
            if self._interrupted.is_set():
                yield TurnEnded(status="interrupted", duration_ms=1200)
                return
            if isinstance(step, TurnEnded):
                return
        yield TurnEnded(status="done", duration_ms=1200)

    async def _play_before(self) -> AsyncGenerator[Event, None]:
        while self.before and not self._interrupted.is_set():
            step = self.before.pop(0)
            if isinstance(step, Hold):
                step.reached.set()
                await self._first_of(step.released, self._interrupted)
            else:
                yield step

    @staticmethod
    async def _first_of(*events: asyncio.Event) -> None:
        tasks = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def interrupt(self) -> bool:
        if not self._turn.locked():
            return False
        self._interrupted.set()
        return True

    def answer(self, request_id: str, decision: str, *, command: str | None = None) -> None:
        self.answers.append((request_id, decision, command))
        self._answered[request_id].set()

    async def warm(self) -> None:
        self.warmed += 1

    async def sessions(self) -> list[SessionSummary]:
        return self.summaries

    async def preview(self, session_id: str, limit: int = 20) -> list[HistoryItem]:
        return self.items[-limit:]

    async def resume(self, name: str) -> SessionChanged:
        self.resumed.append(name)
        self.status = structs.replace(self.status, session_id=name)
        return SessionChanged(session_key=self.status.session_key, session_id=name, reason="resumed")

    async def models(self) -> list[ModelInfo]:
        return list(MODELS)

    async def set_model(self, ref: str) -> ModelInfo:
        found = next((model for model in MODELS if model.ref == ref), ModelInfo(ref=ref))
        self.status = structs.replace(self.status, model=found)
        return found

    async def save_key(self, name: str, value: str) -> None:
        self.saved_keys[name] = value

    async def read_workspace_file(self, name: str) -> str:
        return self.files.get(name, "")

    async def note_place(self, path: str) -> str:
        return path

    async def write_workspace_file(self, name: str, text: str) -> None:
        self.files[name] = text

    async def workspace_files(self) -> list[str]:
        return sorted(self.files)

    async def search_memory(self, query: str, limit: int = 30) -> SearchResult:
        self.searches.append(query)
        if hold := self.search_holds.get(query):
            hold.reached.set()
            await hold.released.wait()
        result = self.memory.get(query, found())
        return structs.replace(result, hits=result.hits[:limit])

    async def read_memory(self, path: str) -> str:
        return self.files.get(path, "")

    def save(self, saving: bool) -> None:
        """Memory begins to take what was said, or has taken it."""
        self.saving = saving
        if self.on_saving is not None:
            self.on_saving()

    @property
    def measures(self) -> int:
        return self.order.count(MEASURED)

    async def measure(self) -> None:
        async with self._turn:
            self.order.append(MEASURED)
            if self.measure_error is not None:
                raise self.measure_error
            self.status = self.measured or self.status

    def index(self, progress: Progress | None, *, changed: bool = False) -> None:
        """The index has come so far, or rests; `changed`: there is something else to find now."""
        self.memory_progress = progress
        self.memory_generation += changed
        if self.on_memory_progress is not None:
            self.on_memory_progress()

    async def context_report(self) -> ContextReport:
        return self.report

    async def count_tokens(self, text: str) -> int:
        return len(text) // 4

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        self.exported.append(session)
        return path or Path(f"conversation.{form}")

    def tell(self, event: Event) -> None:
        """Something happens beside the turns."""
        if isinstance(event, SessionChanged):
            self.status = structs.replace(self.status, session_id=event.session_id)
        assert self.on_event is not None
        self.on_event(event)

    async def hooks(self) -> list[HookStatus]:
        if self.hook_error is not None:
            raise self.hook_error
        return list(self.found_hooks)

    async def close(self, *, hasty: bool = False) -> None:
        self.interrupt()
        try:
            async with self._turn:
                if self.close_hold is not None:
                    self.save(True)
                    self.close_hold.reached.set()
                    await self.close_hold.released.wait()
                    self.save(False)
                if self.close_error is not None:
                    raise self.close_error
        finally:
            self.closed = True
