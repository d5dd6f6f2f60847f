"""POST /tools/invoke: the table of statuses, what is denied, calls that are sent twice."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.config.schema import ServeToolSettings
from clawbot.messages import ToolSpec
from clawbot.plugins.serve import answers
from clawbot.plugins.serve.tools import Call, is_denied, read_call, with_action
from clawbot.tools.memory import MemorySearchTool
from tests.plugins.serve.host import INVOKE, asked, configure
from tests.tables import load_table

NOTE = "- the harbour opens at six\n- 港口六点开门\n"


@pytest.fixture
def workspace() -> Path:
    """A workspace with one note."""
    folder = configure()
    folder.joinpath("memory").mkdir(parents=True)
    folder.joinpath("memory", "2026-11-20.md").write_text(NOTE, encoding="utf-8")
    return folder


def results(answer: Any) -> list[str]:
    """The snippets that a search brought."""
    return [hit["snippet"] for hit in answer["result"]["structuredContent"]["results"]]


async def test_the_table_of_statuses(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asked(monkeypatch) as server:
        for query in ("when does the harbour open", "港口几点开门"):
            status, answer, _ = await server.ask(INVOKE, {"tool": " memory_search ", "args": {"query": query}})
            assert status == 200
            assert answer["ok"] is True
            as_text = json.dumps({"query": query})
            assert results((await server.ask(INVOKE, {"tool": "memory_search", "args": as_text}))[1]) == results(answer)
            assert any("六点" in each or "six" in each for each in results(answer))
        for body, kind in (
            (b"{", "invalid_request"),
            (b"[]", "invalid_request"),
            (b"[" * 100_000, "invalid_request"),
            ({"args": {}}, "invalid_request"),
            ({"tool": 5}, "invalid_request"),
            ({"tool": "memory_search", "sessionKey": "../x"}, "invalid_request"),
            ({"tool": "memory_search", "agentId": "nobody"}, "invalid_request"),
            ({"tool": "memory_search", "args": {"quarry": "x"}}, "tool_error"),
            ({"tool": "memory_search", "args": "not an object"}, "tool_error"),
            ({"tool": "memory_search", "args": "[]"}, "tool_error"),
            ({"tool": "memory_search", "args": "[" * 50_000}, "tool_error"),
        ):
            status, answer, _ = await server.ask(INVOKE, body)
            assert (status, answer["ok"], answer["error"]["type"]) == (400, False, kind), body
        assert (await server.ask(INVOKE, {"tool": "list"}, token="wrong"))[0] == 401
        status, _, headers = await server.ask(INVOKE)
        assert (status, headers["Allow"]) == (405, "POST")
        assert (await server.ask(INVOKE, io.BytesIO(b" " * (answers.BODY_BYTES + 1))))[0] == 413


@pytest.mark.parametrize("score", [{"minScore": 0.35}, {"min_score": 0}, {"minScore": "0.35"}, {"min_score": 0.99}])
async def test_a_least_score_is_accepted_and_drops_what_is_below_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, score: dict[str, Any]
) -> None:
    async with asked(monkeypatch) as server:
        call = {"query": "which port opens early", "maxResults": 6}
        _, without, _ = await server.ask(INVOKE, {"tool": "memory_search", "args": call})
        status, answer, _ = await server.ask(INVOKE, {"tool": "memory_search", "args": call | score})
    least = float(next(iter(score.values())))
    assert (status, results(answer)) == (200, results(without) if least < 0.9 else [])
    assert results(without)
    assert "min_score" not in answer["result"]["content"][0]["text"]


async def test_a_body_that_does_not_come_and_a_tool_that_fails(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("at /secret/place")

    monkeypatch.setattr(MemorySearchTool, "run", broken)
    monkeypatch.setattr(answers, "BODY_SECONDS", 0.05)
    async with asked(monkeypatch) as server:
        status, answer, _ = await server.ask(INVOKE, {"tool": "memory_search", "args": {"query": "x"}})
        assert (status, answer["error"]["type"]) == (500, "tool_error")
        assert answer["error"]["message"] == "tool execution failed"
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST {INVOKE} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert b" 408 " in await reader.readline()
        writer.close()
    assert "at /secret/place" in Paths(find_home()).log_file.read_text(encoding="utf-8")


async def test_unknown_and_denied_can_not_be_told_apart(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tools={"deny": ["grep"]})
    names = ("shell", "write", "grep", "no_such_tool", "x" * 5000, "memory_search\x1b[2J")
    async with asked(monkeypatch) as server:
        seen = set()
        for name in names:
            status, answer, headers = await server.ask(INVOKE, {"tool": name, "args": {"path": "/etc/passwd"}})
            said = answer["error"].pop("message")
            assert said.startswith("Tool not available: ")
            assert len(said) < 200
            assert "\x1b" not in said
            seen.add((status, json.dumps(answer), tuple(sorted(set(headers) - {"Content-Length", "Date"}))))
        assert len(seen) == 1
        assert next(iter(seen))[0] == 404
        # What the session may not know is not there either.
        private = {"tool": "memory_search", "args": {"query": "harbour"}, "sessionKey": "agent:main:group:friends"}
        assert (await server.ask(INVOKE, private))[0] == 404


@pytest.mark.parametrize(
    ("name", "settings", "denied"),
    load_table(__file__, "the_list_of_the_server"),
)
def test_the_list_of_the_server(name: str, settings: dict[str, Any], denied: bool) -> None:
    assert is_denied(name, ServeToolSettings(**settings)) is denied


def test_an_action_goes_where_it_is_known() -> None:
    knows = ToolSpec("t", "", {"type": "object", "properties": {"action": {"type": "string"}}})
    call = Call("t", {"path": "a"}, "main", "agent:main:main", action="list")
    assert with_action(knows, call) == {"action": "list", "path": "a"}
    assert with_action(ToolSpec("t", "", {"type": "object"}), call) == {"path": "a"}
    assert with_action(knows, read_call({"tool": "t", "action": "a", "args": {"action": "b"}}, "main")) == {
        "action": "b"
    }


async def test_a_question_is_refused_unless_the_tool_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = {"tool": "append", "args": {"path": "AGENTS.md", "content": "- be brief\n"}}
    for tools, status in (({"allow": ["append"]}, 403), ({"allow": ["append"], "approve": ["append"]}, 200)):
        configure(tools=tools)
        async with asked(monkeypatch) as server:
            before = workspace.joinpath("AGENTS.md").read_text(encoding="utf-8")
            assert (await server.ask(INVOKE, change))[0] == status
            after = workspace.joinpath("AGENTS.md").read_text(encoding="utf-8")
            assert (after == before) is (status == 403)


async def test_a_call_that_is_sent_twice_runs_once(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tools={"allow": ["append"]})
    change = {"tool": "append", "args": {"path": "log.md", "content": "- one\n"}, "idempotencyKey": "k1"}
    async with asked(monkeypatch) as server:
        dry = await server.ask(INVOKE, {**change, "dryRun": True})
        assert dry[1]["dryRun"] is True
        assert not workspace.joinpath("log.md").exists()
        answers = await asyncio.gather(*(server.ask(INVOKE, change) for _ in range(5)))
        assert {status for status, _, _ in answers} == {200}
        assert workspace.joinpath("log.md").read_text(encoding="utf-8") == "- one\n"
        assert (await server.ask(INVOKE, {**change, "tool": "list", "args": {}}))[0] == 400


async def test_hooks_refuse_a_call_as_in_a_chat(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = find_home() / "hooks" / "strict"
    folder.mkdir(parents=True)
    folder.joinpath("HOOK.md").write_text(
        '---\nname: strict\ndescription: of a test\nevents: ["tool:before"]\n---\n', encoding="utf-8"
    )
    folder.joinpath("handler.py").write_text(
        "async def handle(event):\n    if 'secret' in str(event.arguments):\n        event.refuse('not that')\n",
        encoding="utf-8",
    )
    async with asked(monkeypatch) as server:
        status, answer, _ = await server.ask(INVOKE, {"tool": "list", "args": {"path": "secret"}})
        assert (status, "not that" in answer["error"]["message"]) == (403, True)
        assert (await server.ask(INVOKE, {"tool": "list"}))[0] == 200


async def test_a_file_is_replaced_by_a_session_that_has_seen_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tools={"allow": ["write", "append"]})
    file = workspace / "log.md"
    file.write_text("- by hand\n", encoding="utf-8")

    def call(tool: str, key: str = "one", **more: str) -> dict[str, Any]:
        return {"tool": tool, "args": {"path": "log.md", **more}, "sessionKey": key}

    async with asked(monkeypatch) as server:
        for body, status in (
            (call("write", content="mine\n"), 400),
            (call("read", "other"), 200),
            (call("write", content="mine\n"), 400),
            (call("read"), 200),
            (call("write", content="mine\n"), 200),
            (call("write", content="more\n"), 200),
            (call("append", "other", content="- of the other"), 200),
            (call("write", content="mine\n"), 400),
        ):
            code, answer, _ = await server.ask(INVOKE, body)
            assert code == status, (body, answer)
    assert file.read_text(encoding="utf-8") == "more\n- of the other\n"


async def test_no_call_passes_a_required_hook_that_is_not_there(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"serve": {}, "hooks": {"entries": {"strict": {"required": True}}}}
    (find_home() / "config.yaml").write_text(json.dumps(settings))
    async with asked(monkeypatch) as server:
        status, answer, _ = await server.ask(INVOKE, {"tool": "list"})
        assert (status, "the hook strict must check it" in answer["error"]["message"]) == (403, True)
