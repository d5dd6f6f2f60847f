"""The entries of a transcript (pi's format, version 3) and their conversion from and to lines: lenient when reading,
strict when writing.

Among them are the records of offers to memory: which entries were offered, to whom, and the outcome. They are `custom`
entries of the type `OFFER`: one at the start of an offer, one before each write, and one at its end. After a crash, the
open outcome can be determined from the file that was about to be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from clawbot.clock import epoch_ms
from clawbot.messages import AssistantMessage, Message, Usage, UserBlock, UserMessage, is_timed, scrub
from clawbot.sessions.envelopes import is_job

FORMAT_VERSION = 3


class Header(Struct, frozen=True, tag_field="type", tag="session", rename="camel", omit_defaults=True):
    """The first line of a transcript: metadata outside the tree. `session_key` and `fork` are our additions (other
    programs ignore them). With the key the index can be rebuilt from the transcripts alone. `fork` is the entry with
    which the part of a fork begins that is its own; what precedes it belongs to the session of `parent_session`."""

    version: int
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None
    session_key: str | None = None
    fork: str | None = None


class Entry(Struct, frozen=True, gc=False, kw_only=True, tag_field="type", rename="camel"):
    """The fields of all entries. `timestamp` is ISO 8601 in UTC; `parent_id` is None for the first entry of a tree."""

    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""

    @property
    def moment(self) -> int:
        """The timestamp in milliseconds since the epoch; 0 if it is invalid."""
        return iso_ms(self.timestamp)


class MessageEntry(Entry, frozen=True, tag="message"):
    """A message."""

    message: Message


class CompactionEntry(Entry, frozen=True, tag="compaction"):
    """`summary` replaces everything before `first_kept_entry_id`. `tokens_before`: the size of the context at that
    time."""

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    from_hook: bool | None = None


class ModelChangeEntry(Entry, frozen=True, tag="model_change"):
    """Another model answers from here on."""

    provider: str
    model_id: str


class ThinkingLevelChangeEntry(Entry, frozen=True, tag="thinking_level_change"):
    """The model uses another reasoning level from here on."""

    thinking_level: str


class CustomEntry(Entry, frozen=True, tag="custom"):
    """State of a hook or of the program; the model never sees it."""

    custom_type: str
    data: Any = None


class CustomMessageEntry(Entry, frozen=True, tag="custom_message"):
    """A message added by a hook: sent to the model as the user's, shown on the screen if `display` is set."""

    custom_type: str
    content: str | list[UserBlock]
    display: bool = True
    details: Any = None


class BranchSummaryEntry(Entry, frozen=True, tag="branch_summary"):
    """A summary of the branch that ended at `from_id`, for the model."""

    summary: str
    from_id: str = ""
    details: Any = None
    from_hook: bool | None = None


class LabelEntry(Entry, frozen=True, tag="label"):
    """A bookmark on another entry; None removes it."""

    target_id: str
    label: str | None = None


class SessionInfoEntry(Entry, frozen=True, tag="session_info"):
    """A name of the session: the user's, or the title that the model `by` gave it."""

    name: str | None = None
    by: str | None = None


class OtherEntry(Entry, frozen=True, tag="other"):
    """An entry of unknown type or shape: kept in the file and the tree, otherwise ignored."""

    kind: str


def user_spoke_at(entries: Sequence[Entry]) -> int:
    """The time of the user's last message in `entries`, in milliseconds since the epoch; 0 if there is none."""
    for entry in reversed(entries):
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage) and not entry.message.scheduled:
            return entry.message.timestamp if is_timed(entry.message) else entry.moment
    return 0


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


