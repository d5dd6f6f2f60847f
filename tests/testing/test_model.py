"""The scripted model in the test's own process: the parts and errors that a loop sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.llm.errors import (
    AuthenticationError,
    BadResponseError,
    ContextOverflowError,
    ModelError,
    RateLimitError,
    RefusedError,
    UnreachableError,
)
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart, ReasoningPart, StreamPart, TextPart, ToolCallPart
from clawbot.llm.scripted import ScriptEngine, ScriptMismatch, ScriptUnused, parse_script
from clawbot.messages import TextBlock, ThinkingBlock, ToolCallBlock, ToolResultMessage, ToolSpec, UserMessage
from clawbot.testing.fixture import ScriptedModel
from clawbot.text.naming import TITLE_QUESTION


def model(turns: str) -> ScriptedModel:
    return ScriptedModel(ScriptEngine(parse_script(f"window: 9000\nturns:\n{turns}", Path("talk.yaml"))))


def asks(*messages: UserMessage | ToolResultMessage) -> ChatRequest:
    return ChatRequest("Rules.", messages or (UserMessage("hello"),), (ToolSpec("read", "Reads.", {"type": "object"}),))


async def parts(of: ScriptedModel, request: ChatRequest | None = None) -> list[StreamPart]:
    return [part async for part in of.stream(request or asks())]


async def test_an_answer_comes_in_parts_and_ends_whole() -> None:
    played: ChatModel = model(
        "- expect: {user: hello, system: Rules, tool: read}\n"
        "  reply:\n"
        "    reasoning: [h, m]\n"
        "    text: [a, b]\n"
        "    tool_calls: [{name: read, arguments: {path: A.md}}, {name: list}]\n"
        "    usage: {prompt: 100, completion: 7, cached: 40}"
    )
    found = [part async for part in played.stream(asks())]

    calls = [ToolCallBlock("call_1", "read", {"path": "A.md"}), ToolCallBlock("call_2", "list")]
    assert found[:-1] == [
        ReasoningPart("h"),
        ReasoningPart("m"),
        TextPart("a"),
        TextPart("b"),
        *map(ToolCallPart, calls),
    ]
    final = found[-1]
    assert isinstance(final, FinalPart)
    assert final.message.content == [ThinkingBlock("hm"), TextBlock("ab"), *calls]
    assert final.message.stop_reason == "toolUse"
    assert final.message.usage is not None
    assert (final.message.usage.input, final.message.usage.cache_read, final.message.usage.output) == (60, 40, 7)
    assert (played.info.ref, played.info.window) == ("script:talk.yaml", 9000)
    await played.warm()
    await played.aclose()


async def test_malformed_arguments_are_marked_so() -> None:
    found = await parts(model("- reply: {tool_calls: [{name: read, arguments: {a: 1}}], fault: malformed_call}"))

    call = next(part.call for part in found if isinstance(part, ToolCallPart))
    assert (call.arguments, call.malformed) == ({}, '{"a"')


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("401", AuthenticationError),
        ("429", RateLimitError),
        ("500", UnreachableError),
        ("422", RefusedError),
        ("{overflow: openai}", ContextOverflowError),
        ("{overflow: anthropic}", ContextOverflowError),
        ("{overflow: gemini}", ContextOverflowError),
        ("{overflow: ollama}", ContextOverflowError),
        ("drop", UnreachableError),
        ("{drop: 1}", BadResponseError),
        ("no_finish", BadResponseError),
    ],
)
async def test_faults_are_the_errors_of_a_real_model(fault: str, error: type[ModelError]) -> None:
    played = model(f"- reply: {{text: [a, b], fault: {fault}}}")
    with pytest.raises(ModelError) as caught:
        await parts(played)

    assert type(caught.value) is error
    await played.aclose()


async def test_the_wait_of_a_rate_limit_is_told() -> None:
    with pytest.raises(RateLimitError) as caught:
        await parts(model("- reply: {fault: {status: 429, retry_after: 1.5}}"))

    assert caught.value.retry_after == 1.5


async def test_what_was_shown_before_a_drop_was_shown() -> None:
    stream = model("- reply: {text: [a, b], fault: {drop: 1}}").stream(asks())

    assert await anext(stream) == TextPart("a")
    with pytest.raises(BadResponseError):
        await anext(stream)


async def test_a_mismatch_is_raised_and_again_when_the_model_is_closed() -> None:
    played = model("- {expect: {user: tabs}, reply: ok}")
    with pytest.raises(ScriptMismatch, match="user to contain 'tabs'"):
        await parts(played)
    with pytest.raises(ScriptMismatch):
        await played.aclose()


async def test_closing_early_tells_unused_turns() -> None:
    played = model("- reply: a\n- reply: b")
    await parts(played)
    with pytest.raises(ScriptUnused, match="line 4: turn 2"):
        await played.aclose()
    assert [request.system for request in played.requests] == ["Rules."]


async def test_closing_an_endless_answer_ends_it() -> None:
    stream = model("- reply: {text: a, fault: endless}").stream(asks())
    assert [await anext(stream) for _ in range(3)] == [TextPart("a")] * 3
    await stream.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_the_question_for_a_title_is_none_of_the_requests() -> None:
    played = model("- reply: a")
    await parts(played)
    question = ChatRequest("Rules.", (UserMessage(TITLE_QUESTION),), purpose="title")
    assert await anext(played.stream(question)) == TextPart("NO_REPLY")
    await played.aclose()
    assert len(played.requests) == 1
