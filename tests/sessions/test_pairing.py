"""Calls and results as a model is to see them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.messages import AssistantMessage, Message, ThinkingBlock, ToolResultMessage
from clawbot.sessions.conversation import MISSING, repair_pairs

from .helpers import result, said, text_list, user


def test_a_sound_history_stays_as_it_is() -> None:
    messages: list[Message] = [user("a"), said("", "1", "2"), result("1"), result("2"), said("done")]
    assert repair_pairs(messages) == messages


def test_results_are_moved_behind_their_call_in_the_order_of_the_calls() -> None:
    call, one, two, between = said("", "1", "2"), result("1", "one"), result("2", "two"), user("meanwhile")
    assert repair_pairs([call, two, between, one]) == [call, one, two, between]
    assert repair_pairs([call, two, said("next"), one]) == [call, one, two, said("next")]


def test_second_results_and_results_of_nothing_are_dropped() -> None:
    call = said("", "1")
    assert repair_pairs([result("0"), result("1"), call, result("1", "first"), result("1", "again"), result("9")]) == [
        call,
        result("1", "first"),
    ]


def test_a_missing_result_is_made_up_as_an_error() -> None:
    repaired = repair_pairs([said("", "1", "2"), result("2", "two"), user("go on")])
    assert text_list(repaired) == ["", MISSING, "two", "go on"]
    made_up = repaired[1]
    assert isinstance(made_up, ToolResultMessage)
    assert (made_up.tool_call_id, made_up.tool_name, made_up.is_error) == ("1", "read", True)


def test_calls_of_broken_answers_are_dropped_with_their_results() -> None:
    for stop in ("error", "aborted"):
        broken = said("so far", "1", stop=stop)
        repaired = repair_pairs([user("a"), broken, result("1"), user("b")])
        assert text_list(repaired) == ["a", "so far", "b"]
        assert isinstance(repaired[1], AssistantMessage)
        assert repaired[1].tool_calls == []
        assert text_list(repair_pairs([user("a"), said("", "1", stop=stop), user("b")])) == ["a", "b"]


def test_an_answer_of_nothing_but_reasoning_is_left_out() -> None:
    assert repair_pairs([user("a"), AssistantMessage([ThinkingBlock("hm")]), said("  ")]) == [user("a")]


def test_ids_may_repeat() -> None:
    first, second = said("one", "c"), said("two", "c")
    history: list[Message] = [first, result("c", "1"), second, result("c", "2")]
    assert repair_pairs(history) == history
    assert text_list(repair_pairs([first, second, result("c", "2")])) == ["one", MISSING, "two", "2"]
    twice = said("", "c", "c")
    assert text_list(repair_pairs([twice, result("c", "1"), result("c", "2")])) == ["", "1", "2"]


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.one_of(
        st.builds(user, st.text(min_size=1, max_size=3)),
        st.builds(result, IDS, st.text(max_size=3)),
        st.builds(
            lambda text, ids, stop: structs.replace(said(text, *ids), stop_reason=stop),
            st.text(max_size=3),
            st.lists(IDS, max_size=3),
            st.sampled_from(["stop", "toolUse", "error", "aborted"]),
        ),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_every_call_has_one_result_and_every_result_a_call(messages: list[Message]) -> None:
    repaired = repair_pairs(messages)
    waiting: list[str] = []
    for message in repaired:
        if isinstance(message, ToolResultMessage):
            assert waiting
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert waiting == []
            waiting = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert waiting == []
    assert [message for message in repaired if message.text and isinstance(message, type(user("")))] == [
        message for message in messages if isinstance(message, type(user("")))
    ]
    assert repair_pairs(repaired) == repaired
