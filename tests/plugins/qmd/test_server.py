"""qmd's own server is used where it runs and serves this index; otherwise a process answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from clawbot.plugins.qmd import asking
from tests.plugins.qmd.stand_in import Machine, answer, ask, places


class Served(ThreadingHTTPServer):
    """Answers like `qmd mcp --http` of qmd 2.8.3. `asked` are the searches, `fault` is what it does to them."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collections = [{"name": "main-notes", "path": str(machine.workspace / "memory"), "documents": 1}]
        self.asked: list[dict[str, Any]] = []
        self.fault = ""


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/mcp":
            content = {"totalDocuments": 1, "hasVectorIndex": False, "collections": self.server.collections}
            reply = {"result": {"content": [], "structuredContent": content}, "jsonrpc": "2.0", "id": 1}
            self._say(f"event: message\ndata: {json.dumps(reply)}\n\n")
            return
        self.server.asked.append(body)
        if self.server.fault == "dies":
            return
        found = {"results": [answer("qmd://main-notes/2026-11-20.md", 1)]}
        self._say("<html>" if self.server.fault == "garbage" else json.dumps(found))

    def _say(self, text: str) -> None:
        self.send_response(500 if self.server.fault == "fails" else 200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Not printed."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(asking, "CHECK_SECONDS", 30.0)  # a machine under load
    return Machine(tmp_path)


@pytest.fixture
def served(machine: Machine) -> Iterator[Served]:
    with Served(machine) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def test_it_answers_in_place_of_a_process(machine: Machine, served: Served) -> None:
    memory = machine.memory(daemon_port=served.server_port)
    assert places(await ask(memory, "staging proxy")) == ["memory/2026-11-20.md#L1-L3"]
    assert machine.calls == ["update"]
    [asked] = served.asked
    assert asked["searches"][0] == {"type": "lex", "query": "staging proxy"}
    assert (asked["rerank"], asked["limit"]) == (False, 18)
    assert asked["collections"] == ["main-memory", "main-notes", "main-sessions"]
    await memory.close()


async def test_in_the_mode_query_it_is_asked_for_words_and_meaning(machine: Machine, served: Served) -> None:
    memory = machine.memory(daemon_port=served.server_port, search_mode="query")
    await ask(memory, "where")
    assert served.asked[0]["searches"] == [{"type": "lex", "query": "where"}, {"type": "vec", "query": "where"}]
    assert served.asked[0]["rerank"] is True
    await memory.close()


async def test_one_with_another_index_is_asked_nothing(machine: Machine, served: Served) -> None:
    served.collections.append({"name": "private", "path": "/home/eve", "documents": 3})
    memory = machine.memory(daemon_port=served.server_port)
    assert places(await ask(memory)) == ["MEMORY.md#L3-L4"]
    assert served.asked == []
    await memory.close()


@pytest.mark.parametrize("fault", ["dies", "garbage", "fails"])
async def test_when_it_fails_a_process_answers_the_same_question(machine: Machine, served: Served, fault: str) -> None:
    memory = machine.memory(daemon_port=served.server_port)
    served.fault = fault
    for _ in range(2):
        found = await ask(memory)
        assert (places(found), found.fallback) == (["MEMORY.md#L3-L4"], None)
    assert len(served.asked) <= 1
    await memory.close()


async def test_without_one_a_process_answers(machine: Machine, served: Served) -> None:
    port = served.server_port
    served.shutdown()
    served.server_close()
    memory = machine.memory(daemon_port=port)
    assert places(await ask(memory)) == ["MEMORY.md#L3-L4"]
    await memory.close()
