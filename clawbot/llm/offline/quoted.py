"""The message that a session begins with: notes that the program quotes, which nobody said.

The form is that of `context/startup.py`: one line of the program, then of each note its path and its text in a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from clawbot.messages import Message, quotes_notes

_FENCE = re.compile(r"`{3,}\Z")
_OF_CONVERSATION = re.compile(r"\d{4}-\d{2}-\d{2}-")


class QuotedNote(Struct, frozen=True):
    """A note as far as it is quoted."""

    path: str
    text: str

    @property
    def is_of_conversation(self) -> bool:
        """Whether it was kept of one conversation, and is not the log of a day."""
        return _OF_CONVERSATION.match(self.path.rpartition("/")[2]) is not None


def read_quoted(message: Message) -> tuple[QuotedNote, ...]:
    """The notes in `message`, the newest first; none when it is no such message."""
    fence = _FENCE.search(message.text) if quotes_notes(message) else None
    if fence is None:
        return ()
    # All fences are of one length, and longer than any in the notes: the last one tells them all.
    note = re.compile(rf"^`(?P<path>[^`\n]+)`:\n{fence[0]}text\n(?P<text>.*?)\n{fence[0]}$", re.MULTILINE | re.DOTALL)
    return tuple(QuotedNote(found["path"], found["text"]) for found in note.finditer(message.text))


def without_quoted(messages: Iterable[Message]) -> tuple[Message, ...]:
    """What was said in `messages`, without quotes of notes."""
    return tuple(message for message in messages if not quotes_notes(message))
