"""How much of a tool's output is stored: a runaway result must not make every later start slow."""

from __future__ import annotations

from msgspec import structs

from clawbot.messages import Message, TextBlock, ToolResultMessage, UserBlock

# Reference sheet 3.6: a result is stored up to this many characters, and each of its blocks at least up to the second.
RESULT_CHARS = 400_000
BLOCK_CHARS = 2_000
NOTICE_CHARS = 100


def capped(message: Message) -> Message:
    """`message` as it is stored: the text of a tool result cut to the limit, with a notice of what was left out."""
    if not isinstance(message, ToolResultMessage) or len(message.text) <= RESULT_CHARS:
        return message
    left = RESULT_CHARS
    blocks: list[UserBlock] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            keep = max(left, BLOCK_CHARS)
            left = max(0, left - len(block.text))
            blocks.append(TextBlock(_cut(block.text, keep)))
        else:
            blocks.append(block)
    return structs.replace(message, content=blocks)


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    kept = limit - NOTICE_CHARS
    return f"{text[:kept]}\n\n[The last {len(text) - kept:,} of {len(text):,} characters were not stored.]"
