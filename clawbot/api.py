"""The Protocols through which a front end uses an open runtime, one for each part."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from clawbot.agent.events import Emit, Event, Notice, SessionChanged
from clawbot.agent.slash import CommandInfo
from clawbot.agent.status import AgentInfo, HookStatus, RuntimeStatus
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_agent import Mode
from clawbot.context.report import ContextReport
from clawbot.history.blame import LineAuthor
from clawbot.llm.protocol import ModelInfo
from clawbot.llm.providers import Provider
from clawbot.local_model.store import LocalOffer
from clawbot.memory.values import EVERY_SOURCE, Progress, SearchResult, Source
from clawbot.scheduling.jobs import Job
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.summary import SessionSummary
from clawbot.sessions.text import Spoken
from clawbot.sessions.unsent import Unsent
from clawbot.tools.protocol import Decision


class LocalModelsApi(Protocol):
    """Models that run on this machine."""

    @property
    def problem(self) -> str:
        """Why none can run here, with the command that changes it; empty when they can. Blocks."""

    @property
    def memory(self) -> str:
        """How much memory this machine has, for the user."""

    async def install(self, progress: Callable[[str], None]) -> None:
        """Install what `problem` names; calls `progress` on the loop with each step. Raises ClawbotError, OSError.

        Cancelled, it leaves the environment as it was.
        """

    async def offers(self) -> list[LocalOffer]:
        """Those that are here, and those that can be had by name."""

    async def pull(self, name: str, watch: Callable[[int, int | None], None]) -> None:
        """Get the model `name` unless it is here; `watch` receives on the loop how many bytes are there, of how many
        (None: unknown). Cancelled, it stops at the next chunk, and goes on from there the next time. Raises
        ClawbotError, OSError."""


class OutboxApi(Protocol):
    """Texts that were typed but not sent yet, kept on disk."""

    @property
    def left(self) -> list[Unsent]:
        """The unsent texts of earlier runs, in order."""

    async def add(self, text: str, instead_of: Collection[str] = (), *, ident: str = "", draft: bool = False) -> str:
        """Keep `text` for the next start as `ident` (a new id by default), in place of what has this id and of those
        with the ids `instead_of`; returns its id. A `draft` was never submitted."""

    async def drop(self, *ids: str) -> None:
        """Remove texts that the user took back or discarded."""


class HooksApi(Protocol):
    """The hooks of a conversation."""

    async def status(self) -> list[HookStatus]:
        """The current hooks with the result of each one's last run."""


class AgentApi(Protocol):
    """The open conversation. `on_saving` is called on the event loop when `saving` changes. `steers`: messages that
    wait are sent in the running turn. `runs_shell`: `!command` runs in the shell."""

    on_saving: Callable[[], None] | None
    steers: bool
    runs_shell: bool

    @property
    def status(self) -> RuntimeStatus:
        """The state of the conversation."""

    @property
    def outbox(self) -> OutboxApi:
        """Where texts are kept that are not sent yet."""

    @property
    def hooks(self) -> HooksApi:
        """The hooks of the conversation."""

    @property
    def saving(self) -> bool:
        """Whether a silent turn is saving the conversation to memory right now; it yields no events."""

    @property
    def will_flush(self) -> bool:
        """Whether closing takes a moment because the conversation is saved to memory first."""

    def submit(self, text: str, *, unsent_id: str = "") -> AsyncGenerator[Event, None]:
        """Process a message or a slash command; the events end with TurnEnded. `unsent_id` is the id of a text that was
        kept unsent."""

    def interrupt(self) -> bool:
        """Stop the running turn; what it produced so far is kept. False when nothing runs."""

    def answer(self, request_id: str, decision: Decision, command: str | None = None, *, network: bool = False) -> bool:
        """Answer an ApprovalRequested event; `command` replaces the command in question, and `network` gives it network
        access. False when the request is no longer open."""

    def set_mode(self, mode: Mode) -> None:
        """Decide what tools may change, from the next call on."""

    def touch(self) -> None:
        """The user did something: jobs that wait until nobody uses the program wait on."""

    def listen(self, on_event: Emit | None) -> None:
        """Call `on_event` on the loop with events that belong to no submission: a reset by the clock, a renamed note,
        a failed hook. None: stop."""

    async def rewind(self, entry_id: str) -> str:
        """Take the user's message `entry_id` and all that followed out of the conversation, after the running turn;
        returns its text. The transcript keeps it. Raises SessionStoreError."""

    async def fork(self, title: str = "", at: str = "") -> tuple[SessionChanged, str]:
        """Go on in a new session that begins with the messages up to answer `at`, or before the user's message `at`,
        whose text is returned. The open one is unchanged. Raises SessionStoreError."""

    async def warm(self) -> None:
        """Load what the first model call and a reset need, so that the user does not wait for it later."""

    async def measure(self) -> None:
        """Count the tokens in the context after the running turn, so that `status` has them before the first turn."""

    async def read_ahead(self, show: Emit) -> None:
        """Let a model of this machine read the beginning of the next request; `show` gets ModelLoading, PromptRead."""

    async def context_report(self) -> ContextReport:
        """The token usage of the context window, taken after the running turn."""

    async def set_model(self, ref: str) -> ModelInfo:
        """Switch the model after the running turn and remember it for the session. Raises ModelError and
        SessionStoreError; the old model then remains."""


