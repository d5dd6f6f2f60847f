"""The lines of a transcript as typed records: format version 3 (reference sheet 3.5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.clock import epoch_ms
from clawbot.messages import Message, UserBlock

FORMAT_VERSION = 3


class Header(Struct, frozen=True, tag_field="type", tag="session", rename="camel", omit_defaults=True):
    """The first line of a transcript: metadata, no part of the tree.

    `session_key` is ours (other programs pass over it): it lets the index be rebuilt from the transcripts alone.
    """

    version: int
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None
    session_key: str | None = None


class Entry(Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """What all entries share. `timestamp` is ISO 8601 in UTC; `parent_id` None is the first entry of a tree."""

    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""

    @property
    def moment(self) -> int:
        """The timestamp in milliseconds since the epoch; 0 when it makes no sense."""
        return iso_ms(self.timestamp)


class MessageEntry(Entry, frozen=True, tag="message"):
    """A message. `excluded`: the user ran a command whose output the model is not to see (never written by us)."""

    message: Message
    excluded: bool = False


class CompactionEntry(Entry, frozen=True, tag="compaction"):
    """Everything before `first_kept_entry_id` is stood for by `summary`. `tokens_before`: the context's size then."""

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    from_hook: bool | None = None


class ModelChangeEntry(Entry, frozen=True, tag="model_change"):
    """From here on another model answers."""

    provider: str
    model_id: str


class ThinkingLevelChangeEntry(Entry, frozen=True, tag="thinking_level_change"):
    """From here on the model reasons at another level."""

    thinking_level: str


class CustomEntry(Entry, frozen=True, tag="custom"):
    """State of a hook or of the program itself; the model never sees it."""

    custom_type: str
    data: Any = None


class CustomMessageEntry(Entry, frozen=True, tag="custom_message"):
    """A message put in by a hook: the model sees it as the user's, the screen shows it if `display` is set."""

    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None


class BranchSummaryEntry(Entry, frozen=True, tag="branch_summary"):
    """What happened on the branch that ended at `from_id`, told to the model."""

    summary: str
    from_id: str = ""
    details: Any = None
    from_hook: bool | None = None


class LabelEntry(Entry, frozen=True, tag="label"):
    """A bookmark on another entry; no label takes it away."""

    target_id: str
    label: str | None = None


class SessionInfoEntry(Entry, frozen=True, tag="session_info"):
    """The name that the user gave the session."""

    name: str | None = None


class OtherEntry(Entry, frozen=True, tag="other"):
    """An entry of a type or shape that we don't know: kept in the file and in the tree, else passed over."""

    kind: str


ENTRY_TYPES: dict[str, type[Entry]] = {
    "message": MessageEntry,
    "compaction": CompactionEntry,
    "model_change": ModelChangeEntry,
    "thinking_level_change": ThinkingLevelChangeEntry,
    "custom": CustomEntry,
    "custom_message": CustomMessageEntry,
    "branch_summary": BranchSummaryEntry,
    "label": LabelEntry,
    "session_info": SessionInfoEntry,
}


class EntryHead(Struct, frozen=True, rename="camel"):
    """The part of a line that the tree is made of: enough to walk it without decoding what the entries hold.

    `parent_id` is UNSET where the line has none: files of version 1 are lists, and so are lines that other programs
    put in by hand.
    """

    type: str
    id: str | None = None
    parent_id: str | msgspec.UnsetType | None = msgspec.UNSET
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | float | None = None


def iso_ms(text: str) -> int:
    """An ISO 8601 time in milliseconds since the epoch; 0 when it is none. No zone means UTC."""
    try:
        moment = datetime.fromisoformat(text)
        return epoch_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return 0
