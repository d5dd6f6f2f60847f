"""What a model wants to see again with its calls, in the fields in which it came: reasoning, signatures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clawbot.messages import ThinkingBlock, scrub

IN_CONTENT = "content"  # the field of reasoning that stood in the text of the answer: it is not sent again
IN_FUNCTION = "in_function"  # the field for what litellm drops of the function of a call
_KNOWN = {
    *("role", "content", "refusal", "tool_calls", "function_call", "thinking_blocks", "reasoning_content", "reasoning"),
    *("index", "id", "type", "function", "audio", "images", "annotations", "citations", "executed_tools"),
}
_LABELS = {"type", "format", "id", "name"}
_TEXTS = {"text", "summary", "reasoning_text"}
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}  # for calls that Gemini did not make


def unknown_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What `fields` of a delta, or of a call in it, hold beside those that every answer has."""
    return {name: scrub(value) for name, value in fields.items() if value not in (None, "", []) and name not in _KNOWN}


def merge(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add `piece`, the next of a stream, to `whole`: texts go on, and so do entries of one type and index in lists."""
    for name, value in piece.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            merge(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            for entry in value:
                same = next((known for known in before if _goes_on(known, entry)), None)
                merge(same, entry) if same else before.append(entry)
        elif not isinstance(before, str) or not isinstance(value, str):
            whole[name] = before if value is None else value
        elif name not in _LABELS and (before != value or name in _TEXTS):  # a signature may come with each piece
            whole[name] = before + value


def _goes_on(entry: Any, piece: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(piece, dict) or piece.get("index") is None:
        return False
    id_known = entry.get("id") or piece.get("id")
    return id_known == (piece.get("id") or id_known) and all(entry.get(n) == piece.get(n) for n in ("type", "index"))


def sent_again(blocks: Sequence[ThinkingBlock]) -> dict[str, Any]:
    """The fields of a message with calls in which `blocks` go back to the model that sent them."""
    fields = {block.field: block.data for block in blocks if block.data is not None}
    for block in blocks:
        if block.thinking and block.field != IN_CONTENT:
            name = block.field or "reasoning_content"
            fields[name] = fields.get(name, "") + block.thinking
    return fields


def with_field(turn: dict[str, Any], field: str) -> dict[str, Any]:
    """`turn` of the model with what a server missed: as it came under another name, or empty."""
    if field == "thought_signature":
        calls = [{"extra_content": _UNSIGNED, **call} for call in turn.get("tool_calls", ())]
        return {**turn, "tool_calls": calls} if calls else turn
    held = turn.get("reasoning_content") or turn.get("reasoning") or " "  # some refuse an empty text
    return {field: [] if field == "reasoning_details" else held, **turn}
