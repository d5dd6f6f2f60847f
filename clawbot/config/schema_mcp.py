"""The settings of MCP: the servers whose tools the agent may use, and the limits that hold for all of them."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from clawbot.config.values import Duration, Positive, SettingsSection, Size, StatePath, Switch, VariableName, expected

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
    """The program, found on the PATH or named by its whole path."""
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
        """The servers by name, in the order of the files."""
        return dict(self.servers.__pydantic_extra__)
