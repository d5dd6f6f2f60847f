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

USUAL = {
    "mcpServers": {
        "time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "Asia/Shanghai"}},
        "@scope/日志 files": {"command": "npx", "type": "stdio", "disabled": True, "autoApprove": ["*"]},
        "far": {"type": "http", "serverUrl": "https://example.org/mcp", "headers": {"A": "Bearer ${env:TOKEN}"}},
    }
}


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
        "far": {"url": "https://example.org/mcp", "headers": {"A": "Bearer ${TOKEN}"}},
    }
    assert read.notices == (
        "The server '@scope/日志 files' is called scope-files here.",
        "scope-files: not taken over: autoApprove.",
    )
    assert servers_of({"servers": {"a": {"command": "b"}}}, "").servers == {"a": {"command": "b"}}
    assert servers_of({"mcp": {"servers": {"a": {"command": "b"}}}}, "").servers == {"a": {"command": "b"}}


@pytest.mark.parametrize(
    "document",
    [{}, {"mcpServers": []}, {"mcpServers": {"a": "uvx"}}, {"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}],
)
def test_what_holds_no_server_that_can_be_used_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"x\.json"):
        servers_of(document, "x.json")


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
    [
        ("a__b: {command: x}", "names of servers made of letters"),
        ("a: {}", "either `command` or `url`"),
        ("a: {command: x, url: 'http://x'}", "either `command` or `url`"),
        ("a: {url: 'file:///etc/passwd'}", "an address such as"),
        ("a: {url: 'http://me:swordfish@example.org/'}", "without a password"),
        ("a: {command: x, env: {'A B': c}}", "the name of an environment variable"),
        ("a: {command: x, approval: always}", "'ask', 'allow' or 'deny'"),
        ("a: {command: x, shell: true}", "unknown key"),
    ],
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
