"""What came with a call goes back with it, in the field in which it came, to the model that made it: byte for byte, at
the addresses of vendors and at others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.deltas import merge
from clawbot.llm.errors import ModelError
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatModel, ChatRequest, FinalPart
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
    compacted_text,
)
from tests.llm.cases import read_cases
from tests.tables import load_table
from tests.vendors import END, STREAM, Asked, Step, Vendors, open_vendors, reply, sse, worker_in

CASES = read_cases("carried")

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
HELLO = UserMessage("hello")
BASE = "https://models.example/v1"
KEYS = ("OPENAI", "OPENROUTER", "GROQ", "MISTRAL", "DEEPSEEK", "MOONSHOT", "ZAI", "CEREBRAS", "XAI", "DASHSCOPE")
AT_BASE = ("openai/deepseek-v4-pro", "hosted_vllm/m", "lm_studio/m", "litellm_proxy/m", "llamafile/m", "openrouter/a/b")
AT_HOME = (
    *("openrouter/deepseek/d", "openrouter/anthropic/c", "openrouter/google/gemini-3", "deepseek/deepseek-v4-pro"),
    *("moonshot/kimi-k3", "zai/glm-5.3", "groq/openai/gpt-oss-120b", "cerebras/gpt-oss-120b", "xai/g"),
)
REFS = [*((ref, BASE) for ref in AT_BASE), *((ref, None) for ref in AT_HOME)]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def vendors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vendors]:
    async with open_vendors(tmp_path_factory.mktemp("vendors")) as vendors, worker_in(vendors.environment):
        yield vendors


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(f"{name}_API_KEY", "sk-x")


def stream(*deltas: dict[str, Any], reason: str = "tool_calls") -> list[Step]:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    return [STREAM, *(sse({**head, "choices": [choice]}) for choice in choices), sse("[DONE]"), END]


def call(at: int = 0, inside: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    function = {"name": "read", "arguments": '{"path":"a"}', **(inside or {})}
    return {"tool_calls": [{"index": at, "id": f"c0000000{at}", "type": "function", "function": function, **more}]}


DONE = stream({"content": "Done."}, reason="stop")


async def opened(ref: str, base: str | None = None) -> ChatModel:
    settings: dict[str, Any] = {"retries": {"first_wait": "0ms"}, "request_timeout": "10s"}
    if base:
        settings |= {"model": ref, "api_base": base}
    return await open_model(ref, AgentSettings.model_validate(settings), clock=SystemClock())


async def said(model: ChatModel, *messages: Message) -> AssistantMessage:
    """The answer, as it is read back from a transcript."""
    parts = [part async for part in model.stream(ChatRequest("", messages, tools=(READ,)))]
    assert isinstance(parts[-1], FinalPart)
    return msgspec.json.decode(msgspec.json.encode(parts[-1].message), type=AssistantMessage)


def results(message: AssistantMessage) -> list[Message]:
    return [ToolResultMessage(one.id, "read", [TextBlock("content")]) for one in message.tool_calls]


async def answered(vendors: Vendors, ref: str, base: str | None, *deltas: dict[str, Any]) -> AssistantMessage:
    vendors.answer = lambda _: stream(*deltas)
    model = await opened(ref, base)
    try:
        return await said(model, HELLO)
    finally:
        await model.aclose()


async def sent(vendors: Vendors, ref: str, base: str | None, *messages: Message) -> list[dict[str, Any]]:
    """The model's turns of the request in which `messages` are."""
    vendors.answer = lambda _: DONE
    model = await opened(ref, base)
    try:
        await said(model, *messages)
    finally:
        await model.aclose()
    return turns(vendors.asked[-1])


def turns(asked: Asked) -> list[dict[str, Any]]:
    return [turn for turn in asked.json["messages"] if turn["role"] == "assistant"]


def extras(turn: dict[str, Any]) -> dict[str, Any]:
    """What goes back beside what every turn of the model has."""
    known = ("id", "type", "function", "name", "arguments")
    calls = [{k: v for k, v in {**one, **one["function"]}.items() if k not in known} for one in turn["tool_calls"]]
    more = {name: value for name, value in turn.items() if name not in ("role", "content", "tool_calls")}
    return {**more, "calls": calls} if any(calls) else more


