"""All settings: every key with its type, default and meaning. `config.yaml` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from clawbot.config.errors import ConfigError, nearest
from clawbot.config.keys import BY_NAME, UnusableKeyError, parse_key
from clawbot.config.names import BUILTIN_BACKEND, OWN_BACKENDS, AgentLookup
from clawbot.config.paths import DEFAULTS, MAIN_AGENT, check_agent_id
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_extensions import HookSettings, McpSettings, SkillSettings
from clawbot.config.schema_schedule import ScheduleSettings
from clawbot.config.values import (
    ClockTime,
    Count,
    Duration,
    MinutesDuration,
    Positive,
    SettingsSection,
    Size,
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
    """The agents whose memory an agent may search besides its own, by its id: `{main: [research]}`."""
    staleness: Duration = 5.0
    """How old the list of other machines' files may be in a search; own changes are found at once."""
    timeout: Duration = 10.0
    """Time limit for connecting."""


class BrokenBackend(Struct, frozen=True):
    """The configured backend `name` can't be used: `reason`, without a full stop."""

    name: str
    reason: str


class DreamSettings(SettingsSection):
    """Dreams, which propose changes of MEMORY.md from the notes of the days since the last one; `/dream` shows them. A
    single word is the mode: `dream: off`. docs/memory.md describes it."""

    word = "mode"

    mode: Literal["off", "propose", "auto"] = "propose"
    """The job of the schedule: `propose`: what it finds waits for your decision; `auto`: it is written, and `/undo`
    takes it back; `off`: no job."""
    at: ClockTime = "04:30"
    """From this time on the job of the day is due. It runs once, as soon as nobody uses the program and the machine is
    not on battery."""
    idle: Annotated[MinutesDuration, Field(ge=60)] = 600.0
    """How long nobody must have typed or sent anything before. A message stops a running job."""
    time_limit: Annotated[MinutesDuration, Field(gt=0)] = 300.0
    """How long one job may take."""
    max_tokens: Positive = 2_500
    """The size of MEMORY.md in tokens; beyond it, dreams move lines into topic files below memory/."""
    read_tokens: Positive = 24_000
    """The most tokens of notes that a dream shows a model, the newest ones; in as many calls as its window needs."""


class HistorySettings(SettingsSection):
    """The history of the memory files: `clawbot memory log`, `memory undo` and `/undo`."""

    enabled: Switch = True
    """Whether changes are recorded."""
    max_mb: Positive = 64
    """Megabytes of stored contents; beyond them the oldest changes are dropped."""
    max_days: Positive = 365
    """Days after which a change is dropped."""


class MemorySettings(SettingsSection):
    """All of memory."""

    backend: Annotated[str, AfterValidator(check_backend)] = BUILTIN_BACKEND
    """What searches the memory files: `builtin`, `qmd`, `milvus`, or the name of an installed package's backend. When
    it fails, the builtin index answers."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether results show their source as file and line; auto: in private sessions only."""
    dream: DreamSettings = DreamSettings()
    """Dreams."""
    qmd: QmdSettings = QmdSettings()
    """The backend `qmd`."""
    milvus: MilvusSettings = MilvusSettings()
    """The backend `milvus`."""
    history: HistorySettings = HistorySettings()
    """Changes of the memory files."""

    _broken: BrokenBackend | None = PrivateAttr(None)

    @property
    def broken(self) -> BrokenBackend | None:
        """What the loader found wrong with the configured backend, which is then not used."""
        return self._broken

    def break_backend(self, broken: BrokenBackend) -> None:
        """Record what is wrong. For the loader."""
        self._broken = broken


LOOPBACK = "127.0.0.1"
Port = Annotated[int, Field(ge=0, le=65535)]
Limit = Annotated[Duration, Field(gt=0)]


class ServeToolSettings(SettingsSection):
    """Tools over HTTP (`POST /tools/invoke`), on top of what `tools.deny` and the session allow."""

    allow: list[str] = Field([])
    """Tools that the server denies unless named here, such as `shell`, `write`, `edit` and `append`."""
    deny: list[str] = Field([])
    """More tools that are not available over HTTP; wins over `allow`."""
    approve: list[str] = Field([])
    """Tools whose questions are answered with yes, in calls and in chats over HTTP; all others are refused."""
    timeout: Limit = 60.0
    """Time limit for one call."""


