"""Taps what a server answers to a call, below litellm, which reads all answers through httpx. For the worker process.

litellm renames or invents finish reasons, drops unknown fields, turns 529 and 503 into 500, and loses codes, headers,
and errors with a good status. A stream that ends with `[DONE]` and without a reason is complete; one whose connection
just ends is not.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import httpx
import msgspec

from clawbot.llm.deltas import IN_FUNCTION, UNFINISHED, merge, unknown_fields
from clawbot.llm.error_text import error_in
from clawbot.text.numbers import whole_number

_DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")  # JSON has no raw line breaks
_THINKS = ("thinking", "reasoning")  # types of parts of a text
_OBJECT = re.compile(rb"\s*\{")
_MAX_STREAM, _MAX_OBJECT = 16_384, 1_000_000  # bytes kept of a stream, and of an answer in one chunk
_read = httpx.Response.aiter_bytes


class Upstream:
    """The last answer to a call. `status` is 0 before one has come, `retry_after` the header as it came; `timeout` is
    how many seconds nothing may come. `chats`: it is a chat completion. `extra`, of `size` characters, is what litellm
    drops of it; "" the field that it renames."""

    def __init__(self, timeout: float | None = None) -> None:
        self._timeout = timeout
        self.status = 0
        self.retry_after = ""
        self._body = bytearray()
        self._reason: str | None = None
        self._is_done = self._by_sdk = self.chats = False
        self.extra: dict[str, Any] = {}
        self.size = 0
        self._progress: Callable[[Any], object] = lambda _: None

    @property
    def reason(self) -> str | None:
        """The provider's finish reason; None if there was none."""
        return self._reason or ("stop" if self._is_done else None)

    @property
    def error(self) -> str:
        """The error body; "" if there was none."""
        text = self._body.decode("utf-8", "replace")
        return text if self.status >= 400 else error_in(text)

    def tap(self, stream: Any, progress: Callable[[Any], object]) -> None:
        """Read the chunks before litellm's `stream` does, which may make the call only for the first one. `progress`
        gets llama.cpp's reports on reading the prompt."""
        self._progress = progress
        if stream.completion_stream is None:
            make_call = stream.make_call

            async def call(**arguments: Any) -> AsyncIterator[Any]:
                if self._timeout is not None and arguments.get("client") is not None:
                    arguments["client"].timeout = self._timeout  # litellm gives a client of its own to Gemini's calls
                return self._chunks(await make_call(**arguments))

            stream.make_call = call
        elif hasattr(stream.completion_stream, "__aiter__"):
            stream.completion_stream = self._chunks(stream.completion_stream)

    async def _chunks(self, source: Any) -> AsyncIterator[Any]:
        self._by_sdk = hasattr(source, "response")
        if (parse := getattr(source, "chunk_parser", None)) is not None:
            source.chunk_parser = lambda chunk: parse(self._noted(chunk))
        try:
            async for chunk in source:
                if isinstance(chunk, Mapping) and chunk.get("is_finished"):
                    self._take(chunk.get("finish_reason"))
                if read := getattr(chunk, "prompt_progress", None):
                    self._progress(read)
                for choice in getattr(chunk, "choices", None) or ():
                    self._take(reason := getattr(choice, "finish_reason", None))
                    if reason == "error":
                        choice.finish_reason = "stop"  # else litellm raises an error of its own
                    if self._by_sdk:
                        self._noted({"choices": [{"delta": {**(getattr(choice.delta, "model_extra", None) or {})}}]})
                    _normalise(getattr(choice, "delta", None))
                yield chunk
        finally:
            close: Any = getattr(source, "aclose", None) or getattr(source, "close", None)
            if close is not None and (closing := close()) is not None:
                await closing

    def _noted(self, chunk: Any) -> Any:
        for choice in (isinstance(chunk, dict) and chunk.get("choices")) or ():
            delta, self.chats = choice.get("delta") or {}, True
            if text := delta.get("reasoning_content"):
                delta["reasoning"] = text  # litellm's class for OpenRouter reads no other
            elif delta.get("reasoning"):
                self.extra[""] = "reasoning"
            for call in delta.get("tool_calls") or ():
                if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
                    call[IN_FUNCTION] = {name: function[name] for name in function.keys() - {"name", "arguments"}}
            if unknown := unknown_fields(delta):
                self.size += len(str(unknown))
                merge(self.extra, unknown)
        return chunk

    def _take(self, reason: object) -> None:
        """Record the first reason: litellm invents another one for `[DONE]`."""
        if isinstance(reason, str) and reason.lower() not in UNFINISHED:
            self._reason = self._reason or reason

    async def follow(self, response: httpx.Response, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the body of `response`; a complete answer becomes the event that OpenAI's SDK expects."""
        self.status = response.status_code
        exact = whole_number(response.headers.get("retry-after-ms", ""))
        self.retry_after = response.headers.get("retry-after", "") if exact is None else f"{exact / 1000}"
        self._body[:] = b"\n"
        async for data in chunks:
            self._body += data
            self._is_done = self._is_done or _DONE.search(self._body, len(self._body) - len(data) - 20) is not None
            limit = _MAX_OBJECT if _OBJECT.match(self._body) else _MAX_STREAM
            if (more := len(self._body) - limit) > 0:
                # The beginning of an error, the end of a stream.
                del self._body[slice(limit, None) if self.status >= 400 else slice(more)]
            yield data
        if self._by_sdk and _OBJECT.match(self._body):
            yield _event_of(bytes(self._body))


current: ContextVar[Upstream] = ContextVar("upstream")
"""What records the answers to the running task."""


def tapped_bytes(response: httpx.Response, chunk_size: int | None = None) -> AsyncIterator[bytes]:
    """Replace `httpx.Response.aiter_bytes`."""
    return current.get(Upstream()).follow(response, _read(response, chunk_size))


def _event_of(body: bytes) -> bytes:
    """Return the event for a complete answer; b"" if `body` is none."""
    try:
        answer = msgspec.json.decode(body)
        for choice in answer["choices"]:
            choice["delta"] = choice.pop("message")
    except (msgspec.DecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return b""
    return b"\n\ndata: " + msgspec.json.encode(answer) + b"\n\n"


def _normalise(delta: Any) -> None:
    """Put all text into `delta.content`, the only field that litellm reads, and arguments into texts."""
    content, refusal = getattr(delta, "content", None), getattr(delta, "refusal", None)
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        thoughts = [part for part in parts if part.get("thinking") or part.get("type") in _THINKS]
        if thoughts:
            delta.reasoning_content = "".join(_text(part.get("thinking") or part.get("text")) for part in thoughts)
        texts = (part.get("text") or part.get("refusal") for part in parts if part not in thoughts)
        delta.content = content = "".join(map(_text, texts))
    if isinstance(refusal, str) and refusal:
        delta.content = (content or "") + refusal
    calls = getattr(delta, "tool_calls", None)
    for call in (*(calls if isinstance(calls, list) else ()), delta):
        function: Any = getattr(call, "function", None) or getattr(call, "function_call", None)
        if call is not delta and (extra := getattr(function, "model_extra", None)):
            setattr(call, IN_FUNCTION, dict(extra))
        if not isinstance(getattr(function, "arguments", ""), str | None):
            function.arguments = msgspec.json.encode(function.arguments).decode()


def _text(value: object) -> str:
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return value if isinstance(value, str) else ""
