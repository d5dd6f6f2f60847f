"""Conversations spelled in letters: `u` a user message, `a` an answer, `c` one that calls a tool, `r` its result."""

from __future__ import annotations

from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from clawbot.sessions.conversation import ContextItem


def user(text: str) -> UserMessage:
    return UserMessage(text)


def answer(text: str, *calls: ToolCallBlock) -> AssistantMessage:
    return AssistantMessage([TextBlock(text), *calls] if text else list(calls))


def call(ident: str = "c1", name: str = "read", **arguments: object) -> ToolCallBlock:
    return ToolCallBlock(ident, name, dict(arguments))


def result(text: str, ident: str = "c1", name: str = "read", *, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(ident, name, [TextBlock(text)], is_error=is_error)


def items_of(*messages: Message) -> list[ContextItem]:
    return [ContextItem(f"e{index}", message) for index, message in enumerate(messages)]


def spelled(letters: str) -> list[ContextItem]:
    """The items of `letters`; `C` calls two tools, `b` is a command of the user. Results answer open calls in order."""
    messages: list[Message] = []
    open_calls: list[str] = []
    for index, letter in enumerate(letters):
        match letter:
            case "u":
                messages.append(user(f"ask {index}"))
            case "a":
                messages.append(answer(f"answer {index}"))
            case "b":
                messages.append(BashExecutionMessage("ls", "out", 0))
            case "c" | "C":
                made = [call(f"c{index}.{number}") for number in range(1 if letter == "c" else 2)]
                open_calls = [block.id for block in made]
                messages.append(answer("", *made))
            case _:
                ident = open_calls.pop(0) if open_calls else "orphan"
                messages.append(result(f"result {index}", ident))
    return items_of(*messages)
