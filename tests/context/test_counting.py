"""Counting messages: what goes over the wire, each of them once, and the same objects that make it once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.context.counting import IMAGE_TOKENS, MESSAGE_TOKENS, Reuse, TokenCounter
from clawbot.llm import tokens
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.tokens import count_now
from clawbot.llm.wire import Speller
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem
from tests.context.talk import items, result, user

PICTURE = ImageBlock("aGk=" * 1000, "image/png")
CALL = ToolCallBlock("call_0123456789abcdef", "write", {"path": "notes/笔记.md", "content": "好" * 50})


class Words:
    """Counts words, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> int:
        self.asked.append(text)
        return len(text.split())


def answer(*blocks: Any, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(list(blocks), stop_reason=stop)


def test_each_message_is_counted_once() -> None:
    words = Words()
    counter = TokenCounter(words)
    message = UserMessage("three short words")
    assert [counter.of(message), counter.of(message)] == [MESSAGE_TOKENS + 3] * 2
    assert words.asked == ["three short words"]


def test_equal_messages_are_different_messages() -> None:
    """Comparing would cost more than counting: messages are told apart as objects."""
    words = Words()
    counter = TokenCounter(words)
    counter.of(UserMessage("a"))
    counter.of(UserMessage("a"))
    assert len(words.asked) == 2


def test_what_left_the_context_is_forgotten_and_the_rest_is_not() -> None:
    words = Words()
    counter = TokenCounter(words)
    messages = [UserMessage(f"m{number}") for number in range(3)]
    for message in messages:
        counter.of(message)
    counter.forget_except(messages[1:])
    words.asked.clear()
    for message in messages:
        counter.of(message)
    assert words.asked == ["m0"]


def test_a_new_object_at_the_place_of_an_old_one_is_not_taken_for_it() -> None:
    """Identities are used again once an object is gone, so the counter keeps what it knows."""
    counter = TokenCounter(Words())
    for number in range(1, 200):
        assert counter.of(UserMessage("word " * number)) == MESSAGE_TOKENS + number


def test_texts_are_counted_once() -> None:
    words = Words()
    counter = TokenCounter(words)
    for _ in range(3):
        assert counter.text("the rules") == 2
        counter.forget_except([])
    assert words.asked == ["the rules"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (UserMessage("hello world"), 4 + 2),
        (UserMessage(" \n"), 0),
        (UserMessage([]), 0),
        (answer(TextBlock("hello world")), 4 + 2),
        (answer(), 0),
        (answer(ThinkingBlock("long thoughts " * 100)), 0),
        (answer(ThinkingBlock("long thoughts " * 100), TextBlock("hello world")), 4 + 2),
        (ToolResultMessage("1", "read", [TextBlock("hello world")]), 4 + 2),
        (BashExecutionMessage("ls", "hello", exit_code=0), 4 + count_now("Ran `ls` (exit 0)\nhello")),
    ],
)
def test_a_message_by_its_kind(message: Message, expected: int) -> None:
    assert TokenCounter().of(message) == expected


def test_a_call_counts_its_name_and_its_arguments_as_they_are_sent_but_not_its_id() -> None:
    body = Speller().body(ChatRequest("", (answer(CALL, stop="toolUse"),)), "openai/m")
    function = body["messages"][0]["tool_calls"][0]["function"]
    sent = count_now(function["name"]) + count_now(function["arguments"])
    assert TokenCounter().of(answer(CALL, stop="toolUse")) == 2 * MESSAGE_TOKENS + sent


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_calls_of_an_answer_that_broke_off_are_not_sent_and_do_not_count(stop: StopReason) -> None:
    assert TokenCounter().of(answer(TextBlock("hello"), CALL, stop=stop)) == MESSAGE_TOKENS + 1
    assert TokenCounter().of(answer(CALL, stop=stop)) == 0


def test_a_broken_call_is_sent_without_its_raw_text() -> None:
    broken = ToolCallBlock("1", "write", {}, malformed="x " * 4000)
    assert TokenCounter().of(answer(broken, stop="toolUse")) < 15


def test_an_empty_result_is_what_stands_for_it() -> None:
    assert TokenCounter().of(ToolResultMessage("1", "shell", [])) > MESSAGE_TOKENS


def test_bug_6_4_pictures_of_the_user_count() -> None:
    assert TokenCounter().of(UserMessage([TextBlock("look"), PICTURE])) == MESSAGE_TOKENS + 1 + IMAGE_TOKENS
    assert TokenCounter().of(UserMessage([PICTURE, PICTURE])) == MESSAGE_TOKENS + 2 * IMAGE_TOKENS


def test_pictures_of_tools_come_in_a_message_of_their_own() -> None:
    seen = TokenCounter().of(ToolResultMessage("1", "read", [TextBlock("hello"), PICTURE]))
    assert seen > 2 * MESSAGE_TOKENS + 1 + IMAGE_TOKENS
    assert seen < 2 * MESSAGE_TOKENS + 30 + IMAGE_TOKENS


