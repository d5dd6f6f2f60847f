"""What a reply is on the wire: the deltas of an OpenAI stream, and back into one answer for who did not ask for a
stream; its tokens; and the faults that end it, in the wording of those who make them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Literal

from msgspec import Struct

from clawbot.llm.scripted.file import Fault, Reply, ScriptedCall, ScriptedText, Wording, render, render_all
from clawbot.llm.tokens import count_now

Chunk = dict[str, Any]

# Providers send the arguments of a call in chunks; four are enough to test that they are put together.
ARGUMENT_DELTAS = 4
ENDLESS_TEXT = ScriptedText("and so on ")
# Without a pause of its own an endless stream would send as fast as the reader takes it.
ENDLESS_PAUSE = 0.01


class Delta(Struct, frozen=True):
    """One delta of a stream, to be sent after a silence of `after` seconds."""

    delta: dict[str, Any]
    after: float = 0.0


def deltas_of(reply: Reply, values: Mapping[str, str], new_id: Callable[[], str]) -> Iterator[Delta]:
    """Yield the deltas of `reply` in order, templates replaced; without end for an endless reply."""
    for item in reply.reasoning:
        yield Delta({"reasoning_content": render(item.text, values)}, item.after)
    for item in reply.text:
        yield Delta({"content": render(item.text, values)}, item.after)
    for index, call in enumerate(reply.calls):
        cut = reply.fault is not None and reply.fault.kind == "malformed_call" and index == len(reply.calls) - 1
        yield from _call_deltas(index, call, arguments_text(call, values, cut=cut), call.id or new_id())
    if reply.fault is not None and reply.fault.kind == "endless":
        for item in itertools.cycle(reply.text or (ENDLESS_TEXT,)):
            yield Delta({"content": render(item.text, values)}, item.after or ENDLESS_PAUSE)


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


def joined_answer(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The chunks of one stream as the answer to a request without `stream`."""
    found = [choice for chunk in chunks for choice in chunk["choices"]]
    finish = next((choice["finish_reason"] for choice in reversed(found) if choice["finish_reason"]), None)
    usage = next((chunk["usage"] for chunk in reversed(chunks) if "usage" in chunk), None)
    first = {key: chunks[0][key] for key in ("id", "created", "model")}
    choices = [{"index": 0, "message": _message(choice["delta"] for choice in found), "finish_reason": finish}]
    return {**first, "object": "chat.completion", "choices": choices, "usage": usage}


def _call_deltas(index: int, call: ScriptedCall, arguments: str, call_id: str) -> Iterator[Delta]:
    start = {"index": index, "id": call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    yield Delta({"tool_calls": [start]})
    size = -(-len(arguments) // ARGUMENT_DELTAS) or 1
    for offset in range(0, len(arguments), size):
        part = {"index": index, "function": {"arguments": arguments[offset : offset + size]}}
        yield Delta({"tool_calls": [part]})


def _message(deltas: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict[str, Any]] = {}
    for delta in deltas:
        for key in ("content", "reasoning_content"):
            if delta.get(key):
                message[key] = (message.get(key) or "") + delta[key]
        for part in delta.get("tool_calls", ()):
            if "id" in part:
                head = {"id": part["id"], "type": "function"}
                calls[part["index"]] = {**head, "function": {"name": part["function"]["name"], "arguments": ""}}
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return message


PER_MESSAGE = 3
PER_NAME = 1
PRIMING = 3
"""Each answer begins with the marks of an assistant's message."""
PER_IMAGE = 1105
"""A picture of 2048 x 1024 in high detail: 85, and 170 for each of its six tiles."""


def prompt_tokens(request: Mapping[str, Any]) -> int:
    """The tokens of an OpenAI chat request, which may be of any shape. Blocks."""
    messages = [message for message in request.get("messages") or () if isinstance(message, Mapping)]
    tools = request.get("tools")
    schemas = _count(_compact(tools)) if tools else 0
    return sum(map(_of_message, messages)) + schemas + PRIMING


def completion_tokens(deltas: Iterable[Mapping[str, Any]]) -> int:
    """The tokens of an answer by the deltas of its stream. Blocks."""
    message = _message(deltas)
    calls = [call["function"]["name"] + call["function"]["arguments"] for call in message.get("tool_calls", ())]
    texts = [message.get("reasoning_content", ""), message["content"] or "", *calls]
    return sum(map(count_now, texts))


def _of_message(message: Mapping[str, Any]) -> int:
    name = message.get("name")
    named = PER_NAME + _count(str(name)) if name else 0
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
    role = _count(str(message.get("role", "")))
    return PER_MESSAGE + role + named + _of_content(message.get("content")) + sum(map(_of_call, calls))


def _of_call(call: Mapping[str, Any]) -> int:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return 0
    return PER_MESSAGE + _count(str(function.get("name", ""))) + _count(str(function.get("arguments", "")))


def _of_content(content: object) -> int:
    if isinstance(content, str):
        return _count(content)
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    pictures = [part for part in parts if part.get("type") == "image_url"]
    return len(pictures) * PER_IMAGE + sum(_count(str(part["text"])) for part in parts if "text" in part)


def _compact(tools: object) -> str:
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":"), default=str)


