"""The client with a real worker process (one for the whole module) against a server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from aiohttp import web
from msgspec.structs import replace

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm import client
from clawbot.llm.client import ClientOptions, LiteLLMModel, RetryPolicy, Target, client_options
from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    ModelError,
    RateLimitError,
    UnreachableError,
)
from clawbot.llm.factory import open_model
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.protocol import (
    ChatRequest,
    FinalPart,
    ModelInfo,
    ReadingPart,
    ReasoningPart,
    RetryPart,
    StreamPart,
    TextPart,
    ToolCallPart,
)
from clawbot.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock, ToolSpec, UserMessage

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

ONCE = RetryPolicy(attempts=1)
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ChatRequest("You are a test.", (UserMessage("hello"),), tools=(READ,))


def delta(**fields: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "delta": fields, "finish_reason": None}],
    }


def end(reason: str = "stop") -> dict[str, Any]:
    chunk = delta()
    chunk["choices"][0]["finish_reason"] = reason
    return chunk


def call_piece(index: int, arguments: str, identity: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "read"} if identity else {})}
    return delta(tool_calls=[{"index": index, "id": identity, "type": "function", "function": function}])


USAGE = {
    **delta(),
    "choices": [],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60},
    },
}


async def comments(response: web.StreamResponse, seconds: float) -> None:
    """What llama.cpp sends while it reads a long prompt, only more often."""
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        await response.write(b":\n\n")
        await asyncio.sleep(0.1)


class Server:
    """An OpenAI-compatible server: `answer` plays the next of `replies`; what it was asked is in `requests`."""

    def __init__(self) -> None:
        self.replies: list[list[Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.asked.set()
        steps = self.replies.pop(0)
        if isinstance(steps[0], web.Response):
            return steps[0]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for step in steps:
                if step == "drop":
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                if step == "stall":
                    await asyncio.Event().wait()
                if isinstance(step, float):
                    await comments(response, step)
                    continue
                text = step if isinstance(step, str) else json.dumps(step)
                await response.write(f"data: {text}\n\n".encode())
        except (asyncio.CancelledError, ConnectionError):
            self.gone.set()
            raise
        return response


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def worker() -> AsyncIterator[Any]:
    """Holds the worker, so that the models of all tests share one process."""
    worker = acquire_worker()
    yield worker
    await release_worker(worker)


@pytest_asyncio.fixture(loop_scope="module")
async def server(worker: Any) -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    app.router.add_post("/v1/messages", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield server
    await runner.cleanup()


def model_at(url: str, policy: RetryPolicy = ONCE, ref: str = "openai/m", **options: Any) -> LiteLLMModel:
    options = {"timeout": 30.0, **options}
    return LiteLLMModel(
        Target(ref, ref, url, keyless=True), ModelInfo(ref), ClientOptions(SystemClock(), policy, **options)
    )


async def read_all(model: LiteLLMModel, request: ChatRequest = REQUEST) -> list[StreamPart]:
    try:
        return [part async for part in model.stream(request)]
    finally:
        await model.aclose()


def final(parts: list[StreamPart]) -> AssistantMessage:
    assert isinstance(parts[-1], FinalPart)
    return parts[-1].message


async def failing(model: LiteLLMModel) -> tuple[list[StreamPart], ModelError]:
    seen: list[StreamPart] = []
    try:
        async for part in model.stream(REQUEST):
            seen += [part]
    except ModelError as error:
        return seen, error
    finally:
        await model.aclose()
    raise AssertionError(seen)


async def test_text_reasoning_parallel_calls_and_usage(server: Server) -> None:
    server.replies = [
        [
            delta(role="assistant", reasoning_content="Let me "),
            delta(reasoning_content="see."),
            delta(content="Two files."),
            call_piece(0, '{"pa', "a1"),
            call_piece(1, '{"path":', "b2"),
            call_piece(0, 'th": "x"}'),
            call_piece(1, ' "y"}'),
            end("tool_calls"),
            USAGE,
            "[DONE]",
        ]
    ]
    parts = await read_all(model_at(server.url))
    assert "".join(part.text for part in parts if isinstance(part, ReasoningPart)) == "Let me see."
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "Two files."
    calls = [part.call for part in parts if isinstance(part, ToolCallPart)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("a1", "read", {"path": "x"}),
        ("b2", "read", {"path": "y"}),
    ]
    message = final(parts)
    assert message.stop_reason == "toolUse"
    assert message.usage is not None
    assert (message.usage.input, message.usage.cache_read, message.usage.output) == (40, 60, 7)
    sent = server.requests[0]
    assert sent["tools"][0]["function"]["name"] == "read"
    assert sent["stream_options"] == {"include_usage": True}


async def test_claude_with_signed_reasoning_and_its_cache(server: Server) -> None:
    """Anthropic's own protocol, both ways: what litellm makes of our request, and what we make of its events."""
    events = [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": [],
         "model": "claude", "usage": {"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "SIG"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path"'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ': "x"}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    ]  # fmt: skip
    server.replies = [list(events)]
    ref = "anthropic/claude-sonnet-5-5"
    target = Target(ref, ref, server.url.removesuffix("/v1"), key="not-a-key")
    model = LiteLLMModel(target, ModelInfo(ref), ClientOptions(SystemClock(), ONCE, 30.0))
    earlier = AssistantMessage([ThinkingBlock("old", "OLD"), TextBlock("yes")], provider="anthropic")
    asked = ChatRequest(
        "stable date", (UserMessage("q"), earlier, UserMessage("hello")), tools=(READ,), stable_prefix=7
    )
    message = final(await read_all(model, asked))
    assert message.content == [ThinkingBlock("hm", "SIG"), ToolCallBlock("toolu_1", "read", {"path": "x"})]
    assert message.stop_reason == "toolUse"
    assert message.usage is not None
    assert (message.usage.input, message.usage.cache_read, message.usage.output) == (5, 90, 20)
    sent = server.requests[0]
    assert [block.get("cache_control") for block in sent["system"]] == [{"type": "ephemeral"}, None]
    assert sent["messages"][1]["content"][0] == {"type": "thinking", "thinking": "old", "signature": "OLD"}
    assert sent["messages"][2]["content"][0]["cache_control"] == {"type": "ephemeral"}