def unmarked(turn: dict[str, Any]) -> dict[str, Any]:
    """`turn` without the marks for Anthropic's cache, which move on."""
    content = turn.get("content")
    return {**turn, "content": content[0]["text"] if isinstance(content, list) else content}


TEXT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
SECRET = {"type": "reasoning.encrypted", "data": "gAAAA", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
SUMMARY = {"type": "reasoning.summary", "format": "openai-responses-v1", "index": 0}
GOOGLE = {"google": {"thought_signature": "SIG"}}
FIELDS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "reasoning_content": (
        [{"reasoning_content": "ha"}, {"reasoning_content": "ha"}, call()],
        {"reasoning_content": "haha"},
    ),
    "reasoning": ([{"reasoning": "Let "}, {"reasoning": "me."}, call()], {"reasoning": "Let me."}),
    "both": ([{"reasoning": "hm", "reasoning_content": "hm"}, call()], {"reasoning_content": "hm"}),
    "details of a text, with its signature at the end": (
        [
            {"reasoning": "Let", "reasoning_details": [{**TEXT, "text": "Let"}]},
            {"reasoning": " me", "reasoning_details": [{**TEXT, "text": " me"}]},
            {"content": "", "reasoning_details": [{**TEXT, "signature": "EtQ="}]},
            call(),
        ],
        {"reasoning": "Let me", "reasoning_details": [{**TEXT, "text": "Let me", "signature": "EtQ="}]},
    ),
    "details: a summary and what is encrypted, behind the call": (
        [
            {"reasoning_details": [{**SUMMARY, "summary": "**Read"}]},
            {"reasoning_details": [{**SUMMARY, "summary": "ing**"}]},
            call(),
            {"reasoning_details": [SECRET]},
        ],
        {"reasoning_details": [{**SUMMARY, "summary": "**Reading**"}, SECRET]},
    ),
    "a signature with the call": ([call(extra_content=GOOGLE)], {"calls": [{"extra_content": GOOGLE}]}),
    "two calls, the first signed": (
        [{"reasoning_content": "hm"}, call(extra_content=GOOGLE), call(1)],
        {"reasoning_content": "hm", "calls": [{"extra_content": GOOGLE}, {}]},
    ),
    "fields that nobody knows": (
        [{"reasoning_text": "hm", "reasoning_opaque": "x1"}, call(0, {"seal": "s"}, proof={"a": [1]})],
        {"reasoning_text": "hm", "reasoning_opaque": "x1", "calls": [{"seal": "s", "proof": {"a": [1]}}]},
    ),
}


# Each field at one of each kind: litellm calls with OpenAI's SDK, by itself, and reads OpenRouter in a way of its own.
KINDS = ("openai/deepseek-v4-pro", "hosted_vllm/m", "openrouter/deepseek/d")
USUAL = ("reasoning", "two calls, the first signed")


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("ref", "base", "field"),
    [(*at, field) for at in REFS for field in FIELDS if at[0] in KINDS or field in USUAL],
)
async def test_what_came_goes_back(vendors: Vendors, ref: str, base: str | None, field: str) -> None:
    deltas, expected = FIELDS[field]
    if ref.startswith("moonshot") and "reasoning_content" not in expected:
        expected = {**expected, "reasoning_content": " "}  # which litellm adds
    first = await answered(vendors, ref, base, {"role": "assistant", "content": ""}, *deltas)
    talk: list[Message] = [HELLO, first, *results(first)]
    assert [extras(turn) for turn in await sent(vendors, ref, base, *talk)] == [expected]
    body = [unmarked(turn) for turn in vendors.asked[-1].json["messages"]]
    # Another model answers, then this one again, and the history was summarised up to here.
    other = await answered(vendors, "openai/other", BASE, {"content": "I look."}, call())
    later = [*talk, other, *results(other)]
    assert not any(extras(turn) for turn in await sent(vendors, "openai/other", BASE, *later))
    assert extras((await sent(vendors, ref, base, *later))[0]) == expected
    assert [unmarked(turn) for turn in vendors.asked[-1].json["messages"]][: len(body)] == body
    kept = [UserMessage(compacted_text("Before:", "a summary")), *talk[1:]]
    assert [extras(turn) for turn in await sent(vendors, ref, base, *kept)] == [expected]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("ref", ["openai/gpt-4o", "mistral/m"])
