"""`clawbot mcp add | list | remove | test` as users see them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.paths import Paths, find_home
from tests.tables import load_table

STAND_IN = Path(__file__).parents[1] / "mcp" / "stand_in.py"


def mcp(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["mcp", *arguments])


def test_a_server_is_added_tried_listed_and_removed() -> None:
    assert mcp("list").stdout.startswith("No MCP servers.")
    assert mcp("add", "one", "-e", "A=b=c", "--", sys.executable, str(STAND_IN), "--flag").exit_code == 0
    kept = json.loads(Paths(find_home()).mcp_file.read_text())
    assert kept["mcpServers"]["one"] == {
        "command": sys.executable,
        "args": [str(STAND_IN), "--flag"],
        "env": {"A": "b=c"},
    }
    assert "tools not known yet" in mcp("list").stdout

    tried = mcp("test", "one")
    assert tried.exit_code == 0
    assert tried.stdout.startswith("one: 11 tools of stand-in\n")
    assert "  echo (ask)  Does echo.\n" in tried.stdout
    assert mcp("list").stdout.endswith("11 tools\n")
    [listed] = json.loads(mcp("list", "--json").stdout)
    assert (listed["known"], len(listed["tools"])) == (True, 11)

    assert mcp("remove", "one").exit_code == 0
    assert mcp("remove", "one").exit_code == 1
    assert mcp("list").stdout.startswith("No MCP servers.")


def test_servers_of_another_program_are_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://example.org/mcp", "alwaysAllow": []}}}'
    )
    added = mcp("add", "--from", str(file))
    assert added.exit_code == 0
    assert "b: not taken over: alwaysAllow." in added.stderr
    assert [line.split()[0] for line in mcp("list").stdout.splitlines()] == ["a", "b"]
    again = mcp("add", "a", "--url", "https://example.org/mcp")
    assert (again.exit_code, "There is a server a already." in again.stderr) == (1, True)


def test_one_bad_entry_of_a_file_is_named_and_the_others_are_added(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    bad = {"type": "sse", "url": "https://example.org/sse"}
    file.write_text(json.dumps({"mcpServers": {"old": bad, "a": {"command": "x"}, "b": {"command": "y"}}}))
    assert mcp("add", "a", "--", "z").exit_code == 0
    added = mcp("add", "--from", str(file))
    assert (added.exit_code, [line.split()[0] for line in added.stdout.splitlines()]) == (0, ["b"])
    told = added.stderr.splitlines()
    assert told == [
        f"clawbot: {file}: mcpServers.old: 'sse' is a transport that is not supported; expected stdio or http; "
        "the server is left out",
        "clawbot: There is a server a already.",
    ]
    assert json.loads(Paths(find_home()).mcp_file.read_text())["mcpServers"] == {
        "a": {"command": "z", "args": []},
        "b": {"command": "y"},
    }
    alone = mcp("add", "--from", str(file), "old")
    assert (alone.exit_code, "has no server old" in alone.stderr) == (1, True)


@pytest.mark.parametrize(
    "document",
    load_table(__file__, "of_a_server_that_is_off_nothing_says_that_chats_have_it"),
)
def test_of_a_server_that_is_off_nothing_says_that_chats_have_it(document: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(document))
    added = mcp("add", "--from", str(file)).stdout
    assert mcp("list").stdout.endswith("off\n")
    assert ("Chats that start" in added, "a is added and off" in added) == (False, True)


def test_a_bad_entry_of_the_own_file_can_be_removed() -> None:
    kept = Paths(find_home()).mcp_file
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"mcpServers": {"bad": {"type": "sse"}, "good": {"command": "x"}}}))
    assert mcp("list").stdout.startswith("good  x")
    assert mcp("remove", "bad").exit_code == 0
    assert json.loads(kept.read_text())["mcpServers"] == {"good": {"command": "x"}}


def test_what_can_t_be_a_server_is_refused_and_nothing_is_kept() -> None:
    assert mcp("add", "one").exit_code == 2
    assert mcp("add", "one", "--url", "https://example.org/", "--", "x").exit_code == 2
    assert mcp("add", "one", "--url", "https://example.org/", "-e", "A=b").exit_code == 2
    assert mcp("add", "one", "-H", "A:b", "--", "x").exit_code == 2
    assert mcp("add", "one", "--from", str(STAND_IN), "--", "x").exit_code == 2
    assert mcp("add", "a b", "--", "x").exit_code == 1
    assert "an address such as" in mcp("add", "one", "--url", "ftp://example.org").stderr
    assert mcp("test", "one").exit_code == 1
    assert not Paths(find_home()).mcp_file.exists()


def test_a_server_that_can_t_be_used_is_one_line_and_exit_code_1() -> None:
    mcp("add", "one", "--url", "https://example.org/mcp", "-H", "Authorization: Bearer ${NOT_SET_HERE}")
    tried = mcp("test")
    assert tried.exit_code == 1
    assert tried.stdout == ""
    assert tried.stderr.count("\n") == 1
    assert "the variable NOT_SET_HERE is not set" in tried.stderr
