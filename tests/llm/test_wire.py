"""Conversations as they are sent: what every provider wants, and what single ones want."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.collect import REDACTED
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.wire import AFTER_TOOLS, EMPTY_RESULT, OPENING_TURN, CallIds, Speller, rules_for
from clawbot.messages import (
    NOTES_HEAD,
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
    compacted_text,
)
from tests.tables import load_table


def sent(*messages: Message, ref: str = "openai/m", **request: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Speller().body(ChatRequest(request.pop("system", ""), messages, **request), ref)[
        "messages"
    ]
    return found


def call(identity: str = "call_1", name: str = "read", **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(identity, name, arguments)


def result(identity: str = "call_1", text: str = "content") -> ToolResultMessage:
    return ToolResultMessage(identity, "read", [TextBlock(text)])


def test_a_conversation_with_a_tool() -> None:
    body = Speller().body(
        ChatRequest(
            "Be brief.",
            (
                UserMessage("look"),
                AssistantMessage([TextBlock("I look."), call(path="a")], stop_reason="toolUse"),
                result(),
                AssistantMessage([TextBlock("Done.")]),
                UserMessage("thanks"),
            ),
            tools=(ToolSpec("read", "Reads.", {"type": "object"}),),
            max_tokens=50,
        ),
        "openai/m",
    )
    function = {"name": "read", "arguments": '{"path":"a"}'}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "content"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "thanks"},
    ]
    assert body["tools"][0]["function"] == {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    assert body["max_tokens"] == 50


def test_nothing_empty_is_sent() -> None:
    assert sent(UserMessage(" "), UserMessage([]), AssistantMessage([]), AssistantMessage([ThinkingBlock("hm")])) == []
    assert sent(AssistantMessage([call()], stop_reason="toolUse"), result(text=" "))[1]["content"] == EMPTY_RESULT
    assert "tools" not in Speller().body(ChatRequest("", ()), "openai/m")


def test_pictures() -> None:
    picture = ImageBlock("QUJD", "image/png")
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert sent(UserMessage([TextBlock("see"), picture])) == [
        {"role": "user", "content": [{"type": "text", "text": "see"}, url]}
    ]
    spelled = sent(
        AssistantMessage([call("a"), call("b")], stop_reason="toolUse"),
        ToolResultMessage("a", "read", [picture]),
        result("b"),
        AssistantMessage([TextBlock("x")]),
    )
    assert [turn["role"] for turn in spelled] == ["assistant", "tool", "tool", "user", "assistant"]
    assert spelled[3]["content"][1] == url


def test_the_users_own_commands_are_user_text() -> None:
    assert sent(BashExecutionMessage("ls", "a\nb", 0)) == [{"role": "user", "content": "Ran `ls` (exit 0)\na\nb"}]


@pytest.mark.parametrize("reason", ["aborted", "error"])
def test_calls_of_an_answer_that_broke_off_are_left_out_with_their_results(reason: Any) -> None:
    broken = AssistantMessage([ThinkingBlock("hm", "s"), TextBlock("half"), call()], stop_reason=reason)
    assert sent(UserMessage("q"), broken, result(), UserMessage("again"), ref="anthropic/m")[1] == {
        "role": "assistant",
        "content": "half",
    }


def test_orphaned_and_double_results_are_left_out() -> None:
    spelled = sent(result(), AssistantMessage([call()], stop_reason="toolUse"), result(), result(text="twice"))
    assert [turn["role"] for turn in spelled] == ["assistant", "tool"]


def test_ids_that_repeat_in_a_conversation_stay_with_their_results() -> None:
    pair = (AssistantMessage([call("x")], stop_reason="toolUse"), result("x"))
    spelled = sent(UserMessage("q"), *pair, *pair)
    first, second = (turn["tool_calls"][0]["id"] for turn in spelled if turn["role"] == "assistant")
    assert first == "x"
    assert second != first
    assert [turn["tool_call_id"] for turn in spelled if turn["role"] == "tool"] == [first, second]


@pytest.mark.parametrize(
    ("ref", "pattern"),
    load_table(__file__, "ids_fit_the_provider_and_differ"),
)
@given(st.lists(st.text(max_size=100), min_size=2, max_size=5, unique=True))
def test_ids_fit_the_provider_and_differ(ref: str, pattern: str, identities: list[str]) -> None:
    ids = CallIds(rules_for(ref))
    spelled = [ids.of_call(identity) for identity in identities]
    assert all(re.fullmatch(pattern, identity) for identity in spelled)
    assert len(set(spelled)) == len(spelled)
    assert [ids.of_result(identity) for identity in identities] == spelled


def test_ids_stay_the_same_from_request_to_request() -> None:
    assert CallIds(rules_for("mistral/m")).of_call("call:1") == CallIds(rules_for("mistral/m")).of_call("call:1")


def test_the_signature_in_an_id_goes_back_to_gemini_alone() -> None:
    identity = "call_1__thought__" + "A" * 500
    assert CallIds(rules_for("gemini/m")).of_call(identity) == identity
    assert CallIds(rules_for("openai/m")).of_call(identity) == "call_1"


def test_names_that_no_provider_accepts() -> None:
    assert sent(AssistantMessage([call(name="a b")]))[0]["tool_calls"][0]["function"]["name"] == "a_b"


def test_gemini_and_anthropic_begin_with_the_user() -> None:
    for ref in ("gemini/m", "anthropic/m"):
        assert sent(AssistantMessage([TextBlock("hello")]), ref=ref)[0] == {"role": "user", "content": OPENING_TURN}
    assert sent(AssistantMessage([TextBlock("hello")]))[0]["role"] == "assistant"


def test_user_turns_in_a_row_are_joined_but_not_for_openai() -> None:
    turns = (UserMessage("a"), UserMessage([ImageBlock("QQ", "image/png")]), UserMessage("b"))
    assert [block["type"] for block in sent(*turns, ref="gemini/m")[0]["content"]] == ["text", "image_url", "text"]
    assert len(sent(*turns)) == 3
    assert sent(UserMessage("a"), UserMessage("b"), ref="llamafile/m") == [{"role": "user", "content": "a\n\nb"}]


@pytest.mark.parametrize(
    ("ref", "base", "strict"),
    [
        ("openai/m", None, False),
        ("openai/m", "https://eu.api.openai.com/v1", False),
        ("azure/m", "https://mine.openai.azure.com", False),
        ("openai/m", "http://127.0.0.1:8080/v1", True),
        ("openai/m", "https://openai.com.example/v1", True),
        ("openrouter/mistralai/m", "http://gateway.example", True),
        ("llamafile/m", None, True),
    ],
)
def test_the_address_decides_and_not_the_name(ref: str, base: str | None, strict: bool) -> None:
    rules = rules_for(ref, base)
    found = (rules.merge_users, rules.merge_answers, rules.assistant_after_tool, rules.leading_user, rules.id_length)
    assert (found == (True, True, True, True, 9)) is strict


def test_a_gateway_gets_what_belongs_to_its_protocol() -> None:
    claude = rules_for("anthropic/m", "http://127.0.0.1:4000")
    assert (claude.cache_marks, claude.thinking, claude.id_length, claude.single_calls) == (True, "signed", 9, False)


def test_mistral_hears_an_assistant_between_a_result_and_the_user() -> None:
    spelled = sent(AssistantMessage([call()], stop_reason="toolUse"), result(), UserMessage("q"), ref="mistral/m")
    assert spelled[2] == {"role": "assistant", "content": AFTER_TOOLS}


def test_anthropic_is_asked_to_cache_the_stable_prefix_and_the_conversation() -> None:
    mark = {"type": "ephemeral"}
    spelled = sent(UserMessage("q"), ref="anthropic/m", system="stable|date", stable_prefix=7)
    assert spelled[0]["content"] == [
        {"type": "text", "text": "stable|", "cache_control": mark},
        {"type": "text", "text": "date"},
    ]
    assert spelled[1]["content"] == [{"type": "text", "text": "q", "cache_control": mark}]
    after_tool = sent(AssistantMessage([call()], stop_reason="toolUse"), result(), ref="anthropic/m")
    assert after_tool[-1]["cache_control"] == mark


def test_anthropic_reads_up_to_where_the_request_before_ended() -> None:
    """Its own look back passes over 20 blocks, fewer than a round of many calls has."""
    many = AssistantMessage([call(str(number)) for number in range(15)], stop_reason="toolUse")
    before: tuple[Message, ...] = (UserMessage("q"), AssistantMessage([TextBlock("a")]), UserMessage("go on"))
    after = (*before, many, *(result(str(number)) for number in range(15)))
    marked = [
        [at for at, turn in enumerate(sent(*turns, ref="anthropic/m")) if "cache_control" in str(turn)]
        for turns in (before, after)
    ]
    assert marked == [[0, 2], [2, len(after) - 1]]


ASKED = UserMessage("buy milk\n\n[2026-11-21 09:00] or not", timestamp=1_795_341_780_000)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (ASKED, f"[2026-11-22 11:03] {ASKED.text}"),
        (UserMessage([TextBlock("a"), TextBlock("b")], timestamp=ASKED.timestamp), "[2026-11-22 11:03] a\nb"),
        (UserMessage("old", timestamp=1_795_341_780), "old"),  # in seconds: no time is better than a wrong one
        (UserMessage("none"), "none"),
        (UserMessage("far", timestamp=10**18), "far"),
        (UserMessage("a job", timestamp=ASKED.timestamp, scheduled=True), "a job"),
        (UserMessage(compacted_text("Before:", "a summary"), timestamp=ASKED.timestamp), None),
        (UserMessage(f"{NOTES_HEAD}\n\n`a`:\n```text\nb\n```", timestamp=ASKED.timestamp), None),
        (BashExecutionMessage("ls", "a", 0, timestamp=ASKED.timestamp), None),
    ],
)
def test_the_users_words_come_with_the_time_at_which_they_were_said(
    message: UserMessage | BashExecutionMessage, shown: str | None
) -> None:
    assert sent(message, zone=ZoneInfo("Europe/Berlin"))[0]["content"] == (shown or message.text)
    assert sent(message)[0]["content"] == message.text


def test_a_picture_without_words_has_its_time_too() -> None:
    message = UserMessage([ImageBlock("QQ", "image/png")], timestamp=ASKED.timestamp)
    blocks = sent(message, zone=UTC)[0]["content"]
    assert [block.get("text") for block in blocks] == ["[2026-11-22 10:03] ", None]


def test_signed_reasoning_goes_back_to_the_provider_that_signed_it() -> None:
    message = AssistantMessage(
        [ThinkingBlock("hm", "sig"), ThinkingBlock("", REDACTED + "blob"), ThinkingBlock("unsigned"), TextBlock("x")],
        provider="anthropic",
    )
    spelled = sent(UserMessage("q"), message, ref="anthropic/m")[1]
    assert spelled["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
    ]
    assert "thinking_blocks" not in sent(UserMessage("q"), message, ref="bedrock/anthropic.claude")[1]
    assert set(sent(UserMessage("q"), message, ref="openai/m")[1]) == {"role", "content"}
