"""The official MCP servers for the time, for git and for pages, used in a chat: a scripted model calls them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clawbot.config.paths import Paths, find_home
from tests.real.server import ENVIRONMENT

BIN = ENVIRONMENT / "bin"
NAMES = ("mcp-server-time", "mcp-server-git", "mcp-server-fetch")

pytestmark = pytest.mark.skipif(
    not all((BIN / name).exists() for name in NAMES),
    reason="the official MCP servers are not installed: `make test-real` does that",
)


class Quiet(SimpleHTTPRequestHandler):
    """A web server that prints nothing."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    """The address of a page."""
    (tmp_path / "heron.html").write_text("<html><body><p>Der Reiher ist grau. 苍鹭是灰色的。</p></body></html>")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/heron.html"
        server.shutdown()
        thread.join()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "repository"
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "die erste Fassung"], check=True)
    return folder


def test_the_official_servers_are_used_in_a_chat(tmp_path: Path, page: str, repository: Path) -> None:
    servers = {
        "time": {"command": str(BIN / NAMES[0]), "args": ["--local-timezone", "Europe/Berlin"]},
        "git": {"command": str(BIN / NAMES[1]), "args": ["--repository", str(repository)]},
        "fetch": {"command": str(BIN / NAMES[2]), "args": ["--ignore-robots-txt", "--allow-private-ips"]},
    }
    # Without node, for which that of pages would install packages at its first page.
    env = {"PATH": str(BIN)}
    settings = {"mcp": {"servers": {name: {**each, "env": env, "approval": "allow"} for name, each in servers.items()}}}
    settings["mcp"]["servers"]["git"]["env"] = {"PATH": os.environ["PATH"]}
    paths = Paths(find_home())
    paths.ensure_home()
    paths.config_file.write_text(json.dumps(settings))
    noon = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    calls = [
        {"name": "mcp__time__convert_time", "arguments": noon},
        {"name": "mcp__git__git_log", "arguments": {"repo_path": str(repository)}},
        {"name": "mcp__fetch__fetch", "arguments": {"url": page}},
    ]
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"turns": [{"reply": {"tool_calls": calls}}, {"reply": "Done."}]}))
    command = [sys.executable, "-m", "clawbot", "chat", "-p", "go", "--json", "--model", f"script:{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=110)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    said = {event["name"]: event["output"] for event in events if event["type"] == "tool_finished"}
    assert "+8.0h" in said["mcp__time__convert_time"]
    assert "die erste Fassung" in said["mcp__git__git_log"]
    assert "苍鹭是灰色的" in said["mcp__fetch__fetch"]
    assert not any(event.get("isError") for event in events)
