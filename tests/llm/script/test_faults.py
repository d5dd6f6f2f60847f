"""The faults of a script: errors of servers, overflows, streams that break, stall or never end, broken calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from clawbot.llm.overflow import is_overflow
from clawbot.llm.script.chunks import whole_answer
from clawbot.llm.scripted import ScriptedFault, ScriptEngine, parse_script
from tests.llm.playing import FILE, asks, chunks_of, deltas, engine, said


@pytest.mark.parametrize(
    ("fault", "status", "code", "headers"),
    [
        ("401", 401, "invalid_api_key", {}),
        ("{status: 429, retry_after: 2}", 429, "rate_limit_exceeded", {"Retry-After": "2"}),
        ("500", 500, None, {}),
        ("404", 404, None, {}),
        ("599", 599, None, {}),
    ],
)
async def test_http_faults(fault: str, status: int, code: str | None, headers: dict[str, str]) -> None:
    with pytest.raises(ScriptedFault) as caught:
        await said(engine(f"- reply: {{text: never, fault: {fault}}}"), asks("x"))

    assert (caught.value.status, caught.value.headers) == (status, headers)
    assert caught.value.body["error"]["code"] == code
    assert caught.value.message


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        ("openai", "maximum context length is 1000 tokens"),
        ("anthropic", "prompt is too long: 1001 tokens > 1000 maximum"),
        ("gemini", "The input token count (1001) exceeds the maximum number of tokens allowed (1000)."),
        ("ollama", "the prompt is longer than the context length currently available"),
    ],
)
async def test_overflows_speak_the_makers_words_and_are_understood(maker: str, words: str) -> None:
    script = parse_script(f"window: 1000\nturns:\n- reply: {{fault: {{overflow: {maker}}}}}", FILE)
    with pytest.raises(ScriptedFault) as caught:
        await said(ScriptEngine(script), asks("x"))

    assert words in caught.value.message
    assert caught.value.status == 400
    assert is_overflow(caught.value.message)


@pytest.mark.parametrize(("pieces", "sent"), [(0, []), (1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])])
async def test_a_drop_comes_after_so_many_pieces(pieces: int, sent: list[str]) -> None:
    got: list[dict[str, Any]] = []
    played = engine(f"- reply: {{text: [a, b, c], fault: {{drop: {pieces}}}}}")

    async def read() -> None:
        async for chunk in played.reply(asks("x")):
            got.append(chunk)

    with pytest.raises(ScriptedFault) as caught:
        await read()

    assert caught.value.kind == "drop"
    assert [delta["content"] for delta in deltas(got)[1:]] == sent
    assert bool(got) is (pieces > 0)


async def test_a_stall_says_no_more() -> None:
    reply = engine("- reply: {text: [a, b], fault: {stall: 1}}").reply(asks("x"))
    seen = [await anext(reply), await anext(reply)]
    waiting = asyncio.ensure_future(anext(reply))
    for _ in range(50):
        await asyncio.wait([waiting], timeout=0)

    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])
    await reply.aclose()
    assert deltas(seen)[-1] == {"content": "a"}


async def test_a_stream_may_end_without_a_finish_reason() -> None:
    chunks = await chunks_of(engine("- reply: {text: a, fault: no_finish}"), asks("x"))

    assert deltas(chunks)[-1] == {"content": "a"}
    assert all(choice["finish_reason"] is None for chunk in chunks for choice in chunk["choices"])


async def test_a_malformed_call_is_no_json() -> None:
    played = engine(
        "- reply: {tool_calls: [{name: a, arguments: {x: 1}}, {name: b, arguments: {x: 1}}], fault: malformed_call}"
    )
    calls = whole_answer(await chunks_of(played, asks("x")))["choices"][0]["message"]["tool_calls"]

    assert json.loads(calls[0]["function"]["arguments"]) == {"x": 1}
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(calls[1]["function"]["arguments"])


async def test_an_endless_stream_goes_on_until_it_is_closed() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    reply = engine("- reply: {text: [a, b], fault: endless}", sleep=sleep).reply(asks("x"))
    texts = [(await anext(reply))["choices"][0]["delta"]["content"] for _ in range(1001)]
    await reply.aclose()

    assert texts[1:] == ["a", "b"] * 500
    assert all(seconds > 0 for seconds in waits)