class MemoryApi(Protocol):
    """The memory of the agent. `on_progress` is called on the event loop when `progress` or `generation` changes."""

    on_progress: Callable[[], None] | None

    @property
    def progress(self) -> Progress | None:
        """Progress of the index; None while it is idle."""

    @property
    def generation(self) -> int:
        """Grows when a search may find something new."""

    async def search(self, query: str, limit: int = 30, sources: Sequence[Source] = EVERY_SOURCE) -> SearchResult:
        """At most `limit` results for `query` from `sources`, best first; the last word may be incomplete. Raises
        ClawbotError when the memory can't be searched."""

    async def text(self, path: str) -> str:
        """The current text of a memory file; empty if it does not exist. Raises ClawbotError."""


class SessionsApi(Protocol):
    """The conversations of the agent. A session is named by its key, its id or a prefix of its id."""

    async def all(self) -> list[SessionSummary]:
        """All sessions, most recently used first."""

    async def history(self, *, before: str | None = None, limit: int = 50) -> list[HistoryItem]:
        """The last `limit` items of the open conversation before the entry with the id `before`, oldest first."""

    async def preview(self, name: str, limit: int = 20) -> list[HistoryItem]:
        """The last `limit` items of another conversation. Raises UnknownSessionError and SessionStoreError."""

    async def around(self, path: str, entry: str, count: int = 12) -> list[Spoken]:
        """Up to `count` messages before and after the entry `entry` of the transcript at the memory path `path`. Raises
        OSError."""

    async def author(self, path: str, line: int) -> LineAuthor | None:
        """Who wrote the line `line` (from 1) of the memory file `path`; None if nothing is known of it. Raises
        ClawbotError, OSError."""

    async def resume(self, name: str) -> SessionChanged:
        """Switch to another conversation after the running turn.

        Raises UnknownSessionError, SessionLockedError and SessionStoreError; the open conversation then remains.
        """

    async def rename(self, name: str, title: str) -> None:
        """Give a conversation a title. Raises UnknownSessionError, SessionLockedError and SessionStoreError."""

    async def fork(self, name: str) -> str:
        """Create a conversation that begins with all of another one, which is unchanged; returns its id. A fork of
        the open one is gone on with. Raises UnknownSessionError and SessionStoreError."""

    async def delete(self, name: str) -> str:
        """Move a conversation, not the open one, to the trash; returns its id. Raises as `rename`."""

    async def restore(self, session_id: str) -> None:
        """Bring a deleted conversation back. Raises UnknownSessionError and SessionStoreError."""

    async def export(self, form: str, path: Path | None, *, session: str | None = None) -> Path:
        """Write a conversation (`session`, or the open one) as "md" or "json" to `path` and return its path. Raises
        ClawbotError."""


class WorkspaceApi(Protocol):
    """The text files of the workspace, named by their paths relative to it."""

    async def files(self) -> list[str]:
        """The names of all text files."""

    async def read(self, name: str) -> str:
        """The text of a file; empty if it does not exist. Raises ClawbotError."""

    async def write(self, name: str, text: str, known: str | None = None) -> None:
        """Replace a file atomically; with `known` only as long as `read` would return that. Raises ClawbotError."""

    async def locate_note(self, path: str) -> str:
        """The current path of a note that the open conversation knows as `path`: it may have been renamed."""

    async def count_tokens(self, text: str) -> int:
        """The number of tokens in `text`: exact if the model's vocabulary is available, else an estimate."""


class RuntimeApi(Protocol):
    """An open runtime."""

    @property
    def paths(self) -> Paths:
        """The paths in the state folder."""

    @property
    def settings(self) -> Settings:
        """The settings as read at startup."""

    @property
    def notices(self) -> list[Notice]:
        """Problems and hints found while opening."""

    @property
    def providers(self) -> Sequence[Provider]:
        """The model providers for which an API key is looked up."""

    @property
    def local_models(self) -> LocalModelsApi:
        """The models that run on this machine."""

    @property
    def commands(self) -> list[CommandInfo]:
        """The slash commands, in the order of `/help`."""

    @property
    def agents(self) -> list[AgentInfo]:
        """The configured agents."""

    @property
    def agent(self) -> AgentApi:
        """The open conversation."""

    @property
    def memory(self) -> MemoryApi:
        """The memory of the agent."""

    @property
    def sessions(self) -> SessionsApi:
        """The conversations of the agent."""

    @property
    def workspace(self) -> WorkspaceApi:
        """The files of the workspace."""

    async def run_job(self, job: Job) -> str:
        """Run a scheduled job in the open session and return the reply. Raises JobSkippedError when there is nothing to
        do, ClawbotError when it fails."""

    async def models(self) -> list[ModelInfo]:
        """The models available here."""

    async def skills(self) -> dict[str, str]:
        """What each skill does that the user may call, by its name."""

    async def save_key(self, name: str, value: str) -> None:
        """Store a provider's key in `$CLAWBOT_HOME/.env` (0600) and use it from now on."""

    async def close(self, *, hasty: bool = False) -> None:
        """End the running turn and the jobs, save the conversation to memory, wait briefly for the hooks, and release
        everything. `hasty` skips the saving and the hooks; cancelling this call makes it hasty from that point."""
