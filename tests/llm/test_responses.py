"""OpenAI's Responses API, to which litellm sends the newer models at their own address: what is asked, byte for byte,
and what is made of the events, which are those of OpenAI's documents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from clawbot.clock import SystemClock
from clawbot.config.schema_agent import AgentSettings
from clawbot.llm.factory import open_model
from clawbot.llm.protocol import ChatRequest, FinalPart, ReasoningPart, RetryPart, StreamPart, ToolCallPart
from clawbot.messages import (
    AssistantMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from tests.tables import load_table
from tests.vendors import END, STREAM, Asked, Step, Vendors, open_vendors, reply, sse, worker_in

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

SOL = "openai/gpt-6.1-sol"
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
READ_SENT = {
    "name": "read",
    "parameters": READ.parameters,
    "strict": None,
    "type": "function",
    "description": "Read a file.",
}
REASONING = {
    "id": "rs_6820f383d7c08191846711c5df8233bc0ac5ba57aafcbac7",
    "type": "reasoning",
    "encrypted_content": "gAAAAABoIPOEPiVcv8lu3rhEV4EwvHDV9RIEFlSkLVSXJLBLpUbFA0fVJlcbYQJJ+rvQPcPpDNJvvTVwzUWl3g==",
    "summary": [{"type": "summary_text", "text": "**Reading two files**"}],
}
USAGE = load_table(__file__, "USAGE")


def call(identity: str, path: str) -> dict[str, Any]:
    arguments = json.dumps({"path": path})
    kinds = {"type": "function_call", "status": "completed", "name": "read"}
    return {"id": f"fc_{identity}", "call_id": f"call_{identity}", "arguments": arguments, **kinds}


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "annotations": [], "logprobs": [], "text": text}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def response(status: str, output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1741476777, "status": status, "error": None}
    return {**head, "incomplete_details": None, "model": "gpt-6.1-sol", "output": output, "store": False, **more}


def parts_of(at: int, item: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The events between the beginning and the end of an item, in two deltas."""
    here = {"item_id": item["id"], "output_index": at}
    if item["type"] == "reasoning":
        for number, summary in enumerate(item["summary"]):
            place = {**here, "summary_index": number}
            yield {"type": "response.reasoning_summary_part.added", **place, "part": {**summary, "text": ""}}
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": summary["text"]}
            yield {"type": "response.reasoning_summary_text.done", **place, "text": summary["text"]}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": summary}
        return
    if item["type"] == "message":
        kind, text, place = "output_text", item["content"][0]["text"], {**here, "content_index": 0}
    else:
        kind, text, place = "function_call_arguments", item["arguments"], here
    for delta in (text[:3], text[3:]):
        yield {"type": f"response.{kind}.delta", **place, "delta": delta}
    yield {"type": f"response.{kind}.done", **place, "arguments" if here is place else "text": text}


def answer(*items: dict[str, Any]) -> list[Step]:
    """The stream of an answer that consists of `items`."""
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
    ]
    for at, item in enumerate(items):
        begun = {**item, "status": "in_progress", "arguments": "", "content": [], "encrypted_content": "gAAAAA"}
        events += [
            {
                "type": "response.output_item.added",
                "output_index": at,
                "item": {k: begun[k] for k in begun if k in item},
            },
            *parts_of(at, item),
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
    events.append({"type": "response.completed", "response": response("completed", [*items], usage=USAGE)})
    numbered = (sse({**event, "sequence_number": number}) for number, event in enumerate(events))
    return [STREAM, *numbered, END]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vendors]:
    """Vendors, and one worker for all tests, which goes to them."""
    async with (
        open_vendors(tmp_path_factory.mktemp("vendors")) as vendors,
        worker_in(vendors.environment),
    ):
        yield vendors


@pytest.fixture
def vendors(world: Vendors, monkeypatch: pytest.MonkeyPatch) -> Vendors:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    world.asked.clear()
    return world


async def asks(
    vendors: Vendors, steps: list[Step], *messages: Message, ref: str = SOL, tools: bool = True, **settings: Any
) -> tuple[list[StreamPart], Asked]:
    """What comes of a call that is answered with `steps`, and the request."""
    vendors.answer = lambda _: steps
    model = await open_model(ref, AgentSettings.model_validate(settings), clock=SystemClock())
    request = ChatRequest("You are a test.", messages, tools=(READ,) if tools else ())
    try:
        return [part async for part in model.stream(request)], vendors.asked[-1]
    finally:
        await model.aclose()


