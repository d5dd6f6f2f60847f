"""The settings of the server (`clawbot serve`): where it listens, who may ask, and what is allowed over HTTP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clawbot.config.values import Count, Duration, Positive, SettingsSection, Switch

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
    """Conversations that may be open at once; the one that has rested longest is closed for the next."""
    idle: Limit = 300.0
    """How long a conversation stays open after its last answer; until then it can't be opened elsewhere."""
    grace: Duration = 20.0
    """How long running answers may go on when the server ends; then they are interrupted, and kept."""
    tools: ServeToolSettings = ServeToolSettings()
    """Tools over HTTP."""