async def test_the_key_of_the_environment_does_not_go_to_a_server_that_wants_none(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real-key-of-the-user")
    server.replies = [[delta(content="a"), end(), "[DONE]"]]
    model = model_at(server.url)
    assert (await model._call(REQUEST)).arguments["api_key"] == "not-needed"
    assert final(await read_all(model)).text == "a"


async def test_closing_the_stream_closes_the_connection_before_it_returns(server: Server) -> None:
    server.replies = [[delta(content="first"), "stall"]]
    model = model_at(server.url)
    async with aclosing(model.stream(REQUEST)) as parts:
        assert await anext(parts) == TextPart("first")
    await asyncio.wait_for(server.gone.wait(), 100)
    await model.aclose()


async def test_cancelling_the_reader_closes_the_connection_even_before_the_first_delta(server: Server) -> None:
    server.replies = [["stall"]]
    model = model_at(server.url)
    reader = asyncio.create_task(read_all(model))
    await asyncio.wait_for(server.asked.wait(), 100)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await asyncio.wait_for(server.gone.wait(), 100)


async def test_several_calls_run_at_once(server: Server) -> None:
    server.replies = [[delta(content="slow"), "stall"], [delta(content="quick"), end(), "[DONE]"]]
    slow, quick = model_at(server.url), model_at(server.url)
    async with aclosing(slow.stream(REQUEST)) as parts:
        assert await anext(parts) == TextPart("slow")
        assert final(await read_all(quick)).text == "quick"
    await slow.aclose()


@pytest.mark.parametrize("steps", [[delta(content="half"), "drop"], [delta(content="half")]])
async def test_an_answer_that_breaks_off_keeps_what_was_shown(server: Server, steps: list[Any]) -> None:
    server.replies = [steps]
    seen, error = await failing(model_at(server.url, RetryPolicy(attempts=3, first_wait=0.0)))
    assert seen == [TextPart("half")]
    assert isinstance(error, BadResponseError)
    assert error.message.endswith(("was lost before the model was done.", "ended before the model was done."))
    assert len(server.requests) == 1


async def test_a_connection_that_drops_before_visible_text_is_tried_again(server: Server) -> None:
    server.replies = [[delta(reasoning_content="hm"), "drop"], [delta(content="fine"), end(), "[DONE]"]]
    parts = await read_all(model_at(server.url, RetryPolicy(attempts=2, first_wait=0.0)))
    assert [type(part) for part in parts] == [ReasoningPart, RetryPart, TextPart, FinalPart]


def http_error(status: int, message: str, **headers: str) -> list[Any]:
    return [
        web.json_response({"error": {"message": message, "type": "t", "code": None}}, status=status, headers=headers)
    ]


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "Incorrect API key provided: sk-secretsecretsecret", AuthenticationError),
        (403, "not allowed", AuthenticationError),
        (500, "boom", UnreachableError),
        (503, "overloaded", UnreachableError),
        (400, "This model's maximum context length is 8192 tokens", ContextOverflowError),
    ],
)
async def test_http_errors(server: Server, status: int, message: str, kind: type[ModelError]) -> None:
    server.replies = [http_error(status, message)]
    _, error = await failing(model_at(server.url))
    assert type(error) is kind
    assert str(error).startswith(f"127.0.0.1:{urlsplit(server.url).port}: ")
    assert "sk-secret" not in str(error)
    if isinstance(error, ContextOverflowError):
        assert error.limit == 8192


