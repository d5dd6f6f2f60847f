"""A small world that a conversation lives in: a model that does what a plan says, a disk that is full at times, and
crashes that leave what was on disk at that moment."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import Event, Origin
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.compaction.prompts import REQUIRED
from clawbot.context.counting import TokenCounter
from clawbot.llm.errors import ContextOverflowError, ModelError, UnreachableError
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart, TextPart, ToolCallPart
from clawbot.messages import (
    AssistantMessage,
    Message,
    StopReason,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from clawbot.sessions.lines import LineAppender
from clawbot.sessions.store import SessionStore
from clawbot.tools.protocol import Need, ToolOutcome
from clawbot.tools.registry import Toolbox
from tests.agent.fakes import agent_deps
from tests.agent.lossless_keeping import TROUBLES, Ends, open_hooks, write_hooks

T = TypeVar("T")
SUMMARY = "\n\n".join(f"## {heading}\n- nothing that matters" for heading in REQUIRED)
ENGLISH, CHINESE = "harbour ", "明天去港口。"
MARK = re.compile(r"\b[ua]\d{6}\b")
TOOLS_MAX_CHARS = 60_000


class Reply(Struct, frozen=True):
    """What the model does in one call: `kind` is one of those that `PlannedModel` plays; `size` is in words."""

    kind: str
    size: int = 3
    chinese: bool = False
    limit: int | None = None


class Plan(Struct, frozen=True):
    """What happens in one step. Replies are used up; then the model behaves. `full` are the numbers of the writes to a
    transcript that meet a full disk, `crash` and `interrupt` those at which that happens (None: not); `torn` is how
    much of the line in progress a crash leaves, from 0 to 1. `notes_full`: the disk of the notes is full. `early` and
    `tardy` are what befalls the hooks before and behind the one that keeps sessions."""

    chat: tuple[Reply, ...] = ()
    flush: tuple[Reply, ...] = ()
    summary: tuple[Reply, ...] = ()
    slug: tuple[Reply, ...] = ()
    full: frozenset[int] = frozenset()
    crash: int | None = None
    torn: float = 0.0
    interrupt: int | None = None
    notes_full: bool = False
    early: str = ""
    tardy: str = ""


class Setup(Struct, frozen=True):
    """How an agent is set up: `ratio` is that of the provider's tokens to ours, 0 where it reports none. `hooks`: a
    hook keeps sessions that end; `ends` says when the clock ends one; `chosen`: the user chose a model."""

    window: int = 8_000
    ratio: float = 1.0
    flush: bool = True
    reset_min: int = 0
    quit_min: int = 0
    force_bytes: int = 0
    pruning: bool = False
    hooks: bool = False
    ends: Ends = Ends()
    chosen: bool = False


class StepClock:
    """A clock that only moves when it is told to. It stands in the past: sessions begin before their notes are
    written, by the clock of the disk."""

    def __init__(self) -> None:
        self.moment = datetime(2024, 3, 11, 22, 0, tzinfo=UTC)

    def now(self) -> datetime:
        self.moment += timedelta(milliseconds=1)
        return self.moment

    def monotonic(self) -> float:
        return self.moment.timestamp()


class World:
    """The folder of one agent, what is done to its disk, and the numbers that its messages are known by."""

    def __init__(self, root: Path, setup: Setup) -> None:
        self.root = root
        self.setup = setup
        self.clock = StepClock()
        self.generation = 0
        self.plan = Plan()
        self.appends = 0
        self.serial = 0
        self.failed_appends = 0
        self.disturbed = False
        self.crashed = False
        self.hooked = setup.hooks
        self.interrupt: Callable[[], None] = lambda: None
        write_hooks(self.hooks)
        self.folder.joinpath("workspace").mkdir(parents=True)

    @property
    def folder(self) -> Path:
        """Where the agent lives since the last crash."""
        return self.root / str(self.generation)

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def hooks(self) -> Path:
        return self.root / "hooks"

    @property
    def transcripts(self) -> list[Path]:
        return sorted((self.folder / "sessions").glob("*.jsonl"))

    def mark(self, kind: str) -> str:
        """A name for the next message, in the order in which they are made."""
        self.serial += 1
        return f"{kind}{self.serial:06d}"

    def begin(self, plan: Plan) -> None:
        self.plan, self.appends, self.crashed, self.failed_appends = plan, 0, False, 0
        self.disturbed = False

    def write(self, appender: LineAppender, data: bytes, through: Callable[[LineAppender, bytes], None]) -> None:
        """One write of a transcript, with what the plan has for it."""
        number, self.appends = self.appends, self.appends + 1
        if number == self.plan.interrupt:
            self.stop()
        if number == self.plan.crash:
            self.crash(appender.path.name, data[: int(len(data) * self.plan.torn)])
        if number in self.plan.full:
            self.failed_appends += 1
            self.disturbed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        through(appender, data)

    def write_note(self, handle: int, data: bytes, through: Callable[[int, bytes], None]) -> None:
        """One write of a note."""
        if self.plan.notes_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        through(handle, data)

    def change(self, through: Callable[..., T], *arguments: Any) -> T:
        """One change of a whole file: the note of a session, or the index."""
        number, self.appends = self.appends, self.appends + 1
        if number == self.plan.interrupt:
            self.stop()
        if number == self.plan.crash:
            self.crash()
        return through(*arguments)

    def keep(self, through: Callable[[Path, bytes], T], path: Path, data: bytes) -> T:
        """One write of the note of a session, dated by the clock of this world."""
        if self.plan.notes_full:
            self.disturbed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        done = self.change(through, path, data)
        if path.exists():
            moment = self.clock.moment.timestamp()
            os.utime(path, (moment, moment))
        return done

    def stop(self) -> None:
        """The user presses Esc."""
        self.disturbed = True
        self.interrupt()

    async def trouble(self, hook: str) -> None:
        """What befalls the hook `early` or `tardy`."""
        match self.plan.early if hook == "early" else self.plan.tardy:
            case "raise":
                raise RuntimeError("a bug of a hook")
            case "crash":
                self.crash()
            case "interrupt":
                self.stop()
            case "stall":
                self.stop()
                await asyncio.Event().wait()

    def crash(self, name: str = "", torn: bytes = b"") -> None:
        """Keep what is on disk now, with a `torn` line at the end of the transcript `name`. What happens after this is
        in a folder that nobody looks at any more."""
        if self.crashed:
            return
        self.crashed = True
        after = self.root / str(self.generation + 1)
        shutil.copytree(self.workspace, after / "workspace")
        (after / "sessions").mkdir()
        for path in [*self.transcripts, *(self.folder / "sessions").glob("sessions.json")]:
            shutil.copy(path, after / "sessions" / path.name)
        if torn:
            with (after / "sessions" / name).open("ab") as file:
                file.write(torn)

    def wake(self) -> None:
        """Go on with what the crash left."""
        self.generation += 1


class PlannedModel:
    """Does what the plan says for a call, by its purpose; it refuses what its window does not hold, as a provider
    does. `check` looks at each request of the conversation itself."""

    def __init__(self, world: World, check: Callable[[ChatRequest], None]) -> None:
        self._world = world
        self._check = check
        self._counter = TokenCounter()
        self.stop: Callable[[], Any] = lambda: None
        self.failures: list[BaseException] = []
        self.stalled: set[asyncio.Task[Any]] = set()
        self.stalls = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.info = ModelInfo(ref="fake/model", window=world.setup.window)
        self.replies: dict[str, list[Reply]] = {}

    def begin(self, plan: Plan) -> None:
        self.replies = {name: list(getattr(plan, name)) for name in ("chat", "flush", "summary", "slug")}
        self.is_asked = asyncio.Event()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        try:
            assert_pairs(request.messages)
            if request.purpose == "chat":
                self._check(request)
        except AssertionError as error:
            self.failures.append(error)
        waiting = self.replies.get(request.purpose)
        reply = waiting.pop(0) if waiting else Reply("good")
        if request.purpose == "slug":
            yield await self._name(reply)
            return
        size = self._size(request)
        if size > self._world.setup.window:
            raise ContextOverflowError(f"the prompt has {size} tokens", provider="fake")
        async for part in self._play(reply, request, size):
            yield part

    async def _name(self, reply: Reply) -> FinalPart:
        """The name of a note. It never comes before the session is over: else what is written when would be up to
        chance."""
        await self.is_asked.wait()
        if (error := _error(reply)) is not None:
            raise error
        match reply.kind:
            case "crash":
                self._world.crash()
            case "stall" if (task := asyncio.current_task()) is not None:
                self.stalled.add(task)
                self.stalls.set()
                await asyncio.Event().wait()
        text = {"refusal": "I'm sorry, I can't help with that.", "prose": "Error: 500"}.get(reply.kind, "old-harbour")
        return FinalPart(AssistantMessage([TextBlock("明天的港口" if reply.chinese else text)]))

    def _size(self, request: ChatRequest) -> int:
        counted = self._counter.text(request.system) + sum(map(self._counter.of, request.messages))
        return round((counted + sum(map(self._counter.tool, request.tools))) * (self._world.setup.ratio or 1.0))

    async def _play(self, reply: Reply, request: ChatRequest, size: int) -> AsyncGenerator[StreamPart, None]:
        if (error := _error(reply)) is not None:
            raise error
        match reply.kind:
            case "crash":
                self._world.crash()
            case "interrupt":
                self.stop()
            case "stall":
                self.stop()
                await asyncio.Event().wait()
            case "partial":
                yield TextPart(self._words(reply))
                self.stop()
                await asyncio.Event().wait()
            case "partial_silent":
                yield TextPart("NO_RE")
                self.stop()
                await asyncio.Event().wait()
            case "broken":
                yield TextPart(self._words(reply))
                raise UnreachableError("the connection broke", provider="fake")
        message = self._answer(reply, request, size)
        for at in range(0, len(message.text), 5_000):
            yield TextPart(message.text[at : at + 5_000])
        for call in message.tool_calls:
            yield ToolCallPart(call)
        yield FinalPart(message)

    def _answer(self, reply: Reply, request: ChatRequest, size: int) -> AssistantMessage:
        content: list[Any] = [TextBlock(text)] if (text := self._text(reply, request.purpose)) else []
        content += self._calls(reply, request)
        usage = Usage(input=size, output=20, total_tokens=size + 20) if self._world.setup.ratio else None
        stop: StopReason = "toolUse" if len(content) > bool(text) else "stop"
        return AssistantMessage(content, stop_reason=stop, usage=usage, provider="fake", model="model")

    def _text(self, reply: Reply, purpose: str) -> str:
        match reply.kind, purpose:
            case ("silent", _):
                return "NO_REPLY"
            case ("empty", _):
                return ""
            case ("mixed", _):
                return f"{self._words(reply)}\n\nNO_REPLY"
            case ("tools" | "write" | "write_elsewhere" | "stopped_tool", _):
                return ""
            case ("prose", _) | (_, "chat"):
                return self._words(reply)
            case ("refusal", _):
                return "I'm sorry, I can't help with that."
            case (_, "flush"):
                return "NO_REPLY"
            case _:
                return SUMMARY

    def _calls(self, reply: Reply, request: ChatRequest) -> list[ToolCallBlock]:
        note = f"- {self._world.mark('n')} {ENGLISH * reply.size}"
        match reply.kind:
            case "tools":
                sizes = [reply.size, *([3] if reply.chinese else [])]
                return [ToolCallBlock(self._world.mark("a"), "look", {"size": size}) for size in sizes]
            case "stopped_tool":
                return [ToolCallBlock(self._world.mark("a"), "look", {"size": -1}) for _ in range(2)]
            case "write":
                return [ToolCallBlock(self._world.mark("w"), "append", {"content": note})]
            case "write_elsewhere":
                return [ToolCallBlock(self._world.mark("w"), "write", {"path": "MEMORY.md", "content": note})]
            case _:
                return []

    def _words(self, reply: Reply) -> str:
        return f"{self._world.mark('a')} {(CHINESE if reply.chinese else ENGLISH) * reply.size}".strip()

    async def warm(self) -> None:
        """Nothing to load."""

    async def aclose(self) -> None:
        """Nothing to close."""


def _error(reply: Reply) -> Exception | None:
    match reply.kind:
        case "fail":
            return UnreachableError("nobody answers", provider="fake")
        case "overflow":
            return ContextOverflowError("too many tokens", provider="fake", limit=reply.limit)
        case "bug":
            return RuntimeError("a bug")
        case "late":
            return TimeoutError()
        case "odd":
            return ModelError("something odd", provider="fake")
        case _:
            return None


class Look:
    """A tool whose answer has as many words as it is asked for; with a negative number it never answers."""

    read_only = True
    needs: frozenset[Need] = frozenset()
    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {"size": {"type": "integer"}}})

    def __init__(self) -> None:
        self.stop: Callable[[], Any] = lambda: None

    def title(self, arguments: dict[str, Any]) -> str:
        return "look"

    async def run(self, arguments: dict[str, Any]) -> ToolOutcome:
        if arguments["size"] < 0:
            self.stop()
            await asyncio.Event().wait()
        return ToolOutcome(ENGLISH * arguments["size"])


async def open_agent(world: World, model: PlannedModel) -> Agent:
    """The agent on what lies in the world's folder."""
    setup = world.setup
    settings = AgentSettings.model_validate(
        {
            "workspace": world.workspace,
            "context_pruning": {"mode": "cache-ttl" if setup.pruning else "off"},
            "compaction": {
                "memory_flush": {
                    "enabled": setup.flush,
                    "reset_min_tokens": setup.reset_min,
                    "quit_min_tokens": setup.quit_min,
                    "quit_timeout": 0.1,
                    "force_flush_transcript_bytes": setup.force_bytes,
                }
            },
        }
    )
    store = SessionStore(world.folder / "sessions", world.clock, cwd=world.workspace)
    look = Look()

    TROUBLES[str(world.workspace)] = world.trouble
    deps = agent_deps(
        world.workspace,
        settings=settings,
        model=model,
        store=store,
        tools=Toolbox([look], TOOLS_MAX_CHARS),
        clock=world.clock,
        hooks=await open_hooks(world.hooks, world.clock) if world.hooked else None,
        reset=setup.ends.policy,
    )
    agent = Agent(deps, Conversation(deps.store, store.open("main"), deps.clock))
    loop = asyncio.get_running_loop()

    def stop() -> bool:
        return any([agent.interrupt(), agent.ended.stop()])

    look.stop = model.stop = stop
    world.interrupt = functools.partial(_soon, loop, stop)
    return agent


