"""What a reply is on the wire: the faults that end it (errors of servers, overflows, streams that break, stall or never
end, broken calls), and its count of tokens, figure by figure."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from clawbot.llm.failures import is_overflow
from clawbot.llm.scripted import ScriptedFault, ScriptEngine, parse_script
from clawbot.llm.scripted.replies import completion_tokens, joined_answer, prompt_tokens
from clawbot.llm.tokens import count_now
from tests.llm.cases import read_cases
from tests.llm.playing import FILE, asks, chunks_of, deltas, engine, said

CASES = read_cases("scripted/replies")


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
    calls = joined_answer(await chunks_of(played, asks("x")))["choices"][0]["message"]["tool_calls"]

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


TOOL = {"type": "function", "function": {"name": "read", "description": "读文件", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(("message", "tokens"), CASES["a_message"])
def test_a_message(message: dict[str, Any], tokens: int) -> None:
    assert prompt_tokens({"messages": [message]}) == tokens + 3


def test_each_call_is_its_name_and_its_arguments_as_they_were_sent() -> None:
    arguments = '{"path": "notes/笔记.md"}'
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call, call]}

    assert prompt_tokens({"messages": [message]}) == 3 + 3 + 1 + 2 * (3 + 1 + count_now(arguments))


def test_tools_are_compact_json() -> None:
    text = '[{"type":"function","function":{"name":"read","description":"读文件","parameters":{"type":"object"}}}]'
    assert prompt_tokens({"messages": [], "tools": [TOOL]}) == 3 + count_now(text)


def test_an_answer_counts_as_a_whole_whatever_pieces_it_came_in() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "read", "arguments": ""}}
    deltas: list[dict[str, Any]] = [
        {"reasoning_content": "think"},
        {"reasoning_content": "ing"},
        {"content": "hel"},
        {"content": "lo"},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {},
    ]
    assert completion_tokens(deltas) == count_now("thinking") + count_now("hello") + count_now('read{"a":1}')


@pytest.mark.parametrize("messages", [None, [], ["x", 7], [{"content": 3, "tool_calls": [None, {"function": 1}]}]])
def test_requests_of_any_shape_have_a_figure(messages: Any) -> None:
    assert prompt_tokens({"messages": messages}) >= 3
