"""`clawbot mcp`: the memory of an agent as an MCP server, and the MCP servers whose tools the agent uses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec
from pydantic import ValidationError

from clawbot.agent.status import McpStatus
from clawbot.cli.output import answer, config_option, echo, print_json, shared_options, warn
from clawbot.clock import SystemClock
from clawbot.config.env import load_env
from clawbot.config.load import load_settings
from clawbot.config.mcp_file import ReadServers, change_servers, problem_in, read_servers
from clawbot.config.paths import Paths, find_home
from clawbot.config.schema_extensions import McpServer, McpSettings, is_server_name
from clawbot.errors import ClawbotError
from clawbot.extras import install_command
from clawbot.logs import setup_logging
from clawbot.mcp.client import MISSING, McpClient, target_of
from clawbot.mcp.connection import McpError
from clawbot.text.sanitize import clean_line
from clawbot.text.secrets import redact

DESCRIPTION_CHARS = 100
NEXT_START = "Chats that start from now on have it."


@click.group(name="mcp", invoke_without_command=True)
@click.option("--agent", metavar="ID", help="Whose memory (default: main).")
@click.option("--http", "over_http", is_flag=True, help="Over HTTP on loopback instead of stdio.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="For --http; 0 takes a free one.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Use this config file.")
@click.pass_context
def command(ctx: click.Context, *, agent: str | None, over_http: bool, port: int, config_file: Path | None) -> None:
    """Serve the memory of an agent to MCP clients, over stdio; or manage the MCP servers whose tools the agent uses.

    The tools are memory_search, memory_get and memory_append. With --http the address is printed, and clients need the
    token of `clawbot serve token`.
    """
    if ctx.invoked_subcommand is not None:
        return
    if find_spec("mcp") is None:
        raise _missing("The package `mcp` is not installed.")
    from clawbot.cli.mcp_server import serve
    from clawbot.services import RuntimeOptions

    serve(RuntimeOptions(agent=agent, config_file=config_file, approvals=False), port if over_http else None)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", required=False)
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", help="The address of a server that speaks streamable HTTP.")
@click.option(
    "--env", "-e", "env", multiple=True, metavar="NAME=VALUE", help="Of its environment. ${OTHER} is filled in."
)
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME:VALUE", help="Of each request. ${OTHER} is filled in."
)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Take over the servers of another program's mcp.json: all, or NAME.",
)
@config_option
def add(name: str | None, source: Path | None, file: Path | None, **given: Any) -> None:
    """Add the server NAME: a PROGRAM with its arguments (after `--`), or --url. Its tools are asked for at each call.

    \b
    clawbot mcp add time -- uvx mcp-server-time
    clawbot mcp add tracker --url https://example.org/mcp --header 'Authorization: Bearer ${TRACKER_TOKEN}'
    clawbot mcp add --from ~/.config/other/mcp.json
    """
    paths = Paths(find_home())
    known = load_settings(paths, config_file=file).settings.mcp.named()
    if name in known:
        raise ClawbotError(f"There is a server {name} already.", hint=f"`clawbot mcp remove {name}` removes it.")
    if source is not None:
        if any(given.values()):
            raise click.UsageError("--from takes no more than the NAME of a server.")
        found = read_servers(source)
        wanted = {key: server for key, server in found.servers.items() if name in (None, key)}
        servers = {key: server for key, server in wanted.items() if key not in known}
        warn(*found.notices, *(f"There is a server {key} already." for key in wanted if key in known))
        if not servers:
            raise ClawbotError(f"{source} has no server {name or 'to add'}.")
    else:
        if name is None:
            raise click.UsageError("Missing the name of the server.")
        servers = {name: _entry(name, **given)}
    change_servers(paths.mcp_file, servers)
    for key, server in servers.items():
        if server.get("enabled") is False:
            echo(f"{key} is added and off, as it is there. To use it, set its `enabled` to true in {paths.mcp_file}.")
        else:
            echo(f"{key} is added. {NEXT_START} `clawbot mcp test {key}` starts it and lists its tools.")


def _entry(
    name: str, program: Sequence[str], url: str | None, env: Sequence[str], headers: Sequence[str]
) -> dict[str, Any]:
    """The server `name` as settings. Raises click.UsageError, and ClawbotError for a name or value that can't be."""
    if bool(program) == bool(url):
        raise click.UsageError("Give either a program after `--`, or --url.")
    if env if url else headers:
        raise click.UsageError("--env is for a program, --header for --url.")
    if not is_server_name(name):
        raise ClawbotError(f"{name!r} is no name for a server: letters, digits, - and single _, 32 at most.")
    of_program = {"command": program[0], "args": list(program[1:]), "env": _pairs(env, "=")} if program else {}
    given: dict[str, Any] = of_program or {"url": url, "headers": _pairs(headers, ":")}
    entry = {key: value for key, value in given.items() if value or key == "args"}
    try:
        McpServer.model_validate(entry)
    except ValidationError as error:
        raise ClawbotError(f"{name}: {problem_in(error)}.") from error
    return entry


