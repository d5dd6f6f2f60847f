"""The protocols of Anthropic, Gemini and Ollama, and the table of all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.vendors import STREAM, Asked, Step, chunked, reply
from tests.wire.openai import Azure, Chat, OpenRouter, Responses
from tests.wire.protocol import Event, Part, Protocol


class Anthropic(Protocol):
    """Anthropic's messages: blocks, each with a beginning, deltas and an end."""

    path = "/v1/messages"
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'

    def __init__(self) -> None:
        self.at = -1
        self.kind = ""
        self.used: dict[str, Any] = {"input_tokens": 9, "output_tokens": 1}

    def stream(self, parts: Sequence[Part]) -> Iterator[Step]:
        for part in parts:
            if "usage" in part:  # the beginning states it
                cached = part["cached"]
                self.used = {"input_tokens": part["usage"] - cached, "cache_read_input_tokens": cached}
                self.used |= {"cache_creation_input_tokens": 0, "output_tokens": part["output"]}
        yield from super().stream(parts)

    def first(self) -> Iterator[Event]:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        usage = {**self.used, "output_tokens": 1}
        yield {"type": "message_start", "message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}}

    def block(self, block: Part) -> Iterator[Event]:
        """Yield the end of the open block, unless more text of it comes, and the beginning of the next."""
        if block["type"] == self.kind == "text":
            return
        yield from self.done()
        self.at, self.kind = self.at + 1, block["type"]
        yield {"type": "content_block_start", "index": self.at, "content_block": block}

    def done(self) -> Iterator[Event]:
        """Yield the end of the open block."""
        if self.kind:
            yield {"type": "content_block_stop", "index": self.at}
        self.kind = ""

    def delta(self, kind: str, **fields: Any) -> Event:
        """Return a piece of the open block."""
        return {"type": "content_block_delta", "index": self.at, "delta": {"type": kind, **fields}}

    def text(self, text: str) -> Iterator[Event]:
        yield from self.block({"type": "text", "text": ""})
        yield self.delta("text_delta", text=text)

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        """Yield thinking and its signature."""
        yield from self.block({"type": "thinking", "thinking": "", "signature": ""})
        yield self.delta("thinking_delta", thinking=text)
        yield self.delta("signature_delta", signature=signature)

    def redacted(self, data: str) -> Iterator[Event]:
        """Yield thinking that is encrypted."""
        yield from self.block({"type": "redacted_thinking", "data": data})

    def call(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call, whose arguments come in `pieces`."""
        yield from self.block({"type": "tool_use", "id": f"toolu_{self.at}", "name": name, "input": {}})
        yield from (self.delta("input_json_delta", partial_json=piece) for piece in ("", *pieces))

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Yield nothing: the beginning has it."""
        del prompt, cached, output
        yield from ()

    def end(self, reason: str) -> Iterator[Event]:
        """Yield the end of the answer."""
        yield from self.done()
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": self.used["output_tokens"]},
        }
        yield {"type": "message_stop"}

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        del status, code
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


class Gemini(Protocol):
    """Gemini's streamGenerateContent: each event is an answer with a piece of the content."""

    path = ":streamGenerateContent"
    ping = b'data: {"candidates": [{"content": {"role": "model"}, "index": 0}], "modelVersion": "m"}\n\n'

    def __init__(self) -> None:
        self.signature = ""
        self.used: dict[str, Any] = {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10}

    def encode(self, event: Event) -> bytes:
        return chunked(f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n".encode())

    def piece(self, parts: Sequence[Part], **fields: Any) -> Event:
        """Return an event with `parts`."""
        candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **fields}
        return {"candidates": [candidate], "usageMetadata": self.used, "modelVersion": "m", "responseId": "r"}

    def text(self, text: str) -> Iterator[Event]:
        yield self.piece([{"text": text}])

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        """Yield a thought; its signature comes with the next call."""
        self.signature = signature
        yield self.piece([{"text": text, "thought": True}])

    def call(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call, which is never in pieces."""
        signed = {"thoughtSignature": self.signature} if self.signature else {}
        self.signature = ""
        yield self.piece([{"functionCall": {"name": name, "args": json.loads("".join(pieces) or "{}")}, **signed}])

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Note the usage, which comes with the end."""
        self.used = {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": cached,
            "candidatesTokenCount": output,
            "totalTokenCount": prompt + output,
        }
        yield from ()

    def end(self, reason: str) -> Iterator[Event]:
        """Yield the end of the answer."""
        yield self.piece([{"text": ""}], finishReason=reason)

    def blocked(self, reason: str) -> Iterator[Event]:
        """Yield what comes in place of an answer to a prompt that the filter refuses."""
        yield {"promptFeedback": {"blockReason": reason}, "usageMetadata": self.used, "modelVersion": "m"}

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        """Return the body of an error; `code` is the time that RetryInfo asks to wait."""
        info = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": code}] if code else []
        return {"error": {"code": status, "message": message, "status": kind, "details": info}}


class Ollama(Protocol):
    """Ollama's chat: a line of JSON for each piece."""

    path = "/api/chat"
    head = STREAM.replace(b"text/event-stream", b"application/x-ndjson")
    ping = b"\n"

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def encode(self, event: Event) -> bytes:
        return chunked(json.dumps(event, ensure_ascii=False).encode() + b"\n")

    def line(self, **message: Any) -> dict[str, Any]:
        """Return a line that is not the last one."""
        said = {"role": "assistant", "content": "", **message}
        return {"model": "m", "created_at": "2026-11-26T10:18:30.1Z", "message": said, "done": False}

    def text(self, text: str) -> Iterator[Event]:
        yield self.line(content=text)

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        """Yield thinking, which is never signed."""
        del signature
        yield self.line(thinking=text)

    def call(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call, which is never in pieces."""
        yield self.line(tool_calls=[{"function": {"name": name, "arguments": json.loads("".join(pieces) or "{}")}}])

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Note the usage, which comes with the end; what was cached is not in it."""
        del cached
        self.used = {"prompt_eval_count": prompt, "eval_count": output}
        yield from ()

    def end(self, reason: str) -> Iterator[Event]:
        """Yield the last line."""
        yield {**self.line(), "done": True, "done_reason": reason, "total_duration": 9, **self.used}

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        del status, kind, code
        return {"error": message}

    def beside(self, asked: Asked) -> Sequence[Step] | None:
        if asked.path == "/api/show":
            window = {"general.architecture": "qwen3", "qwen3.context_length": 32_768}
            return [reply(200, {"capabilities": ["completion", "tools"], "model_info": window, "parameters": ""})]
        return None if asked.path == self.path else [reply(404, {"error": "not found"})]


PROTOCOLS: dict[str, type[Protocol]] = {
    "openai": Chat,
    "responses": Responses,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "ollama": Ollama,
    "openrouter": OpenRouter,
    "azure": Azure,
}
