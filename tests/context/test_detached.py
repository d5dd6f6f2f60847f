"""Copies of the conversation for silent turns: everything that memory was not offered is in one of them, cut to fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawbot.context.counting import weigh_message
from clawbot.context.detached import MAX_COPIES, detach
from clawbot.messages import AssistantMessage, Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultMessage
from clawbot.sessions.conversation import ContextItem
from tests.context.talk import PICTURE, answer, items, result, rounds, user


def sizes(context: list[ContextItem]) -> list[int]:
    return [weigh_message(item.message) for item in context]


def test_with_room_the_model_sees_all_of_it_once_and_the_same_objects() -> None:
    context = items(user("old"), answer(), user("new"), answer())
    [copy] = detach(context, sizes(context), 2, 3, allowed=100)
    assert (copy.start, copy.stop) == (2, 3)
    assert all(shown is item.message for shown, item in zip(copy.messages, context[:3], strict=True))


def test_nothing_to_offer_is_no_copy() -> None:
    context = items(user(), answer())
    assert detach(context, sizes(context), 2, 2, allowed=100) == []


def test_without_room_what_was_offered_is_left_out_and_the_rest_is_shared_out() -> None:
    context = items(user("old " * 400), *(user(f"{number} " * 100) for number in range(4)))
    copies = detach(context, sizes(context), 1, 5, allowed=120)
    assert [(copy.start, copy.stop) for copy in copies] == [(1, 3), (3, 5)]
    assert [message for copy in copies for message in copy.messages] == [item.message for item in context[1:]]


@given(st.lists(st.text(max_size=600), min_size=1, max_size=8), st.integers(0, 10), st.integers(1, 2_000))
def test_copies_join_up_and_keep_calls_with_their_results(texts: list[str], begin: int, allowed: int) -> None:
    context = rounds(*texts, ends=1)
    start = min(begin, len(context) - 1)
    copies = detach(context, sizes(context), start, len(context), allowed=allowed)
    assert copies[0].start == start
    assert copies[-1].stop == len(context)
    assert all(before.stop == after.start for before, after in pairwise(copies))
    assert not any(isinstance(context[copy.start].message, ToolResultMessage) for copy in copies[1:])


def test_a_history_of_many_windows_is_cut_rather_than_asked_about_for_ever() -> None:
    context = items(*(user("很长的故事。" * 2_000) for _ in range(40)))
    copies = detach(context, sizes(context), 0, 40, allowed=2_000)
    assert 1 < len(copies) <= MAX_COPIES + 1
    assert copies[-1].stop == 40


@pytest.mark.parametrize(
    "message",
    [
        user("b" * 9_000 + "e"),
        result("b" * 9_000 + "e"),
        answer("b" * 9_000 + "e"),
        AssistantMessage([ToolCallBlock("c1", "write", {"path": "a.md", "content": "b" * 9_000 + "e"})]),
    ],
    ids=["user", "result", "answer", "call"],
)
def test_what_is_too_long_keeps_its_beginning_and_its_end(message: Message) -> None:
    context = items(message)
    [copy] = detach(context, sizes(context), 0, 1, allowed=400)
    assert weigh_message(copy.messages[0]) <= 400
    said = str(copy.messages[0])
    assert "characters left out" in said
    assert "bbb" in said
    assert "e'" in said


def test_pictures_and_reasoning_give_way_to_words() -> None:
    context = items(
        AssistantMessage([ThinkingBlock("hm " * 3_000), TextBlock("fine")]), ToolResultMessage("c", "read", [PICTURE])
    )
    [copy] = detach(context, sizes(context), 0, 2, allowed=500)
    assert [message.text for message in copy.messages] == ["\nfine", "[A picture was here.]"]