def _pairs(texts: Sequence[str], divider: str) -> dict[str, str]:
    pairs = [text.partition(divider) for text in texts]
    if wrong := [name for name, found, _ in pairs if not found]:
        raise click.UsageError(f"Expected NAME{divider}VALUE, got {wrong[0]!r}.")
    return {name.strip(): value.strip() for name, _, value in pairs}


@command.command()
@click.argument("name")
@config_option
def remove(name: str, file: Path | None) -> None:
    """Remove the server NAME, which `clawbot mcp add` added."""
    paths = Paths(find_home())
    added = read_servers(paths.mcp_file) if paths.mcp_file.exists() else ReadServers({})
    if name not in {*added.servers, *added.left_out}:
        own = name in load_settings(paths, config_file=file).settings.mcp.named()
        hint = f"Take it out of {file or paths.config_file}." if own else "`clawbot mcp list` shows all."
        raise ClawbotError(f"{name} was not added by `clawbot mcp add`.", hint=hint)
    change_servers(paths.mcp_file, {}, removed=name)
    (paths.mcp_tools / f"{name}.json").unlink(missing_ok=True)
    echo(f"{name} is removed.")


@command.command("list")
@shared_options
def list_servers(file: Path | None, as_json: bool) -> None:
    """List the servers and the tools that are known of each. Starts none.

    With --json: an array of objects with name, target, enabled, known, tools, warnings.
    """
    settings, client = _open(file)
    found = {status.name: status for status in client.status()}
    named = settings.named()
    rows = [_row(name, server, found.get(name)) for name, server in named.items()]
    none = "No MCP servers. `clawbot mcp add NAME -- PROGRAM` adds one."
    data = [_data(name, server, found.get(name)) for name, server in named.items()]
    answer(as_json, data, rows or [none], [str(_missing(MISSING))] if client.missing else [])


def _row(name: str, server: McpServer, status: McpStatus | None) -> str:
    known = f"{len(status.tools)} tools" if status and status.known else "tools not known yet: `clawbot mcp test`"
    target = clean_line(redact(server.url or " ".join([server.command or "", *server.args])), 100)
    return f"{name}  {target}  {known if server.enabled else 'off'}"


def _data(name: str, server: McpServer, status: McpStatus | None) -> dict[str, Any]:
    known = msgspec.to_builtins(status) if status else {"known": False, "tools": [], "warnings": []}
    shown = {key: known[key] for key in ("known", "tools", "warnings")}
    return {"name": name, "target": target_of(server), "enabled": server.enabled, **shown}


@command.command()
@click.argument("name", required=False)
@shared_options
def test(name: str | None, file: Path | None, as_json: bool) -> None:
    """Start each server, or NAME, and list its tools. Exits with 1 if one can't be used.

    With --json: an array of objects with name, ok, error, server (as it calls itself), tools (name, description,
    approval) and warnings.
    """
    settings, client = _open(file)
    if client.missing:
        raise _missing(MISSING)
    wanted = [name] if name else list(client.servers)
    if unknown := [each for each in wanted if each not in client.servers]:
        where = "is off" if unknown[0] in settings.named() else "is not there"
        raise ClawbotError(f"The server {unknown[0]} {where}.", hint="`clawbot mcp list` shows all.")
    results = asyncio.run(_try_all(client, wanted))
    if as_json:
        print_json(results)
    else:
        for result in results:
            _print(result)
    if not all(result["ok"] for result in results):
        raise SystemExit(1)


async def _try_all(client: McpClient, names: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return [await _try(client, name) for name in names]
    finally:
        await client.close()


async def _try(client: McpClient, name: str) -> dict[str, Any]:
    server = client.servers[name]
    error = ""
    try:
        await server.connection.ready()
    except McpError as problem:
        error = str(problem)
    listing = server.listing if not error else None
    tools = [
        {"name": tool.name, "description": tool.description, "approval": server.settings.approval_of(tool.name)}
        for tool in (listing.tools if listing else ())
    ]
    found = {"server": server.connection.server, "tools": tools, "warnings": list(listing.warnings) if listing else []}
    return {"name": name, "ok": not error, "error": error, **found}


def _print(result: Mapping[str, Any]) -> None:
    if not result["ok"]:
        warn(result["error"])
        return
    echo(f"{result['name']}: {len(result['tools'])} tools of {result['server'] or 'a server without a name'}")
    for tool in result["tools"]:
        echo(f"  {tool['name']} ({tool['approval']})  {clean_line(tool['description'], DESCRIPTION_CHARS)}")
    warn(*(f"{result['name']}: {warning}" for warning in result["warnings"]))


def _missing(message: str) -> ClawbotError:
    return ClawbotError(message, hint=f"Install it with: {install_command('mcp')}")


def _open(file: Path | None) -> tuple[McpSettings, McpClient]:
    paths = Paths(find_home())
    load_env(paths)
    settings = load_settings(paths, config_file=file).settings
    setup_logging(paths.log_file, settings.logging.level, settings.logging.max_bytes, settings.logging.backups)
    return settings.mcp, McpClient(settings.mcp, paths, SystemClock())
