"""`mcp.json` in the state folder: the MCP servers that `clawbot mcp add` keeps, in the form that other programs use.

The usual form is `{"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}`, or `url` and `headers`. Some
programs write `servers`, `context_servers`, `serverUrl`, `httpUrl`, `disabled` or `${env:NAME}`: these are read too.
Keys with another meaning, and entries that can't be servers, are left out and named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from clawbot.config.errors import config_error, text_of
from clawbot.config.schema_mcp import McpServer, is_server_name
from clawbot.config.source import dotted, read_layer
from clawbot.config.spelling import explain
from clawbot.files import ensure_private_dir, locked, write_atomic

ORIGIN = "clawbot mcp add"
_ROOTS = ("mcpServers", "servers", "context_servers")
_IGNORED = ("startTimeout", "type", "transport", "disabled", "source")
_OTHER_NAMES = {"serverUrl": "url", "httpUrl": "url", **dict.fromkeys(_IGNORED, "")}
_KINDS = ("stdio", "local", "http", "streamable-http", "streamableHttp", "streamable_http")
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
# What another program asks its user for.
_INPUT = re.compile(r"\$\{input:[^}]*\}")
_LONGEST_NAME = 32


class ReadServers(NamedTuple):
    """The servers of a file, as settings, and `notices` on what was not taken. `left_out` are the entries that can't be
    servers, as they were read."""

    servers: dict[str, dict[str, Any]]
    notices: tuple[str, ...] = ()
    left_out: Mapping[str, Any] = {}


def read_servers(file: Path) -> ReadServers:
    """The servers of `file`, in the usual form. Blocks. Raises FileNotFoundError, and ConfigError for a file that holds
    none."""
    layer, problems = read_layer(file)
    read = servers_of(layer.data, str(file))
    return read._replace(notices=(*map(str, problems), *read.notices))


def servers_of(document: Mapping[str, Any], place: str) -> ReadServers:
    """The servers of a `document` in the usual form; `place` names it in errors. Raises ConfigError."""
    nested = document.get("mcp")
    inner = nested.get("servers") if isinstance(nested, Mapping) else None
    found: Any = next((document[root] for root in _ROOTS if root in document), inner)
    if not isinstance(found, Mapping):
        raise config_error(place, 'expected `{"mcpServers": {NAME: {"command": ..., "args": [...]}}}`')
    servers: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    left_out: dict[str, Any] = {}
    for name, entry in found.items():
        own = _safe_name(name, servers)
        try:
            servers[own], skipped = _entry(entry)
        except ValueError as error:
            left_out[name] = entry
            notices.append(f"{place}: mcpServers.{name}: {problem_in(error)}; the server is left out")
            continue
        if own != name:
            notices.append(f"The server {name!r} is called {own} here.")
        if skipped:
            notices.append(f"{own}: not taken over: {', '.join(skipped)}.")
    return ReadServers(servers, tuple(notices), left_out)


def problem_in(error: ValueError) -> str:
    """What is wrong in a server, with its key and without a value."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    key = dotted(tuple(step for step in first["loc"] if step != "[key]"))
    return f"{key}: {explain(first, secret=True)}".removeprefix(": ")


def _safe_name(name: str, taken: Mapping[str, Any]) -> str:
    if is_server_name(name) and name not in taken:
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_LONGEST_NAME] or "server"
    number = 2
    own = plain
    while own in taken:
        own, number = f"{plain[: _LONGEST_NAME - 3]}-{number}", number + 1
    return own


def _entry(entry: Any) -> tuple[dict[str, Any], list[str]]:
    """One server as settings, and the keys that were left out. Raises ValueError, see `problem_in`."""
    if not isinstance(entry, Mapping):
        raise ValueError("expected a mapping with `command` or `url`")
    kind = entry.get("type", entry.get("transport", "stdio" if "command" in entry else "http"))
    if kind not in _KINDS:
        raise ValueError(f"{kind!r} is a transport that is not supported; expected stdio or http")
    known = set(McpServer.model_fields)
    taken: dict[str, Any] = {}
    left_out = []
    for key, value in entry.items():
        own = _OTHER_NAMES.get(key, key)
        if own in known and not (own == "tools" and isinstance(value, list)):
            taken[own] = _with_references(value)
        elif own:
            left_out.append(key)
    if entry.get("disabled") in (True, "true"):
        taken["enabled"] = False
    McpServer.model_validate(taken)
    return taken, left_out + sorted(set(_INPUT.findall(repr(taken))))


def _with_references(value: Any) -> Any:
    """`value` with `${env:NAME}` spelled as `${NAME}`."""
    if isinstance(value, str):
        return _REFERENCE.sub(r"${\1}", value)
    if isinstance(value, Mapping):
        return {key: _with_references(item) for key, item in value.items()}
    return [_with_references(item) for item in value] if isinstance(value, list) else value


def change_servers(file: Path, added: Mapping[str, Mapping[str, Any]], removed: str = "") -> None:
    """Write the servers `added` (as settings) to `file`, and take out `removed`. Concurrent callers wait. Blocks;
    raises ConfigError."""
    try:
        with locked(ensure_private_dir(file.parent)):
            before = text_of(file)
            try:
                known = read_servers(file)
            except FileNotFoundError:
                known = ReadServers({})
            servers = {**known.servers, **known.left_out}
            servers.pop(removed, None)
            document = {"mcpServers": {**servers, **added}}

            def demand_unchanged() -> None:
                if text_of(file) != before:
                    raise config_error(str(file), "was changed by another program meanwhile: try again")

            data = msgspec.json.format(msgspec.json.encode(document)) + b"\n"
            write_atomic(file, data, mode=0o600, check=demand_unchanged)
    except OSError as error:
        raise config_error(str(file), f"cannot be written: {error.strerror or error}") from error
