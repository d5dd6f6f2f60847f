"""A conversation as text for the model that summarises it: labelled, bounded, and nothing but data.

Reference sheet 7.4: as text a model does not take it for its own talk and go on with it. Pure.
"""

from __future__ import annotations

import json
import re
from typing import Any

from clawbot.context.cutting import clamp, head_and_tail
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    quotes_notes,
)
from clawbot.sessions.silence import spoken_message

UNFINISHED = "System: the unfinished turn begins here."

NOTES_LABEL = "System (notes, quoted as the session began)"

RESULT_CHARS = 2_000
"""What is kept of one tool result: what came of it is in the answers that follow."""

THINKING_CHARS = 1_000
ARGUMENT_CHARS = 300

_TAG = re.compile(r"<(?=\s*/?\s*(?:conversation|messages|transcript|previous[-_]summary|summary)\b)", re.IGNORECASE)
_LABEL = re.compile(
    r"^(?=[ \t]{0,4}(?:[-*]{1,2} ?)?\[?(?:user|human|assistant|ai|system|tool)(?: [a-z]+){0,2}(?: \([^)\n]*\))?\]?"
    r"\*{0,2}[ \t]?[:：])|^(?=[ \t]{0,4}(?:用户|助手|工具)[ \t]?[:：])",
    re.IGNORECASE | re.MULTILINE,
)


def serialise(message: Message) -> str:
    """`message` with the label of its role, its tool calls on lines of their own; "" when it says nothing to the
    user. Results, reasoning and arguments of calls are shortened."""
    match message:
        case UserMessage(content=content):
            return _labelled(NOTES_LABEL if quotes_notes(message) else "User", _shown(content))
        case AssistantMessage():
            said = spoken_message(message)
            return "\n\n".join(filter(None, map(_assistant, said.content if said else ())))
        case ToolResultMessage(tool_name=name, content=content, is_error=failed):
            label = f"Tool error ({name})" if failed else f"Tool result ({name})"
            return _labelled(label, head_and_tail(_shown(content), RESULT_CHARS))
        case BashExecutionMessage(text=text):
            return _labelled("User command", head_and_tail(text, RESULT_CHARS))


def neutral(text: str) -> str:
    """`text` without what could pass for the tags around it."""
    return _TAG.sub("&lt;", text)


def _labelled(label: str, text: str) -> str:
    """A line inside that looks like a label is marked, or a file could speak in the user's name."""
    return f"{label}: {_LABEL.sub('› ', neutral(text.strip()))}" if text.strip() else ""


def _assistant(block: TextBlock | ThinkingBlock | ToolCallBlock) -> str:
    match block:
        case TextBlock(text=text):
            return _labelled("Assistant", text)
        case ThinkingBlock(thinking=text):
            return _labelled("Assistant thinking", head_and_tail(text, THINKING_CHARS))
        case ToolCallBlock(name=name, arguments=arguments, malformed=malformed):
            given = clamp(malformed, ARGUMENT_CHARS) if malformed else ", ".join(map(_argument, arguments.items()))
            return _labelled("Assistant tool call", f"{name}({given})")


def _argument(named: tuple[str, Any]) -> str:
    name, value = named
    return f"{name}={clamp(json.dumps(value, ensure_ascii=False, default=str), ARGUMENT_CHARS)}"


def _shown(content: str | list[TextBlock | ImageBlock]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text if isinstance(block, TextBlock) else f"[image, {block.mime_type}]" for block in content)