@pytest.mark.parametrize("known", [True, False])
def test_gap_6_4_chinese_counts_what_it_takes(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the characters would be a quarter of the truth; also without a vocabulary."""
    text = "今天我们把数据库迁移到了新的服务器，端口改成了五四三三。" * 50
    truth = count_now(text)
    if not known:
        monkeypatch.setattr(tokens, "_load", lambda: None)
    counted = TokenCounter().of(UserMessage(text)) - MESSAGE_TOKENS
    assert truth <= counted <= truth * (1 if known else 2)
    assert len(text) / 4 < truth / 2


@pytest.mark.parametrize(
    ("ref", "calls", "signature", "counts"),
    [
        ("", True, None, True),
        ("openai/gpt-5", True, None, True),  # perhaps at another address
        ("openai/gpt-5", True, "{}", False),
        ("gemini/gemini-3", True, None, False),
        ("deepseek/deepseek-chat", True, None, True),
        ("deepseek/deepseek-chat", False, None, False),
        ("anthropic/claude-sonnet-5-5", False, "sig", True),
        ("anthropic/claude-sonnet-5-5", False, None, False),
    ],
)
def test_reasoning_counts_where_it_is_sent_again(ref: str, calls: bool, signature: str | None, counts: bool) -> None:
    blocks = [ThinkingBlock("well " * 100, signature), TextBlock("hello"), *([CALL] if calls else [])]
    counter = TokenCounter(ref=ref)
    more = counter.of(answer(*blocks)) - counter.of(answer(*blocks[1:]))
    assert more == (count_now("well " * 100) if counts else 0)


def test_a_tool_is_its_description_as_it_is_sent() -> None:
    spec = ToolSpec("read", "读文件", {"type": "object"})
    text = '{"type":"function","function":{"name":"read","description":"读文件","parameters":{"type":"object"}}}'
    assert TokenCounter().tool(spec) == count_now(text)


ITEMS = items(*(user(f"问题 {number}") if number % 2 else result(f"{number}", f"c{number}") for number in range(6)))


def cut(item: ContextItem, text: str = "…") -> ContextItem:
    """A new item that stands in for `item`."""
    block = TextBlock(text)
    return ContextItem(item.entry_id, structs.replace(item.message, content=[block]))


def test_an_equal_item_is_the_object_of_the_last_view() -> None:
    reuse = Reuse()
    first = reuse.settle(ITEMS[:1], [cut(ITEMS[0])])
    again = reuse.settle(ITEMS[:2], [cut(ITEMS[0]), ITEMS[1]])
    assert again[0] is first[0]
    assert again[1] is ITEMS[1]


def test_another_text_is_another_object_and_takes_its_place() -> None:
    reuse = Reuse()
    first = reuse.settle(ITEMS[:1], [cut(ITEMS[0], "long")])
    second = reuse.settle(ITEMS[:1], [cut(ITEMS[0], "short")])
    assert (first[0].message.text, second[0].message.text) == ("long", "short")
    assert reuse.settle(ITEMS[:1], [cut(ITEMS[0], "short")])[0] is second[0]
    assert reuse.settle(ITEMS[:1], [cut(ITEMS[0], "long")])[0] is not first[0]


def test_results_that_have_no_entry_are_told_apart_by_their_calls() -> None:
    """What is made up for a call without a result belongs to the entry of the call."""
    pair = [ContextItem("", ToolResultMessage(call, "read", [TextBlock(call)])) for call in ("c1", "c2")]
    reuse = Reuse()
    first = reuse.settle(pair, [cut(item) for item in pair])
    again = reuse.settle(pair, [cut(item) for item in pair])
    assert [now is was for now, was in zip(again, first, strict=True)] == [True, True]
    assert [item.message.tool_call_id for item in again if isinstance(item.message, ToolResultMessage)] == ["c1", "c2"]


@given(st.lists(st.lists(st.sampled_from(["", "a", "b"]), min_size=len(ITEMS), max_size=len(ITEMS)), max_size=6))
def test_each_view_is_equal_to_what_was_given_and_knows_the_view_before_alone(views: list[list[str]]) -> None:
    reuse = Reuse()
    before: list[ContextItem] = []
    for texts in views:
        made = [cut(item, text) if text else item for item, text in zip(ITEMS, texts, strict=True)]
        settled = reuse.settle(ITEMS, made)
        assert settled == made
        assert len(reuse) == sum(map(bool, texts))
        for item, shown, new, known in zip(ITEMS, settled, made, before or ITEMS, strict=True):
            was_a_stand_in = known is not item
            assert shown is (known if was_a_stand_in and known == new else new)
        before = settled
