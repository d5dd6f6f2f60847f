"""What servers send in four protocols, byte by byte as their vendors document it, becomes a script that says the same
and fails in the same way."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from clawbot.llm.scripted import Script, load_script
from clawbot.llm.scripted.file import Fault
from clawbot.llm.scripted.record import Recorder
from clawbot.llm.scripted.server import recording
from tests.vendors import CUT, END, STREAM, chunked, reply, sse

LINES = STREAM.replace(b"text/event-stream; charset=utf-8", b"application/x-ndjson")
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "ollama": "/api/chat",
}
HEADS = {"chat": STREAM, "responses": STREAM, "messages": STREAM, "ollama": LINES}
Sent = Iterable[bytes | str]


def line(data: dict[str, Any]) -> bytes:
    return chunked(json.dumps(data, ensure_ascii=False).encode() + b"\n")


def chat(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return sse({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "choices": [choice], **more})


def chat_call(at: int, text: str, **head: Any) -> bytes:
    return chat({"tool_calls": [{"index": at, **head, "function": {"arguments": text}}]})


def chat_head(at: int, name: str) -> bytes:
    function = {"name": name, "arguments": ""}
    return chat({"tool_calls": [{"index": at, "id": f"call_{at}", "type": "function", "function": function}]})


def block(at: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    events = [{"type": "content_block_start", "index": at, "content_block": start}]
    events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
    return [sse(event) for event in (*events, {"type": "content_block_stop", "index": at})]


def ended(reason: str) -> list[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        sse({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15}}),
        sse({"type": "message_stop"}),
    ]


def item(at: int, data: dict[str, Any], *deltas: tuple[str, str]) -> list[bytes]:
    place = {"output_index": at, "item_id": f"it_{at}"}
    middle = [sse({"type": f"response.{kind}.delta", **place, "delta": text}) for kind, text in deltas]
    added = {"type": "response.output_item.added", "output_index": at, "item": data}
    whole = "".join(text for kind, text in deltas if kind == "function_call_arguments")
    done = {**data, "arguments": whole} if whole else data
    return [sse(added), *middle, sse({"type": "response.output_item.done", "output_index": at, "item": done})]


def response(kind: str, status: str, **more: Any) -> bytes:
    body = {"id": "resp_1", "object": "response", "status": status, "error": None, "output": [], **more}
    return sse({"type": f"response.{kind}", "sequence_number": 1, "response": body})


PING = sse({"type": "ping"})
STARTED = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 30,
                "cache_creation_input_tokens": 5,
                "output_tokens": 1,
            },
        },
    }
)
CREATED = response("created", "in_progress")
COUNTED = {"prompt_tokens": 40, "completion_tokens": 15, "prompt_tokens_details": {"cached_tokens": 30}}
IN_RESPONSES = {"input_tokens": 40, "output_tokens": 15, "input_tokens_details": {"cached_tokens": 30}}
FIGURES = {"prompt": 40, "completion": 15, "cached": 30}
TEXTS = {
    "chat": [
        chat({"role": "assistant", "content": ""}),
        chat({"content": "Grüße, "}),
        chat({"content": "{{user}} 👋"}),
    ],
    "responses": [CREATED, *item(0, {"type": "message"}, ("output_text", "Grüße, "), ("output_text", "{{user}} 👋"))],
    "messages": [
        STARTED,
        PING,
        *block(
            0,
            {"type": "text", "text": ""},
            {"type": "text_delta", "text": "Grüße, "},
            {"type": "text_delta", "text": "{{user}} 👋"},
        ),
    ],
    "ollama": [
        line({"model": "m", "message": {"role": "assistant", "content": text}, "done": False})
        for text in ("Grüße, ", "{{user}} 👋")
    ],
}
ENDS = {
    "chat": [chat({}, "stop"), sse({"id": "chatcmpl-1", "choices": [], "usage": COUNTED}), sse("[DONE]")],
    "responses": [response("completed", "completed", usage=IN_RESPONSES)],
    "messages": ended("end_turn"),
    "ollama": [
        line(
            {
                "model": "m",
                "message": {"role": "assistant", "content": ""},
                "done": True,
                "done_reason": "stop",
                "prompt_eval_count": 40,
                "eval_count": 15,
            }
        )
    ],
}
CALLS = {
    "chat": [
        chat_head(0, "read"),
        chat_call(0, '{"path": "a'),
        chat_call(0, '.md"}'),
        chat_head(1, "list"),
        chat_call(1, "{}"),
        chat({}, "tool_calls"),
        sse("[DONE]"),
    ],
    "responses": [
        CREATED,
        *item(
            0,
            {"type": "function_call", "call_id": "call_0", "name": "read", "arguments": ""},
            ("function_call_arguments", '{"path": "a'),
            ("function_call_arguments", '.md"}'),
        ),
        *item(1, {"type": "function_call", "call_id": "call_1", "name": "list", "arguments": "{}"}),
        *ENDS["responses"],
    ],
    "messages": [
        STARTED,
        *block(
            0,
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        ),
        *block(
            1,
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"path": "a'},
            {"type": "input_json_delta", "partial_json": '.md"}'},
        ),
        *block(2, {"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}}),
        *ended("tool_use"),
    ],
    "ollama": [
        line({"message": {"role": "assistant", "content": "", "tool_calls": [{"function": call}]}, "done": False})
        for call in ({"name": "read", "arguments": {"path": "a.md"}}, {"name": "list", "arguments": {}})
    ]
    + ENDS["ollama"],
}
REASONING = {
    "chat": [
        chat({"reasoning_content": "Let "}),
        chat({"reasoning_content": "me see."}),
        *TEXTS["chat"],
        *ENDS["chat"],
    ],
    "responses": [
        CREATED,
        *item(0, {"type": "reasoning"}, ("reasoning_summary_text", "Let "), ("reasoning_summary_text", "me see.")),
        *TEXTS["responses"],
        *ENDS["responses"],
    ],
    "messages": [
        STARTED,
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Let "},
            {"type": "thinking_delta", "thinking": "me see."},
            {"type": "signature_delta", "signature": "EqQB"},
        ),
        *TEXTS["messages"][2:],
        *ENDS["messages"],
    ],
    "ollama": [
        *(line({"message": {"role": "assistant", "thinking": text}, "done": False}) for text in ("Let ", "me see.")),
        *TEXTS["ollama"],
        *ENDS["ollama"],
    ],
}
ERRORS = {
    "chat": sse({"error": {"message": "Overloaded", "type": "overloaded_error", "param": None, "code": None}}),
    "responses": sse({"type": "error", "code": "overloaded_error", "message": "Overloaded", "param": None}),
    "messages": sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "ollama": line({"error": "Overloaded"}),
}
FULL: dict[str, Any] = {
    "chat": {
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "Hello.",
                    "reasoning": "Hm.",
                    "tool_calls": [
                        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.md"}'}}
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": COUNTED,
    },
    "responses": {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "output": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a.md"}'},
        ],
        "usage": IN_RESPONSES,
    },
    "messages": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
            {"type": "text", "text": "Hello."},
            {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.md"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 15},
    },
    "ollama": {
        "model": "m",
        "message": {
            "role": "assistant",
            "thinking": "Hm.",
            "content": "Hello.",
            "tool_calls": [{"function": {"name": "read", "arguments": {"path": "a.md"}}}],
        },
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 40,
        "eval_count": 15,
    },
}


@asynccontextmanager
async def upstream(*answers: Sent) -> AsyncIterator[str]:
    """A server that sends each of `answers` to a request, gives its address."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next((each for each in head.lower().split(b"\r\n") if each.startswith(b"content-length:")), b":0")
        await reader.readexactly(int(size.partition(b":")[2]))
        if head.startswith(b"GET"):
            writer.write(reply(404, b"none"))
        else:
            for step in left.pop(0):
                if isinstance(step, str):
                    writer.transport.abort()
                    return
                writer.write(step)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


