"""A runtime that plays scripted events: the surface that the screens see, without anything below it.

A turn is a list of events and `Hold`s; a `Hold` stops the turn until the test releases it or the turn is interrupted.
An `ApprovalRequested` waits by itself for `answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import structs

from clawbot.agent import status
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
from clawbot.agent.slash import COMMANDS
from clawbot.agent.status import AgentInfo, HookStatus
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import Mode
from clawbot.context.report import ContextPart, ContextReport, FileSize, LastFlush, Size, Tokens
from clawbot.context.window import WindowBudget
from clawbot.errors import ClawbotError
from clawbot.history.blame import LineAuthor
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import Provider
from clawbot.local_model.store import LocalOffer
from clawbot.memory.values import EVERY_SOURCE, Hit, MessageRef, Progress, SearchResult, Source
from clawbot.messages import AssistantMessage, TextBlock, UserMessage
from clawbot.scheduling.jobs import Job
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.summary import SessionSummary
from clawbot.sessions.text import Spoken
from clawbot.sessions.unsent import Unsent
from clawbot.tools.protocol import Decision, ToolError

MEASURED = "(measured)"
NOW = datetime(2026, 11, 20, 10, 41, tzinfo=UTC)


class RuntimeStatus(status.RuntimeStatus, frozen=True):
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
    budget: WindowBudget | None = WindowBudget(200_000, 20_000, 180_000, 176_000, 20_000, 4_000)


PROVIDERS = [
    Provider("anthropic", "Anthropic", ("ANTHROPIC_API_KEY",), "anthropic/claude-sonnet-4-5"),
    Provider("openai", "OpenAI", ("OPENAI_API_KEY",), "openai/gpt-5"),
    Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), "deepseek/deepseek-chat"),
]


class Hold:
    """A place where a scripted turn waits; `reached` is set when it got there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = False

    def release(self) -> None:
        self.released.set()

    async def wait(self) -> None:
        self.reached.set()
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


MODELS = [
    ModelInfo(ref="openai/gpt-5", reason="OPENAI_API_KEY is set", window=400_000, priced=True),
    ModelInfo(ref="anthropic/claude-sonnet-4-5", reason="ANTHROPIC_API_KEY is set", window=200_000, priced=True),
    ModelInfo(ref="ollama_chat/qwen3:8b", reason="Ollama answers on port 11434", window=40_960),
    ModelInfo(ref="offline", reason="always there: remembers, finds and quotes your notes", window=32_000),
]


