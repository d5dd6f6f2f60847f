"""The engine: which turn answers, what it streams, what goes wrong on request, and what it says at the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from clawbot.llm.scripted import (
    ScriptMismatch,
    ScriptUnused,
)
from clawbot.llm.scripted.replies import joined_answer
from clawbot.llm.tokens import count_tokens
from clawbot.text.naming import TITLE_QUESTION
from tests.llm.cases import read_cases
from tests.llm.playing import asks, chunks_of, deltas, engine, said

CASES = read_cases("scripted")


async def test_turns_answer_in_order_and_the_end_is_clean() -> None:
    played = engine("- reply: one\n- {expect: {user: b}, reply: two}")

    assert await said(played, asks("a")) == "one"
    assert await said(played, asks("b")) == "two"
    played.finish()
    assert [request["messages"][0]["content"] for request in played.requests] == ["a", "b"]


async def test_text_and_reasoning_come_in_the_given_pieces_after_the_given_pauses() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    played = engine(
        "- reply: {reasoning: [h, {text: m, after: 0.25}], text: [a, {text: b, after: 2}, '']}", sleep=sleep
    )
    chunks = await chunks_of(played, asks("x"))

    assert deltas(chunks) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "h"},
        {"reasoning_content": "m"},
        {"content": "a"},
        {"content": "b"},
        {"content": ""},
        {},
    ]
    assert waits == [0.25, 2]


async def test_parallel_calls_come_in_pieces_by_index() -> None:
    played = engine(
        "- reply: {tool_calls: [{name: read, arguments: {path: '笔记.md'}}, {name: list}, "
        "{name: x, arguments: '{', id: c}]}"
    )
    chunks = await chunks_of(played, asks("x"))

    parts = [call for delta in deltas(chunks) for call in delta.get("tool_calls", [])]
    assert [part["index"] for part in parts] == sorted(part["index"] for part in parts)
    assert sum(part["index"] == 0 for part in parts) > 2
    message = joined_answer(chunks)["choices"][0]
    assert message["finish_reason"] == "tool_calls"
    assert [(call["id"], call["function"]) for call in message["message"]["tool_calls"]] == [
        ("call_1", {"name": "read", "arguments": '{"path": "笔记.md"}'}),
        ("call_2", {"name": "list", "arguments": "{}"}),
        ("c", {"name": "x", "arguments": "{"}),
    ]


async def test_ids_of_calls_are_new_to_the_conversation() -> None:
    """A second process plays the script from its start into a conversation that holds calls of the first one."""
    earlier = {"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": "list", "arguments": "{}"}}]}
    played = engine("- {reply: {tool_calls: [{name: list}]}, repeat: 2}")

    ids = [
        joined_answer(await chunks_of(played, asks("x", earlier)))["choices"][0]["message"]["tool_calls"][0]["id"]
        for _ in range(2)
    ]
    assert ids == ["call_2", "call_3"]


async def test_templates_are_filled_in_texts_and_arguments() -> None:
    played = engine(
        "- reply:\n"
        "    text: '{{ user }}|{{tool_result}}|{{model}}|{{request}}|\\{{user}}'\n"
        "    tool_calls: [{name: x, arguments: {a: ['{{user}}'], '{{user}}': 1}}]"
    )
    calls: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
    request = asks('say "{{model}}"', calls, {"role": "tool", "content": "r1"}, {"role": "tool", "content": "r2"})
    message = joined_answer(await chunks_of(played, request))["choices"][0]["message"]

    assert message["content"] == 'say "{{model}}"|r2|m|1|{{user}}'
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"a": ['say "{{model}}"'], "{{user}}": 1}


async def test_usage_is_the_scripts_or_counted() -> None:
    played = engine("- reply: {text: x, usage: {prompt: 100, completion: 7, cached: 40}}\n- reply: 一二三四")

    given = (await chunks_of(played, asks("x")))[-1]
    counted = (await chunks_of(played, asks("hello world")))[-1]["usage"]

    assert given["choices"] == []
    assert given["usage"] == {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    # 3 for the message, 1 for its role, 2 words, 3 for the beginning of the answer.
    assert counted["prompt_tokens"] == 9
    assert counted["completion_tokens"] == await count_tokens("一二三四")
    assert counted["total_tokens"] == 9 + counted["completion_tokens"]


@pytest.mark.parametrize(("options", "told"), [({}, False), ({"stream_options": {"include_usage": True}}, True)])
async def test_a_stream_tells_its_usage_when_asked(options: dict[str, Any], told: bool) -> None:
    chunks = await chunks_of(engine("- reply: x"), asks("x", stream=True, **options))

    assert ("usage" in chunks[-1]) is told


@pytest.mark.parametrize(("expect", "fits"), CASES["expectations"])
async def test_expectations(expect: str, fits: bool) -> None:
    request = {
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "Rules"},
            {"role": "developer", "content": [{"type": "text", "text": "more"}]},
            {"role": "user", "content": "[2026-11-22 10:03] earlier"},
            {"role": "assistant", "content": None},
            {"role": "tool", "content": "r1"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[2026-11-22 10:04] hello"},
                    {"type": "image_url", "image_url": {}},
                ],
            },
            {"role": "assistant", "content": "hm"},
            {"role": "tool", "content": "r2"},
            {"role": "tool", "content": "r3"},
        ],
        "tools": [{"type": "function", "function": {"name": "read"}}],
    }
    played = engine(f"- {{expect: {expect}, reply: ok}}")
    if fits:
        assert await said(played, request) == "ok"
    else:
        with pytest.raises(ScriptMismatch):
            await said(played, request)


async def test_a_mismatch_shows_both_sides_and_is_remembered() -> None:
    played = engine("- reply: ok\n- name: recall\n  expect:\n    user: tabs\n    tool_result: done\n  reply: ok")
    await said(played, asks("a"))
    with pytest.raises(ScriptMismatch) as caught:
        await said(played, asks("what?"))

    assert caught.value.message.splitlines() == [
        "talk.yaml:3: turn 2 (recall) does not fit request 2.",
        "  expected (line 5): user to contain 'tabs'",
        "  came: user: 'what?'",
        "  expected (line 6): tool_result to contain 'done'",
        "  came: no tool_result",
    ]
    assert (caught.value.turn, caught.value.line, caught.value.request) == (2, 5, 2)
    assert not caught.value.retryable
    with pytest.raises(ScriptMismatch) as again:
        played.finish()
    assert again.value is caught.value
    assert [type(problem) for problem in played.problems()] == [ScriptMismatch, ScriptUnused]


async def test_a_long_text_is_shown_by_its_ends() -> None:
    played = engine("- {expect: {user: tabs}, reply: ok}")
    with pytest.raises(ScriptMismatch) as caught:
        await said(played, asks("start" + "x" * 100_000 + "end"))

    assert "(100008 characters)" in caught.value.message
    assert "start" in caught.value.message
    assert "end'" in caught.value.message
    assert len(caught.value.message) < 600


async def test_asking_beyond_the_last_turn_is_as_loud() -> None:
    played = engine("- reply: ok")
    await said(played, asks("a"))
    with pytest.raises(ScriptMismatch, match="request 2 came after its only turn was used") as caught:
        await said(played, asks("more"))

    assert "came: user: 'more'" in caught.value.message
    with pytest.raises(ScriptMismatch):
        played.finish()


async def test_unused_turns_are_listed_at_the_end() -> None:
    played = engine("- reply: ok\n- {expect: {user: b}, reply: two}\n- {name: late, reply: x, repeat: 3}\n")
    await said(played, asks("a"))
    await said(played, asks("b"))
    await said(played, asks("c"))
    with pytest.raises(ScriptUnused) as caught:
        played.finish()

    assert caught.value.message.splitlines() == [
        "talk.yaml: 1 of 3 turns were not used up.",
        "  line 4: turn 3 (late), used 1 of 3 times",
    ]


async def test_a_turn_repeats_as_often_as_it_says() -> None:
    played = engine("- {reply: a, repeat: 2}\n- reply: b")

    assert [await said(played, asks("x")) for _ in range(3)] == ["a", "a", "b"]
    played.finish()


async def test_a_turn_forever_ends_with_the_first_request_that_fits_the_next() -> None:
    played = engine("- {expect: {user: q}, reply: a, repeat: forever}\n- {expect: {user: end}, reply: b}")

    assert [await said(played, asks(text)) for text in ("q", "q", "end")] == ["a", "a", "b"]
    played.finish()


async def test_a_request_that_fits_neither_leaves_a_turn_forever_where_it_is() -> None:
    played = engine("- {expect: {user: q}, reply: a, repeat: forever}\n- {expect: {user: end}, reply: b}")
    await said(played, asks("q"))
    with pytest.raises(ScriptMismatch, match="user to contain 'end'"):
        await said(played, asks("else"))

    assert await said(played, asks("q")) == "a"


async def test_a_turn_forever_must_be_used_once() -> None:
    played = engine("- {reply: a, repeat: forever}")
    with pytest.raises(ScriptUnused):
        played.finish()
    await said(played, asks("x"))
    played.finish()


async def test_requests_at_once_take_one_turn_each() -> None:
    played = engine("".join(f"- reply: {{text: [a, {{text: '{n}', after: 0.001}}]}}\n" for n in range(20)))

    answers = await asyncio.gather(*(said(played, asks("x")) for _ in range(20)))

    assert sorted(answers) == sorted(f"a{n}" for n in range(20))
    played.finish()


async def test_status_says_how_far_the_script_is() -> None:
    played = engine("- reply: ok\n- {name: two, expect: {user: b}, reply: ok}")
    await said(played, asks("a"))
    with pytest.raises(ScriptMismatch):
        await said(played, asks("c"))

    status = played.status()
    assert json.loads(json.dumps(status)) == status
    assert (status["requests"], status["unused"], len(status["mismatches"])) == (2, [2], 1)
    assert status["turns"][1] == {"turn": 2, "name": "two", "line": 3, "repeat": 1, "used": 0}


@pytest.mark.parametrize("messages", [None, [], ["x", 7], [{"role": "user"}], [{"content": 3}]])
async def test_requests_of_any_shape_are_only_seen(messages: Any) -> None:
    played = engine("- {expect: {user: {not: x}}, reply: ok}")

    assert await said(played, {"messages": messages, "tools": [None, {"function": 1}]}) == "ok"


async def test_the_question_for_a_title_takes_no_turn_and_is_no_request() -> None:
    played = engine("- reply: one\n- {expect: {user: b}, reply: two}")
    question = asks("a", {"role": "assistant", "content": "one"}, {"role": "user", "content": TITLE_QUESTION})

    assert await said(played, asks("a")) == "one"
    assert [await said(played, question) for _ in range(3)] == ["NO_REPLY"] * 3
    assert await said(played, asks("b")) == "two"
    played.finish()
    assert await said(played, question) == "NO_REPLY"
    assert (played.status()["requests"], played.problems()) == (2, [])


async def test_a_script_may_give_a_title() -> None:
    played = engine("- reply: one\ntitle: Trip to Rome")
    assert await said(played, asks(f"[Mon 2026-11-23 10:02] {TITLE_QUESTION}")) == "Trip to Rome"
    assert played.requests == []