class EntryHead(Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a line that form the tree, so that it can be walked without decoding the rest. `parent_id` is UNSET
    if the line has none, as in files of version 1 (plain lists) and in lines added by other programs."""

    type: str
    id: str | None = None
    parent_id: str | msgspec.UnsetType | None = msgspec.UNSET
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | float | None = None


def iso_ms(text: str) -> int:
    """An ISO 8601 time in milliseconds since the epoch; 0 if it is invalid. UTC if it has no zone."""
    try:
        moment = datetime.fromisoformat(text)
        return epoch_ms(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return 0


E = TypeVar("E", bound=Entry)

# Not part of a line: remains of a power cut (a block that never reached the disk) or of other systems (BOM, CRLF).
PADDING = b"\x00 \t\r\xef\xbb\xbf"

_HEADS = msgspec.json.Decoder(EntryHead)
_HEADERS = msgspec.json.Decoder(Header)
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in ENTRY_TYPES.items()}
_FAILURES = (ValueError, RecursionError)  # msgspec's and json's errors are ValueErrors
# Related programs store the text of hooks as messages with one of these roles (hookMessage: version 2).
_HOOK_ROLES = {"custom", "hookMessage"}
# The required text fields of each block type.
_NEEDED = {"text": ("text",), "thinking": ("thinking",), "toolCall": ("id", "name"), "image": ("data", "mimeType")}
_STOP_REASONS = {"stop", "length", "toolUse", "error", "aborted"}


def decode_head(raw: bytes) -> EntryHead | None:
    """The head of a line without its line break; None if the line is not an entry."""
    try:
        return _HEADS.decode(raw)
    except _FAILURES:
        mended = mend(raw)
    try:
        return None if mended is None else _HEADS.decode(mended)
    except _FAILURES:
        return None


def decode_header(raw: bytes) -> Header | None:
    """The header in a line; None if it is not one. Without a version it is version 1; other programs write a text."""
    try:
        return _HEADERS.decode(raw)
    except _FAILURES:
        found = as_object(raw)
    if found is None or found.get("type") != "session" or not isinstance(found.get("id"), str):
        return None
    parent, key, fork, version = (found.get(name) for name in ("parentSession", "sessionKey", "fork", "version"))
    if not isinstance(version, int | None):
        return None
    return Header(
        version=1 if version is None else version,
        id=found["id"],
        timestamp=str(found.get("timestamp") or ""),
        cwd=str(found.get("cwd") or ""),
        parent_session=parent if isinstance(parent, str) else None,
        session_key=key if isinstance(key, str) else None,
        fork=fork if isinstance(fork, str) else None,
    )


def decode_entry(raw: bytes, kind: str) -> Entry | None:
    """The entry of type `kind` in a line with a valid head; None if its body is invalid."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return OtherEntry(kind=kind)
    entry: Entry | None
    try:
        entry = decoder.decode(raw)
    except _FAILURES:
        entry = _decode_loosely(raw, kind)
    if isinstance(entry, MessageEntry):
        return _finish_message(entry)
    return entry


def as_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in a line with all its fields; None if it is not one."""
    mended = mend(raw)
    try:
        value = None if mended is None else msgspec.json.decode(mended)
    except _FAILURES:
        return None
    return value if isinstance(value, dict) else None


def mend(raw: bytes) -> bytes | None:
    """`raw` as valid JSON if only its characters are broken, else None. Invalid UTF-8 and lone surrogates become
    U+FFFD; a BOM and NUL bytes around the line are removed."""
    try:
        value = json.loads(raw.strip(PADDING).decode("utf-8", "replace"), strict=False)
        return msgspec.json.encode(scrub(value)) if isinstance(value, dict) else None
    except _FAILURES:
        return None


def encode_header(header: Header) -> bytes:
    """The header as a line."""
    return msgspec.json.encode(scrub(msgspec.to_builtins(header))) + b"\n"


def encode_entry(entry: E) -> tuple[E, bytes]:
    """The entry as one line with its line break, and the entry as it will be read back. They differ only if the entry
    contains characters that UTF-8 can't encode (a terminal may send some)."""
    value = msgspec.to_builtins(entry, enc_hook=str, str_keys=True)
    try:
        return entry, _entry_line(value)
    except UnicodeEncodeError:
        clean = scrub(value)
        return msgspec.convert(clean, type(entry)), _entry_line(clean)


def _entry_line(value: dict[str, Any]) -> bytes:
    links = {name: value[name] for name in ("type", "id", "parentId", "timestamp")}
    rest = {name: part for name, part in value.items() if name not in links}
    for name in ("details", "fromHook", "data", "label", "name", "by"):
        if rest.get(name, ...) is None:
            del rest[name]
    if "message" in rest:
        rest["message"] = _spelled_out(rest["message"])
    return msgspec.json.encode({**links, **rest}) + b"\n"


def _spelled_out(message: dict[str, Any]) -> dict[str, Any]:
    """A message as related programs expect it: no nulls, and a complete `usage` for assistants."""
    message = {name: value for name, value in message.items() if value is not None}
    if message["role"] == "assistant":
        usage = message.get("usage") or {}
        cost = usage.get("cost") or {}
        prices = {name: cost.get(name, 0.0) for name in ("input", "output", "cacheRead", "cacheWrite", "total")}
        counts = {name: usage.get(name, 0) for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")}
        message["usage"] = {**counts, "cost": prices}
        message["content"] = [
            {name: value for name, value in block.items() if value is not None} for block in message["content"]
        ]
    return message


def _finish_message(entry: MessageEntry) -> MessageEntry:
    """Mark the prompts of other programs' jobs, and undo `_spelled_out`, so that an unknown price is not read back as
    zero."""
    message = entry.message
    if isinstance(message, UserMessage) and not message.scheduled and is_job(message.text):
        return structs.replace(entry, message=structs.replace(message, scheduled=True))
    if isinstance(message, AssistantMessage) and message.usage is not None:
        usage = message.usage
        if usage.cost is not None and not usage.cost.total:
            usage = structs.replace(usage, cost=None)
        known = usage.total_tokens or usage.output or usage.prompt_tokens
        return structs.replace(entry, message=structs.replace(message, usage=usage if known else None))
    return entry


def _decode_loosely(raw: bytes, kind: str) -> Entry | None:
    """Decode an entry that another program wrote in a slightly different shape."""
    found = as_object(raw)
    if found is None:
        return None
    if not isinstance(found.get("timestamp"), str):
        found["timestamp"] = ""
    message = found.get("message")
    wanted: type[Entry] = ENTRY_TYPES[kind]
    if isinstance(message, dict) and str(message.get("role")) in _HOOK_ROLES:
        found, wanted = {**message, **found, "type": "custom_message"}, CustomMessageEntry
        found["customType"] = str(found.get("customType") or "hook")
    elif isinstance(message, dict):
        found["message"] = _tidied(message)
    try:
        return msgspec.convert(found, wanted)
    except _FAILURES:
        return None


def _tidied(message: dict[str, Any]) -> dict[str, Any]:
    """A message as builtins, without unknown parts."""
    message = dict(message)
    content = message.get("content")
    if isinstance(content, str) and message.get("role") != "user":
        content = [{"type": "text", "text": content}]
    if isinstance(content, list):
        content = [_tidied_block(block) for block in content if _is_block(block)]
    message["content"] = "" if content is None else content
    stamp = message.get("timestamp")
    message["timestamp"] = int(stamp) if isinstance(stamp, int | float) and abs(stamp) < 2**53 else 0
    if message.get("role") == "assistant" and str(message.get("stopReason")) not in _STOP_REASONS:
        message["stopReason"] = "stop"
    if message.get("usage") is not None:
        message["usage"] = _tidied_usage(message["usage"])
    return message


def _tidied_block(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "toolCall" and not isinstance(block.get("arguments"), dict):
        raw = block.get("arguments")
        return {**block, "arguments": {}, "malformed": raw if isinstance(raw, str) else json.dumps(raw)}
    return block


def _is_block(block: Any) -> bool:
    """Whether `block` is of a known type and complete."""
    needed = _NEEDED.get(str(block.get("type"))) if isinstance(block, dict) else None
    return needed is not None and all(isinstance(block.get(name), str) for name in needed)


def _tidied_usage(usage: Any) -> Any:
    """The figures, without the cost if only that is invalid; None if all are."""
    bare = {name: value for name, value in usage.items() if name != "cost"} if isinstance(usage, dict) else None
    for candidate in (usage, bare):
        try:
            msgspec.convert(candidate, Usage)
        except ValueError:
            continue
        return candidate
    return None


OFFER = "clawbot.memory-offer"

NOTE = "clawbot.note"
"""The type of the record of a note written when nothing was left to offer."""

KEPT_NOTES = "keptNotes"
"""Where the details of a compaction carry over which notes were kept: earlier records are not read again."""

FORK = "clawbot.fork"
"""The type of the record with which the part of a fork begins that is its own: it goes on from the session
`data.session`, after the entry `data.after`. `data.taken` are the first and last entries of what memory need not be
offered here, since it is offered there, and `data.transcriptBytes` the bytes before the record."""

FLUSH = "flush"
"""The name in `Offer.by` for a silent turn of a model."""

Exit = Literal["threshold", "overflow", "manual", "reset", "quit"]
Phase = Literal["begin", "write", "end"]
# After the last four, the entries are never offered again; after the others they are.
Result = Literal["", "failed", "interrupted", "written", "nothing", "skipped", "abandoned"]
FINAL = frozenset({"written", "nothing", "skipped", "abandoned"})


class MemoryWrite(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Text appended to a memory file: `size` bytes from `offset`, lines `line` to `end_line` (from 1) of `path`,
    relative to the workspace. `digest` is the SHA-256 of the bytes in hexadecimal; `secrets` is the number of redacted
    ones, of the `kinds` of `text.secrets`."""

    path: str
    offset: int
    size: int
    line: int
    end_line: int
    digest: str
    secrets: int = 0
    kinds: tuple[str, ...] = ()


class Offer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record of an offer to memory. `offer` identifies it in all its records; `first` and `last` are the ids of the
    entries offered, `messages` their number; `by` is who took them (`FLUSH` or the name of a hook), `model` the model
    used. `reply` is the reply of the silent turn, `tokens` its cost; `transcript_bytes` is the transcript's size at
    that time. `recovered`: the program died before the end, and the outcome was determined from the file afterwards."""

    offer: str
    phase: Phase
    exit: Exit
    by: str
    first: str = ""
    last: str = ""
    messages: int = 0
    result: Result = ""
    writes: tuple[MemoryWrite, ...] = ()
    model: str = ""
    reply: str = ""
    error: str = ""
    tokens: int = 0
    transcript_bytes: int = 0
    recovered: bool = False


def offer_of(entry: CustomEntry) -> Offer | None:
    """The record in `entry`; None for other types and invalid records."""
    if entry.custom_type != OFFER:
        return None
    try:
        return msgspec.convert(entry.data, Offer)
    except ValueError:
        return None
