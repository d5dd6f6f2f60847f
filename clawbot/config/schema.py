"""The whole of the settings: every key with its type, default and meaning. `config.yaml` is generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from clawbot.config.errors import ConfigError, config_error
from clawbot.config.paths import DEFAULTS, MAIN_AGENT, check_agent_id
from clawbot.config.schema_agent import AgentSettings
from clawbot.config.schema_hooks import HookSettings
from clawbot.config.schema_memory import BUILTIN_BACKEND, check_backend
from clawbot.config.schema_schedule import ScheduleSettings
from clawbot.config.values import ClockTime, Positive, SettingsSection, Size, expected


def deep_merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: mappings are merged key by key, anything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _inherit(agents: Any) -> Any:
    """Fill each agent with the defaults, and add `defaults` and `main` if missing."""
    if not isinstance(agents, Mapping):
        return agents
    entries = {DEFAULTS: {}, MAIN_AGENT: {}} | dict(agents)
    defaults = entries[DEFAULTS]
    if not isinstance(defaults, Mapping):
        return entries
    for name, entry in entries.items():
        if name != DEFAULTS and isinstance(entry, Mapping):
            own = {} if name == MAIN_AGENT else {"workspace": f"~/.clawbot/workspace-{name}"}
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

    def reset_of(self, kind: SessionType) -> ResetSettings:
        """When sessions of one type end: `reset` overridden by `reset_by_type`."""
        other: OtherResetSettings = getattr(self.reset_by_type, kind)
        return self.reset.model_copy(update=other.model_dump(exclude_none=True))


class MemorySettings(SettingsSection):
    """Memory as a whole."""

    backend: Annotated[str, AfterValidator(check_backend)] = BUILTIN_BACKEND
    """What searches the memory files: `builtin`, or the name of an installed package's backend."""
    citations: Literal["auto", "on", "off"] = "auto"
    """Whether results show their source as file and line; auto: in private sessions only."""


class TuiSettings(SettingsSection):
    """The screen."""

    theme: str = "auto"
    """auto, light, dark, or the name of a theme."""
    editor: Literal["builtin", "external"] = "builtin"
    """What /edit opens; external uses $VISUAL or $EDITOR."""


class LoggingSettings(SettingsSection):
    """The log file, logs/clawbot.log in the state folder."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    max_bytes: Size = 2 * 1024**2
    """Size at which a new file is started; 0 for never."""
    backups: Positive = 3
    """Number of old files to keep."""


class Settings(SettingsSection):
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
    schedule: ScheduleSettings = ScheduleSettings()
    """Scheduled jobs by name. docs/schedule.md has examples."""
    memory: MemorySettings = MemorySettings()
    """Memory as a whole."""
    tui: TuiSettings = TuiSettings()
    """The screen."""
    logging: LoggingSettings = LoggingSettings()
    """The log file."""

    @property
    def agent_ids(self) -> list[str]:
        """All agents, main first."""
        return [MAIN_AGENT, *(name for name in self.agents if name not in (DEFAULTS, MAIN_AGENT))]

    def allowed_agents(self, agent_id: str) -> list[str]:
        """The other agents whose workspace `agent_id` may read and whose memory it may search."""
        return [other for other in dict.fromkeys(self.agent(agent_id).tools.agents) if other != agent_id]

    def agent(self, agent_id: str) -> AgentSettings:
        """The settings of `agent_id`: its own entry over the defaults. Raises ConfigError for an unknown agent."""
        check_agent_id(agent_id)
        if agent_id in self.agents:
            return self.agents[agent_id]
        near = get_close_matches(agent_id, self.agent_ids, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Add `agents: {{{agent_id}: {{}}}}` to your config.yaml first."
        raise config_error("", f"there is no agent {agent_id!r} (there are: {', '.join(self.agent_ids)})", hint=hint)
