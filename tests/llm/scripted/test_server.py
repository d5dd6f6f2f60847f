"""The scripted model over real HTTP: streams, faults on the wire, embeddings, and the command that serves a file."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from clawbot.cli.main import root
from clawbot.llm.scripted import ScriptEngine, parse_script
from clawbot.llm.scripted.server import ServedScript, serve_script

SCRIPTS = Path(__file__).parents[2] / "scripts"


@asynccontextmanager
async def served(turns: str) -> AsyncIterator[tuple[ServedScript, httpx.AsyncClient]]:
    engine = ScriptEngine(parse_script("turns:\n" + turns, Path("talk.yaml")))
    async with (
        serve_script(engine) as server,
        # Without a limit of its own: how long an answer takes is no matter of these tests.
        httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=None) as client,
    ):
        yield server, client


def asks(text: str = "x", **body: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **body}


async def events(client: httpx.AsyncClient, **body: Any) -> list[Any]:
    """The data of all server-sent events of one streamed answer, in order; JSON where it is JSON."""
    found: list[Any] = []
    async with client.stream("POST", "/chat/completions", json=asks(stream=True, **body)) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        async for line in response.aiter_lines():
            if line:
                data = line.removeprefix("data: ")
                found.append(data if data == "[DONE]" else json.loads(data))
    return found


async def test_a_stream_comes_as_events_and_ends_with_done() -> None:
    async with served("- reply: {text: [你, 好], usage: {prompt: 3, completion: 2}}") as (_, client):
        found = await events(client, stream_options={"include_usage": True})

    assert [choice["delta"].get("content") for chunk in found[:-1] for choice in chunk["choices"]] == [
        "",
        "你",
        "好",
        None,
    ]
    assert found[-2]["usage"]["total_tokens"] == 5
    assert found[-1] == "[DONE]"


async def test_a_whole_answer_has_text_calls_and_usage() -> None:
    async with served("- reply: {text: [a, b], tool_calls: [{name: read, arguments: {path: x}}]}") as (_, client):
        answer = (await client.post("/chat/completions", json=asks())).json()

    choice = answer["choices"][0]
    assert answer["object"] == "chat.completion"
    assert (choice["message"]["content"], choice["finish_reason"]) == ("ab", "tool_calls")
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "x"}'}
    assert answer["usage"]["total_tokens"] > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_mismatch_is_a_400_with_both_sides_and_is_remembered(stream: bool) -> None:
    async with served("- {expect: {user: tabs}, reply: ok}") as (server, client):
        response = await client.post("/chat/completions", json=asks("spaces", stream=stream))
        status = (await client.get(server.url.removesuffix("/v1") + "/script/status")).json()

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "script_mismatch")
    assert "expected (line 2): user to contain 'tabs'" in error["message"]
    assert "came: user: 'spaces'" in error["message"]
    assert status["mismatches"] == [error["message"]]
    assert status["unused"] == [1]
    assert len(server.engine.mismatches) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_http_faults_reach_the_client(stream: bool) -> None:
    async with served("- reply: {fault: {status: 429, retry_after: 1.5}}\n- reply: {fault: {overflow: gemini}}") as (
        _,
        client,
    ):
        limited = await client.post("/chat/completions", json=asks(stream=stream))
        overflow = await client.post("/chat/completions", json=asks(stream=stream))

    assert (limited.status_code, limited.headers["retry-after"]) == (429, "1.5")
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert overflow.status_code == 400
    assert "exceeds the maximum number of tokens allowed" in overflow.json()["error"]["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_drop_before_the_first_byte_ends_the_connection(stream: bool) -> None:
    async with served("- reply: {fault: drop}\n- reply: ok") as (_, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.post("/chat/completions", json=asks(stream=stream))
        assert (await client.post("/chat/completions", json=asks())).status_code == 200


async def test_a_drop_mid_stream_breaks_the_transfer_off(caplog: pytest.LogCaptureFixture) -> None:
    texts: list[str] = []

    async def read(client: httpx.AsyncClient) -> None:
        async with client.stream("POST", "/chat/completions", json=asks(stream=True)) as response:
            async for line in response.aiter_lines():
                if line:
                    texts.append(json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["content"])

    async with served("- reply: {text: [a, b, c], fault: {drop: 2}}") as (_, client):
        with pytest.raises(httpx.RemoteProtocolError):
            await read(client)

    assert texts == ["", "a", "b"]
    assert not caplog.records


async def test_a_stream_without_a_finish_reason_ends_without_done() -> None:
    async with served("- reply: {text: a, fault: no_finish}") as (_, client):
        found = await events(client)

    assert found[-1]["choices"][0]["delta"] == {"content": "a"}


@pytest.mark.parametrize("fault", ["endless", "{stall: 1}"])
async def test_a_client_that_leaves_ends_an_endless_reply(
    fault: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    async with served(f"- reply: {{text: [a, b], fault: {fault}}}\n- reply: ok") as (server, client):
        original = server.engine.reply

        async def watched(request: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
            try:
                async for chunk in original(request):
                    yield chunk
            finally:
                ended.set()

        monkeypatch.setattr(server.engine, "reply", watched)
        async with client.stream("POST", "/chat/completions", json=asks(stream=True)) as response:
            async for line in response.aiter_lines():
                if '"content": "a"' in line:
                    break
        await asyncio.wait_for(ended.wait(), 100)
        assert (await client.post("/chat/completions", json=asks())).status_code == 200
    assert not caplog.records


async def test_the_server_stops_while_a_reply_stalls() -> None:
    async with served("- reply: {fault: stall}") as (server, client):
        waiting = asyncio.ensure_future(client.post("/chat/completions", json=asks(stream=True)))
        while not server.engine.requests:
            await asyncio.wait([waiting], timeout=0.01)
        stuck = not waiting.done()
    assert stuck
    with pytest.raises(httpx.HTTPError):
        await waiting


@pytest.mark.parametrize(
    ("body", "said"),
    [(b"{", "no JSON"), (b"[]", "must be a JSON object"), (b"{}", "`messages` must be a list"), (b"\xff", "no JSON")],
)
async def test_a_bad_request_is_said_and_takes_no_turn(body: bytes, said: str) -> None:
    async with served("- reply: ok") as (server, client):
        response = await client.post("/chat/completions", content=body)

    assert response.status_code == 400
    assert said in response.json()["error"]["message"]
    assert server.engine.requests == []


async def test_a_conversation_of_many_megabytes_is_taken() -> None:
    async with served("- reply: ok") as (_, client):
        response = await client.post("/chat/completions", json=asks("x" * 5_000_000))

    assert response.status_code == 200


async def test_embeddings_depend_on_the_words_alone() -> None:
    async with served("- reply: ok") as (_, client):
        texts = ["I prefer tabs", "tabs, I PREFER!", "an unrelated sentence", "我喜欢制表符", ""]
        first = (await client.post("/embeddings", json={"model": "e", "input": texts, "dimensions": 64})).json()["data"]
        again = (await client.post("/embeddings", json={"model": "e", "input": texts[0], "dimensions": 64})).json()
        packed = (
            await client.post("/embeddings", json={"input": texts[0], "dimensions": 64, "encoding_format": "base64"})
        ).json()

    vectors = [item["embedding"] for item in first]
    assert [item["index"] for item in first] == [0, 1, 2, 3, 4]
    assert all(abs(sum(value * value for value in vector) - 1) < 1e-9 for vector in vectors)
    assert vectors[0] == again["data"][0]["embedding"]
    assert vectors[0] == vectors[1]
    assert vectors[0] != vectors[2]
    unpacked = struct.unpack("<64f", base64.b64decode(packed["data"][0]["embedding"]))
    assert unpacked == pytest.approx(vectors[0])


@pytest.mark.parametrize(
    "body", [{}, {"input": []}, {"input": "x", "dimensions": -1}, {"input": "x", "dimensions": "y"}]
)
async def test_bad_embedding_requests_are_said(body: dict[str, Any]) -> None:
    async with served("- reply: ok") as (_, client):
        response = await client.post("/embeddings", json=body)

    assert response.status_code == 400
    assert "must be" in response.json()["error"]["message"]


async def test_the_model_is_listed() -> None:
    async with served("- reply: ok") as (_, client):
        assert [model["id"] for model in (await client.get("/models")).json()["data"]] == ["scripted"]


class Served:
    """`clawbot script serve` as a process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "clawbot", "script", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()

    @property
    def url(self) -> str:
        return self.line.rsplit(" on ", 1)[1].strip()

    def stop(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def test_serving_a_file_until_it_is_used_up_exits_with_0() -> None:
    script = SCRIPTS / "greeting.yaml"
    server = Served(str(script))
    answer = httpx.post(f"{server.url}/chat/completions", json=asks(), trust_env=False).json()

    assert server.line.startswith(f"serving {script} on http://127.0.0.1:")
    assert answer["choices"][0]["message"]["content"] == "Hello from the script."
    assert server.stop(signal.SIGTERM) == (0, "")


def test_turns_that_are_left_exit_with_1_and_are_printed() -> None:
    code, errors = Served(str(SCRIPTS / "greeting.yaml")).stop(signal.SIGINT)

    assert code == 1
    assert errors.startswith("clawbot: ")
    assert "1 of 1 turns were not used up" in errors
    assert len(errors.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"), [("turns: [{reply: {txt: x}}]", "bad.yaml:1: `reply` has no key 'txt'"), (None, "can't be read")]
)
def test_a_bad_file_is_one_line_and_exit_code_1(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "bad.yaml"
    if text is not None:
        file.write_text(text)
    result = CliRunner().invoke(root, ["script", "serve", str(file)])

    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(root, ["script", "serve", str(SCRIPTS / "greeting.yaml"), "--port", str(port)])

    assert result.exit_code == 1
    assert f"Port {port} on 127.0.0.1" in result.stderr
