"""`mcp.json` in the state folder: the MCP servers that `clawbot mcp add` keeps, in the form that other programs use.

The usual form is `{"mcpServers": {NAME: {"command": ..., "args": [...], "env": {...}}}}`, or `url` and `headers`. The
forms of other programs (mcp_shapes.toml) are read too, also TOML. Keys with another meaning, and entries that can't be
servers, are left out and named.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from clawbot.config.env import foreign_in
from clawbot.config.errors import config_error, read_text, rewrite
from clawbot.config.names import free_name
from clawbot.config.schema_extensions import McpServer, is_server_name
from clawbot.config.source import dotted, parse_layer, read_layer
from clawbot.config.spelling import explain
from clawbot.text.tables import packaged_table

ORIGIN = "clawbot mcp add"
# A time limit above it counts milliseconds, as in Gemini CLI and opencode.
_MAX_SECONDS = 1000
_MAX_NAME_CHARS = 28


class ReadServers(NamedTuple):
    """The servers of a file, as settings, and `notices` on what was not taken. `left_out` are the entries that can't be
    servers, as they were read."""

    servers: dict[str, dict[str, Any]]
    notices: tuple[str, ...] = ()
    left_out: Mapping[str, Any] = {}


@lru_cache(maxsize=1)
def _shapes() -> dict[str, Any]:
    return packaged_table("clawbot.config", "mcp_shapes.toml", dict[str, Any])


def read_servers(file: Path) -> ReadServers:
    """The servers of `file`, in the usual form. Blocks. Raises FileNotFoundError, and ConfigError for a file that holds
    none."""
    if file.suffix == ".toml":
        try:
            return servers_of(tomllib.loads(read_text(file)), str(file))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            where = re.search(r"line (\d+)", str(error))
            raise config_error(f"{file}:{where[1]}" if where else str(file), "broken TOML") from None
    layer, problems = read_layer(file)
    read = servers_of(layer.data, str(file))
    return read._replace(notices=(*map(str, problems), *read.notices))


def servers_of(document: Mapping[str, Any], position: str) -> ReadServers:
    """Return the servers of a `document` in the usual form; `position` names it in errors. Raises ConfigError."""
    found = _entries(document)
    if found is None:
        raise config_error(position, 'expected `{"mcpServers": {NAME: {"command": ..., "args": [...]}}}`')
    lists = {key: [_at(document, root) for root in _shapes()[key]] for key in ("off", "only")}
    off, only = ({str(name) for each in lists[key] if isinstance(each, list) for name in each} for key in lists)
    servers: dict[str, dict[str, Any]] = {}
    notices: list[str] = []
    left_out: dict[str, Any] = {}
    for name, (key, entry) in found.items():
        own = name
        if not is_server_name(name) or name in servers:
            own = free_name(re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:_MAX_NAME_CHARS] or "server", servers)
        try:
            servers[own], skipped = as_server(entry)
        except ValueError as error:
            left_out[name] = entry
            notices.append(f"{position}: {key}: {error}; the server is left out")
            continue
        if name in off or (only and name not in only):
            servers[own]["enabled"] = False
        if own != name:
            notices.append(f"The server {name!r} is called {own} here.")
        if skipped:
            notices.append(f"{own}: not taken over: {', '.join(skipped)}.")
        notices += [f"{own}: {text}" for text in foreign_in(servers[own])]
    return ReadServers(servers, tuple(notices), left_out)


def _at(document: Mapping[str, Any], root: str) -> Any:
    value: Any = document
    for step in root.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _entries(document: Mapping[str, Any]) -> dict[str, tuple[str, Any]] | None:
    """Each entry by its name, with its key in the document; None for none. A document may be nothing but entries, and
    Continue lists them with their names."""
    shapes = _shapes()
    for root in shapes["roots"] + shapes["mixed"]:
        found = _at(document, root)
        if isinstance(found, list) and found and all(isinstance(entry, Mapping) and "name" in entry for entry in found):
            return {str(entry["name"]): (f"{root}[{at}]", entry) for at, entry in enumerate(found)}
        if isinstance(found, Mapping) and (root in shapes["roots"] or any(map(_is_entry, found.values()))):
            return {name: (f"{root}.{name}", entry) for name, entry in found.items()}
    is_bare = document and all(map(_is_entry, document.values()))
    return {name: (name, entry) for name, entry in document.items()} if is_bare else None


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and bool({"command", "cmd", "url", "uri", "serverUrl", "httpUrl"} & value.keys())


def problem_in(error: ValidationError, *, secret: bool = True, written: Mapping[Any, str] | None = None) -> str:
    """What is wrong in a server, or another entry, with its key as it is `written`; without the value if that may be
    `secret`."""
    first = error.errors(include_url=False)[0]
    key, *below = (step for step in first["loc"] if step != "[key]") if first["loc"] else ("",)
    key = dotted(((written or {}).get(key, key), *below))
    return f"{key}: {explain(first, secret=secret)}".removeprefix(": ")


def as_server(entry: Any) -> tuple[dict[str, Any], list[str]]:
    """One server as settings, and the keys that were left out. Raises ValueError with the key as it is written."""
    if not isinstance(entry, Mapping):
        raise ValueError("expected a mapping with `command` or `url`")
    shapes = _shapes()
    kind = entry.get("type", entry.get("transport", "stdio" if "command" in entry else "http"))
    if kind not in shapes["kinds"]:
        raise ValueError(f"{kind!r} is a transport that is not supported; expected stdio or http")
    names = {theirs: own for own, listed in shapes["names"].items() for theirs in listed.split()}
    names |= {"tools": "only"} if isinstance(entry.get("tools"), list) else {}
    named: dict[str, str] = {key: names.get(key) or key for key in entry}
    known = {*McpServer.model_fields, *shapes["joined"]}
    taken = {own: _plain(own, entry[key]) for key, own in named.items() if own in known}
    written = {own: key for key, own in named.items()}
    for key, (form, what) in _JOINED.items():
        if not isinstance(taken.get(key, form()), form):
            raise ValueError(f"{written[key]}: expected {what}")
    _join(taken)
    if entry.get("disabled") in (True, "true"):
        taken["enabled"] = False
    try:
        McpServer.model_validate(taken)
    except ValidationError as error:
        raise ValueError(problem_in(error, written=written)) from None
    return taken, [
        key for key, own in named.items() if own not in known and key not in shapes["silent"]["keys"].split()
    ]


def _plain(key: str, value: Any) -> Any:
    """Return a value in our form: milliseconds as seconds, numbers and secrets of the environment as text."""
    if key == "timeout" and isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if value >= _MAX_SECONDS else value
    return _as_text(value) if key in ("env", "headers", "args") else value


def _as_text(value: Any) -> Any:
    """Return `value` with numbers, switches and OpenClaw's secrets (`{source: env, id: NAME}`) as text."""
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, Mapping) and value.get("source") == "env" and "id" in value:
        return f"${{{value['id']}}}"
    if isinstance(value, Mapping):
        return {key: _as_text(item) for key, item in value.items() if item is not None}
    return [_as_text(item) for item in value] if isinstance(value, list) else value