class ServeSettings(SettingsSection):
    """The server, `clawbot serve`. docs/serve.md describes it."""

    host: str = LOOPBACK
    """The address to listen on. Any other than loopback needs `expose`."""
    port: Port = 8791
    """The port; 0 takes a free one."""
    expose: Switch = False
    """Whether it may listen on an address that other machines can reach. It speaks plain HTTP: put TLS in front."""
    hosts: list[str] = Field([])
    """Names by which clients may call it, besides `localhost` and IP addresses."""
    origins: list[str] = Field([])
    """Web pages that may call it from a browser, such as `http://localhost:3000`."""
    rate: Count = 500
    """Requests a second that one address may send; 0 for any number. Twice as many may come at once."""
    connections: Positive = 512
    """Connections that may be open at once."""
    sessions: Positive = 64
    """Conversations that may be open at once; the one that has been idle longest is closed for the next."""
    idle: Limit = 300.0
    """How long a conversation remains open after its last answer; until then it can't be opened elsewhere."""
    grace: Duration = 20.0
    """How long running answers may go on when the server ends; then they are interrupted, and kept."""
    tools: ServeToolSettings = ServeToolSettings()
    """Tools over HTTP."""


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `above` over `below`: mappings are merged key by key, anything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


# What belongs to the provider of a model.
_OF_PROVIDER = ("api_base", "api_key", "api_key_env")


def _provider(model: Any) -> str:
    """Return the provider of a model; "" for none, as of `auto`."""
    name, slash, _ = str(model).partition("/")
    return name.removesuffix("_chat") if slash and not name.startswith("script:") else ""


def _inherit(agents: Any) -> Any:
    """Fill each agent with the defaults, and add `defaults` and `main` if missing. One with a model of another provider
    does not inherit the address and the key."""
    if not isinstance(agents, Mapping):
        return agents
    entries = {DEFAULTS: {}, MAIN_AGENT: {}} | dict(agents)
    defaults = entries[DEFAULTS]
    if not isinstance(defaults, Mapping):
        return entries
    for name, entry in entries.items():
        if name != DEFAULTS and isinstance(entry, Mapping):
            own: dict[str, Any] = {} if name == MAIN_AGENT else {"workspace": f"~/.clawbot/workspace-{name}"}
            if (usual := _provider(defaults.get("model"))) and _provider(entry.get("model", f"{usual}/")) != usual:
                own |= dict.fromkeys(_OF_PROVIDER)
            entries[name] = deep_merge(deep_merge(defaults, own), entry)
    return entries


def _check_entry(name: str) -> str:
    try:
        return name if name == DEFAULTS else check_agent_id(name)
    except ConfigError as error:
        raise expected("an agent id: a-z, 0-9, _ and -, a letter or digit first") from error


ResetMode = Literal["none", "daily", "idle", "daily+idle"]
SessionType = Literal["direct", "group", "thread"]


_USUAL_PAUSE = 60


class ResetSettings(SettingsSection):
    """When a session ends automatically, so that the next message starts a new one."""

    mode: ResetMode = "daily"
    """`none`: never; `daily`: at a time of the day; `idle`: after a pause; `daily+idle`: whichever comes first."""
    at: ClockTime = "04:00"
    """The time of the day, in the user's zone."""
    idle_minutes: Positive | None = None
    """The pause after the user's last message, in minutes; null for 60 in the modes with idle. A number applies in the
    mode daily too."""

    @property
    def pause(self) -> int | None:
        """The pause that ends a session, in minutes; None for none."""
        if self.mode == "none":
            return None
        return self.idle_minutes or (None if self.mode == "daily" else _USUAL_PAUSE)


class OtherResetSettings(SettingsSection):
    """The differences for sessions of one type; null inherits from `session.reset`."""

    mode: ResetMode | None = None
    """As in `session.reset`."""
    at: ClockTime | None = None
    """The time of the day."""
    idle_minutes: Positive | None = None
    """The pause, in minutes."""


class ResetByTypeSettings(SettingsSection):
    """When sessions of one type end automatically. The session key determines the type."""

    direct: OtherResetSettings = OtherResetSettings()
    """With the user alone."""
    group: OtherResetSettings = OtherResetSettings()
    """With several people: `group` or `channel` in the key."""
    thread: OtherResetSettings = OtherResetSettings()
    """In a thread of such a conversation: `thread` or `topic` in the key."""


class SessionSettings(SettingsSection):
    """Conversations."""

    reset: ResetSettings = ResetSettings()
    """When a session ends automatically."""
    reset_by_type: ResetByTypeSettings = ResetByTypeSettings()
    """Differences between session types."""
    titles: Literal["auto", "off"] = "auto"
    """Who gives a conversation of the chat its title: the model that answers in it, once, in the background (auto: one
    request, whose prompt is that of the turn before and so mostly in the provider's cache), or nobody (off): then its
    first words are shown. `/rename` decides in any case."""

    def reset_of(self, kind: SessionType) -> ResetSettings:
        """When sessions of one type end: `reset` overridden by `reset_by_type`."""
        other: OtherResetSettings = getattr(self.reset_by_type, kind)
        return self.reset.model_copy(update=other.model_dump(exclude_none=True))


