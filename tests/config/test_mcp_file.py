"""The MCP servers of `mcp.json` and of the settings: the usual form of other programs, and what can't be a server."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.mcp_file import change_servers, read_servers, servers_of
from clawbot.config.paths import Paths, find_home
from tests.tables import load_table

USUAL = load_table(__file__, "USUAL")


@pytest.fixture
def paths() -> Paths:
    paths = Paths(find_home())
    paths.ensure_home()
    return paths


def test_the_usual_file_of_other_programs_is_read() -> None:
    read = servers_of(USUAL, "x.json")
    assert read.servers == {
        "time": USUAL["mcpServers"]["time"],
        "scope-files": {"command": "npx", "enabled": False},
        "far": {"url": "https://example.org/mcp", "headers": {"A": "Bearer ${env:TOKEN}"}},
    }
    assert read.notices == (
        "The server '@scope/日志 files' is called scope-files here.",
        "scope-files: not taken over: autoApprove.",
    )
    assert servers_of({"servers": {"a": {"command": "b"}}}, "").servers == {"a": {"command": "b"}}
    assert servers_of({"mcp": {"servers": {"a": {"command": "b"}}}}, "").servers == {"a": {"command": "b"}}


@pytest.mark.parametrize(
    "document", [{}, {"mcpServers": []}, {"mcpServers": None}, {"mcp": {"time": {"type": "local"}}}, {"mcp": 5}]
)
def test_what_holds_no_servers_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"x\.json"):
        servers_of(document, "x.json")


# An entry beside a good one, and what the line about it says.
WRONG: dict[str, tuple[Any, str]] = {
    "sse": ({"type": "sse", "url": "https://example.org/sse"}, "'sse' is a transport that is not supported"),
    "type a number": ({"type": 7, "command": "x"}, "7 is a transport"),
    "type a list": ({"type": ["stdio"], "command": "x"}, "is a transport"),
    "a text": ("uvx mcp-server-time", "expected a mapping with `command` or `url`"),
    "null": (None, "expected a mapping with `command` or `url`"),
    "a list": ([{"command": "x"}], "expected a mapping with `command` or `url`"),
    "nothing": ({}, "expected either `command` or `url`"),
    "no command": ({"type": "stdio", "args": ["x"]}, "expected either `command` or `url`"),
    "http without url": ({"type": "http", "headers": {}}, "expected either `command` or `url`"),
    "both": ({"command": "x", "url": "https://example.org"}, "expected either `command` or `url`"),
    "command empty": ({"command": ""}, "command: expected"),
    "command a list of no texts": ({"command": ["uvx", 5]}, "command: expected text"),
    "command an object": ({"command": {"file": "uvx", "args": []}}, "command: expected text"),
    "tools a text": ({"command": "x", "excludeTools": "shell"}, "expected a list of tools"),
    "variables a text": ({"command": "x", "env_vars": "A"}, "expected a list of names"),
    "args a text": ({"command": "x", "args": "-y x"}, "args: expected a list"),
    "args with a mapping": ({"command": "x", "args": ["--port", {}]}, "args[1]: expected text"),
    "env a list": ({"command": "x", "env": ["A=b"]}, "env: expected"),
    "env not text": ({"command": "x", "env": {"PORT": [8080]}}, "env.PORT: expected text"),
    "env name": ({"command": "x", "env": {"A B": "c"}}, "the name of an environment variable"),
    "url a file": ({"url": "file:///etc/passwd"}, "url: expected an address"),
    "url a number": ({"url": 8080}, "url: expected"),
    "header a list": ({"url": "https://example.org", "headers": {"X": [1]}}, "headers.X: expected"),
    "enabled a word": ({"command": "x", "enabled": "perhaps"}, "enabled: expected true or false"),
    "secret": ({"url": "https://me:swordfish@example.org/"}, "without a password"),
}


@pytest.mark.parametrize("form", WRONG)
def test_an_entry_that_can_t_be_a_server_costs_no_other_and_no_start(paths: Paths, form: str) -> None:
    entry, why = WRONG[form]
    paths.mcp_file.write_text(json.dumps({"mcpServers": {"bad": entry, "good": {"command": "uvx"}}}))
    loaded = load_settings(paths)
    assert list(loaded.settings.mcp.named()) == ["good"]
    [notice] = loaded.notices
    assert notice.startswith(f"{paths.mcp_file}: mcpServers.bad: ")
    assert notice.endswith("; the server is left out")
    assert why in notice
    assert "swordfish" not in notice

    change_servers(paths.mcp_file, {"more": {"command": "x"}})
    assert json.loads(paths.mcp_file.read_text())["mcpServers"]["bad"] == entry
    change_servers(paths.mcp_file, {}, removed="bad")
    assert load_settings(paths).notices == ()


# What other programs write, the servers that are read, and the lines about the rest.
FILES = load_table(__file__, "FILES")


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_programs_are_read_as_far_as_they_are_known(tmp_path: Path, name: str) -> None:
    text, servers, lines = FILES[name]
    file = tmp_path / f"{name.partition(' of ')[0]}"
    file.write_text(text)
    read = read_servers(file)
    assert read.servers == servers
    assert len(read.notices) == len(lines)
    assert all(line in notice for line, notice in zip(lines, read.notices, strict=True)), read.notices


# An entry that can't be a server, in the words of several programs, and its key as it is written there.
KEYS = load_table(__file__, "KEYS")


@pytest.mark.parametrize(("name", "text", "said"), KEYS)
def test_a_mistake_is_named_by_the_key_that_is_written(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    [notice, *_more] = read_servers(tmp_path / name).notices
    assert said in notice


def test_added_servers_are_settings_private_and_named_by_their_origin(paths: Paths) -> None:
    change_servers(paths.mcp_file, {"time": {"command": "uvx"}, "gone": {"command": "x"}})
    change_servers(paths.mcp_file, {"far": {"url": "https://example.org/mcp"}}, removed="gone")
    paths.config_file.write_text("mcp: {servers: {own: {command: x, tools: {'a*': deny, ab: allow}}}}\n")
    loaded = load_settings(paths)
    servers = loaded.settings.mcp.named()
    assert list(servers) == ["own", "time", "far"]
    assert [servers["own"].approval_of(tool) for tool in ("a", "ab", "b")] == ["deny", "allow", "ask"]
    assert loaded.origins["mcp.servers.time.command"] == "clawbot mcp add"
    assert stat.S_IMODE(paths.mcp_file.stat().st_mode) == 0o600
    assert json.loads(paths.mcp_file.read_text())["mcpServers"]["far"] == {"url": "https://example.org/mcp"}


@pytest.mark.parametrize(
    ("entry", "expected"),
    load_table(__file__, "a_wrong_server_stops_the_start_and_is_named"),
)
def test_a_wrong_server_stops_the_start_and_is_named(paths: Paths, entry: str, expected: str) -> None:
    paths.config_file.write_text(f"mcp: {{servers: {{{entry}}}}}\n")
    with pytest.raises(ConfigError) as error:
        load_settings(paths)
    assert expected in str(error.value)
    assert "swordfish" not in str(error.value)


def test_a_damaged_file_says_where_it_is(paths: Paths) -> None:
    paths.mcp_file.write_text('{"mcpServers": ')
    with pytest.raises(ConfigError, match=r"mcp\.json"):
        read_servers(paths.mcp_file)


def test_a_workspace_switches_no_server_on(paths: Paths, tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    for name in ("mcp.json", ".mcp.json", "config.yaml"):
        (workspace / name).write_text(json.dumps(USUAL))
    loaded = load_settings(paths, overrides={"agents.main.workspace": str(workspace)})
    assert loaded.settings.mcp.named() == {}