# What is joined with other keys: its type, and what is expected.
_JOINED: dict[str, tuple[type, str]] = {
    "denied": (list, "a list of tools"),
    "only": (list, "a list of tools"),
    "env_vars": (list, "a list of names"),
    "env_http_headers": (dict, "headers with names of variables"),
}


def _join(taken: dict[str, Any]) -> None:
    """Join what others divide: a command with its arguments in one list (opencode) or below it (Zed), the names of
    variables (Codex), and tools that are left out or alone offered: the first pattern that fits counts."""
    command = taken.get("command")
    if isinstance(command, Mapping) and "path" in command:
        below = {key: _plain(key, command[key]) for key in ("args", "env") if key in command}
        taken |= below | {"command": command["path"]}
    elif isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        more = taken.get("args", [])
        taken |= {"command": command[0], "args": [*command[1:], *more] if isinstance(more, list) else more}
    names = [each.get("name") if isinstance(each, Mapping) else each for each in taken.pop("env_vars", [])]
    headers = {header: f"${{{name}}}" for header, name in taken.pop("env_http_headers", {}).items()}
    if token := taken.pop("bearer_token_env_var", ""):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    for key, more in (("env", {str(name): f"${{{name}}}" for name in names}), ("headers", headers)):
        if more:
            taken[key] = more | dict(taken.get(key) or {})
    rules = dict.fromkeys(map(str, taken.pop("denied", [])), "deny")
    if "*" not in (only := taken.pop("only", ["*"])):
        rules = rules | {str(name): rules.get(str(name), taken.get("approval", "ask")) for name in only} | {"*": "deny"}
    if rules:
        taken["tools"] = rules | dict(taken.get("tools") or {})


def change_servers(file: Path, added: Mapping[str, Mapping[str, Any]], removed: str = "") -> None:
    """Write the servers `added` (as settings) to `file`, and take out `removed`. Concurrent callers wait. Blocks;
    raises ConfigError."""

    def changed(before: str) -> str:
        known = servers_of(parse_layer(before, str(file))[0].data, str(file)) if before else ReadServers({})
        servers = {**known.servers, **known.left_out}
        servers.pop(removed, None)
        return f"{msgspec.json.format(msgspec.json.encode({'mcpServers': {**servers, **added}})).decode()}\n"

    rewrite(file, changed)
