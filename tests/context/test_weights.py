"""Sizes without a tokenizer. What single messages weigh is in `test_guard.py` (`test_weights`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from clawbot.context.counting import quick_size, weigh_message
from clawbot.messages import AssistantMessage, Message, StopReason, TextBlock, Usage, UserMessage
from clawbot.sessions.conversation import ContextItem
from tests.context.talk import answer, conversations, result, user

USAGE = Usage(input=100, cache_read=20, cache_write=3, output=7, total_tokens=999)


def reported(usage: Usage | None = USAGE, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage([TextBlock("fine")], usage=usage, stop_reason=stop)


@pytest.mark.parametrize(
    ("messages", "fresh_from", "size"),
    [
        ([], 0, (0, False, False)),
        ([user("abcdefgh"), answer("中文")], 0, (4, False, False)),
        ([user("x" * 4_000), reported()], 0, (130, True, True)),
        ([user(), reported(), user("abcdefgh"), result("四个汉字")], 0, (130 + 2 + 4, True, False)),
        ([reported(), user("abcd"), reported(Usage(input=500, output=1))], 0, (501, True, True)),
        # What was broken off or reported nothing leaves it to the answer before, and is weighed itself.
        ([reported(), reported(stop="aborted")], 0, (131, True, False)),
        ([reported(), reported(stop="error")], 0, (131, True, False)),
        ([reported(), reported(None)], 0, (131, True, False)),
    ],
)
def test_the_last_good_report_and_the_weight_of_what_came_since(
    messages: list[Message], fresh_from: int, size: tuple[int, bool, bool]
) -> None:
    assert quick_size(messages, fresh_from) == size


def test_bug_7_1_what_was_reported_before_a_compaction_counts_no_more() -> None:
    """Sheet 7.1: the kept answer tells of the context before."""
    kept: list[Message] = [user("summary"), reported(), user("abcd")]
    assert quick_size(kept, 1) == (131, True, False)
    assert quick_size(kept, 2) == (sum(map(weigh_message, kept)), False, False)


@given(conversations, st.integers(0, 30))
def test_without_reports_it_is_the_weight_of_all(talk: list[ContextItem], fresh_from: int) -> None:
    messages = [item.message for item in talk]
    assert quick_size(messages, fresh_from) == (sum(map(weigh_message, messages)), False, False)


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_longer_text_weighs_no_less_and_never_more_than_its_characters(text: str, more: str) -> None:
    short, long = weigh_message(UserMessage(text)), weigh_message(UserMessage(text + more))
    assert short <= long <= len(text + more)
    assert weigh_message(structs.replace(answer(text))) == short
