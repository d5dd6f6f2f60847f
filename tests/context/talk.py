"""Conversations in short, for tests of what the model sees of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem

PICTURE = ImageBlock("aGVsbG8=", "image/png")


def user(text: str = "go on") -> UserMessage:
    return UserMessage(text)


def answer(text: str = "fine", *calls: str) -> AssistantMessage:
    blocks = [ToolCallBlock(call, "read", {"path": "a.md"}) for call in calls]
    return AssistantMessage([TextBlock(text), *blocks], provider="openai", model="gpt-5")


def result(text: str, call: str = "c1", *, tool: str = "read", picture: bool = False) -> ToolResultMessage:
    content: list[UserBlock] = [TextBlock(text), PICTURE] if picture else [TextBlock(text)]
    return ToolResultMessage(call, tool, content, timestamp=7)


def items(*messages: Message) -> list[ContextItem]:
    """The messages with ids of their own: e0, e1, …"""
    return [ContextItem(f"e{index}", message) for index, message in enumerate(messages)]


def rounds(*texts: str, ends: int = 0) -> list[ContextItem]:
    """A question, for each text a call that it is the result of, and answers at the end."""
    messages: list[Message] = [user("a question")]
    for number, text in enumerate(texts):
        messages += [answer("", f"c{number}"), result(text, f"c{number}")]
    return items(*messages, *(answer(f"end {number}") for number in range(ends)))


def said(view: Sequence[ContextItem]) -> list[str]:
    return [item.message.text for item in view]


_texts = st.one_of(
    st.text(max_size=80),
    st.builds(
        lambda line, times: line * times,
        st.sampled_from(["word and word\n", "中文内容很多", "0123456789abcdef", "👩‍👩‍👧 é\n"]),
        st.integers(0, 1500),
    ),
)
_messages = st.one_of(
    st.builds(user, _texts),
    st.builds(answer, _texts, st.sampled_from(["c1", "c2"])),
    st.builds(
        result, _texts, st.sampled_from(["c1", "c2"]), tool=st.sampled_from(["read", "shell"]), picture=st.booleans()
    ),
    st.builds(BashExecutionMessage, command=st.just("ls"), output=_texts),
)
conversations = st.lists(_messages, max_size=25).map(lambda messages: items(*messages))
