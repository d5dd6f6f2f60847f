"""The settings of hooks, skills and MCP servers: their folders, whether and how long they run, and their limits."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from clawbot.config.values import (
    Duration,
    ModelRef,
    Positive,
    SettingsSection,
    Size,
    StatePath,
    Switch,
    VariableName,
    expected,
)


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
        """Return the entries by the names of the hooks."""
        return {"session-memory": self.entries.session_memory, **self.entries.__pydantic_extra__}

    def entry(self, name: str) -> HookEntry:
        """Return the entry of the hook `name`; the defaults if there is none."""
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


McpApproval = Literal["ask", "allow", "deny"]

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,31}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def is_server_name(name: str) -> bool:
    """Whether `name` may name a server. It becomes part of tool names and of a file name; without `__`, which divides
    the parts of a tool's name."""
    return _NAME.fullmatch(name) is not None


def check_url(url: str) -> str:
    """Return `url` if it is an address without a password; one with a reference is checked when the server starts.
    Raises PydanticCustomError."""
    if "$" in url or "{env:" in url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise expected("an address such as https://example.org/path")
    if parts.username or parts.password:
        raise expected("an address without a password; use `headers`", show=False)
    return url


def _check_header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise expected("the name of an HTTP header")
    return name


class McpServer(SettingsSection):
    """One server: a program (`command`), or an address (`url`)."""

    enabled: Switch = True
    """Whether its tools are offered."""
    command: Annotated[str, Field(min_length=1)] | None = None
    """The program, found on the PATH or named by its full path."""
    args: list[str] = Field([])
    """Its arguments."""
    env: dict[VariableName, str] = Field({})
    """What it has in its environment besides PATH, HOME and the locale. `${NAME}` takes the value of a variable, here
    and in every other text of a server."""
    cwd: StatePath | None = None
    """The folder in which it starts; null for your home folder."""
    url: Annotated[str, AfterValidator(check_url)] | None = None
    """The address of a server that speaks streamable HTTP."""
    headers: dict[Annotated[str, AfterValidator(_check_header)], SecretStr] = Field({})
    """Headers of each request, such as `Authorization: "Bearer ${TOKEN}"`."""
    approval: McpApproval = "ask"
    """`ask`: the user is asked before a tool runs; `allow`: it runs; `deny`: it is not offered."""
    tools: dict[str, McpApproval] = Field({})
    """The same for single tools, by their name or a pattern such as `git_*`; the first that fits counts."""
    timeout: Annotated[Duration, Field(gt=0)] | None = None
    """Time limit of a call; null for `mcp.timeout`."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.enabled and (self.command is None) == (self.url is None):
            raise expected("either `command` or `url`")
        return self

    def approval_of(self, tool: str) -> McpApproval:
        """What holds for the tool that the server calls `tool`."""
        if tool in self.tools:
            return self.tools[tool]
        return next((each for pattern, each in self.tools.items() if fnmatchcase(tool, pattern)), self.approval)


class McpServers(SettingsSection):
    """The servers by name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, McpServer] = Field(init=False)

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if wrong := [name for name in self.__pydantic_extra__ if not is_server_name(name)]:
            raise expected(f"names of servers made of letters, digits, - and single _ (32 at most), not {wrong[0]!r}")
        return self


class McpSettings(SettingsSection):
    """Tools of MCP servers (extra `mcp`). docs/mcp.md has examples."""

    servers: McpServers = McpServers()
    """The servers by name. `clawbot mcp add` keeps them in mcp.json in the state folder."""
    start_timeout: Annotated[Duration, Field(gt=0)] = 30.0
    """How long a server may take to start and to list its tools."""
    timeout: Annotated[Duration, Field(gt=0)] = 60.0
    """Time limit of a call."""
    idle_timeout: Duration = 600.0
    """After how long without a call a server is stopped; the next call starts it. 0 for never."""
    max_message: Size = 1024**2
    """The longest message that is taken from a server."""
    max_tools: Positive = 64
    """How many tools of one server are offered."""

    def named(self) -> dict[str, McpServer]:
        """Return the servers by name, in the order of the files."""
        return dict(self.servers.__pydantic_extra__)
