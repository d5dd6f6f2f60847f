"""The settings of hooks and skills: their folders, whether and how long they run, and their room in the prompt."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from clawbot.config.values import Duration, ModelRef, Positive, SettingsSection, StatePath, Switch, VariableName


class HookEntry(SettingsSection):
    """One hook. Other keys are passed to the hook unchanged."""

    model_config = ConfigDict(extra="allow")

    enabled: Switch | None = None
    """Whether it runs; null for the default in its HOOK.md, and for one of a workspace: no. `true` runs whatever has
    that name in a workspace; `clawbot hooks enable` trusts the one folder and content that you have read."""
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    """Time limit for one event; null for the one in its HOOK.md, else `hooks.timeout`."""
    env: dict[VariableName, str] = Field({})
    """Additional environment variables of the hook's process."""
    required: Switch = False
    """Whether tool calls that it should check (`tool:before`) are refused while it can't run, fails or hangs."""

    @property
    def own(self) -> dict[str, Any]:
        """The settings of the hook itself: all except those of every hook."""
        return self.model_dump(exclude=set(HookEntry.model_fields))


class SessionMemoryEntry(HookEntry):
    """The shipped hook that archives a session as a note."""

    model_config = ConfigDict(extra="forbid")

    enabled: Switch | None = True
    """Whether it runs."""
    messages: Positive = 15
    """How many of the last messages the note contains."""
    llm_slug: Switch = True
    """Whether the model names the note; otherwise keywords or the time do."""
    model: ModelRef | None = None
    """The model that names it; null for the agent's."""


class HookEntries(SettingsSection):
    """The hooks by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, HookEntry] = Field(init=False)

    session_memory: SessionMemoryEntry = Field(SessionMemoryEntry(), alias="session-memory")
    """The shipped hook that archives a session as a note."""


class HookSettings(SettingsSection):
    """Python code that runs at defined moments of a session."""

    enabled: Switch = True
    """Whether any hook runs."""
    dirs: list[StatePath] = Field([])
    """Additional folders with hooks. Relative ones start at the state folder."""
    timeout: Annotated[Duration, Field(gt=0)] = 10.0
    """Default time limit of a hook for one event; its HOOK.md or its entry may set another."""
    quit_timeout: Duration = 5.0
    """How long the program waits for hooks when it exits."""
    entries: HookEntries = HookEntries()
    """One entry for each hook, by name. Keys other than these of every hook belong to the hook itself."""

    def named(self) -> dict[str, HookEntry]:
        """The entries by the names of the hooks."""
        return {"session-memory": self.entries.session_memory, **self.entries.__pydantic_extra__}

    def entry(self, name: str) -> HookEntry:
        """The entry of the hook `name`; the defaults if there is none."""
        return self.named().get(name) or HookEntry()


class SkillSettings(SettingsSection):
    """Folders with instructions (SKILL.md) for one kind of task, which the model reads when the task comes."""

    enabled: Switch = True
    """Whether any skill is used. Those of a workspace are off until `clawbot skills enable NAME`."""
    dirs: list[StatePath] = Field([])
    """Additional folders with skills, as `~/.claude/skills`. Relative ones start at the state folder."""
    prompt_tokens: Positive = 2_000
    """Room for the list of skills in the prompt, in tokens; those beyond it are counted there. In a small window a
    twentieth of it, if that is less."""
    max_chars: Positive = 40_000
    """Characters of a SKILL.md that /skill puts into a message; the model reads the rest from the file."""