def final(parts: list[StreamPart]) -> AssistantMessage:
    assert isinstance(parts[-1], FinalPart)
    return parts[-1].message


def said(role: str, kind: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


HELLO = UserMessage("hello")
HELLO_SENT = said("user", "input_text", "hello")
RESULTS = (ToolResultMessage("call_a", "read", [TextBlock("A")]), ToolResultMessage("call_b", "read", [TextBlock("B")]))
TURN = AssistantMessage(
    [
        ThinkingBlock("**Reading two files**", json.dumps(REASONING)),
        ToolCallBlock("call_a", "read", {"path": "a"}),
        ToolCallBlock("call_b", "read", {"path": "b"}),
    ],
    provider="openai",
    model="gpt-6.1-sol",
    stop_reason="toolUse",
)
CALLS_SENT = [
    *(
        {"type": "function_call", "call_id": f"call_{x}", "name": "read", "arguments": f'{{"path":"{x}"}}'}
        for x in "ab"
    ),
    *(
        {"type": "function_call_output", "call_id": f"call_{x}", "output": [{"type": "input_text", "text": x.upper()}]}
        for x in "ab"
    ),
]
SENT = {
    "model": "gpt-6.1-sol",
    "instructions": "You are a test.",
    "input": [HELLO_SENT],
    "tools": [READ_SENT],
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "stream": True,
}


async def test_nothing_is_stored_and_the_reasoning_of_a_turn_goes_back_with_its_calls(vendors: Vendors) -> None:
    parts, asked = await asks(vendors, answer(REASONING, call("a", "a"), call("b", "b")), HELLO)
    assert (asked.host, asked.method, asked.path) == ("api.openai.com", "POST", "/v1/responses")
    assert asked.json == SENT
    assert "".join(part.text for part in parts if isinstance(part, ReasoningPart)) == "**Reading two files**"
    calls = [part.call for part in parts if isinstance(part, ToolCallPart)]
    assert [(each.id, each.name, each.arguments) for each in calls] == [
        ("call_a", "read", {"path": "a"}),
        ("call_b", "read", {"path": "b"}),
    ]
    turn = final(parts)
    assert turn.stop_reason == "toolUse"
    assert turn.usage is not None
    assert (turn.usage.input, turn.usage.cache_read, turn.usage.output) == (40, 60, 87)

    parts, asked = await asks(vendors, answer(message("Both are read.")), HELLO, turn, *RESULTS)
    assert asked.json == {**SENT, "input": [HELLO_SENT, REASONING, *CALLS_SENT]}
    assert json.dumps(REASONING["encrypted_content"]).encode() in asked.body
    assert (final(parts).text, final(parts).stop_reason) == ("Both are read.", "stop")


async def test_the_reasoning_of_an_answer_in_words_goes_back_in_every_later_request(vendors: Vendors) -> None:
    """What was sent stays as it was, or the vendor would read the conversation anew."""
    parts, _ = await asks(vendors, answer(REASONING, message("Hi.")), HELLO)
    _, first = await asks(vendors, answer(message("x")), HELLO, final(parts), UserMessage("and?"))
    sent = [HELLO_SENT, REASONING, said("assistant", "output_text", "Hi."), said("user", "input_text", "and?")]
    assert first.json["input"] == sent
    later = (UserMessage("and?"), AssistantMessage([TextBlock("x")]), UserMessage("so?"))
    _, second = await asks(vendors, answer(message("y")), HELLO, final(parts), *later)
    assert second.json["input"][:4] == sent


def turn_of(ref: str, signature: str | None) -> AssistantMessage:
    """The same turn of another model, or with another signature."""
    provider, _, model = ref.partition("/")
    reasoning = [] if signature is None else [ThinkingBlock("hm", signature)]
    return replace(TURN, content=[*reasoning, *TURN.content[1:]], provider=provider, model=model)


@pytest.mark.parametrize(
    ("ref", "made", "signature", "kept"),
    [
        (SOL, SOL, json.dumps(REASONING), True),
        ("openai/gpt-6.1", SOL, json.dumps(REASONING), False),
        ("openai/responses/gpt-6.1-sol", SOL, json.dumps(REASONING), False),
        (SOL, "azure/gpt-6.1-sol", json.dumps(REASONING), False),
        (SOL, SOL, None, False),
        (SOL, SOL, '{"id": "rs_', False),
        (SOL, "anthropic/claude-x", "EpUCCkYICRgCKkDcc2y6", False),
    ],
)
async def test_reasoning_goes_back_only_to_the_model_that_made_it(
    vendors: Vendors, ref: str, made: str, signature: str | None, kept: bool
) -> None:
    _, asked = await asks(vendors, answer(message("x")), HELLO, turn_of(made, signature), *RESULTS, ref=ref)
    assert asked.json["input"] == [HELLO_SENT, *([REASONING] if kept else []), *CALLS_SENT]


UNREADABLE = (
    "The encrypted content gAAA...Wl3g== could not be verified. Reason: Encrypted content could not be decrypted."
)
REFUSED = reply(400, {"error": {"message": UNREADABLE, "type": "invalid_request_error", "param": None, "code": None}})


async def test_reasoning_that_the_vendor_can_not_read_is_left_out(vendors: Vendors) -> None:
    """It was made with another key: without this, the conversation could not go on."""
    vendors.answer = lambda asked: [REFUSED] if REASONING in asked.json["input"] else answer(message("Fine."))
    settings = AgentSettings.model_validate({"retries": {"first_wait": 0.0}})
    model = await open_model(SOL, settings, clock=SystemClock())
    request = ChatRequest("You are a test.", (HELLO, TURN, *RESULTS), tools=(READ,))
    told = [part.reason for part in [part async for part in model.stream(request)] if isinstance(part, RetryPart)]
    assert told == ["the vendor cannot read the earlier reasoning; it is left out now."]
    again = [part async for part in model.stream(request)]
    assert final(again).text == "Fine."
    assert [asked.json["input"] for asked in vendors.asked[1:]] == [[HELLO_SENT, *CALLS_SENT]] * 2
    await model.aclose()


CHAT = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
CHAT_ANSWER: list[Step] = [
    STREAM,
    sse({**CHAT, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi"}, "finish_reason": None}]}),
    sse({**CHAT, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    sse("[DONE]"),
    END,
]


async def test_reasoning_items_are_no_part_of_a_chat_completion(vendors: Vendors) -> None:
    """Without tools, litellm calls the same model by that protocol, which refuses what it does not know."""
    parts, asked = await asks(vendors, CHAT_ANSWER, HELLO, TURN, *RESULTS, tools=False)
    assert asked.path == "/v1/chat/completions"
    turn = asked.json["messages"][2]
    assert (sorted(turn), len(turn["tool_calls"])) == (["role", "tool_calls"], 2)
    assert final(parts).text == "hi"


@pytest.mark.parametrize(
    ("ref", "host", "reasons"),
    load_table(__file__, "who_is_called_so"),
)
async def test_who_is_called_so(vendors: Vendors, ref: str, host: str, reasons: bool) -> None:
    """Models that don't reason refuse to be asked for reasoning; one that litellm does not know streams, too."""
    azure = {"model": "azure/x", "api_base": "https://mine.openai.azure.com", "api_key": "sk-x"}
    settings: dict[str, Any] = azure if ref.startswith("azure/") else {}
    parts, asked = await asks(vendors, answer(message("Hello there.")), HELLO, ref=ref, **settings)
    assert asked.host == host
    assert asked.path.partition("?")[0].endswith("/responses")
    assert asked.json.get("include") == (["reasoning.encrypted_content"] if reasons else None)
    assert (asked.json["store"], asked.json["stream"], asked.json["model"]) == (False, True, ref.rpartition("/")[2])
    assert final(parts).text == "Hello there."


async def test_what_the_settings_say_goes_before(vendors: Vendors) -> None:
    _, asked = await asks(vendors, answer(message("x")), HELLO, options={"store": True}, reasoning_effort="low")
    assert (asked.json["store"], asked.json["reasoning"]) == (True, {"effort": "low"})


async def test_the_cost_is_known(vendors: Vendors) -> None:
    parts, _ = await asks(vendors, answer(message("x")), HELLO, ref="openai/responses/gpt-5")
    usage = final(parts).usage
    assert usage is not None
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx(40 * 1.25e-6 + 60 * 0.125e-6 + 87 * 10e-6)