async def test_a_text_may_name_the_mark_at_the_end_of_a_stream(server: Server) -> None:
    server.replies = [[delta(content="the last line is [DONE]"), delta(content=", always"), end(), "[DONE]"]]
    assert final(await read_all(model_at(server.url))).text == "the last line is [DONE], always"


async def test_retry_after_is_honoured(server: Server) -> None:
    server.replies = [http_error(429, "slow down", **{"Retry-After": "0.01"}), [delta(content="fine"), end(), "[DONE]"]]
    parts = await read_all(model_at(server.url, RetryPolicy(attempts=2, first_wait=99)))
    assert parts[0] == RetryPart(2, 0.01, "slow down.")


async def test_a_wait_that_is_too_long_is_told_instead(server: Server) -> None:
    server.replies = [http_error(429, "slow down", **{"Retry-After": "3600"})]
    _, error = await failing(model_at(server.url, RetryPolicy(attempts=4)))
    assert isinstance(error, RateLimitError)
    assert error.retry_after == 3600


@pytest.mark.parametrize("ref", ["openai/m", "hosted_vllm/m", "anthropic/m", "ollama_chat/m"])
async def test_a_server_that_is_not_there_is_told_at_once(worker: Any, unused_tcp_port: int, ref: str) -> None:
    base = f"http://127.0.0.1:{unused_tcp_port}/v1"
    seen, error = await failing(model_at(base, RetryPolicy(attempts=4, first_wait=99), ref=ref))
    assert (seen, type(error)) == ([], UnreachableError)
    assert error.message == "no server answers there; the connection was refused."
    assert error.provider.endswith(f"127.0.0.1:{unused_tcp_port}")
    assert base in error.hint


async def test_a_server_that_loads_its_model_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_LOADING_WAIT", 0.01)
    loading = [http_error(503, "Loading model") for _ in range(3)]
    server.replies = [*loading, [delta(content="fine"), end(), "[DONE]"]]
    parts = await read_all(model_at(server.url))
    assert parts[0] == RetryPart(2, 0.01, "the server loads its model.")
    assert [type(part) for part in parts] == [RetryPart, TextPart, FinalPart]


