"""The memory as an MCP server: a foreign client, the library's own, finds what it kept; nothing else can be reached."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from clawbot.config.paths import Paths, find_home
from clawbot.mcp.frames import Answered, Call, Lost, Start, Started, Stop
from clawbot.token import load_token
from tests.mcp.test_worker import Talk

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

COMMAND = [sys.executable, "-m", "clawbot", "mcp"]


@pytest.fixture
def home() -> Paths:
    paths = Paths(find_home())
    notes = paths.workspace("main") / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-11-01.md").write_text("- 办公室的代理端口是 3128。\n- The heron stands in the reeds.\n")
    return paths


def text_of(result: CallToolResult) -> str:
    from mcp.types import TextContent

    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def found_by(client: Client, query: str, **more: float) -> dict[str, Any]:
    """The answer of a complete index: while files or vectors are missing, an answer says so and is asked for again."""
    while True:
        result = await client.call_tool("memory_search", {"query": query, **more})
        answer: dict[str, Any] = result.structured_content
        assert all(hit["snippet"].split("\n")[0] in text_of(result) for hit in answer["results"])
        if not answer.keys() & {"fallback", "partial", "notes"}:
            return answer


async def test_a_foreign_client_finds_a_note_over_stdio_and_keeps_another(home: Paths) -> None:
    from mcp import Client, StdioServerParameters

    home.config_file.write_text("agents: {main: {tools: {deny: [shell]}}}\n")
    env = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "CLAWBOT_HOME": str(home.home)}
    async with Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=env)) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == ["memory_search", "memory_get", "memory_append"]

        found = await found_by(client, "代理端口")
        assert found["results"][0]["path"] == "memory/2026-11-01.md"

        assert "min_score" not in listed[0].input_schema["properties"]
        # Vectors, which may be there since, find more.
        bounded = await found_by(client, "代理端口", minScore=0.35)
        assert {each["citation"] for each in found["results"]} <= {each["citation"] for each in bounded["results"]}

        kept = await client.call_tool("memory_append", {"content": "- 喜欢用空格。 password: hunter2-swordfish-9"})
        assert (kept.is_error, "1 secret left out" in text_of(kept)) == (False, True)
        [today] = [file for file in (home.workspace("main") / "memory").glob("*.md") if "2026-11-01" not in file.name]
        assert today.read_text().startswith("- 喜欢用空格。")
        assert "swordfish" not in today.read_text()
        again = await found_by(client, "空格")
        assert again["results"][0]["path"] == f"memory/{today.name}"

        refused = await client.call_tool("memory_append", {"content": "x", "path": "AGENTS.md"})
        assert (refused.is_error, "Unknown argument" in text_of(refused)) == (True, True)
        outside = json.loads(text_of(await client.call_tool("memory_get", {"path": "../../../.env"})))
        assert outside["status"] == "error"
        assert (await client.call_tool("shell", {"command": "ls"})).is_error


@asynccontextmanager
async def served(*options: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(*COMMAND, *options, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_over_http_it_is_there_for_who_has_the_token_and_no_web_page(home: Paths) -> None:
    async with served("--http") as process:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().removeprefix("serving on ").strip()
        assert url.startswith("http://127.0.0.1:")
        token = f"Bearer {load_token(home.serve_token)}"
        asked = [
            await status(url, {}),
            await status(url, {"Authorization": "Bearer wrong"}),
            await status(url, {"Authorization": token, "Host": "evil.example"}),
            await status(url, {"Authorization": token, "Origin": "https://evil.example"}),
        ]
        assert asked == [401, 401, 421, 403]

        talk, start = Talk(), Start({}, 20, 1024**2, 64, url=url, headers={"Authorization": token})
        running = asyncio.create_task(talk.worker.run())
        started = await talk.ask(start)
        assert isinstance(started, Started)
        assert len(started.listing.tools) == 3
        found = await talk.ask(Call(1, "memory_search", {"query": "heron"}, 20))
        assert isinstance(found, Answered)
        assert "2026-11-01" in found.text
        talk.worker.take(Stop())
        await running

        small = Talk()
        limited = asyncio.create_task(small.worker.run())
        report = await small.ask(Start({}, 20, 500, 64, url=url, headers={"Authorization": token}))
        assert isinstance(report, Lost)
        assert "500 byte limit" in report.reason
        await limited


async def status(url: str, headers: Mapping[str, str]) -> int:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers={**accept, **headers}) as answer:
        return answer.status


@pytest.mark.long
async def test_stdout_carries_the_protocol_alone_and_it_ends_with_its_client(home: Paths) -> None:
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    ping = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}\n'
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"this is no message\n" + ping)
    answers = [json.loads(await process.stdout.readline())]
    while answers[-1].get("id") != 7:
        answers.append(json.loads(await process.stdout.readline()))
    assert answers[-1] == {"jsonrpc": "2.0", "id": 7, "result": {}}
    rest, _ = await process.communicate(b"")
    assert process.returncode == 0
    assert {json.loads(line)["jsonrpc"] for line in rest.splitlines()} <= {"2.0"}
