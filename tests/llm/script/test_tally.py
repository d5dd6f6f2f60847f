"""The scripted model's own count of a call, figure by figure."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.llm.script.tally import PER_IMAGE, completion_tokens, prompt_tokens
from clawbot.llm.tokens import count_now

TOOL = {"type": "function", "function": {"name": "read", "description": "读文件", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"role": "user", "content": "hello world"}, 3 + 1 + 2),
        ({"role": "user", "content": "hello world", "name": "ann"}, 3 + 1 + 2 + 1 + 1),
        ({"role": "assistant", "content": None}, 3 + 1),
        ({"role": "tool", "tool_call_id": "call_0123456789", "content": "hello world"}, 3 + 1 + 2),
        (
            {"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url"}]},
            3 + 1 + 1 + PER_IMAGE,
        ),
        ({}, 3),
    ],
)
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