def summary(number: int, title: str, *, ended: str = "open", **values: Any) -> SessionSummary:
    """A session that is `number` hours old."""
    when = NOW - timedelta(hours=number)
    key = values.pop("key", "main")
    return SessionSummary(
        key=key,
        name=key,
        session_id=f"{number:08x}",
        title=title,
        updated_at=when,
        created_at=when - timedelta(minutes=40),
        turns=values.pop("turns", 3 + number % 20),
        tokens=values.pop("tokens", 1_200 * (number + 1)),
        ended=ended,
        path=Path(f"/home/ada/.clawbot/agents/main/sessions/{number:08x}.jsonl"),
        locked=values.pop("locked", False),
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


def told(session: str, snippet: str, score: float = 0.5, entry: str = "0000000a") -> Hit:
    """A place in a conversation that a search finds, said by the user an hour ago."""
    said = MessageRef(entry, "user", NOW - timedelta(hours=1))
    return Hit(f"sessions/{session}.jsonl", 4, 4, score, snippet, "sessions", 4, said)


def found(*hits: Hit, **values: Any) -> SearchResult:
    """The answer to a search."""
    return SearchResult(hits, **{"mode": "hybrid", "provider": "offline", "model": "wordllama", **values})


class FakeOutbox:
    """Keeps what is unsent in the list of the runtime."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    @property
    def left(self) -> list[Unsent]:
        return self._runtime.unsent

    async def add(self, text: str, instead_of: Collection[str] = (), *, ident: str = "", draft: bool = False) -> str:
        runtime = self._runtime
        runtime.kept += 1
        ident = ident or f"k{runtime.kept}"
        runtime.unsent = [unsent for unsent in runtime.unsent if unsent.id not in (ident, *instead_of)]
        runtime.unsent.append(Unsent(ident, text, draft=draft))
        return ident

    async def drop(self, *ids: str) -> None:
        self._runtime.dropped += ids
        self._runtime.unsent = [unsent for unsent in self._runtime.unsent if unsent.id not in ids]


class FakeHooks:
    """Those that the runtime says."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    async def status(self) -> list[HookStatus]:
        await self._runtime.gate("hooks")
        return list(self._runtime.found_hooks)


class FakeMemory:
    """Finds what the runtime has in `memories`, and reads its files."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime
        self.progress: Progress | None = None
        self.generation = 0
        self.on_progress: Callable[[], None] | None = None

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        self._runtime.searches.append(query)
        await self._runtime.gate("search")
        if hold := self._runtime.search_holds.get(query):
            await hold.wait()
        result = self._runtime.memories.get(query, found())
        return structs.replace(result, hits=[hit for hit in result.hits if hit.source in sources][:limit])

    async def text(self, path: str) -> str:
        self._runtime.reads.append(path)
        await self._runtime.gate("read_memory")
        return self._runtime.files.get(path, "")


class FakeSessions:
    """Those that the runtime has in `summaries`; what was said in all of them is in its `items`."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    async def all(self) -> list[SessionSummary]:
        await self._runtime.gate("sessions")
        return self._runtime.summaries

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        await self._runtime.gate("history")
        items = self._runtime.items
        end = len(items)
        if before is not None:
            end = next(number for number, item in enumerate(items) if item.entry_id == before)
        return items[max(0, end - limit) : end]

    async def preview(self, name: str, limit: int = 20) -> list[HistoryItem]:
        self._runtime.previewed.append(name)
        await self._runtime.gate("preview")
        return self._runtime.items[-limit:]

    async def around(self, path: str, entry: str, count: int = 12) -> list[Spoken]:
        return self._runtime.spoken.get(path, [])

    async def author(self, path: str, line: int) -> LineAuthor | None:
        return self._runtime.authors.get(f"{path}:{line}")

    async def resume(self, name: str) -> SessionChanged:
        runtime = self._runtime
        runtime.resumed.append(name)
        runtime.status = structs.replace(runtime.status, session_id=name)
        return SessionChanged(session_key=runtime.status.session_key, session_id=name, reason="resumed")

    async def rename(self, name: str, title: str) -> None:
        await self._runtime.gate("rename")
        summaries = self._runtime.summaries
        summaries[:] = [structs.replace(each, title=title) if each.session_id == name else each for each in summaries]

    async def fork(self, name: str) -> str:
        await self._runtime.gate("fork")
        self._runtime.forked.append(name)
        return f"fork-of-{name}"

    async def delete(self, name: str) -> str:
        await self._runtime.gate("delete")
        summaries = self._runtime.summaries
        self._runtime.trash += [each for each in summaries if each.session_id == name]
        summaries[:] = [each for each in summaries if each.session_id != name]
        return name

    async def restore(self, session_id: str) -> None:
        trash = self._runtime.trash
        self._runtime.summaries += [each for each in trash if each.session_id == session_id]
        trash[:] = [each for each in trash if each.session_id != session_id]

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        await self._runtime.gate("export")
        self._runtime.exported.append(session)
        return path or Path(f"conversation.{form}")


class FakeWorkspace:
    """The files of the runtime."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    async def files(self) -> list[str]:
        await self._runtime.gate("files")
        return sorted(self._runtime.files)

    async def read(self, name: str) -> str:
        await self._runtime.gate("read")
        if name not in self._runtime.files:
            raise FileNotFoundError(2, "No such file", name)
        return self._runtime.files[name]

    async def write(self, name: str, text: str, known: str | None = None) -> None:
        await self._runtime.gate("write")
        if known is not None and self._runtime.files.get(name, "") != known:
            raise ToolError("It has changed on disk in this moment: save again.")
        self._runtime.files[name] = text

    async def locate_note(self, path: str) -> str:
        return path

    async def count_tokens(self, text: str) -> int:
        self._runtime.counted.append(text)
        await self._runtime.gate("count_tokens")
        return len(text) // 4


class FakeLocalModels:
    """Two models, one of them here; `pulled` are those that were asked for, `installs` the steps of an installation."""

    def __init__(self) -> None:
        self.problem = ""
        self.memory = "16.6 GB"
        self.pulled: list[str] = []
        self.installs: list[str | Hold | ClawbotError] = []

    async def install(self, progress: Callable[[str], None]) -> None:
        for step in self.installs:
            if isinstance(step, ClawbotError):
                raise step
            await step.wait() if isinstance(step, Hold) else progress(step)
        self.problem = ""

    async def offers(self) -> list[LocalOffer]:
        return [LocalOffer("tiny", True, "is here"), LocalOffer("large", False, "to be had", best=True)]

    async def pull(self, name: str, watch: Callable[[int, int | None], None]) -> None:
        if name == "large":
            raise ClawbotError("The disk is full.", hint="Make room there.")
        watch(1_000_000_000, 2_000_000_000)
        self.pulled.append(name)


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
    ) -> None:
        self.paths = Paths(home)
        self.settings = Settings()
        self.agent = self
        self.outbox = FakeOutbox(self)
        self.hooks = FakeHooks(self)
        self.memory = FakeMemory(self)
        self.authors: dict[str, LineAuthor] = {}
        self.sessions = FakeSessions(self)
        self.workspace = FakeWorkspace(self)
        self.local_models = FakeLocalModels()
        self.status = status or RuntimeStatus()
        self.commands = list(COMMANDS)
        self.notices = list(notices)
        self.files = files if files is not None else {"AGENTS.md": "# Rules\n", "memory/2026-10-02.md": "# Notes\n"}
        self.turns = [list(turn) for turn in turns]
        self.items = list(history)
        self.summaries = list(sessions)
        self.trash: list[SessionSummary] = []
        self.submitted: list[str] = []
        self.submitted_ids: list[str] = []
        self.withdrawn: list[str] = []
        self.answers: list[tuple[str, str, str | None]] = []
        self.saved_keys: dict[str, str] = {}
        self.providers = list(PROVIDERS)
        self.exported: list[str | None] = []
        self.resumed: list[str] = []
        self.forked: list[str] = []
        self.runs_shell = False
        self.warmed = 0
        self.touched = 0
        self.ahead: list[Event | Hold] = []  # what `read_ahead` does
        self.memories: dict[str, SearchResult] = {}  # what a search for each query finds
        self.searches: list[str] = []
        self.previewed: list[str] = []
        self.counted: list[str] = []
        self.reads: list[str] = []
        self.holds: dict[str, Hold] = {}  # calls by their name at `gate`, which wait until they are released
        self.faults: dict[str, Exception] = {}  # and what they raise
        self.spoken: dict[str, list[Spoken]] = {}  # the messages of each transcript, by its path
        self.search_holds: dict[str, Hold] = {}  # searches that wait until they are released
        self.saving = False
        self.on_saving: Callable[[], None] | None = None
        self.steers = False
        self.measured: RuntimeStatus | None = None  # how the conversation stands once it was measured
        self.order: list[str] = []  # the texts that were taken up, and MEASURED
        self.unsent: list[Unsent] = []  # what was typed and not sent before the program ended
        self.kept = 0
        self.dropped: list[str] = []
        self.stores = False  # what is said is a part of the history from then on
        self.full_disk = False  # a turn then fails before it begins: its message could not be stored
        self.report = context_report()
        self.will_flush = False
        self.before: list[Event | Hold] = []  # what the next message causes before its turn begins
        self.on_event: Callable[[Event], None] | None = None
        self.known_skills: dict[str, str] = {}
        self.found_hooks: list[HookStatus] = []
        self.agents = [AgentInfo(self.status.agent_id, self.status.workspace, "openai/gpt-5", current=True)]
        self.close_hold: Hold | None = None  # saving at the end waits until it is released
        self.close_error: Exception | None = None
        self.closed = False
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._interrupted = asyncio.Event()
        self._answered: dict[str, asyncio.Event] = {}

    async def gate(self, name: str) -> None:
        """What a test has put before the answer of `name`: a wait, a fault."""
        if hold := self.holds.get(name):
            await hold.wait()
        if fault := self.faults.get(name):
            raise fault

    async def submit(self, text: str, *, unsent_id: str = "") -> AsyncGenerator[Event, None]:
        self.submitted.append(text)
        self.submitted_ids.append(unsent_id)
        if self._turn.locked():
            self._waiting += 1
            try:
                yield MessageQueued(text=text, position=self._waiting, unsent_id=unsent_id or f"queued-{text}")
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
            if unsent_id:
                await self.outbox.drop(unsent_id)
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
            text=text,
            session_key=status.session_key,
            session_id=status.session_id,
            model=status.model.ref,
            entry_id=self._store(UserMessage(content=text)),
        )
        async for event in self._play_turn(self.turns.pop(0) if self.turns else reply(f"You said: {text}")):
            yield event

    def _store(self, message: UserMessage | AssistantMessage) -> str:
        """What is said now stands in the history as well, if the test wants so."""
        if not self.stores:
            return ""
        entry_id = f"s{len(self.items)}"
        self.items.append(HistoryItem(entry_id, int(NOW.timestamp() * 1000), message))
        return entry_id

    async def _play_turn(self, steps: Sequence[Event | Hold]) -> AsyncGenerator[Event, None]:
        for step in steps:
            if isinstance(step, Hold):
                step.reached.set()
                await self._first_of(step.released, self._interrupted)
            else:
                if isinstance(step, ApprovalRequested):
                    self._answered[step.request_id] = asyncio.Event()
                if isinstance(step, MessageFinished):
                    self._store(AssistantMessage(content=[TextBlock(step.text)]))
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

    def answer(self, request_id: str, decision: Decision, command: str | None = None, *, network: bool = False) -> bool:
        self.answers.append((request_id, f"{decision} with network" if network else decision, command))
        self._answered[request_id].set()
        return True

    def set_mode(self, mode: Mode) -> None:
        self.status = structs.replace(self.status, mode=mode)

    def listen(self, tell: Callable[[Event], None] | None) -> None:
        self.on_event = tell

    async def rewind(self, entry_id: str) -> str:
        await self.gate("rewind")
        at = next(number for number, item in enumerate(self.items) if item.entry_id == entry_id)
        message = self.items[at].message
        del self.items[at:]
        return message.text if message is not None else ""

    async def fork(self, title: str = "", at: str = "") -> tuple[SessionChanged, str]:
        self.forked.append(at)
        text = await self.rewind(at)
        self.status = structs.replace(self.status, session_id="fork")
        return SessionChanged(session_key="fork", session_id="fork", reason="fork"), text

    async def warm(self) -> None:
        self.warmed += 1

    def touch(self) -> None:
        self.touched += 1

    async def read_ahead(self, show: Callable[[Event], None]) -> None:
        for step in self.ahead:
            if isinstance(step, Hold):
                await step.wait()
            else:
                show(step)

    async def run_job(self, job: Job) -> str:
        raise AssertionError("no screen runs a job")

    async def models(self) -> list[ModelInfo]:
        await self.gate("models")
        return list(MODELS)

    async def set_model(self, ref: str) -> ModelInfo:
        found = next((model for model in MODELS if model.ref == ref), ModelInfo(ref=ref))
        self.status = structs.replace(self.status, model=found)
        return found

    async def skills(self) -> dict[str, str]:
        await self.gate("skills")
        return dict(self.known_skills)

    async def save_key(self, name: str, value: str) -> None:
        await self.gate("save_key")
        self.saved_keys[name] = value

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
            await self.gate("measure")
            self.status = self.measured or self.status

    def index(self, progress: Progress | None, *, changed: bool = False) -> None:
        """The index has come so far, or rests; `changed`: there is something else to find now."""
        self.memory.progress = progress
        self.memory.generation += changed
        if self.memory.on_progress is not None:
            self.memory.on_progress()

    async def context_report(self) -> ContextReport:
        await self.gate("context_report")
        return self.report

    def tell(self, event: Event) -> None:
        """Something happens beside the turns."""
        if isinstance(event, SessionChanged):
            self.status = structs.replace(self.status, session_id=event.session_id)
        assert self.on_event is not None
        self.on_event(event)

    async def close(self, *, hasty: bool = False) -> None:
        self.interrupt()
        try:
            async with self._turn:
                if self.close_hold is not None:
                    self.save(True)
                    await self.close_hold.wait()
                    self.save(False)
                if self.close_error is not None:
                    raise self.close_error
        finally:
            self.closed = True
