"""The conversation that a flush, a summary or a slug is made of: given as messages, or as text between tags."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Literal

from msgspec import Struct

from clawbot.llm.offline.compacted import read_compacted
from clawbot.llm.offline.quoted import without_quoted
from clawbot.llm.offline.turn import WRITERS
from clawbot.llm.protocol import ChatRequest
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)

Role = Literal["user", "assistant", "tool"]

PROVIDER = "offline"
NO_REPLY = "NO_REPLY"

MAX_SAID = 200_000
"""Of one message so much is looked at, in characters: what is beyond is a paste, and its end is kept."""

_FLUSH_PROMPT = re.compile(r"pre-compaction memory flush", re.IGNORECASE)
_TAGGED = re.compile(r"<(conversation|messages|transcript)>\n?(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_PREVIOUS = re.compile(r"<previous[-_]summary>\n?(.*?)</previous[-_]summary>", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"^[ \t]{0,4}(?:[-*]{1,2}[ ]?)?\[?(?P<role>user(?: command)?|assistant(?: thinking| tool calls?)?|"
    r"tool(?: result| call| error)?s?|human|ai|system|"
    r"用户|助手|工具)(?: \([^)\n]{1,80}\))?\]?\*{0,2}[ \t]?[:：]\*{0,2}[ \t]?",
    re.IGNORECASE | re.MULTILINE,
)
_ROLES: dict[str, Role] = {
    "user": "user",
    "human": "user",
    "用户": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "助手": "assistant",
}


class Said(Struct, frozen=True):
    """One thing that was said, in the conversation's order. `stored` is what its tool calls wrote into files."""

    role: Role
    text: str
    stored: tuple[str, ...] = ()


class Material(Struct, frozen=True):
    """The conversation, the summary of what came before it, and what was asked for besides."""

    said: list[Said]
    previous: str = ""
    instruction: str = ""


def material(request: ChatRequest) -> Material:
    """What `request` gives to work on. The last message is the instruction, unless it is all there is."""
    last = request.messages[-1] if request.messages else None
    text = last.text if isinstance(last, UserMessage) else ""
    previous = "\n".join(found.strip() for found in _PREVIOUS.findall(text))
    tagged = [found[1] for found in _TAGGED.findall(text)]
    if tagged:
        instruction = _PREVIOUS.sub("", _TAGGED.sub("", text)).strip()
        return Material(labelled("\n".join(tagged)), previous, instruction)
    if len(request.messages) > 1 and isinstance(last, UserMessage):
        return Material(said_in(request.messages[:-1]), previous, _PREVIOUS.sub("", text).strip())
    if text:
        return Material(labelled(_PREVIOUS.sub("", text)), previous)
    return Material(said_in(request.messages), previous)


def is_flush_prompt(text: str) -> bool:
    """Whether `text` asks for a flush, whatever the request says of its purpose."""
    return _FLUSH_PROMPT.search(text[:2_000]) is not None


def said_in(messages: Sequence[Message]) -> list[Said]:
    """The messages as what was said, without the silent turns, a summary of earlier ones, and quoted notes."""
    done = {
        message.tool_call_id for message in messages if isinstance(message, ToolResultMessage) and not message.is_error
    }
    return [said for message in without_quoted(messages) if _tells(said := _said(message, done))]


def _tells(said: Said) -> bool:
    text = said.text.strip()
    if said.role == "user" and (is_flush_prompt(text) or read_compacted(text)):
        return False
    return bool(said.stored) or (bool(text) and text != NO_REPLY)


def _said(message: Message, done: Container[str]) -> Said:
    match message:
        case UserMessage():
            return Said("user", message.text[-MAX_SAID:])
        case AssistantMessage():
            stored = tuple(_written(call) for call in message.tool_calls if call.id in done and call.name in WRITERS)
            # What this model said itself is phrases and quotes of notes: nothing that is worth keeping again.
            return Said("assistant", "" if message.provider == PROVIDER else message.text[-MAX_SAID:], stored)
        case ToolResultMessage() | BashExecutionMessage():
            return Said("tool", message.text[-MAX_SAID:])


def _written(call: ToolCallBlock) -> str:
    """What the call put into its file."""
    text = call.arguments.get(WRITERS[call.name])
    return text[-MAX_SAID:] if isinstance(text, str) else ""


def labelled(text: str) -> list[Said]:
    """Text with `User:` and `Assistant:` at the start of lines as what was said; without any, the user said it all."""
    labels = list(_LABEL.finditer(text))
    if not labels:
        return [Said("user", text.strip()[-MAX_SAID:])] if text.strip() else []
    ends = [label.start() for label in labels[1:]] + [len(text)]
    found = (
        Said(_role(label["role"]), text[label.end() : end].strip()[-MAX_SAID:])
        for label, end in zip(labels, ends, strict=True)
    )
    return [said for said in found if said.text]


def _role(label: str) -> Role:
    return _ROLES.get(label.lower(), "tool")
