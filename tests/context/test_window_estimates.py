"""Token figures: never far too low in any script, and what the provider reported comes first."""

from __future__ import annotations

import pytest

from clawbot.context.counting import IMAGE_TOKENS
from clawbot.context.window import context_used, estimate_message, estimate_tools
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
    Usage,
    UserMessage,
)


def answer(text: str, usage: Usage | None = None, stop: StopReason = "stop") -> AssistantMessage:
    return AssistantMessage(content=[TextBlock(text)], usage=usage, stop_reason=stop)


def test_every_part_of_a_message_counts() -> None:
    picture = ImageBlock("aGk=", "image/png")
    assert estimate_message(UserMessage([TextBlock("a"), picture])) > IMAGE_TOKENS
    assert estimate_message(ToolResultMessage("1", "read", [picture])) > IMAGE_TOKENS
    with_call = AssistantMessage([ThinkingBlock("b" * 400), ToolCallBlock("1", "write", {"content": "好" * 100})])
    assert estimate_message(with_call) > 230
    assert estimate_message(AssistantMessage([ToolCallBlock("1", "write", {}, malformed="x" * 400)])) > 115
    assert estimate_message(BashExecutionMessage("ls", "o" * 400)) > 115


def test_usage_of_the_last_good_answer_and_what_came_after() -> None:
    usage = Usage(input=100, cache_read=900, cache_write=50, output=30)
    done: list[Message] = [UserMessage("a" * 4000), answer("b", usage)]
    assert context_used(done, "system") == (1080, True)
    later = [*done, UserMessage("好" * 100)]
    assert context_used(later, "system") == (1080 + estimate_message(later[-1]), False)


@pytest.mark.parametrize("stop", ["error", "aborted"])
def test_a_failed_answer_reports_nothing(stop: StopReason) -> None:
    messages: list[Message] = [answer("x", Usage(input=500, output=1)), answer("part", Usage(input=9, output=9), stop)]
    assert context_used(messages, "") == (501 + estimate_message(messages[1]), False)


@pytest.mark.parametrize("usage", [None, Usage(), Usage(output=7), Usage(input=-5)])
def test_without_a_report_everything_is_estimated(usage: Usage | None) -> None:
    messages: list[Message] = [UserMessage("hello"), answer("hi", usage)]
    tools = [ToolSpec("read", "Read.", {"type": "object"})]
    tokens, exact = context_used(messages, "s" * 400, tools)
    assert not exact
    assert tokens == 115 + estimate_tools(tools) + sum(map(estimate_message, messages))


def test_an_empty_conversation_is_the_prompt() -> None:
    assert context_used([], "a" * 400) == (115, False)
