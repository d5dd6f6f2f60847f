"""The last texts of a conversation: what user and assistant said to each other, without the machinery between."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from clawbot.logs import redact
from clawbot.messages import AssistantMessage, UserMessage
from clawbot.sessions.conversation import HistoryItem
from clawbot.sessions.silence import names_token
from clawbot.sessions.spoken import is_command
from clawbot.sessions.transcript import Transcript

_PAGE = 60  # items of history that are looked at together: a turn with tools has a handful


class SaidText(Struct, frozen=True):
    """What was said: `role` is `user` or `assistant`, `timestamp` in milliseconds since the epoch."""

    role: str
    text: str
    timestamp: int


def last_said(transcript: Transcript, limit: int) -> list[SaidText]:
    """The last `limit` texts in `transcript`, oldest first, secrets redacted. Blocks.

    All text of a message counts as one. Left out are tools and what they printed, reasoning, slash commands, what jobs
    said, silent replies, and the prompts of programs that asked for silence and got it (reference sheet 9, 11.1).
    Raises SessionStoreError.
    """
    found: list[SaidText] = []
    for text in _backwards(transcript):
        if len(found) == limit:
            break
        found.append(text)
    return found[::-1]


def _backwards(transcript: Transcript) -> Iterator[SaidText]:
    """All texts, the last first."""
    answered = False
    for item in _items(transcript):
        message = item.message
        if not isinstance(message, UserMessage | AssistantMessage):
            continue
        text = message.text.strip()
        if not text:
            continue
        if isinstance(message, AssistantMessage):
            answered = True
            yield SaidText("assistant", redact(text), item.timestamp)
        elif not is_command(text):
            if not message.scheduled and (answered or not names_token(text)):
                yield SaidText("user", redact(text), item.timestamp)
            answered = False


def _items(transcript: Transcript) -> Iterator[HistoryItem]:
    """The history, the last item first, read page by page."""
    before: str | None = None
    while page := transcript.history(before=before, limit=_PAGE):
        yield from reversed(page)
        before = page[0].entry_id
