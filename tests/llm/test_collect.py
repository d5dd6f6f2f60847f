"""Streamed chunks become parts and a message, however sloppy the server is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.llm.collect import REDACTED, DeltaCollector, parse_arguments, safe_name
from clawbot.llm.errors import BadResponseError, RefusedError
from clawbot.llm.protocol import FinalPart, ReasoningPart, TextPart, ToolCallPart
from clawbot.llm.tokens import Prices, Tier
from clawbot.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCallBlock


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


def calls(*chunks: dict[str, Any]) -> list[ToolCallBlock]:
    return collect(*chunks, chunk("tool_calls")).tool_calls


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


@given(st.text(min_size=1), st.integers(1, 7))
def test_text_is_kept_whatever_the_pieces(text: str, size: int) -> None:
    pieces = [chunk(content=text[start : start + size]) for start in range(0, len(text), size)]
    assert collect(*pieces, chunk("stop")).text == text


def test_interleaved_pieces_by_index() -> None:
    found = calls(
        piece("", index=0, id="a", name="read"),
        piece('{"n"', index=1, id="b", name="list"),
        piece('{"m": 1}', index=0),
        piece(": 2}", index=1),
    )
    assert found == [ToolCallBlock("a", "read", {"m": 1}), ToolCallBlock("b", "list", {"n": 2})]


def test_whole_calls_that_all_say_index_zero() -> None:
    found = calls(piece('{"n":1}', index=0, id="a", name="read"), piece('{"n":2}', index=0, id="b", name="read"))
    assert [call.arguments for call in found] == [{"n": 1}, {"n": 2}]


def test_calls_without_index_or_id() -> None:
    found = calls(piece('{"n":', name="read"), piece("1}"), piece({"n": 2}, name="list"))
    assert [(call.name, call.arguments) for call in found] == [("read", {"n": 1}), ("list", {"n": 2})]
    assert all(call.id for call in found)
    assert found[0].id != found[1].id


def test_ids_that_repeat_are_repaired() -> None:
    found = calls(piece("{}", index=0, id="x", name="read"), piece("{}", index=1, id="x", name="read"))
    assert found[0].id == "x"
    assert found[1].id not in ("", "x")


def test_a_name_that_comes_with_every_piece() -> None:
    found = calls(piece('{"a"', index=0, id="x", name="read"), piece(":1}", index=0, id="x", name="read"))
    assert found == [ToolCallBlock("x", "read", {"a": 1})]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("", ({}, None)),
        ("null", ({}, None)),
        ('{"a": 1}', ({"a": 1}, None)),
        ('"{\\"a\\": 1}"', ({"a": 1}, None)),
        ('{"a": ', ({}, '{"a": ')),
        ("[1]", ({}, "[1]")),
        ("42", ({}, "42")),
        ("[" * 100_000, ({}, "[" * 100_000)),
        ('"\ud800"', ({}, '"\ud800"')),
    ],
)
def test_arguments(raw: str, expected: tuple[dict[str, Any], str | None]) -> None:
    assert parse_arguments(raw) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read", "read"),
        ("functions.read", "read"),
        ("read file!", "read_file_"),
        ("", "unnamed"),
        ("x" * 80, "x" * 64),
        ("读取", "_"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert safe_name(name) == expected


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


@pytest.mark.parametrize(
    ("reason", "with_call", "expected"),
    [
        ("stop", False, "stop"),
        ("end_turn", False, "stop"),
        ("length", False, "length"),
        ("length", True, "length"),
        ("tool_calls", True, "toolUse"),
        ("stop", True, "toolUse"),
        ("tool_calls", False, "stop"),
        ("something new", False, "stop"),
    ],
)
def test_stop_reasons(reason: str, with_call: bool, expected: str) -> None:
    begun = [piece("{}", index=0, id="a", name="read")] if with_call else [chunk(content="a")]
    assert collect(*begun, chunk(reason)).stop_reason == expected


def test_no_finish_reason_is_a_broken_connection() -> None:
    with pytest.raises(BadResponseError, match="broke off"):
        collect(chunk(content="half"))


def test_a_filter_is_a_refusal() -> None:
    with pytest.raises(RefusedError, match="content_filter"):
        collect(chunk("content_filter", content="half"))


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
    [
        ({"prompt_tokens": 10, "completion_tokens": 2}, 30.0),
        ({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 10}}, 21.0),
        ({"prompt_tokens": 100, "completion_tokens": 0, "completion": 0}, 100.0),
        ({"prompt_tokens": 101, "completion_tokens": 1}, 217.0),
        ({"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.5}, 0.5),
    ],
)
def test_cost(raw: dict[str, Any], total: float) -> None:
    usage = collect(chunk("stop", content="a"), {"choices": [], "usage": raw}, prices=PRICES).usage
    assert usage is not None
    assert usage.cost is not None
    assert usage.cost.total == pytest.approx(total)


@pytest.mark.parametrize("depth", [65, 500, 900, 5_000, 200_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_arguments_that_are_nested_deeply_are_no_arguments(depth: int, begin: str, end: str) -> None:
    raw = '{"path":' + begin * depth + "1" + end * depth + "}"
    assert parse_arguments(raw) == ({}, raw)


def test_arguments_with_many_brackets_and_little_depth_are_taken() -> None:
    raw = '{"edits":[' + ",".join(['{"a":["[[[[{{{{"]}'] * 100) + "]}"
    arguments, malformed = parse_arguments(raw)
    assert malformed is None
    assert len(arguments["edits"]) == 100
