"""From a line of a transcript to a record and back, forgiving on the way in and strict on the way out."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from clawbot.messages import AssistantMessage, Usage, scrub
from clawbot.sessions.entries import (
    ENTRY_TYPES,
    CustomMessageEntry,
    Entry,
    EntryHead,
    Header,
    MessageEntry,
    OtherEntry,
)

E = TypeVar("E", bound=Entry)

# Left by a power cut (a block that never reached the disk), by other systems (BOM, CRLF): no part of the line.
PADDING = b"\x00 \t\r\xef\xbb\xbf"

_HEADS = msgspec.json.Decoder(EntryHead)
_HEADERS = msgspec.json.Decoder(Header)
_DECODERS = {name: msgspec.json.Decoder(kind) for name, kind in ENTRY_TYPES.items()}
_FAILURES = (ValueError, RecursionError)  # msgspec's and json's errors are ValueErrors
# Other programs of the family store what a hook says as a message with one of these roles (hookMessage: version 2).
_HOOK_ROLES = {"custom", "hookMessage"}
_BLOCK_TYPES = {"text", "thinking", "toolCall", "image"}
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
    if not isinstance(block, dict) or block.get("type") not in _BLOCK_TYPES:
        return False
    needed = {"text": ("text",), "thinking": ("thinking",), "toolCall": ("id", "name"), "image": ("data", "mimeType")}
    return all(isinstance(block.get(name), str) for name in needed[block["type"]])


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
