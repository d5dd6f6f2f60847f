"""Owns the entries of a transcript (pi's format, version 3), and how a line becomes one and back: forgiving on the way
in, strict on the way out.

Among them is what a transcript records of the gate: which entries were offered to memory, by what, and what came of it.
Such a record is a `custom` entry of the type `OFFER`. One offer has a record when it begins, one before each write, and
one when it ends: what a crash left open can be told from the file that was to be written (reference sheet 8.5).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct, structs

from clawbot.clock import epoch_ms
from clawbot.messages import AssistantMessage, Message, Usage, UserBlock, scrub

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


E = TypeVar("E", bound=Entry)

# Left by a power cut (a block that never reached the disk), by other systems (BOM, CRLF): no part of the line.
PADDING = b"\x00 \t\r\xef\xbb\xbf"

_HEADS = msgspec.json.Decoder(EntryHead)
_HEADERS = msgspec.json.Decoder(Header)
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in ENTRY_TYPES.items()}
_FAILURES = (ValueError, RecursionError)  # msgspec's and json's errors are ValueErrors
# Other programs of the family store what a hook says as a message with one of these roles (hookMessage: version 2).
_HOOK_ROLES = {"custom", "hookMessage"}
# What a block of each type must hold as text.
_NEEDED = {"text": ("text",), "thinking": ("thinking",), "toolCall": ("id", "name"), "image": ("data", "mimeType")}
_STOP_REASONS = {"stop", "length", "toolUse", "error", "aborted"}


def decode_head(raw: bytes) -> EntryHead | None:
    """The head of a line without its line break; None when the line is no entry."""
    try:
        return _HEADS.decode(raw)
    except _FAILURES:
        mended = mend(raw)
    try:
        return None if mended is None else _HEADS.decode(mended)
    except _FAILURES:
        return None


def decode_header(raw: bytes) -> Header | None:
    """The header in a line; None when there is none. A header without a version is of version 1."""
    try:
        return _HEADERS.decode(raw)
    except _FAILURES:
        found = as_object(raw)
    if found is None or found.get("type") != "session" or not isinstance(found.get("id"), str):
        return None
    parent, key, version = (found.get(name) for name in ("parentSession", "sessionKey", "version"))
    return Header(
        version=version if isinstance(version, int) else 1,
        id=found["id"],
        timestamp=str(found.get("timestamp") or ""),
        cwd=str(found.get("cwd") or ""),
        parent_session=parent if isinstance(parent, str) else None,
        session_key=key if isinstance(key, str) else None,
    )


def decode_entry(raw: bytes, kind: str) -> Entry | None:
    """The entry of type `kind` in a line whose head is good; None when its body makes no sense."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return OtherEntry(kind=kind)
    entry: Entry | None
    try:
        entry = decoder.decode(raw)
    except _FAILURES:
        entry = _decode_loosely(raw, kind)
    if isinstance(entry, MessageEntry):
        return _finish_message(entry, raw)
    return entry


def as_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in a line with every field it has, known or not; None when there is none."""
    mended = mend(raw)
    try:
        value = None if mended is None else msgspec.json.decode(mended)
    except _FAILURES:
        return None
    return value if isinstance(value, dict) else None


def mend(raw: bytes) -> bytes | None:
    """`raw` as clean JSON when broken characters are all that is wrong with it, else None.

    Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD; a BOM and blocks of NUL around the line go.
    """
    try:
        value = json.loads(raw.strip(PADDING).decode("utf-8", "replace"), strict=False)
        return msgspec.json.encode(scrub(value)) if isinstance(value, dict) else None
    except _FAILURES:
        return None


def encode_header(header: Header) -> bytes:
    """The header as a line."""
    return msgspec.json.encode(scrub(msgspec.to_builtins(header))) + b"\n"


def encode_entry(entry: E) -> tuple[E, bytes]:
    """The entry as a line with its line break, always exactly one; and the entry as it will be read from there.

    The two differ only when the entry holds characters that no UTF-8 can hold (a terminal may send such).
    """
    value = msgspec.to_builtins(entry, enc_hook=str, str_keys=True)
    try:
        return entry, _entry_line(value)
    except UnicodeEncodeError:
        clean = scrub(value)
        return msgspec.convert(clean, type(entry)), _entry_line(clean)


def _entry_line(value: dict[str, Any]) -> bytes:
    links = {name: value[name] for name in ("type", "id", "parentId", "timestamp")}
    rest = {name: part for name, part in value.items() if name not in links and name != "excluded"}
    for name in ("details", "fromHook", "data", "label", "name"):
        if rest.get(name, ...) is None:
            del rest[name]
    if "message" in rest:
        rest["message"] = _spelled_out(rest["message"])
    return msgspec.json.encode({**links, **rest}) + b"\n"


def _spelled_out(message: dict[str, Any]) -> dict[str, Any]:
    """A message as the family of this format expects it: no nulls, and a whole `usage` on an assistant's."""
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