def _soon(loop: asyncio.AbstractEventLoop, stop: Callable[[], object]) -> None:
    loop.call_soon_threadsafe(stop)


def marks_of(messages: Sequence[Message]) -> list[str]:
    """The names of the messages, as far as they have one: summaries and results have none."""
    found: list[str] = []
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls) if calls:
                found += [call.id for call in calls]
            case UserMessage() | AssistantMessage():
                found += MARK.findall(message.text[:8])
            case _:
                pass
    return found


def assert_pairs(messages: Sequence[Message]) -> None:
    """Each call is followed by its one result, and each result has a call."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert message.tool_call_id in open_calls, f"result without a call: {message.tool_call_id}"
            open_calls.remove(message.tool_call_id)
        else:
            assert not open_calls, f"calls without a result: {open_calls}"
            if isinstance(message, AssistantMessage):
                open_calls = [call.id for call in message.tool_calls]
    assert not open_calls, f"calls without a result: {open_calls}"


async def listen(agent: Agent, text: str, most: int | None = None, origin: Origin = "user") -> list[Event]:
    """The events of one submission; with `most` the reader goes away after so many."""
    events: list[Event] = []
    stream = agent.submit(text, origin)
    async for event in stream:
        events.append(event)
        if len(events) == most:
            break
    await stream.aclose()
    return events