ThemeName = Literal[
    "auto", "light", "dark", "clawbot-light", "clawbot-dark", "ansi-dark", "ansi-light", "atom-one-dark",
    "atom-one-light", "catppuccin-frappe", "catppuccin-latte", "catppuccin-macchiato", "catppuccin-mocha", "dracula",
    "flexoki", "gruvbox", "monokai", "nord", "rose-pine", "rose-pine-dawn", "rose-pine-moon", "solarized-dark",
    "solarized-light", "textual-dark", "textual-light", "tokyo-night",
]  # fmt: skip


def _check_action(name: str) -> str:
    if name not in BY_NAME:
        near = nearest(name, list(BY_NAME))
        hint = f" (did you mean {near}?)" if near else ": " + ", ".join(BY_NAME)
        raise expected(f"the name of an action{hint}", show=False)
    return name


def _parse_keys(value: Any) -> list[str]:
    """Return the keys of one action, from a text with commas or a list; nothing, or `none`, for no key."""
    texts = value.split(",") if isinstance(value, str) else [] if value is None else value
    if texts in (["none"], [""]):
        return []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise expected("a key such as ctrl+o, a list of keys, or none")
    try:
        return list(dict.fromkeys(map(parse_key, texts)))
    except UnusableKeyError as error:
        raise expected(str(error)) from error


ActionName = Annotated[str, AfterValidator(_check_action)]
Keys = Annotated[list[str], BeforeValidator(_parse_keys)]


class TuiSettings(SettingsSection):
    """The screen."""

    theme: ThemeName = "auto"
    """auto (as the terminal is), light, dark, or the name of a theme. One chosen on the screen (F2, /theme) is kept and
    comes first, until this is changed."""
    language: Literal["auto", "en", "zh"] = "auto"
    """The language of the chat: as LC_ALL, LC_MESSAGES or LANG set, English, or Chinese."""
    queue: Literal["wait", "steer"] = "wait"
    """What happens with a message that is sent while a turn runs. wait: it is answered in a turn of its own; steer: the
    model reads it after the tools that it has called, if it called any."""
    notify: Literal["off", "unfocused", "always"] = "unfocused"
    """When the terminal calls you, by its bell and a notice where it has one, at the end of a long turn and when a
    question waits: never, while you are elsewhere, or always."""
    plain: Switch = False
    """The chat in lines instead of the screen, for screen readers. A terminal that can't draw always gets it."""
    motion: Switch = True
    """Signs that move while the machine works; off: they do not move."""
    panel: Literal["auto", "off"] = "auto"
    """The side panel: the plan, changed files, notes used, the context window, the last conversations. auto: on screens
    from 150 columns."""
    editor: Literal["builtin", "external"] = "builtin"
    """What /edit opens; external uses $VISUAL or $EDITOR."""
    vi: Switch = False
    """The prompt is edited as in vi: Esc goes from insert to normal, and stops the running turn from there. The status
    line shows the mode."""
    keys: dict[ActionName, Keys] = Field(default_factory=dict)
    """Other keys for the conversation: the name of an action and its key, a list of keys, or none.
    docs/configuration.md lists the names."""


class LoggingSettings(SettingsSection):
    """The log file, logs/clawbot.log in the state folder."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    max_bytes: Size = 2 * 1024**2
    """Size at which a new file is started; 0 for never."""
    backups: Positive = 3
    """Number of old files to keep."""


class Settings(SettingsSection, AgentLookup):
    """The settings of the program."""

    agents: Annotated[dict[Annotated[str, AfterValidator(_check_entry)], AgentSettings], BeforeValidator(_inherit)] = (
        Field(default_factory=dict, validate_default=True)
    )
    """`defaults` holds what all agents share; besides it, each agent (`main` always exists) has an entry for its own
    values."""
    session: SessionSettings = SessionSettings()
    """Conversations."""
    hooks: HookSettings = HookSettings()
    """Python code that runs at defined moments of a session."""
    skills: SkillSettings = SkillSettings()
    """Folders with instructions (SKILL.md). docs/skills.md describes them."""
    schedule: ScheduleSettings = ScheduleSettings()
    """Scheduled jobs by name. docs/schedule.md has examples."""
    memory: MemorySettings = MemorySettings()
    """All of memory."""
    mcp: McpSettings = McpSettings()
    """Tools of MCP servers."""
    tui: TuiSettings = TuiSettings()
    """The screen."""
    serve: ServeSettings = ServeSettings()
    """The server, `clawbot serve`. docs/serve.md describes it."""
    logging: LoggingSettings = LoggingSettings()
    """The log file."""