def _finish_message(entry: MessageEntry, raw: bytes) -> MessageEntry:
    """Undo what `_spelled_out` filled in, so that an unknown price does not come back as a price of nothing."""
    message = entry.message
    if isinstance(message, AssistantMessage) and message.usage is not None:
        usage = message.usage
        if usage.cost is not None and not usage.cost.total:
            usage = structs.replace(usage, cost=None)
        known = usage.total_tokens or usage.output or usage.prompt_tokens
        return structs.replace(entry, message=structs.replace(message, usage=usage if known else None))
    if b'"excludeFromContext"' in raw:
        shown = (as_object(raw) or {}).get("message") or {}
        return structs.replace(entry, excluded=shown.get("excludeFromContext") is True)
    return entry


def _decode_loosely(raw: bytes, kind: str) -> Entry | None:
    """Decode an entry that other programs wrote in a shape near to ours."""
    found = as_object(raw)
    if found is None:
        return None
    if not isinstance(found.get("timestamp"), str):
        found["timestamp"] = ""
    message = found.get("message")
    wanted: type[Entry] = ENTRY_TYPES[kind]
    if isinstance(message, dict) and message.get("role") in _HOOK_ROLES:
        found, wanted = {**message, **found, "type": "custom_message"}, CustomMessageEntry
        found["customType"] = str(found.get("customType") or "hook")
    elif isinstance(message, dict):
        found["message"] = _tidied(message)
    try:
        return msgspec.convert(found, wanted)
    except _FAILURES:
        return None


def _tidied(message: dict[str, Any]) -> dict[str, Any]:
    """A message as builtins, with the parts that we don't know left out instead of spoiling the rest."""
    message = dict(message)
    content = message.get("content")
    if isinstance(content, str) and message.get("role") != "user":
        content = [{"type": "text", "text": content}]
    if isinstance(content, list):
        content = [_tidied_block(block) for block in content if _is_block(block)]
    message["content"] = "" if content is None else content
    stamp = message.get("timestamp")
    message["timestamp"] = int(stamp) if isinstance(stamp, int | float) and abs(stamp) < 2**53 else 0
    if message.get("role") == "assistant" and message.get("stopReason") not in _STOP_REASONS:
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
    """Whether `block` is one that we know, and whole."""
    needed = _NEEDED.get(str(block.get("type"))) if isinstance(block, dict) else None
    return needed is not None and all(isinstance(block.get(name), str) for name in needed)


def _tidied_usage(usage: Any) -> Any:
    """The figures, without the cost if that is what makes no sense; None when nothing does."""
    bare = {name: value for name, value in usage.items() if name != "cost"} if isinstance(usage, dict) else None
    for candidate in (usage, bare):
        try:
            msgspec.convert(candidate, Usage)
        except ValueError:
            continue
        return candidate
    return None


OFFER = "clawbot.memory-offer"

FLUSH = "flush"
"""What takes an offer by a silent turn of a model, as the records call it."""

Exit = Literal["threshold", "overflow", "manual", "reset", "quit"]
Phase = Literal["begin", "write", "end"]
# The last four are final: the entries are never offered again. After the others they are.
Result = Literal["", "failed", "interrupted", "written", "nothing", "skipped", "abandoned"]
FINAL = frozenset({"written", "nothing", "skipped", "abandoned"})


class MemoryWrite(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Text at the end of a memory file: `size` bytes from `offset` on, lines `line` to `end_line` (from 1) of `path`,
    which is relative to the workspace. `digest` is the SHA-256 of the bytes, in hexadecimal; `secrets` is how many were
    left out of it."""

    path: str
    offset: int
    size: int
    line: int
    end_line: int
    digest: str
    secrets: int = 0


class Offer(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One record of an offer. `offer` is the same in all records of it; `first` and `last` are the ids of the entries
    that were offered, `messages` how many; `by` is what took them (`FLUSH`, the name of a hook), `model` which model
    that asked. `reply` is what a silent turn said, `tokens` what it cost; `transcript_bytes` is the size of the
    transcript then. `recovered`: the program died before the end, which was told from the file afterwards."""

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
    """The record in `entry`; None for an entry of another type and for one that makes no sense."""
    if entry.custom_type != OFFER:
        return None
    try:
        return msgspec.convert(entry.data, Offer)
    except ValueError:
        return None