@pytest.mark.long
async def test_the_keep_alives_of_a_server_count_as_life(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first token comes long after anybody would have to have heard something."""
    monkeypatch.setattr(client, "LOADING_SECONDS", 0.0)
    server.replies = [[9.0, delta(content="fine"), end(), "[DONE]"]]
    assert final(await read_all(model_at(server.url, timeout=6.0))).text == "fine"


@pytest.mark.parametrize("steps", [["stall"], [delta(content="half"), "stall"]])
async def test_a_server_that_sends_nothing_is_given_up(server: Server, steps: list[Any]) -> None:
    server.replies = [steps]
    seen, error = await failing(model_at(server.url, timeout=0.5))
    assert "in time" in error.message
    assert type(error) is (BadResponseError if seen else UnreachableError)


async def test_a_flood_is_cut_off_and_its_connection_closed(server: Server) -> None:
    server.replies = [[*[delta(content="x" * 100)] * 30, "stall"]]
    parts = await read_all(model_at(server.url, max_chars=2000))
    assert final(parts).stop_reason == "length"
    assert 2000 < len(final(parts).text) <= 3000
    await asyncio.wait_for(server.gone.wait(), 100)


async def test_a_model_that_repeats_itself_is_stopped_and_its_text_kept_once(server: Server) -> None:
    server.replies = [[delta(content="Well. "), *[delta(content="I'm you. ")] * 60, "stall"]]
    parts = await read_all(model_at(server.url))
    assert isinstance(parts[-1], FinalPart)
    assert "repeating itself" in (parts[-1].message.error_message or "")
    assert (final(parts).text.strip(), final(parts).stop_reason) == ("Well. I'm you", "length")
    await asyncio.wait_for(server.gone.wait(), 100)


async def test_what_the_settings_wish_is_sent(server: Server) -> None:
    wishes = {"temperature": 0.2, "reasoning_effort": "low", "top_k": 7, "chat_template_kwargs": {"thinking": False}}
    settings = AgentSettings.model_validate(
        {
            "model": "openai/smol",
            "api_base": server.url,
            "options": {name: wishes[name] for name in ("top_k", "chat_template_kwargs")},
            **{name: wishes[name] for name in ("temperature", "reasoning_effort")},
        }
    )
    server.replies = [[delta(content="x"), end()]]
    model = await open_model("openai/smol", settings, clock=SystemClock())
    assert [part async for part in model.stream(REQUEST)]
    await model.aclose()
    assert {name: server.requests[0].get(name) for name in wishes} == wishes
    assert server.requests[0]["max_tokens"] == 20_000


@pytest.mark.parametrize(
    ("asked", "settings", "base", "window", "cap"),
    [
        (None, {}, None, 8_192, None),
        (500, {}, None, 8_192, 500),
        (None, {"max_output_tokens": 900}, None, None, 900),
        (500, {"max_output_tokens": 900}, None, None, 500),
        (None, {}, "http://127.0.0.1:1/v1", 8_192, 2_048),
        (None, {}, "http://localhost:1/v1", None, 20_000),
        (None, {"max_output_tokens": 9_000}, "http://127.0.0.1:1/v1", 8_192, 9_000),
        (None, {}, "http://10.0.0.5/v1", 8_192, None),
    ],
)
async def test_an_answer_is_capped(
    asked: int | None, settings: dict[str, Any], base: str | None, window: int | None, cap: int | None
) -> None:
    options = client_options(AgentSettings.model_validate(settings), SystemClock(), None)
    model = LiteLLMModel(Target("openai/m", "openai/m", base), ModelInfo("openai/m", window=window), options)
    call = await model._call(replace(REQUEST, max_tokens=asked))
    assert call.arguments.get("max_tokens") == cap
    await model.aclose()


async def test_a_killed_worker_fails_its_call_and_the_next_call_starts_another(server: Server, tmp_path: Path) -> None:
    server.replies = [[delta(content="half"), "stall"], [delta(content="again"), end(), "[DONE]"]]
    model = model_at(server.url, log_path=tmp_path / "clawbot.log")
    parts = model.stream(REQUEST)
    assert await anext(parts) == TextPart("half")
    pid = model.worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(BadResponseError) as caught:
        await anext(parts)
    assert str(tmp_path / "clawbot.log") in caught.value.hint
    assert final(await read_all(model)).text == "again"


@pytest.mark.parametrize(("known", "asked"), [(None, True), (8192, False)])
async def test_a_window_that_is_only_assumed_is_asked_for_after_an_answer(
    server: Server, known: int | None, asked: bool
) -> None:
    server.replies = [http_error(503, "boom"), [delta(content="a"), end(), "[DONE]"]]
    questions: list[int] = []

    async def ask() -> tuple[Target, ModelInfo]:
        questions.append(len(server.requests))
        return replace(target, options={"num_ctx": 4096}), ModelInfo("openai/m", window=4096)

    target = Target("openai/m", "openai/m", server.url, keyless=True)
    options = ClientOptions(SystemClock(), RetryPolicy(attempts=2, first_wait=0.0))
    model = LiteLLMModel(target, ModelInfo("openai/m", window=known), options, ask=ask)
    for _turn in range(2):
        assert [part async for part in model.wait_ready()] == []
        async for _ in model.stream(REQUEST):
            pass
        server.replies = [[delta(content="a"), end(), "[DONE]"]]
    assert questions == ([2] if asked else [])
    assert model.info.window == (4096 if asked else known)
    assert ("num_ctx" in (await model._call(REQUEST)).arguments) is asked
    await model.aclose()


@pytest.mark.parametrize(
    "piece",
    [
        delta(content="x" * 5000),
        delta(reasoning_content="x" * 5000),
        delta(content="x", novel="x" * 5000),
        call_piece(0, "x" * 5000, "c1"),
    ],
)
async def test_a_piece_that_is_a_flood_by_itself_does_not_come_through(server: Server, piece: dict[str, Any]) -> None:
    server.replies = [[delta(content="before"), piece, "stall"]]
    parts = await read_all(model_at(server.url, max_chars=2000))
    assert final(parts).stop_reason == "length"
    assert final(parts).text.rstrip("x") == "before"
    assert final(parts).tool_calls == []
    await asyncio.wait_for(server.gone.wait(), 100)


def progress(processed: int, total: int = 200) -> dict[str, Any]:
    """What llama.cpp sends while it reads a prompt, if it is asked for that."""
    read = {"total": total, "cache": 0, "processed": processed, "time_ms": 5}
    return {**delta(role="assistant", content=None), "prompt_progress": read}


@pytest.mark.parametrize("ref", ["openai/m", "llamafile/m"])
async def test_llama_cpp_reports_how_far_it_has_read_the_prompt(server: Server, ref: str) -> None:
    server.replies = [
        [progress(86), "drop"],
        [progress(100), progress(200), delta(content="fine"), end(), "[DONE]"],
    ]
    info = ModelInfo(ref, local="llama.cpp")
    options = ClientOptions(SystemClock(), RetryPolicy(attempts=2, first_wait=0.0))
    model = LiteLLMModel(Target(ref, ref, server.url, keyless=True), info, options)
    parts = await read_all(model)
    assert [part.share for part in parts if isinstance(part, ReadingPart)] == [43, 50, 100]
    assert [type(part) for part in parts if not isinstance(part, ReadingPart)] == [RetryPart, TextPart, FinalPart]
    assert all(request["return_progress"] is True for request in server.requests)


async def test_no_other_server_is_asked_for_the_progress(server: Server) -> None:
    server.replies = [[delta(content="fine"), end(), "[DONE]"]]
    await read_all(model_at(server.url))
    assert "return_progress" not in server.requests[0]
