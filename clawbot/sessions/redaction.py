"""Finds texts in the entries of a transcript and redacts them; the entries, their ids and the tree are kept.

The new file replaces the old one atomically; no line gets shorter, so that no later entry gets an id used before. The
caller holds the session's lock. All calls block; they raise OSError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from clawbot.files import PRIVATE_FILE, write_atomic
from clawbot.sessions.entries import as_object
from clawbot.sessions.forgotten import MARK
from clawbot.sessions.lines import ByteSource
from clawbot.sessions.offsets import HEADER, EntrySpan, spans_backwards

Clean = Callable[[str], str]

# Fields with the program's own text or links between entries.
_STRUCTURE_FIELDS = """
    type id parentId timestamp role toolCallId toolName customType provider modelId model api stopReason mimeType
    version firstKeptEntryId fromId targetId unsentId sessionKey parentSession thinkingLevel phase exit by result offer
    first last digest offeredTo isError excludeFromContext
"""
_STRUCTURE = frozenset(_STRUCTURE_FIELDS.split())
_CALL = frozenset(("type", "id", "name"))
_IMAGE = {"type": "text", "text": MARK}


def holding(path: Path, holds: Callable[[str], bool]) -> list[str]:
    """The ids of the entries of the transcript at `path` with a text for which `holds` is true, in order."""
    found: list[str] = []
    with ByteSource.open(path) as source:
        for span in spans_backwards(source, source.size):
            value = as_object(source.read(span.start, span.end)) if span.kind != HEADER else None
            if value is not None and any(map(holds, texts_of(value))):
                found.append(span.id)
    return found[::-1]


def texts_of(value: dict[str, Any]) -> Iterator[str]:
    """The texts in an entry: messages, reasoning, calls, output, summaries."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _cleaned(value, note, images=False)
    return iter(found)


def redacted(path: Path, clean: Clean, *, images: bool = False, quotes: bool = False) -> tuple[bytes, int]:
    """The transcript at `path` with each text replaced by `clean(text)`, and the number of changed entries. `images`:
    remove pictures too. `quotes`: keep the messages of the user and the agent."""
    changed = 0
    parts: list[bytes] = []
    with ByteSource.open(path) as source:
        size = source.size
        at = 0
        for span in reversed([span for span in spans_backwards(source, size) if span.kind != HEADER]):
            raw = source.read(span.start, span.end)
            line = _redacted(raw, span, clean, images=images, quotes=quotes)
            changed += line != raw
            parts += [source.read(at, span.start), line]
            at = span.end
        parts.append(source.read(at, size))
    return b"".join(parts), changed


def replace(path: Path, data: bytes) -> None:
    """Replace the transcript at `path` by the result of `redacted`."""
    write_atomic(path, data, mode=PRIVATE_FILE)


def _redacted(raw: bytes, span: EntrySpan, clean: Clean, *, images: bool, quotes: bool) -> bytes:
    value = as_object(raw)
    if value is None:
        return raw
    after = _cleaned(value, clean, images=images)
    if quotes:
        after = _with_own_words(after, value)
    if after == value:
        return raw
    # An entry without an id is identified by its position, which may change.
    after.setdefault("id", span.id)
    return bytes(msgspec.json.encode(after)).ljust(len(raw))


def _cleaned(value: Any, clean: Clean, *, images: bool, free: bool = False) -> Any:
    """`value` with cleaned texts. `free`: none of its field names belongs to the program."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item, clean, images=images, free=free) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if not free and kind == "image":
        return _IMAGE if images else value
    structure = _CALL if kind == "toolCall" else _STRUCTURE
    after: dict[str, Any] = {}
    for name, item in value.items():
        kept = not free and name in structure
        open_field = free or name == "arguments"
        after[name] = item if kept else _cleaned(item, clean, images=images, free=open_field)
    if not free and kind == "thinking" and after != value:
        # The signatures no longer match the changed text.
        for name in ("signature", "data"):
            after.pop(name, None)
    return after


def _with_own_words(after: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """`after` with the original text of the user's and agent's messages in `value`."""
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return after
    content = message.get("content")
    if isinstance(content, list):
        cleaned = after["message"]["content"]
        content = [
            before if isinstance(before, dict) and before.get("type") == "text" else now
            for before, now in zip(content, cleaned, strict=True)
        ]
    return {**after, "message": {**after["message"], "content": content}}
