"""The messages between the program and the client process of one MCP server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

LARGEST_FRAME = 16 * 1024**2
"""Bytes. The largest list of tools and the largest answer that the settings can sensibly allow are below it."""


class ListedTool(Struct, frozen=True):
    """A tool as it is offered: `name` is the server's, `description` and `parameters` (a JSON schema) are its words,
    checked and cut to size. `renamed`: the server's names of arguments by those that replace them in the schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    renamed: dict[str, str] = {}


class Listing(Struct, frozen=True):
    """The tools of a server, sorted by name, and one line for each reason why some are left out."""

    tools: tuple[ListedTool, ...] = ()
    warnings: tuple[str, ...] = ()


class Start(Struct, frozen=True, tag="start"):
    """The first frame: which server. `env` is the complete environment of a program, without a single variable besides;
    `seconds` it may take until its tools are listed. `max_message` is in bytes."""

    env: Mapping[str, str]
    seconds: float
    max_message: int
    max_tools: int
    command: str | None = None
    args: tuple[str, ...] = ()
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}


class Call(Struct, frozen=True, tag="call"):
    """Call a tool, for at most `seconds`. Answered by `Answered` or `CallFailed`."""

    number: int
    tool: str
    arguments: dict[str, Any]
    seconds: float


class CancelCall(Struct, frozen=True, tag="cancel"):
    """Nobody waits for the call any more."""

    number: int


class Stop(Struct, frozen=True, tag="stop"):
    """End the server in order, then exit."""


class Started(Struct, frozen=True, tag="started"):
    """The server answers. `server` is what it calls itself."""

    server: str
    listing: Listing


class Listed(Struct, frozen=True, tag="listed"):
    """The server's tools changed: the new ones."""

    listing: Listing


class Answered(Struct, frozen=True, tag="answered"):
    """What a tool answered, as text. `is_error`: the tool reports a failure."""

    number: int
    text: str
    is_error: bool


class CallFailed(Struct, frozen=True, tag="failed"):
    """A call that has no answer; the server goes on. `timed_out`: it took too long."""

    number: int
    reason: str
    timed_out: bool = False


class Lost(Struct, frozen=True, tag="lost"):
    """There is no server any more, or no use in it. `reason` continues a sentence that begins with its name."""

    reason: str


Request = Start | Call | CancelCall | Stop
Report = Started | Listed | Answered | CallFailed | Lost

request_decoder = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
