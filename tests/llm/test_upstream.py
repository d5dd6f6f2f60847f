"""What vendors really send, as bytes, comes through litellm in their own words: with the worker process and a server on
loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from clawbot.clock import SystemClock
from clawbot.llm.client import ClientOptions, LiteLLMModel, RetryPolicy, Target
from clawbot.llm.errors import ModelError
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart
from clawbot.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolSpec, UserMessage
from tests.raw_server import DONE, RawServer, answer, chunk

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ChatRequest("You are a test.", (UserMessage("hello"),), tools=(READ,))


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[RawServer]:
    """Holds the worker, too, so that all tests share one process."""
    worker = acquire_worker()
    with RawServer() as running:
        yield running
    await release_worker(worker)


async def play(server: RawServer, ref: str, *replies: bytes, attempts: int = 1) -> list[StreamPart | ModelError]:
    """The parts of the answer of `ref`, and the error with which it ended."""
    server.answers(replies)
    target = Target(ref, ref, server.root if ref.startswith("ollama") else f"{server.root}/v1", key="not-a-key")
    policy = RetryPolicy(attempts=attempts, first_wait=0.0)
    model = LiteLLMModel(target, ModelInfo(ref), ClientOptions(SystemClock(), policy, timeout=30.0))
    seen: list[StreamPart | ModelError] = []
    try:
        async for part in model.stream(REQUEST):
            seen.append(part)
    except ModelError as error:
        seen.append(error)
    finally:
        await model.aclose()
    return seen


def outcome(seen: list[StreamPart | ModelError]) -> tuple[str, str]:
    """How an answer ended, and its text or what the error says."""
    last = seen[-1]
    if isinstance(last, FinalPart):
        calls = [(call.name, call.arguments) for call in last.message.tool_calls]
        return last.message.stop_reason, str(calls or last.message.text)
    assert isinstance(last, ModelError)
    return type(last).__name__, last.message


def ollama(*texts: str, **last: Any) -> bytes:
    """Ollama's /api/chat."""
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    said = [{**head, "message": {"role": "assistant", "content": text}, "done": False} for text in texts]
    end = [{**head, "message": {"role": "assistant", "content": ""}, "done": True, **last}] if last else []
    return b"".join(json.dumps(line).encode() + b"\n" for line in [*said, *end])


CALLED = "[('read', {'path': 'A'})]"
HALF = [chunk(content="ha"), chunk(content="lf")]
EMPTY = "The model returned an empty answer."
WHOLE = b'{"choices": [{"index": 0, "message": {"content": "In one piece."}, "finish_reason": "stop"}]}'
BROKEN = "the answer broke off: the server ended it ({}).".format
CUT = "the answer broke off: the connection ended before the model was done."
OPENAI = ("openai/m", "hosted_vllm/m", "deepseek/m", "lm_studio/m", "mistral/m")
ANSWERS: list[tuple[str, bytes, tuple[str, str]]] = [
    *(
        row
        for ref in OPENAI
        for row in (
            (ref, b"".join([*HALF, DONE]), ("stop", "half")),
            (ref, b"".join(HALF), ("BadResponseError", CUT)),
            (ref, answer("half", reason="abort"), ("BadResponseError", BROKEN("abort"))),
            (ref, answer("half", reason="error"), ("BadResponseError", BROKEN("error"))),
            (ref, b"".join([chunk("abort", content="half"), DONE]), ("BadResponseError", BROKEN("abort"))),
            (ref, answer("half", reason="length"), ("length", "half")),
            (ref, answer(), ("PoorAnswerError", EMPTY)),
            (ref, DONE, ("PoorAnswerError", EMPTY)),
            (
                ref,
                b"".join([chunk(refusal="I can"), chunk(refusal="not."), chunk("stop"), DONE]),
                ("stop", "I cannot."),
            ),
            (
                ref,
                b"".join(
                    [
                        chunk(function_call={"name": "read", "arguments": '{"pa'}),
                        chunk(function_call={"arguments": 'th":"A"}'}),
                        chunk("function_call"),
                        DONE,
                    ]
                ),
                ("toolUse", CALLED),
            ),
        )
    ),
    (
        "openai/m",
        answer("half", reason="insufficient_system_resource"),
        ("BadResponseError", BROKEN("insufficient_system_resource")),
    ),
    *(
        ("openai/m", b"".join([part, chunk("tool_calls"), DONE]), ("toolUse", called))
        for part, called in (
            (chunk(function_call={"name": "read", "arguments": {"path": "A"}}), CALLED),
            (
                chunk(tool_calls=[{"index": 0, "id": "1", "function": {"name": "read", "arguments": {"path": "A"}}}]),
                CALLED,
            ),
            (
                chunk(tool_calls=[{"index": 0, "id": "1", "function": {"name": "read", "arguments": []}}]),
                "[('read', {})]",
            ),
        )
    ),
    ("openai/m", b"".join([chunk("null", content="half"), chunk("stop")]), ("stop", "half")),
    ("openai/m", answer("the mark is\ndata: [DONE]", reason="abort"), ("BadResponseError", BROKEN("abort"))),
    ("openai/m", chunk(content="the mark is\ndata: [DONE]"), ("BadResponseError", CUT)),
    ("openai/m", WHOLE, ("stop", "In one piece.")),
    ("ollama_chat/m", ollama("Hello.", eval_count=1), ("stop", "Hello.")),
]


@pytest.mark.few(12)
@pytest.mark.parametrize(("ref", "reply", "expected"), ANSWERS)
async def test_how_an_answer_ends(server: RawServer, ref: str, reply: bytes, expected: tuple[str, str]) -> None:
    assert outcome(await play(server, ref, reply)) == expected


@pytest.mark.parametrize(
    ("ref", "reply"),
    [
        ("openai/m", b"".join([chunk(reasoning="hm"), chunk(content="Yes."), chunk("stop")])),
        (
            "openai/m",
            b"".join(
                [
                    chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
                    chunk(content=[{"type": "text", "text": "Yes."}]),
                    chunk("stop"),
                ]
            ),
        ),
        *(
            (
                "openai/m",
                b"".join(
                    [chunk(content=[{"type": kind, "text": "hm"}, {"type": "text", "text": "Yes."}]), chunk("stop")]
                ),
            )
            for kind in ("thinking", "reasoning")
        ),
    ],
)
async def test_thoughts_in_whatever_field(server: RawServer, ref: str, reply: bytes) -> None:
    last = (await play(server, ref, reply))[-1]
    assert isinstance(last, FinalPart)
    thought, text = last.message.content
    assert isinstance(thought, ThinkingBlock)
    assert (thought.thinking, text) == ("hm", TextBlock("Yes."))


@pytest.mark.parametrize("purpose", ["flush", "summary", "slug", "title"])
async def test_what_the_program_asks_may_be_answered_with_nothing(server: RawServer, purpose: Any) -> None:
    server.answers([answer()])
    target = Target("openai/m", "openai/m", f"{server.root}/v1", key="not-a-key")
    model = LiteLLMModel(target, ModelInfo("openai/m"), ClientOptions(SystemClock(), RetryPolicy(attempts=1)))
    request = ChatRequest("", (UserMessage("hello"),), purpose=purpose)
    parts = [part async for part in model.stream(request)]
    await model.aclose()
    assert isinstance(parts[-1], FinalPart)
    assert isinstance(parts[-1].message, AssistantMessage)
    assert parts[-1].message.content == []
