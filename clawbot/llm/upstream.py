"""What a provider really sent, read below litellm, which renames or invents finish reasons and drops unknown fields.

For the worker process alone. A stream that ends with `[DONE]` and without a reason is complete; one whose connection
just ends is not. litellm reports `stop` for both.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from clawbot.llm.endings import UNFINISHED

_OLLAMA = "litellm.llms.ollama.chat.transformation"
_DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")  # JSON has no raw line breaks
_LARGEST_BODY = 1_000_000  # bytes of an answer that is no stream


def _keep_ollama_text() -> None:
    """Keep litellm from searching Ollama's text for tags of reasoning, which it does in the middle of an answer too."""
    iterator: Any = getattr(sys.modules.get(_OLLAMA), "OllamaChatCompletionResponseIterator", None)
    if iterator is None or hasattr(iterator, "parse_all"):
        return

    def parse(self: Any, chunk: dict[str, Any]) -> Any:
        text = chunk.get("message", {}).pop("content", None)
        parsed = self.parse_all(chunk)
        parsed.choices[0].delta.content = text or None
        return parsed

    iterator.parse_all, iterator.chunk_parser = iterator.chunk_parser, parse


class Upstream:
    """The chunks of the provider on their way to litellm's `stream`."""

    def __init__(self, stream: Any) -> None:
        self._reason: str | None = None
        self._done = False
        self._source: Any = None
        self._chunks: Any = None
        self._bytes: Any = None
        self._call: Any = getattr(stream, "make_call", None)
        if stream.completion_stream is None:
            stream.make_call = self._make_call
        elif hasattr(stream.completion_stream, "__aiter__"):
            stream.completion_stream = self._tap(stream.completion_stream)

    @property
    def reason(self) -> str | None:
        """The finish reason in the provider's words; None if there was none, as when the connection broke."""
        return self._reason or ("stop" if self._done else None)

    async def _make_call(self, **arguments: Any) -> Upstream:
        """Make the call when litellm asks for the first chunk."""
        return self._tap(await self._call(**arguments))

    def _tap(self, source: Any) -> Upstream:
        self._source = source
        if (response := getattr(source, "response", None)) is not None and hasattr(response, "aiter_bytes"):
            self._bytes, response.aiter_bytes = response.aiter_bytes, self._data
        _keep_ollama_text()
        return self

    def __aiter__(self) -> Upstream:
        return self

    async def __anext__(self) -> Any:
        self._chunks = self._chunks or aiter(self._source)
        chunk = await anext(self._chunks)
        if isinstance(chunk, Mapping) and chunk.get("is_finished"):
            self._take(chunk.get("finish_reason"))
        for choice in getattr(chunk, "choices", None) or ():
            self._take(reason := getattr(choice, "finish_reason", None))
            if reason == "error":
                choice.finish_reason = "stop"  # else litellm raises an error of its own
            _normalise(getattr(choice, "delta", None))
        return chunk

    async def aclose(self) -> None:
        """Close the connection."""
        close: Any = getattr(self._source, "aclose", None) or getattr(self._source, "close", None)
        if close is not None and (closing := close()) is not None:
            await closing

    def _take(self, reason: object) -> None:
        """Record the first reason: litellm invents another one for `[DONE]`."""
        if isinstance(reason, str) and reason.lower() not in UNFINISHED:
            self._reason = self._reason or reason

    async def _data(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes of a response to OpenAI's SDK; an answer that is no stream becomes an event of one."""
        body, is_stream = b"\n", False
        async for data in self._bytes(chunk_size):
            body = (body[-20:] if is_stream else body[:_LARGEST_BODY]) + data
            is_stream = is_stream or b"data:" in body
            self._done = self._done or (is_stream and _DONE.search(body) is not None)
            yield data
        if not is_stream and (event := _event_of(body)):
            yield b"\n\ndata: " + event + b"\n\n"


def _event_of(body: bytes) -> bytes:
    """Return the event for a complete answer or an error; b"" if `body` is neither."""
    try:
        answer = msgspec.json.decode(body)
        for choice in answer.get("choices", ()):
            choice["delta"] = choice.pop("message")
    except (msgspec.DecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return b""
    return msgspec.json.encode(answer)


def _normalise(delta: Any) -> None:
    """Put all text of the answer into `delta.content`, the only field that litellm reads."""
    content, refusal = getattr(delta, "content", None), getattr(delta, "refusal", None)
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        if thoughts := "".join(_text(part.get("thinking")) for part in parts):
            delta.reasoning_content = thoughts
        delta.content = content = "".join(_text(part.get("text") or part.get("refusal")) for part in parts)
    if isinstance(refusal, str) and refusal:
        delta.content = (content or "") + refusal


def _text(value: object) -> str:
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, Mapping))
    return value if isinstance(value, str) else ""
