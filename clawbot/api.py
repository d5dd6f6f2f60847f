"""What a front end may use of an open runtime: one Protocol for each of its parts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from clawbot.agent.events import Event, Notice, SessionChanged
from clawbot.agent.slash import CommandInfo
from clawbot.agent.status_types import AgentInfo, ContextReport, HistoryItem, HookStatus, RuntimeStatus, Unsent
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import Provider
from clawbot.memory.values import EVERY_SOURCE, Progress, SearchResult, Source
from clawbot.scheduling.jobs import Job
from clawbot.sessions.listing import SessionSummary
from clawbot.sessions.plain_lines import Spoken
from clawbot.tools.protocol import Decision


class OutboxApi(Protocol):
    """What was typed and not sent yet, on disk."""

    @property
    def left(self) -> list[Unsent]:
        """What was not sent before the program ended, in its order."""

    async def add(self, text: str, instead_of: Collection[str] = (), *, draft: bool = False) -> str:
        """Keep `text` for the next start, in the place of those with the ids `instead_of`; its id. A `draft` was never
        entered."""

    async def drop(self, *ids: str) -> None:
        """The user takes these back, or wants them no more."""


class HooksApi(Protocol):
    """The hooks of a conversation."""

    async def status(self) -> list[HookStatus]:
        """The hooks as they are now, and how each did last."""


class AgentApi(Protocol):
    """The conversation that is open. `on_saving` is called on the event loop when `saving` changes."""

    on_saving: Callable[[], None] | None

    @property
    def status(self) -> RuntimeStatus:
        """How the conversation stands."""

    @property
    def outbox(self) -> OutboxApi:
        """Where texts are kept that are not sent yet."""

    @property
    def hooks(self) -> HooksApi:
        """The hooks of the conversation."""

    @property
    def saving(self) -> bool:
        """Whether memory takes what was said right now, in a silent turn that yields no events."""

    @property
    def will_flush(self) -> bool:
        """Whether closing takes a moment, because it saves to memory what was said."""

    def submit(self, text: str, *, unsent_id: str = "") -> AsyncGenerator[Event, None]:
        """Take up a message or a slash command; the events end with TurnEnded. `unsent_id` is of a text that is sent at
        last."""

    def interrupt(self) -> bool:
        """Stop the running turn, keeping what was said. False when nothing runs."""

    def answer(self, request_id: str, decision: Decision, command: str | None = None, *, network: bool = False) -> bool:
        """Answer an ApprovalRequested event; `command` runs in place of the one asked about, and it has the network if
        `network`. False when the question is no longer open."""

    def listen(self, tell: Callable[[Event], None] | None) -> None:
        """Call `tell` on the event loop with what belongs to nothing that was submitted: a reset by the clock, a note
        that got another name, a hook that failed. None: nobody listens any more."""

    async def warm(self) -> None:
        """Load what the first call of the model and a reset need, so that the user does not wait for it then."""

    async def measure(self) -> None:
        """Count what is in the context, once the running turn has ended, so that `status` knows it before the first
        turn counts it."""

    async def context_report(self) -> ContextReport:
        """Where the tokens of the context window go, once the running turn has ended."""

    async def set_model(self, ref: str) -> ModelInfo:
        """Answer with another model once the running turn has ended; remembered for the session. Raises ModelError and
        SessionStoreError; the old one stays then."""


class MemoryApi(Protocol):
    """The memory of the agent. `on_progress` is called on the event loop when `progress` or `generation` changes."""

    on_progress: Callable[[], None] | None

    @property
    def progress(self) -> Progress | None:
        """How far the index is; None while it rests."""

    @property
    def generation(self) -> int:
        """Grows when there may be something else to find than before."""

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        """What is remembered about `query`, at most `limit` places, the best first; its last word may be typed half.
        `sources` are where it may come from. Raises ClawbotError when the memory can't be searched."""

    async def text(self, path: str) -> str:
        """The text of a memory file as it is now; empty when there is none. Raises ClawbotError."""


class SessionsApi(Protocol):
    """The conversations of the agent. A session is named by its key, its id or the start of its id."""

    async def all(self) -> list[SessionSummary]:
        """All of them, the last used first."""

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        """The last `limit` items of the open conversation before the entry `before`, oldest first."""

    async def preview(self, name: str, limit: int = 20) -> list[HistoryItem]:
        """The last items of another conversation. Raises UnknownSessionError and SessionStoreError."""

    async def around(self, path: str, entry: str, count: int = 12) -> list[Spoken]:
        """What was said around the entry `entry` of the conversation that the memory calls `path`, up to `count` lines
        before and behind it. Raises OSError."""

    async def resume(self, name: str) -> SessionChanged:
        """Go on in another conversation, once the running turn has ended.

        Raises UnknownSessionError, SessionLockedError and SessionStoreError; the conversation stays as it is then.
        """

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        """Write a conversation (the open one, or the one that `session` names) as "md" or "json" to `path` and return
        its path. Raises ClawbotError."""


class WorkspaceApi(Protocol):
    """The text files of the workspace, named by their paths relative to it."""

    async def files(self) -> list[str]:
        """The names of all."""

    async def read(self, name: str) -> str:
        """The text of a file; empty when there is none of that name. Raises ClawbotError."""

    async def write(self, name: str, text: str) -> None:
        """Replace a file, whole or not at all. Raises ClawbotError."""

    async def locate_note(self, path: str) -> str:
        """Where the note `path` is that the open conversation tells of: it may have been given another name since."""

    async def count_tokens(self, text: str) -> int:
        """How many tokens `text` takes in the context, exactly where a vocabulary is at hand."""


class ScheduleApi(Protocol):
    """What the agent does by itself."""

    async def run(self, job: Job) -> str:
        """Do what `job` asks for in the session that is open, and return the reply. Raises JobSkippedError when there
        is nothing to do, ClawbotError when it failed."""


class RuntimeApi(Protocol):
    """An open runtime. `notices` is what was found while opening, `first_start` says that the workspace was made by
    this start."""

    @property
    def paths(self) -> Paths:
        """The places in the state folder."""

    @property
    def settings(self) -> Settings:
        """The settings as they were read at the start."""

    @property
    def notices(self) -> list[Notice]:
        """What was found while opening."""

    @property
    def first_start(self) -> bool:
        """Whether the workspace was made by this start."""

    @property
    def providers(self) -> Sequence[Provider]:
        """The makers of models whose keys are looked for."""

    @property
    def commands(self) -> list[CommandInfo]:
        """The slash commands, in the order of `/help`."""

    @property
    def agents(self) -> list[AgentInfo]:
        """The agents of the settings."""

    @property
    def agent(self) -> AgentApi:
        """The conversation that is open."""

    @property
    def memory(self) -> MemoryApi:
        """The memory of the agent."""

    @property
    def sessions(self) -> SessionsApi:
        """The conversations of the agent."""

    @property
    def workspace(self) -> WorkspaceApi:
        """The files of the workspace."""

    @property
    def schedule(self) -> ScheduleApi:
        """What the agent does by itself."""

    async def models(self) -> list[ModelInfo]:
        """The models that can be used here."""

    async def save_key(self, name: str, value: str) -> None:
        """Keep a provider's key in `$CLAWBOT_HOME/.env` (0600), and use it from now on."""

    async def close(self, *, hasty: bool = False) -> None:
        """End the running turn and the jobs, save to memory what was said and wait a little for the hooks (neither when
        it is `hasty`), and let go of everything. Cancelled, it is hasty from there on."""
