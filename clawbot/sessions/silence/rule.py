"""The rule applied to whole replies.

A reply that says nothing but a token is silent. A token before or after a real answer is taken off. A sentence about
the token is left alone: where both readings are possible, the text is shown.
"""

from __future__ import annotations

import re

from msgspec import structs

from clawbot.messages import AssistantBlock, AssistantMessage, TextBlock
from clawbot.sessions.silence.end import end_of
from clawbot.sessions.silence.start import start_of
from clawbot.sessions.silence.tokens import TOKEN, completed

_HINT = re.compile(r"NO\\?_|HEARTBEAT\\?_", re.IGNORECASE)
_NAMED = re.compile(rf"(?<!\w){TOKEN}(?!\w)")
_ASKS = re.compile(
    rf"pre-compaction memory flush|\b(?:reply|answer|respond)\b[^.\n]{{0,40}}\b{TOKEN}(?!\w)", re.IGNORECASE
)
# Prompts of programs begin with what they are for.
_ASKS_WITHIN = 2_000


def spoken(text: str, *, cut: bool = False) -> str:
    """What of the reply `text` is for the user, without blanks around it; "" when the reply is silent.

    `cut`: the reply was cut off, so a token begun at its end (`NO_RE`) counts as one.
    """
    if not _HINT.search(text):
        return text.strip()
    whole = completed(text) if cut else text
    start, end = _bounds(whole)
    if start < end and end > len(text):
        start, end = _bounds(text)
    return text[start:end].strip()


def is_silent(text: str, *, cut: bool = False) -> bool:
    """Whether the reply `text` holds a token and nothing for the user; an empty reply is not silent, it is empty."""
    return bool(text.strip()) and not spoken(text, cut=cut)


def spoken_message(message: AssistantMessage) -> AssistantMessage | None:
    """`message` as a reader is to see it: without tokens; None when nothing is left: no text, no call, no error.

    Reasoning that led to silence goes with it. A reply that was cut off before its first word stays, one that was cut
    off within a token does not.
    """
    text = message.text
    cut = was_cut(message)
    said = spoken(text, cut=cut)
    if said != text.strip():
        message = structs.replace(message, content=_blocks(message, said))
    if said or message.tool_calls or message.error_message:
        return message
    return message if cut and not text.strip() else None


def was_cut(message: AssistantMessage) -> bool:
    """Whether `message` did not end by itself."""
    return message.stop_reason in ("aborted", "length", "error")


def names_token(text: str) -> bool:
    """Whether a token stands somewhere in `text`."""
    return _NAMED.search(text) is not None


def asks_for_silence(text: str) -> bool:
    """Whether `text` is like the prompts by which programs ask for a silent reply (reference sheet 8.3, 21)."""
    return _ASKS.search(text[:_ASKS_WITHIN]) is not None


def _blocks(message: AssistantMessage, said: str) -> list[AssistantBlock]:
    """The blocks of `message` with `said` in place of its text."""
    blocks: list[AssistantBlock] = []
    left = said
    for block in message.content:
        if isinstance(block, TextBlock):
            blocks += [TextBlock(left)] if left else []
            left = ""
        else:
            blocks.append(block)
    return blocks


def _bounds(text: str) -> tuple[int, int]:
    start = start_of(text, ended=True) or 0
    return start, start + end_of(text[start:], ended=True)