def asked(text: str, protocol: str = "chat") -> dict[str, Any]:
    if protocol == "responses":
        return {"input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}
    return {"messages": [{"role": "user", "content": text}]}


async def post(url: str, body: dict[str, Any]) -> tuple[int, bytes]:
    """The status and the body that a client gets; 0 when the connection was cut before the first byte, -1 after it."""
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        got, status = b"", 0
        try:
            async with client.stream("POST", url, json={"model": "m", **body}) as answer:
                status = answer.status_code
                async for data in answer.aiter_bytes():
                    got += data
        except httpx.RemoteProtocolError:
            return (-1 if status else 0), got
        except httpx.ReadError:
            return (-1 if status else 0), got
        return status, got


async def record(file: Path, protocol: str, *answers: Sent, text: str = "hello") -> tuple[Script, list[Any]]:
    """The script of the answers, and what the client got."""
    recorder = Recorder(file)
    async with upstream(*answers) as base, recording(recorder, base) as url:
        address = url.removesuffix("/v1") + PATHS[protocol]
        got = [await post(address, asked(text, protocol)) for _ in answers]
        assert recorder.count == len(answers), "a turn is in the file when its client has seen the end"
        script = await asyncio.to_thread(load_script, file)
    assert len(script.turns) == len(answers)
    assert all([str(check.value) for check in turn.checks] == [text] for turn in script.turns)
    return script, got


def said(script: Script, turn: int = 0) -> dict[str, Any]:
    """What a turn replies, without what is as usual."""
    reply = script.turns[turn].reply
    whole = {
        "reasoning": "".join(piece.text for piece in reply.reasoning),
        "text": "".join(piece.text for piece in reply.text),
        "calls": [(call.name, call.arguments) for call in reply.calls],
        "finish": reply.finish_reason,
        "fault": reply.fault,
    }
    return {key: value for key, value in whole.items() if value}


def figures(script: Script) -> dict[str, Any]:
    usage = script.turns[0].reply.figures
    found = {"prompt": usage.prompt, "completion": usage.completion, "cached": usage.cached}
    return {key: value for key, value in found.items() if value}


BYTES = 3
"""In a chunk: less than an emoji, a line or an event."""


def in_packets(parts: Iterable[bytes]) -> bytes:
    """The bodies of the chunks `parts`, cut anew at every third byte."""
    body = b"".join(part.split(b"\r\n", 1)[1][:-2] for part in parts)
    return b"".join(chunked(body[at : at + BYTES]) for at in range(0, len(body), BYTES))


WORDS = "Grüße, \\{{user}} 👋"
STREAMED = [
    ("text", TEXTS, ENDS, {"text": WORDS}),
    ("calls", CALLS, None, {"calls": [("read", {"path": "a.md"}), ("list", {})]}),
    ("reasoning", REASONING, None, {"reasoning": "Let me see.", "text": WORDS}),
]


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize(("name", "begin", "end", "expected"), STREAMED, ids=[case[0] for case in STREAMED])
async def test_a_stream_is_recorded(
    tmp_path: Path, protocol: str, name: str, begin: Any, end: Any, expected: Any
) -> None:
    parts = [*begin[protocol], *(end[protocol] if end else ())]
    script, got = await record(
        tmp_path / "talk.yaml",
        protocol,
        [HEADS[protocol], *parts, END],
        [HEADS[protocol], in_packets(parts), END],
    )
    assert [said(script, turn) for turn in range(2)] == [expected] * 2
    cached = {} if protocol == "ollama" else {"cached": 30}
    if name == "text":
        assert figures(script) == {"prompt": 40, "completion": 15, **cached}
    assert [status for status, _ in got] == [200] * 2
    assert got[0] == got[1], "the client gets what the server sent"


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_an_answer_in_one_body_is_recorded(tmp_path: Path, protocol: str, packed: bool) -> None:
    data = json.dumps(FULL[protocol], indent=1).encode()
    answer = reply(200, gzip.compress(data), Content_Encoding="gzip", Content_Type="application/json")
    script, got = await record(tmp_path / "talk.yaml", protocol, [answer if packed else reply(200, FULL[protocol])])
    assert said(script) == {"reasoning": "Hm.", "text": "Hello.", "calls": [("read", {"path": "a.md"})]}
    assert figures(script) == ({"prompt": 40, "completion": 15} if protocol == "ollama" else FIGURES)
    assert json.loads(got[0][1]) == FULL[protocol]


def fault(kind: str, script: Script) -> tuple[str, int, str]:
    found = script.turns[0].reply.fault or Fault("stall")
    assert found.kind == kind
    return found.kind, found.status, found.message


FAILING: list[tuple[str, Callable[[str], Sent], str, str, int]] = [
    ("no end", lambda protocol: [HEADS[protocol], *TEXTS[protocol], END], "no_finish", WORDS, 200),
    ("empty", lambda protocol: [HEADS[protocol], END], "no_finish", "", 200),
    ("no answer", lambda _: [reply(200, b"<html>Log in</html>", Content_Type="text/html")], "no_finish", "", 200),
    ("no JSON", lambda _: [reply(200, b"{}")], "no_finish", "", 200),
    ("cut", lambda protocol: [HEADS[protocol], *TEXTS[protocol], CUT], "drop", WORDS, -1),
    ("cut at once", lambda protocol: [HEADS[protocol], CUT], "drop", "", -1),
    ("cut body", lambda protocol: [reply(200, FULL[protocol])[:-30], CUT], "drop", "", -1),
    ("closed", lambda _: [], "drop", "", 0),
    ("reset", lambda _: [CUT], "drop", "", 0),
    ("no HTTP", lambda _: [b"220 mail ready\r\n"], "drop", "", 0),
    ("late error", lambda protocol: [HEADS[protocol], *TEXTS[protocol], ERRORS[protocol], END], "drop", WORDS, 200),
    ("error", lambda protocol: [HEADS[protocol], ERRORS[protocol], END], "status", "", 200),
    ("HTTP", lambda _: [reply(429, {"error": {"message": "slow", "code": "x"}}, Retry_After="3")], "status", "", 429),
    ("page", lambda _: [reply(502, b"<html>Bad Gateway</html>", Content_Type="text/html")], "status", "", 502),
]


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize(("name", "sent", "kind", "text", "status"), FAILING, ids=[case[0] for case in FAILING])
async def test_what_failed_fails_again(
    tmp_path: Path, protocol: str, name: str, sent: Callable[[str], Sent], kind: str, text: str, status: int
) -> None:
    script, got = await record(tmp_path / "talk.yaml", protocol, sent(protocol))
    failed = fault(kind, script)
    assert said(script).get("text", "") == text
    assert got[0][0] == status or (name == "cut at once" and got[0][0] == 0)
    messages = {"error": "Overloaded", "HTTP": "slow", "page": "<html>Bad Gateway</html>"}
    assert failed[2] == messages.get(name, "")
    if name == "error":
        assert failed[1] == (500 if protocol == "ollama" else 529)
    if name == "HTTP":
        assert script.turns[0].reply.fault == Fault("status", status=429, message="slow", retry_after=3)


ODD: list[tuple[str, str, Sent, dict[str, Any]]] = [
    (
        "length",
        "responses",
        [*TEXTS["responses"], response("incomplete", "incomplete", incomplete_details={"reason": "max_output_tokens"})],
        {"text": WORDS, "finish": "length"},
    ),
    ("length", "messages", [*TEXTS["messages"], *ended("max_tokens")], {"text": WORDS, "finish": "length"}),
    ("refusal", "messages", [STARTED, *ended("refusal")], {"finish": "content_filter"}),
    (
        "failed",
        "responses",
        [CREATED, response("failed", "failed", error={"code": "rate_limit_exceeded", "message": "slow"})],
        {"fault": Fault("status", status=429, message="slow")},
    ),
    (
        "only a final output",
        "responses",
        [CREATED, response("completed", "completed", output=FULL["responses"]["output"])],
        {"reasoning": "Hm.", "text": "Hello.", "calls": [("read", {"path": "a.md"})]},
    ),
    (
        "calls only in the final output",
        "responses",
        [*TEXTS["responses"], response("completed", "completed", output=FULL["responses"]["output"])],
        {"text": WORDS, "calls": [("read", {"path": "a.md"})]},
    ),
    (
        "the same call twice",
        "responses",
        [
            *CALLS["responses"][:-1],
            response(
                "completed",
                "completed",
                output=[
                    {"type": "function_call", "call_id": "call_0", "name": "read", "arguments": '{"path": "a.md"}'},
                ],
            ),
        ],
        {"calls": [("read", {"path": "a.md"}), ("list", {})]},
    ),
    (
        "half an emoji each",
        "chat",
        [chat({"content": "\ud83d"}), chat({"content": "\ude00 1e5"}), chat({}, "stop"), sse("[DONE]")],
        {"text": "😀 1e5"},
    ),
    (
        "texts that look like numbers",
        "chat",
        [chat_head(0, "a"), chat_call(0, '{"x": "1e5", "y": 1e5, "d": "2026-01-02", "n": "null"}'), chat({}, "stop")],
        {"calls": [("a", {"x": "1e5", "y": 1e5, "d": "2026-01-02", "n": "null"})]},
    ),
    (
        "a code of HTTP",
        "chat",
        [sse({"error": {"message": "loading", "code": 503}})],
        {"fault": Fault("status", status=503, message="loading")},
    ),
    (
        "a call in parts",
        "chat",
        [chat_head(0, "read"), chat_call(0, '{"path": "a')],
        {"calls": [("read", '{"path": "a')], "fault": Fault("no_finish")},
    ),
    (
        "lines that end with CR LF",
        "chat",
        [chunked(b'data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}\r\n\r\n')],
        {"text": "Hi."},
    ),
    (
        "a finish that is no word",
        "chat",
        [chunked(b'data: {"choices": [{"delta": {"content": "Hi."}, "finish_reason": ["stop"]}]}\n\n')],
        {"text": "Hi."},
    ),
    (
        "data in two lines",
        "chat",
        [chunked(b'data: {"choices": [{"delta": {"content": "Hi."},\ndata: "finish_reason": "stop"}]}\n\n')],
        {"text": "Hi."},
    ),
]


@pytest.mark.parametrize(
    ("protocol", "parts", "expected"), [case[1:] for case in ODD], ids=[f"{case[0]}, {case[1]}" for case in ODD]
)
async def test_an_odd_stream_is_recorded(tmp_path: Path, protocol: str, parts: Any, expected: Any) -> None:
    script, _ = await record(tmp_path / "talk.yaml", protocol, [HEADS[protocol], *parts, END])
    assert said(script) == expected
