"""Turning a reply into the deltas of an OpenAI stream, and back into one answer for who did not ask for a stream."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from clawbot.llm.script.templates import render, render_all
from clawbot.llm.script.types import Piece, Reply, ScriptedCall

Chunk = dict[str, Any]

# Providers send the arguments of a call in pieces; four are enough to test that they are put together.
ARGUMENT_PIECES = 4
ENDLESS_TEXT = Piece("and so on ")
# Without a pause of its own an endless stream would send as fast as the reader takes it.
ENDLESS_PAUSE = 0.01


class Delta(Struct, frozen=True):
    """One piece of a stream, to be sent after a silence of `after` seconds."""

    delta: dict[str, Any]
    after: float = 0.0


def deltas_of(reply: Reply, values: Mapping[str, str], new_id: Callable[[], str]) -> Iterator[Delta]:
    """The pieces of `reply` in the order they are sent, templates replaced; without end for an endless reply."""
    for piece in reply.reasoning:
        yield Delta({"reasoning_content": render(piece.text, values)}, piece.after)
    for piece in reply.text:
        yield Delta({"content": render(piece.text, values)}, piece.after)
    for index, call in enumerate(reply.calls):
        cut = reply.fault is not None and reply.fault.kind == "malformed_call" and index == len(reply.calls) - 1
        yield from _call_deltas(index, call, arguments_text(call, values, cut=cut), call.id or new_id())
    if reply.fault is not None and reply.fault.kind == "endless":
        for piece in itertools.cycle(reply.text or (ENDLESS_TEXT,)):
            yield Delta({"content": render(piece.text, values)}, piece.after or ENDLESS_PAUSE)


def arguments_text(call: ScriptedCall, values: Mapping[str, str], *, cut: bool = False) -> str:
    """The arguments as they are sent; `cut` leaves out the end, so that they are no JSON."""
    if isinstance(call.arguments, str):
        text = render(call.arguments, values)
    else:
        text = json.dumps(render_all(call.arguments, values), ensure_ascii=False)
    return text[: max(1, len(text) // 2)] if cut else text


def finish_reason_of(reply: Reply) -> str:
    """The finish reason that the script gives, or the one that fits the reply."""
    return reply.finish_reason or ("tool_calls" if reply.calls else "stop")


def usage_of(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """The usage block, in tokens; `cached` are a part of `prompt`."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def whole_answer(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The chunks of one stream as the answer to a request without `stream`."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    finish: str | None = None
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        finish = choice["finish_reason"] or finish
        _add_delta(message, calls, choice["delta"])
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    usage = next((chunk["usage"] for chunk in reversed(chunks) if "usage" in chunk), None)
    first = {key: chunks[0][key] for key in ("id", "created", "model")}
    choices = [{"index": 0, "message": message, "finish_reason": finish}]
    return {**first, "object": "chat.completion", "choices": choices, "usage": usage}


def _call_deltas(index: int, call: ScriptedCall, arguments: str, call_id: str) -> Iterator[Delta]:
    start = {"index": index, "id": call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield Delta({"tool_calls": [start]})
    size = -(-len(arguments) // ARGUMENT_PIECES) or 1
    for offset in range(0, len(arguments), size):
        part = {"index": index, "function": {"arguments": arguments[offset : offset + size]}}
        yield Delta({"tool_calls": [part]})


def _add_delta(message: dict[str, Any], calls: dict[int, dict[str, Any]], delta: Mapping[str, Any]) -> None:
    for key in ("content", "reasoning_content"):
        if delta.get(key):
            message[key] = (message.get(key) or "") + delta[key]
    for part in delta.get("tool_calls", ()):
        if "id" in part:
            head = {"id": part["id"], "type": "function"}
            calls[part["index"]] = {**head, "function": {"name": part["function"]["name"], "arguments": ""}}
        calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
