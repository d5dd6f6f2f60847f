"""`mcp.json` in the state folder: the MCP servers that `clawbot mcp add` keeps, in the form that other programs use.

The usual form is `{"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}`, or `url` and `headers`. Some
programs write `servers`, `serverUrl`, `httpUrl`, `disabled` or `${env:NAME}`: these are read too, keys with another
meaning are left out and named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawbot.config.errors import config_error
from clawbot.config.schema_mcp import McpServer, is_server_name
from clawbot.config.source import read_layer
from clawbot.files import ensure_private_dir, locked, write_atomic

ORIGIN = "clawbot mcp add"
_ROOTS = ("mcpServers", "servers")
_OTHER_NAMES = {"serverUrl": "url", "httpUrl": "url", "startTimeout": "", "type": "", "transport": "", "disabled": ""}
_KINDS = ("stdio", "http", "streamable-http", "streamableHttp", "streamable_http")
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_LONGEST_NAME = 32


class ReadServers(NamedTuple):
    """The servers of a file, as settings, and `notices` on what was not taken."""

    servers: dict[str, dict[str, Any]]
    notices: tuple[str, ...] = ()


def read_servers(file: Path) -> ReadServers:
    """The servers of `file`, in the usual form. Blocks. Raises FileNotFoundError, and ConfigError for a file that holds
    none."""
    layer, problems = read_layer(file)
    if problems:
        raise config_error(problems[0].place, problems[0].text)
    return servers_of(layer.data, str(file))


def servers_of(document: Mapping[str, Any], place: str) -> ReadServers:
    """The servers of a `document` in the usual form; `place` names it in errors. Raises ConfigError."""
    nested = document.get("mcp")
    inner = nested.get("servers") if isinstance(nested, Mapping) else None
    found: Any = next((document[root] for root in _ROOTS if root in document), inner)
    if not isinstance(found, Mapping):
        raise config_error(place, 'expected `{"mcpServers": {NAME: {"command": ..., "args": [...]}}}`')
    servers: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    for name, entry in found.items():
        if not isinstance(entry, Mapping):
            raise config_error(place, "expected a mapping with `command` or `url`", key=f"mcpServers.{name}")
        own = _safe_name(str(name), servers)
        if own != name:
            notices.append(f"The server {name!r} is called {own} here.")
        servers[own], left_out = _entry(entry, f"{place}: mcpServers.{name}")
        if left_out:
            notices.append(f"{own}: not taken over: {', '.join(left_out)}.")
    return ReadServers(servers, tuple(notices))


def _safe_name(name: str, taken: Mapping[str, Any]) -> str:
    if is_server_name(name) and name not in taken:
        return name
    plain = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_LONGEST_NAME] or "server"
    number = 2
    own = plain
    while own in taken:
        own, number = f"{plain[: _LONGEST_NAME - 3]}-{number}", number + 1
    return own


def _entry(entry: Mapping[str, Any], place: str) -> tuple[dict[str, Any], list[str]]:
    """One server as settings, and the keys that were left out."""
    kind = entry.get("type", entry.get("transport", "stdio" if "command" in entry else "http"))
    if kind not in _KINDS:
        raise config_error(place, f"{kind!r} is a transport that is not supported; expected stdio or http")
    known = set(McpServer.model_fields)
    taken: dict[str, Any] = {}
    left_out = []
    for key, value in entry.items():
        own = _OTHER_NAMES.get(key, key)
        if own in known:
            taken[own] = _with_references(value)
        elif own:
            left_out.append(key)
    if entry.get("disabled") is True:
        taken["enabled"] = False
    return taken, left_out


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
            try:
                servers = read_servers(file).servers
            except FileNotFoundError:
                servers = {}
            servers.pop(removed, None)
            document = {"mcpServers": {**servers, **added}}
            write_atomic(file, msgspec.json.format(msgspec.json.encode(document)) + b"\n", mode=0o600)
    except OSError as error:
        raise config_error(str(file), f"cannot be written: {error.strerror or error}") from error