async def test_those_who_refuse_such_fields_never_get_them(vendors: Vendors, ref: str, field: str) -> None:
    first = await answered(vendors, ref, None, *FIELDS[field][0])
    assert [extras(turn) for turn in await sent(vendors, ref, None, HELLO, first, *results(first))] == [{}]


async def test_thoughts_in_the_text_do_not_go_back(vendors: Vendors) -> None:
    first = await answered(vendors, *REFS[0], {"content": "<think>hm</think>"}, {"content": "I look."}, call())
    assert [extras(turn) for turn in await sent(vendors, *REFS[0], HELLO, first, *results(first))] == [{}]


def refusal(text: str, status: int = 400) -> list[Step]:
    return [reply(status, {"error": {"message": text, "type": "invalid_request_error"}})]


MISSING = load_table(__file__, "MISSING")


def has(field: str, turn: dict[str, Any]) -> bool:
    if field == "thought_signature":
        return all("extra_content" in one for one in turn["tool_calls"])
    return field in turn


@pytest.mark.few(8)
@pytest.mark.parametrize(("ref", "base"), [*REFS[:4], ("openrouter/deepseek/d", None)])
@pytest.mark.parametrize(("field", "text"), MISSING)
async def test_a_field_that_the_server_misses(
    vendors: Vendors, ref: str, base: str | None, field: str, text: str
) -> None:
    """Another model made the calls, or an older version of the program did not record what came with them."""
    foreign = AssistantMessage([ThinkingBlock("hm"), ToolCallBlock("c1", "read", {})], provider="p", model="m")
    talk: list[Message] = [HELLO, foreign, *results(foreign)]
    vendors.answer = lambda asked: DONE if all(has(field, turn) for turn in turns(asked)) else refusal(text)
    vendors.asked.clear()
    model = await opened(ref, base)
    for _ in range(2):
        assert (await said(model, *talk)).text == "Done."
    assert [has(field, turn) for asked in vendors.asked for turn in turns(asked)] == [False, True, True]
    await model.aclose()


async def test_a_server_that_is_never_content_is_asked_once_more(vendors: Vendors) -> None:
    foreign = AssistantMessage([ToolCallBlock("c1", "read", {})])
    vendors.answer = lambda _: refusal(MISSING[0][1])
    vendors.asked.clear()
    model = await opened(*REFS[0])
    with pytest.raises(ModelError, match="must be passed back"):
        await said(model, HELLO, foreign, *results(foreign))
    assert len(vendors.asked) == 2
    await model.aclose()


@pytest.mark.parametrize(
    "text",
    load_table(__file__, "a_field_that_the_server_sent_and_refuses_is_left_out"),
)
async def test_a_field_that_the_server_sent_and_refuses_is_left_out(vendors: Vendors, text: str) -> None:
    ref, base = "groq/openai/gpt-oss-120b", None
    first = await answered(vendors, ref, base, {"reasoning": "hm"}, call())
    vendors.answer = lambda asked: refusal(text) if "reasoning" in turns(asked)[0] else DONE
    model = await opened(ref, base)
    assert (await said(model, HELLO, first, *results(first))).text == "Done."
    await model.aclose()


@pytest.mark.parametrize(
    "text",
    [
        "reasoning_effort is required for this model",
        "Missing required parameter: messages[1].content",
        "The reasoning is hard, so a key is missing.",
    ],
)
async def test_other_refusals_are_what_they_are(vendors: Vendors, text: str) -> None:
    vendors.answer = lambda _: refusal(text)
    vendors.asked.clear()
    model = await opened(*REFS[0])
    with pytest.raises(ModelError):
        await said(model, HELLO)
    assert len(vendors.asked) == 1
    await model.aclose()


@pytest.mark.parametrize(("pieces", "whole"), CASES["pieces_of_a_list"])
async def test_pieces_of_a_list(pieces: Iterable[list[Any]], whole: Any) -> None:
    found: dict[str, Any] = {}
    for piece in pieces:
        merge(found, {"reasoning_details": piece})
    details = found["reasoning_details"]
    if isinstance(whole, str):
        assert [one["text"] for one in details] == [whole]
    else:
        assert (details if isinstance(whole[0], dict | int) else [one["text"] for one in details]) == whole
