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
FILES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "claude_desktop_config.json": (
        '{"globalShortcut": "", "mcpServers": {"fs": {"command": "npx", "args": ["-y", "server", "/tmp"]}}}',
        {"fs": {"command": "npx", "args": ["-y", "server", "/tmp"]}},
        (),
    ),
    ".mcp.json": (
        '{"mcpServers": {"a": {"type": "stdio", "command": "${HOME}/x", "env": {}}, "b": {"type": "sse", "url": "u"},'
        ' "c": {"type": "http", "url": "https://example.org/mcp"}}}',
        {"a": {"command": "${HOME}/x", "env": {}}, "c": {"url": "https://example.org/mcp"}},
        ("'sse' is a transport",),
    ),
    "mcp.json of VS Code": (
        '{\n// asks for the key\n"inputs": [{"id": "key", "type": "promptString"}],\n"servers": {"gh": {'
        ' "type": "stdio", "command": "gh", "env": {"KEY": "${input:key}"}, "envFile": ".env", "dev": {}},},}',
        {"gh": {"command": "gh", "env": {"KEY": "${input:key}"}}},
        (
            "gh: not taken over: envFile, dev.",
            "gh: ${input:key} is filled in by another program only. Write ${KEY} and set KEY in .env of the state",
        ),
    ),
    "settings.json of VS Code": (
        '{"editor.tabSize": 2, "mcp": {"servers": {"a": {"command": "x"}}}}',
        {"a": {"command": "x"}},
        (),
    ),
    "mcp.json of Cursor": (
        '{"mcpServers": {"a": {"command": "x", "env": {"K": "${env:K}"}}, "b": {"url": "https://example.org/sse"}}}',
        {"a": {"command": "x", "env": {"K": "${env:K}"}}, "b": {"url": "https://example.org/sse"}},
        (),
    ),
    "mcp_config.json of Windsurf": (
        '{"mcpServers": {"a": {"serverUrl": "https://example.org/mcp", "disabled": true, "alwaysAllow": ["x"]}}}',
        {"a": {"url": "https://example.org/mcp", "enabled": False}},
        ("a: not taken over: alwaysAllow.",),
    ),
    "mcp-config.json of Copilot": (
        '{"mcpServers": {"a": {"type": "local", "command": "x", "tools": ["*"], "args": []}}}',
        {"a": {"command": "x", "args": []}},
        (),
    ),
    "settings.json of Zed": (
        '// Zed\n{"context_servers": {"a": {"source": "custom", "command": "x", "args": [], "env": {}},'
        ' "b": {"command": {"path": "x", "args": []}}}}',
        {"a": {"command": "x", "args": [], "env": {}}, "b": {"command": "x", "args": []}},
        (),
    ),
    "opencode.json": (
        '{"$schema": "https://opencode.ai/config.json", "mcp": {"a": {"type": "local", "command": ["npx", "-y", "x"],'
        ' "environment": {"PORT": 8080, "KEY": "{env:KEY}", "OFF": null}, "enabled": false, "timeout": 5000},'
        ' "b": {"type": "remote", "url": "https://example.org/mcp", "headers": {"A": "Bearer {env:T}"}, "oauth": {}}}}',
        {
            "a": {
                "command": "npx",
                "args": ["-y", "x"],
                "env": {"PORT": "8080", "KEY": "{env:KEY}"},
                "enabled": False,
                "timeout": 5,
            },
            "b": {"url": "https://example.org/mcp", "headers": {"A": "Bearer {env:T}"}},
        },
        ("b: not taken over: oauth.",),
    ),
    "config.toml of Codex": (
        'model = "gpt-5"\nsandbox_mode = "read-only"\n[mcp_servers.docs]\ncommand = "npx"\nargs = ["-y", "docs"]\n'
        'startup_timeout_sec = 20\ntool_timeout_sec = 45\nenv_vars = ["DOCS_KEY"]\nenabled_tools = ["find"]\n'
        '[mcp_servers.docs.env]\nLEVEL = "2"\n[mcp_servers."far.off"]\nurl = "https://example.org/mcp"\n'
        'bearer_token_env_var = "FAR_TOKEN"\nhttp_headers = { X = "1" }\nenv_http_headers = { Y = "FAR_Y" }\n',
        {
            "docs": {
                "command": "npx",
                "args": ["-y", "docs"],
                "timeout": 45,
                "env": {"DOCS_KEY": "${DOCS_KEY}", "LEVEL": "2"},
                "tools": {"find": "ask", "*": "deny"},
            },
            "far-off": {
                "url": "https://example.org/mcp",
                "headers": {"Y": "${FAR_Y}", "Authorization": "Bearer ${FAR_TOKEN}", "X": "1"},
            },
        },
        ("'far.off' is called far-off here",),
    ),
    "settings.json of Gemini": (
        '{"theme": "x", "mcp": {"excluded": ["b"]}, "mcpServers": {"a": {"httpUrl": "https://example.org/mcp",'
        ' "timeout": 30000, "trust": true, "excludeTools": ["rm"]}, "b": {"command": "x", "cwd": "$HOME/x",'
        ' "includeTools": ["look", "rm"], "excludeTools": ["rm"]}}}',
        {
            "a": {"url": "https://example.org/mcp", "timeout": 30, "tools": {"rm": "deny"}},
            "b": {
                "command": "x",
                "cwd": "$HOME/x",
                "tools": {"rm": "deny", "look": "ask", "*": "deny"},
                "enabled": False,
            },
        },
        ("a: not taken over: trust.",),
    ),
    "openclaw.json": (
        '{gateway: {port: 1}, mcp: {sessionIdleTtlMs: 5, servers: {a: {command: "x", workingDirectory: "/tmp",'
        ' env: {N: 5}}, b: {url: "https://example.org/mcp", transport: "sse"}}}}',
        {"a": {"command": "x", "cwd": "/tmp", "env": {"N": "5"}}},
        ("b: 'sse' is a transport",),
    ),
    "mcporter.json": (
        '{"mcpServers": {"a": {"description": "x", "baseUrl": "https://example.org/mcp", "auth": "oauth"},'
        ' "b": {"command": "npx", "args": ["x"], "allowedTools": ["one"]}}}',
        {
            "a": {"url": "https://example.org/mcp"},
            "b": {"command": "npx", "args": ["x"], "tools": {"one": "ask", "*": "deny"}},
        },
        ("a: not taken over: auth.",),
    ),
    "config.yaml of Goose": (
        "GOOSE_MODEL: x\nextensions:\n  dev: {type: builtin, enabled: true}\n  a: {type: stdio, cmd: uvx, args: [x],"
        " envs: {K: v}, enabled: false, timeout: 300}\n  b: {type: streamable_http, uri: 'https://example.org/mcp'}\n",
        {
            "a": {"command": "uvx", "args": ["x"], "env": {"K": "v"}, "enabled": False, "timeout": 300},
            "b": {"url": "https://example.org/mcp"},
        },
        ("dev: 'builtin' is a transport",),
    ),
    "config.yaml of Continue": (
        "name: x\nmcpServers:\n  - name: My Files\n    command: npx\n    args: [x]\n",
        {"My-Files": {"command": "npx", "args": ["x"]}},
        ("'My Files' is called My-Files",),
    ),
    "bare.json": (
        '{"a": {"command": "x"}, "b": {"url": "https://example.org/mcp"}}',
        {"a": {"command": "x"}, "b": {"url": "https://example.org/mcp"}},
        (),
    ),
    "twice.json": (
        '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}, "b": {"command": "z"}}}',
        {"a": {"command": "x"}, "b": {"command": "z"}},
        ("mcpServers.a: is written twice",),
    ),
}


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
