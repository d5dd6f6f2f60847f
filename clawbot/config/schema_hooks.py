"""The settings of hooks: whether and how long they run, where they are, and one entry for each."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from clawbot.config.values import Duration, ModelRef, Positive, SettingsSection, StatePath, Switch, VariableName


class HookEntry(SettingsSection):
    """One hook. Keys beside these are handed to the hook as they are."""

    model_config = ConfigDict(extra="allow")

    enabled: Switch | None = None
    """Whether it runs; null for the usual: as its HOOK.md says (`default`), but hooks of a workspace don't."""
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    """How long it may take for one event; null for what its HOOK.md says, else `hooks.timeout`."""
    env: dict[VariableName, str] = Field({})
    """Environment variables that the hook's process has beside those of the program."""

    @property
    def own(self) -> dict[str, Any]:
        """What the hook itself is given: all but `enabled`, `timeout` and `env`."""
        return self.model_dump(exclude=set(HookEntry.model_fields))


class SessionMemoryEntry(HookEntry):
    """The shipped hook that archives a session as a note."""

    model_config = ConfigDict(extra="forbid")

    enabled: Switch | None = True
    """Whether it runs."""
    messages: Positive = 15
    """How many of the last messages the note holds."""
    llm_slug: Switch = True
    """Whether the model names the note; else its keywords or the time do."""
    model: ModelRef | None = None
    """Another model to name it; null for the agent's."""


class HookEntries(SettingsSection):
    """The hooks by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, HookEntry] = Field(init=False)

    session_memory: SessionMemoryEntry = Field(SessionMemoryEntry(), alias="session-memory")
    """The shipped hook that archives a session as a note."""


class HookSettings(SettingsSection):
    """Python that runs at moments of a session's life."""

    enabled: Switch = True
    """Whether any hook runs."""
    dirs: list[StatePath] = Field([])
    """More folders with hooks. Relative ones start at the state folder."""
    timeout: Annotated[Duration, Field(gt=0)] = 10.0
    """How long a hook may take for one event, unless its HOOK.md or its entry says otherwise."""
    quit_timeout: Duration = 5.0
    """How long the end of the program waits for hooks."""
    entries: HookEntries = HookEntries()
    """One entry for each hook, by its name. Beside `enabled`, `timeout` and `env` its keys belong to the hook."""

    def entry(self, name: str) -> HookEntry:
        """The entry of the hook `name`; the defaults when there is none."""
        found: dict[str, HookEntry] = {"session-memory": self.entries.session_memory, **self.entries.__pydantic_extra__}
        return found.get(name) or HookEntry()
