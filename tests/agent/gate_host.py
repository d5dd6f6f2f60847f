"""A conversation in a small window whose model answers by what a call is for, and what became of it on disk."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from clawbot.agent.agent import Agent
from clawbot.agent.conversation import Conversation
from clawbot.agent.events import Event, TurnEnded
from clawbot.clock import Clock, SystemClock
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_agent import AgentSettings
from clawbot.context.compaction.prompts import REQUIRED
from clawbot.llm.offline import OfflineModel
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, ModelInfo, TextPart
from clawbot.llm.servers import ServerConsent
from clawbot.messages import AssistantMessage, TextBlock, ToolCallBlock, Usage
from clawbot.sessions.entries import Offer
from clawbot.sessions.store import SessionStore
from clawbot.tools.protocol import AnyTool
from clawbot.tools.registry import Toolbox, build_toolbox
from tests.agent.fakes import Answer, FakeModel, agent_deps, calls, says

Answerer = Callable[[ChatRequest], Answer]

SUMMARY = "\n\n".join(f"## {heading}\n- nothing of note" for heading in REQUIRED)
WORD = "harbour "  # one token


class PurposeModel(FakeModel):
    """Answers calls by their purpose: each of `chat`, `flush`, `summary` is a list of replies that are used up, the
    last one for ever."""

    def __init__(self, **replies: Sequence[Answer | Answerer]) -> None:
        super().__init__()
        self.replies: dict[str, list[Answer | Answerer]] = {
            "chat": [says("fine")],
            "flush": [says("NO_REPLY")],
            "summary": [says(SUMMARY)],
            **{name: list(given) for name, given in replies.items()},
        }

    @property
    def purposes(self) -> list[str]:
        """What the calls were for, in order."""
        return [request.purpose for request in self.requests]

    def of(self, purpose: str) -> list[ChatRequest]:
        """The calls for `purpose`."""
        return [request for request in self.requests if request.purpose == purpose]

    def answer_to(self, request: ChatRequest) -> Answer:
        waiting = self.replies[request.purpose]
        reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return reply(request) if callable(reply) else reply


def reported(text: str, tokens: int) -> Answer:
    """An answer whose provider says that the prompt had so many tokens."""
    usage = Usage(input=tokens, output=5, total_tokens=tokens + 5)
    return [TextPart(text), FinalPart(AssistantMessage([TextBlock(text)], usage=usage))]


def notes(*texts: str) -> list[Answer | Answerer]:
    """A flush that appends `texts`, one after the other, to the file that its prompt names, and falls silent."""
    return [*(functools.partial(_append, f"w{number}", text) for number, text in enumerate(texts)), says("NO_REPLY")]


def _append(call_id: str, text: str, request: ChatRequest) -> Answer:
    return calls(ToolCallBlock(call_id, "append", {"path": target_of(request), "content": text}))


def target_of(request: ChatRequest) -> str:
    """The file that the prompt of a flush names."""
    asked = next(message.text for message in reversed(request.messages) if "memory/20" in message.text)
    return "memory/" + asked.split("memory/")[1][:10] + ".md"


class House:
    """One agent's folder; `open` starts it on what is there, `close` ends all that were started."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.clock = clock or SystemClock()
        self.others: dict[str, ChatModel] = {"offline": OfflineModel(self.clock)}
        self.open_model: Callable[[str], Awaitable[ChatModel]] = self._open_other
        self._agents: list[Agent] = []

    async def _open_other(self, ref: str) -> ChatModel:
        return self.others[ref]

    def open(
        self,
        brain: FakeModel,
        /,
        *tools: AnyTool,
        window: int = 8_000,
        cap: int | None = None,
        interactive: bool = True,
        session: str = "main",
        ref: str = "fake/model",
        pruning: dict[str, Any] | None = None,
        consent: ServerConsent | None = None,
        titles: bool = False,
        **compaction: Any,
    ) -> Agent:
        """The agent with that model in that session, `context_tokens` as `cap`, `pruning` and `compaction` as in the
        settings."""
        brain.info = ModelInfo(ref=ref, window=window)
        given = {
            "workspace": self.workspace,
            "context_tokens": cap,
            "compaction": compaction,
            "context_pruning": pruning or {},
        }
        settings = AgentSettings.model_validate(given)
        store = SessionStore(self.folder / "sessions", self.clock, cwd=self.workspace)
        deps = agent_deps(
            self.workspace,
            settings=settings,
            model=brain,
            open_model=self.open_model,
            store=store,
            tools=Toolbox(tools, 400_000)
            if tools
            else build_toolbox(self.workspace, settings, self.clock, Paths(find_home())),
            clock=self.clock,
            approvals=interactive,
            flush_at_end=interactive,
            consent=consent,
            titles=titles,
        )
        self._agents.append(Agent(deps, Conversation(deps.store, store.open(session), deps.clock)))
        return self._agents[-1]

    async def close(self) -> None:
        """Close all agents without saving; twice does no harm."""
        for agent in self._agents:
            await agent.close(hasty=True)

    @property
    def daily(self) -> Path:
        """Today's notes."""
        return self.workspace / "memory" / f"{self.clock.now():%Y-%m-%d}.md"


async def talk(agent: Agent, text: str) -> list[Event]:
    """What one submission yields."""
    return [event async for event in agent.submit(text)]


async def fill(agent: Agent, turns: int, words: int) -> list[Event]:
    """Say something of so many words, so many times."""
    events: list[Event] = []
    for turn in range(turns):
        events += await talk(agent, f"turn {turn}: " + WORD * words)
    return events


def ended(events: Sequence[Event]) -> TurnEnded:
    """How the submission ended."""
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last


def lines(agent: Agent) -> list[dict[str, Any]]:
    """The transcript as it lies on disk."""
    return [json.loads(line) for line in agent.conversation.session.transcript.path.read_text().splitlines()]


def offers(agent: Agent, *, ended: bool = True) -> list[Offer]:
    """The records of offers in the transcript; with `ended` those that close one."""
    found = [
        msgspec.convert(line["data"], Offer)
        for line in lines(agent)
        if line.get("customType") == "clawbot.memory-offer"
    ]
    return [offer for offer in found if not ended or offer.phase == "end"]


def compactions(agent: Agent) -> list[dict[str, Any]]:
    """The compaction entries of the transcript."""
    return [line for line in lines(agent) if line["type"] == "compaction"]
