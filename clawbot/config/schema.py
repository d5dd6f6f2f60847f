"""The whole of the settings: every key with its type, default and meaning. `config.yaml` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from clawbot.config.errors import ConfigError, nearest
from clawbot.config.keys import BY_NAME, UnusableKeyError, parse_key
from clawbot.config.names import AgentLookup
from clawbot.config.paths import DEFAULTS, MAIN_AGENT, check_agent_id
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_backends import MemorySettings
from clawbot.config.schema_hooks import HookSettings, SkillSettings
from clawbot.config.schema_mcp import McpSettings
from clawbot.config.schema_schedule import ScheduleSettings
from clawbot.config.schema_serve import ServeSettings
from clawbot.config.values import ClockTime, Positive, SettingsSection, Size, Switch, expected


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: mappings are merged key by key, anything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


# What belongs to the provider of a model.
_OF_PROVIDER = ("api_base", "api_key", "api_key_env")


def _provider(model: Any) -> str:
    """The provider of a model; "" for none, as of `auto`."""
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
    "auto",
    "light",
    "dark",
    "clawbot-light",
    "clawbot-dark",
    "ansi-dark",
    "ansi-light",
    "atom-one-dark",
    "atom-one-light",
    "catppuccin-frappe",
    "catppuccin-latte",
    "catppuccin-macchiato",
    "catppuccin-mocha",
    "dracula",
    "flexoki",
    "gruvbox",
    "monokai",
    "nord",
    "rose-pine",
    "rose-pine-dawn",
    "rose-pine-moon",
    "solarized-dark",
    "solarized-light",
    "textual-dark",
    "textual-light",
    "tokyo-night",
]


def _check_action(name: str) -> str:
    if name not in BY_NAME:
        near = nearest(name, list(BY_NAME))
        hint = f" (did you mean {near}?)" if near else ": " + ", ".join(BY_NAME)
        raise expected(f"the name of an action{hint}", show=False)
    return name


def _parse_keys(value: Any) -> list[str]:
    """The keys of one action, from a text with commas or a list; nothing, or `none`, for no key."""
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
    """The language of the chat: as LC_ALL, LC_MESSAGES or LANG say, English, or Chinese."""
    queue: Literal["wait", "steer"] = "wait"
    """What happens with a message that is sent while a turn runs. wait: it is answered in a turn of its own; steer: the
    model hears it after the tools that it has called, if it called any."""
    notify: Literal["off", "unfocused", "always"] = "unfocused"
    """When the terminal calls you, by its bell and a notice where it has one, at the end of a long turn and when a
    question waits: never, while you look elsewhere, or always."""
    plain: Switch = False
    """The chat in lines instead of the screen, for screen readers. A terminal that can't draw always gets it."""
    motion: Switch = True
    """Signs that move while the machine works; off: they stand still."""
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
    """`defaults` holds what all agents share; beside it, each agent (`main` always exists) has an entry for its own
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
    """Memory as a whole."""
    mcp: McpSettings = McpSettings()
    """Tools of MCP servers."""
    tui: TuiSettings = TuiSettings()
    """The screen."""
    serve: ServeSettings = ServeSettings()
    """The server, `clawbot serve`. docs/serve.md describes it."""
    logging: LoggingSettings = LoggingSettings()
    """The log file."""
