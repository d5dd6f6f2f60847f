"""Streamed chunks become parts and a message, however sloppy the server is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.collect import REDACTED, WRITTEN, DeltaCollector
from clawbot.llm.deltas import IN_CONTENT
from clawbot.llm.errors import BadResponseError, PoorAnswerError, RefusedError
from clawbot.llm.protocol import FinalPart, ReasoningPart, StreamPart, TextPart, ToolCallPart, WithdrawnPart
from clawbot.llm.tokens import Prices, Tier
from clawbot.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock, ToolSpec
from tests.llm.cases import read_cases
from tests.tables import load_table

CASES = read_cases("collect")


def chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def piece(arguments: Any = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    return chunk(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


def collect(*chunks: dict[str, Any], prices: Prices | None = None) -> AssistantMessage:
    collector = DeltaCollector(provider="openai", model="m", prices=prices, timestamp=5)
    for item in chunks:
        collector.feed(item)
    last = collector.finish()[-1]
    assert isinstance(last, FinalPart)
    return last.message


READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


def parts_of(*chunks: dict[str, Any], tools: tuple[ToolSpec, ...] = (READ,)) -> list[StreamPart]:
    collector = DeltaCollector(provider="openai", model="m", tools=tools, must_answer=True)
    return [*(part for one in chunks for part in collector.feed(one)), *collector.finish()]


def streamed(text: str, size: int = 1) -> list[dict[str, Any]]:
    return [chunk(content=text[at : at + size]) for at in range(0, len(text), size)]


def test_parts_come_as_they_arrive() -> None:
    collector = DeltaCollector(provider="openai", model="m")
    assert collector.feed(chunk(reasoning_content="hm", content="a")) == [ReasoningPart("hm"), TextPart("a")]
    assert collector.feed(chunk(content="")) == []
    assert collector.feed(piece("{}", index=0, id="1", name="read")) == []
    collector.feed(chunk("tool_calls"))
    call = ToolCallBlock("1", "read")
    parts = collector.finish()
    assert parts[0] == ToolCallPart(call)
    assert isinstance(parts[1], FinalPart)
    assert parts[1].message.content == [ThinkingBlock("hm"), TextBlock("a"), call]


@given(st.text(st.characters(exclude_characters="<[◁"), min_size=1), st.integers(1, 7))
def test_text_is_kept_whatever_the_pieces(text: str, size: int) -> None:
    pieces = [chunk(content=text[start : start + size]) for start in range(0, len(text), size)]
    assert collect(*pieces, chunk("stop")).text == text


def test_signatures_are_kept_with_their_reasoning() -> None:
    message = collect(
        chunk(reasoning_content="one", thinking_blocks=[{"type": "thinking", "thinking": "one"}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "sig1"}]),
        chunk(thinking_blocks=[{"type": "redacted_thinking", "data": "blob"}]),
        chunk(thinking_blocks=[{"type": "thinking", "thinking": "two"}]),
        chunk("stop", content="x"),
    )
    assert message.content == [
        ThinkingBlock("one", "sig1"),
        ThinkingBlock("", REDACTED + "blob"),
        ThinkingBlock("two"),
        TextBlock("x"),
    ]


@pytest.mark.parametrize(("reason", "with_call", "expected"), CASES["stop_reasons"])
def test_stop_reasons(reason: str, with_call: bool, expected: str) -> None:
    begun = [piece("{}", index=0, id="a", name="read")] if with_call else [chunk(content="a")]
    assert collect(*begun, chunk(reason)).stop_reason == expected


def test_no_finish_reason_is_a_broken_connection() -> None:
    with pytest.raises(BadResponseError, match="broke off"):
        collect(chunk(content="half"))


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "abort", "error", "OTHER", "something new"])
def test_a_reason_that_is_no_end_is_a_broken_answer(reason: str) -> None:
    with pytest.raises(BadResponseError, match=f"broke off.*{reason}"):
        collect(chunk(content="half"), chunk(reason))


@pytest.mark.parametrize("reason", ["null", "", "None"])
def test_a_reason_that_is_none_yet_changes_nothing(reason: str) -> None:
    assert collect(chunk(reason, content="a"), chunk("stop"), chunk(reason)).text == "a"
    with pytest.raises(BadResponseError, match="connection"):
        collect(chunk(reason, content="a"))


@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "guardrail_intervened"])
def test_a_filter_is_a_refusal(reason: str) -> None:
    with pytest.raises(RefusedError, match=reason):
        collect(chunk(reason, content="half"))


def test_the_words_of_a_refusal_are_the_answer() -> None:
    assert collect(chunk(refusal="I can"), chunk(refusal="not."), chunk("stop")).text == "I cannot."
    *_, last = parts_of(chunk(content="I cannot."), chunk("refusal"))
    assert isinstance(last, FinalPart)
    assert (last.message.text, last.message.stop_reason) == ("I cannot.", "stop")
    assert "declined" in last.notice
    with pytest.raises(RefusedError, match="refusal"):
        collect(chunk("refusal"))


@pytest.mark.parametrize(
    "chunks",
    [
        [],
        [chunk(content=" \n")],
        [chunk(content="\u200b\u00a0\n")],
        [chunk(reasoning_content="hm")],
        [chunk(content="<think>hm</think>\n\n")],
        [chunk(content="<think>hm")],
        [chunk(content="hm\n</think>\n")],
    ],
)
@pytest.mark.parametrize("reason", ["stop", "length", "tool_calls"])
def test_an_answer_without_text_and_calls_is_none_in_a_chat(chunks: list[dict[str, Any]], reason: str) -> None:
    with pytest.raises(PoorAnswerError, match="empty answer"):
        parts_of(*chunks, chunk(reason))
    assert collect(*chunks, chunk(reason)).text.strip("\u200b\u00a0\n ") == ""


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "malformed_tool_use"])
def test_a_call_that_the_provider_could_not_read_is_no_answer(reason: str) -> None:
    with pytest.raises(PoorAnswerError, match=reason):
        collect(chunk(reason))


@pytest.mark.parametrize("size", [1, 5, 100])
def test_thoughts_in_the_text_are_reasoning(size: int) -> None:
    pieces = streamed("<think>\nhm</think>\n\nYes.", size)
    *parts, last = parts_of(*pieces, piece('{"path":"A"}', index=0, id="1", name="read"), chunk("tool_calls"))
    assert "".join(part.text for part in parts if isinstance(part, ReasoningPart)) == "hm"
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "Yes."
    assert isinstance(last, FinalPart)
    thought = ThinkingBlock("hm", field=IN_CONTENT)
    assert last.message.content == [thought, TextBlock("Yes."), ToolCallBlock("1", "read", {"path": "A"})]


@pytest.mark.parametrize("size", [1, 5, 100])
def test_text_that_turns_out_to_be_a_thought_is_withdrawn(size: int) -> None:
    *parts, last = parts_of(*streamed("hm, so\n</think>\n\nYes.", size), chunk("stop"))
    at = parts.index(WithdrawnPart())
    assert "".join(part.text for part in parts[:at] if isinstance(part, TextPart)) == "hm, so\n"
    assert "".join(part.text for part in parts[at:] if isinstance(part, TextPart)) == "Yes."
    assert isinstance(last, FinalPart)
    assert last.message.content == [ThinkingBlock("hm, so\n", field=IN_CONTENT), TextBlock("Yes.")]


def test_a_thought_that_looked_like_a_call_is_never_shown_as_text() -> None:
    text = '{"name": "read", "arguments": {"path": "A"}}\n</think>\nYes.'
    *parts, last = parts_of(*streamed(text), chunk("stop"))
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "Yes."
    assert WithdrawnPart() not in parts
    assert isinstance(last, FinalPart)
    assert last.message.text == "Yes."


@pytest.mark.parametrize("thought", ["", "<think>hm</think>\n"])
def test_a_call_in_words_is_a_call_and_never_shown(thought: str) -> None:
    text = f'{thought}<tool_call>{{"name": "read", "arguments": {{"path": "A"}}}}</tool_call>'
    *parts, last = parts_of(*streamed(text), chunk("stop"))
    assert not any(isinstance(part, TextPart) for part in parts)
    assert isinstance(parts[-1], ToolCallPart)
    assert isinstance(last, FinalPart)
    assert (last.message.text, last.message.stop_reason, last.notice) == ("", "toolUse", "")
    assert [(call.name, call.arguments) for call in last.message.tool_calls] == [("read", {"path": "A"})]


@pytest.mark.parametrize(
    ("reason", "tools", "notice"), [("stop", (READ,), WRITTEN), ("stop", (), ""), ("length", (READ,), "")]
)
def test_a_call_of_no_tool_stays_text(reason: str, tools: tuple[ToolSpec, ...], notice: str) -> None:
    text = '{"name": "launch", "arguments": {"speed": 3}}'
    *parts, last = parts_of(*streamed(text), chunk(reason), tools=tools)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == text
    assert isinstance(last, FinalPart)
    assert (last.message.text, last.notice) == (text, notice)


def test_calls_of_the_old_form() -> None:
    message = collect(
        chunk(function_call={"name": "read", "arguments": '{"pa'}),
        chunk(function_call={"arguments": 'th":"A"}'}),
        chunk("function_call"),
    )
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("read", {"path": "A"})]


@pytest.mark.parametrize(
    "junk", [{}, {"choices": None}, {"choices": [None]}, {"choices": [{"delta": None}]}, {"choices": "x"}]
)
def test_chunks_that_say_nothing(junk: dict[str, Any]) -> None:
    assert collect(junk, chunk("stop", content="a")).text == "a"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, (10, 2, 0, 0, 12)),
        (
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
            (6, 2, 4, 0, 12),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 5,
            },
            (2, 2, 3, 5, 12),
        ),
        ({"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 4}, (10, 2, 4, 0, 16)),
        ({"prompt_tokens": -5, "completion_tokens": 2}, (0, 2, 0, 0, 2)),
        ({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 99}, (10, 2, 0, 0, 99)),
    ],
)
def test_usage(raw: dict[str, Any], expected: tuple[int, ...]) -> None:
    usage = collect(chunk("stop", content="a"), {"choices": [], "usage": raw}).usage
    assert usage is not None
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens) == expected


def test_usage_that_says_nothing_is_none() -> None:
    assert collect(chunk("stop", content="a"), {"choices": [], "usage": {"prompt_tokens": 0}}).usage is None
    assert collect(chunk("stop", content="a")).usage is None


@pytest.mark.parametrize(
    "lie",
    [
        {"prompt_tokens": float("inf")},
        {"prompt_tokens": float("nan")},
        {"prompt_tokens": 10**400},
        {"prompt_tokens": {"text": 3}},
        {"prompt_tokens_details": 4},
        {"completion_tokens": -5, "cost": float("inf")},
    ],
)
def test_impossible_figures_cost_no_answer(lie: dict[str, Any]) -> None:
    good = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    for reports in ((good, lie), (lie, good)):
        answer = collect(chunk("stop", content="a"), *({"choices": [], "usage": raw} for raw in reports))
        assert answer.text == "a"
        assert answer.usage is not None
        assert answer.usage.output == 2


def test_usage_in_several_reports_is_not_added_up() -> None:
    usage = collect(
        {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 1}},
        chunk("stop", content="a"),
        {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 7}},
    ).usage
    assert usage is not None
    assert (usage.input, usage.output) == (10, 7)


PRICES = Prices((Tier(0, 1.0, 10.0, 0.1, 1.25), Tier(100, 2.0, 15.0, 0.2, 2.5)))


@pytest.mark.parametrize(
    ("raw", "total"),
    load_table(__file__, "cost"),
)
def test_cost(raw: dict[str, Any], total: float) -> None:
    usage = collect(chunk("stop", content="a"), {"choices": [], "usage": raw}, prices=PRICES).usage
    assert usage is not None
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx(total)
