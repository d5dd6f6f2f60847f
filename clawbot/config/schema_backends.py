"""The settings of memory as a whole: which backend searches, and what each backend needs."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct
from pydantic import AfterValidator, Field, PrivateAttr

from clawbot.config.names import BUILTIN_BACKEND, OWN_BACKENDS
from clawbot.config.values import (
    Count,
    Duration,
    MinutesDuration,
    Positive,
    SettingsSection,
    Switch,
    VariableName,
    expected,
)
from clawbot.entry_points import installed

BACKEND_GROUP = "clawbot.memory_backends"
"""The entry point group for backends of installed packages."""


def backend_names() -> list[str]:
    """Valid values of `memory.backend`: those of the program, and those of installed packages. Imports none of them;
    blocks."""
    offered = {extension.name for extension in installed(BACKEND_GROUP)}
    return [*OWN_BACKENDS, *sorted(offered.difference(OWN_BACKENDS))]


def check_backend(name: str) -> str:
    """Return `name` if there is such a backend. Raises ValueError."""
    if name not in OWN_BACKENDS and name not in (known := backend_names()):
        raise expected(f"a memory backend that is installed ({', '.join(known)})")
    return name


class QmdLimits(SettingsSection):
    """What one search of qmd may bring, and how long it may take."""

    max_results: Positive = 6
    """Number of results, unless a search asks for another."""
    max_snippet_chars: Positive = 700
    """Characters of one result."""
    timeout_ms: Positive = 4_000
    """Time limit of a search, in milliseconds; after it the builtin index answers."""


class QmdUpdate(SettingsSection):
    """When qmd's index follows the files."""

    on_boot: Switch = True
    """When a chat starts; tried three times."""
    interval: MinutesDuration = 300.0
    """Interval; 0 for never."""
    debounce_ms: Count = 15_000
    """How long files must be unchanged before they are read, in milliseconds. A search does not wait for it."""
    embed_interval: MinutesDuration = 3_600.0
    """Interval of the vectors, in the search modes vsearch and query; 0 for never."""
    update_timeout_ms: Positive = 120_000
    """Time limit of an update, in milliseconds."""
    embed_timeout_ms: Positive = 120_000
    """Time limit of a run that computes vectors, in milliseconds. The next one goes on from there."""


class QmdSessions(SettingsSection):
    """The transcripts that are exported for qmd, with `sessions` among memory_search.sources."""

    retention_days: Positive | None = None
    """Transcripts unchanged for more days are left out; null for none."""


class QmdSettings(SettingsSection):
    """The backend `qmd`, a program of its own (`npm install -g @tobilu/qmd@latest`, Node 22 or later)."""

    command: str = Field("qmd", min_length=1)
    """The program: a name on the PATH, or a path."""
    search_mode: Literal["search", "vsearch", "query"] = "search"
    """`search`: words; `vsearch`: vectors; `query`: both, with a model that orders. The last two download models."""
    daemon_port: Annotated[int, Field(ge=0, le=65_535)] = 8181
    """The port of qmd's server on this machine (`qmd mcp --http`). It is used where it serves this index; 0 for
    never."""
    limits: QmdLimits = QmdLimits()
    """What one search may bring."""
    update: QmdUpdate = QmdUpdate()
    """When its index follows the files."""
    sessions: QmdSessions = QmdSessions()
    """Transcripts."""


class MilvusSettings(SettingsSection):
    """The backend `milvus` (extra `milvus`: docs/memory-backends.md): one memory for many machines and agents."""

    uri: str = Field("memory/milvus.db", min_length=1)
    """Where Milvus is: a path for Milvus Lite on this machine, relative to the state folder; `http://HOST:19530` for a
    server or a cluster; the `https://` address of a Zilliz cluster."""
    token_env: VariableName | None = None
    """The environment variable with the token (`user:password` or an API key); null for none."""
    collection: str = Field("clawbot", pattern="[A-Za-z_][A-Za-z0-9_]{0,99}")
    """What the names of its collections begin with. Those who share it share the memory of agents with the same id."""
    owner: str | None = Field(None, min_length=1, max_length=200)
    """The name of this machine there, which must be its own; null for its host name and state folder. Under another
    name its files are those of another machine."""
    agents: dict[str, list[str]] = Field(default_factory=dict)
    """The agents whose memory an agent may search beside its own, by its id: `{main: [research]}`."""
    staleness: Duration = 5.0
    """How old the list of other machines' files may be in a search; own changes are found at once."""
    timeout: Duration = 10.0
    """Time limit for connecting."""


class BrokenBackend(Struct, frozen=True):
    """The configured backend `name` can't be used: `reason`, without a full stop."""

    name: str
    reason: str


class MemorySettings(SettingsSection):
    """Memory as a whole."""

    backend: Annotated[str, AfterValidator(check_backend)] = BUILTIN_BACKEND
    """What searches the memory files: `builtin`, `qmd`, `milvus`, or the name of an installed package's backend. When
    it fails, the builtin index answers."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether results show their source as file and line; auto: in private sessions only."""
    qmd: QmdSettings = QmdSettings()
    """The backend `qmd`."""
    milvus: MilvusSettings = MilvusSettings()
    """The backend `milvus`."""

    _broken: BrokenBackend | None = PrivateAttr(None)

    @property
    def broken(self) -> BrokenBackend | None:
        """What the loader found wrong with the configured backend, which is then not used."""
        return self._broken

    def break_backend(self, broken: BrokenBackend) -> None:
        """Record what is wrong. For the loader."""
        self._broken = broken