@lru_cache(maxsize=2048)
def _count(text: str) -> int:
    """A conversation is sent again with every request."""
    return count_now(text)


Body = dict[str, Any]

# The window of a script that names none, for the figures in an overflow error, in tokens.
USUAL_WINDOW = 8192
# What the usual providers send, so that a client's reading of the texts is tested and not only of the status.
STATUS_ERRORS: dict[int, tuple[str, str, str | None]] = {
    401: ("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"),
    429: ("Rate limit reached for requests.", "requests", "rate_limit_exceeded"),
    500: ("The server had an error while processing your request.", "server_error", None),
    503: ("The server is overloaded or not ready yet.", "server_error", None),
}
OVERFLOWS: dict[Wording, str] = {
    "openai": "This model's maximum context length is {limit} tokens. However, your messages resulted in {used} "
    "tokens. Please reduce the length of the messages.",
    "anthropic": "prompt is too long: {used} tokens > {limit} maximum",
    "gemini": "The input token count ({used}) exceeds the maximum number of tokens allowed ({limit}).",
    "ollama": "the prompt is longer than the context length currently available to the model; shorten the prompt, "
    "adjust the context length in settings, or use a model with a longer context length",
}


class ScriptedFault(Exception):
    """A fault of the script, at the position in the stream where it happens.

    `status`, `body` and `headers` are the HTTP answer that represents it. A `drop` has none: the connection ends.
    """

    def __init__(
        self,
        kind: Literal["status", "overflow", "drop"],
        status: int = 0,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.status = status
        self.body = body or {}
        self.headers = dict(headers or {})
        error = self.body.get("error")
        self.message = str(error["message"]) if isinstance(error, dict) else "The connection was dropped."
        super().__init__(self.message)

    @property
    def retry_after(self) -> float | None:
        value = self.headers.get("Retry-After")
        return None if value is None else float(value)


def error_body(message: str, kind: str, code: str | None = None) -> Body:
    """An error as OpenAI-compatible servers send it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def status_fault(fault: Fault) -> ScriptedFault:
    """The answer of a server with the fault's HTTP status."""
    usual = (_phrase(fault.status), "invalid_request_error" if fault.status < 500 else "server_error", None)
    message, kind, code = STATUS_ERRORS.get(fault.status, usual)
    headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
    return ScriptedFault("status", fault.status, error_body(fault.message or message, kind, code), headers)


def overflow_fault(wording: Wording, used: int, window: int | None) -> ScriptedFault:
    """Return the answer of a provider to a prompt of `used` tokens, which is reported as too large in any case."""
    limit = window or USUAL_WINDOW
    message = OVERFLOWS[wording].format(used=max(used, limit + 1), limit=limit)
    body = error_body(message, "invalid_request_error", "context_length_exceeded" if wording == "openai" else None)
    if wording == "anthropic":
        body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    elif wording == "gemini":
        body = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    return ScriptedFault("overflow", 400, body)


def _phrase(status: int) -> str:
    try:
        return f"{HTTPStatus(status).phrase}."
    except ValueError:
        return f"HTTP status {status}."
