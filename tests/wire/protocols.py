"""The protocols of the vendors, byte for byte: how a part of an answer, its end and an error look in each.

A part is a mapping whose first key names a method here, its value the argument, the other keys named arguments:
`{text: Hello}`, `{call: read, pieces: ['{"path": ', '"a"}']}`, `{end: stop}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tests.vendors import END, STREAM, Asked, Step, chunked, reply, sse

Part = Mapping[str, Any]
Event = Mapping[str, Any] | str
SPLIT = 0.05  # seconds between the two halves of a character


class Protocol:
    """One answer: a stream of events. `path` is a part of the address that answers are asked for at."""

    path: ClassVar[str]
    head: ClassVar[bytes] = STREAM
    ping: ClassVar[bytes] = b": keep-alive\n\n"

    def stream(self, parts: Sequence[Part]) -> Iterator[Step]:
        """Yield the steps of an answer that consists of `parts`. Without an `end` among them it is cut off."""
        yield self.head
        for event in self.first():
            yield self.encode(event)
        for part in parts:
            [(name, value), *named] = part.items()
            if name in ("ping", "comment"):
                sign = self.ping if name == "ping" else b": keep-alive\n\n"
                yield from (step for _ in range(value) for step in (chunked(sign), part.get("seconds", 0.0)))
                continue
            if name == "torn":
                yield from (chunked(self.encode(event)[6:-20]) for event in self.text(value))
                continue
            for event in getattr(self, name)(value, **dict(named)):
                encoded = self.encode(event)
                at = next((at for at, byte in enumerate(encoded) if byte > 0xBF), -1) + 1
                # Two chunks, of which the first ends within a character.
                yield from split_chunk(encoded, at) if at else [encoded]
        yield END

    def encode(self, event: Event) -> bytes:
        """Return `event` as a chunk of the body."""
        return sse(event)

    def first(self) -> Iterator[Event]:
        """Yield what comes before the first part."""
        yield from ()

    def text(self, text: str) -> Iterator[Event]:
        """Yield a piece of the text."""
        raise NotImplementedError

    def error(self, body: Any) -> Iterator[Event]:
        """Yield an error in the middle of a stream; `body` is that of an HTTP error."""
        yield body

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        """Return the body of an error."""
        del status
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def beside(self, asked: Asked) -> Sequence[Step] | None:
        """Return the answer to a request that asks for no answer of the model, None for one that does."""
        del asked
        return None


def split_chunk(encoded: bytes, at: int) -> Iterator[Step]:
    """Yield the chunk `encoded` as two, the first of which ends before its byte `at`, and a pause between them."""
    data = encoded.partition(b"\r\n")[2].removesuffix(b"\r\n")
    at -= len(encoded) - len(data) - 2
    yield from (chunked(data[:at]), SPLIT, chunked(data[at:]))


class Chat(Protocol):
    """OpenAI's chat completions."""

    path = "/chat/completions"
    extra: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.calls = 0
        self.used: dict[str, Any] | None = None

    def chunk(self, delta: Part, reason: str | None = None) -> dict[str, Any]:
        """Return a chunk with one choice."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **self.extra}
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795688310, "model": "m"}
        return {**head, "system_fingerprint": "fp_1", "choices": [choice], "usage": None}

    def first(self) -> Iterator[Event]:
        yield self.chunk({"role": "assistant", "content": "", "refusal": None})

    def text(self, text: str) -> Iterator[Event]:
        yield self.chunk({"content": text})

    def refusal(self, text: str) -> Iterator[Event]:
        """Yield a piece of a refusal."""
        yield self.chunk({"refusal": text})

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        """Yield reasoning in the field of the servers that show it; OpenAI itself shows none here."""
        del signature
        yield self.chunk({"reasoning_content": text})

    def call(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call, whose arguments come in `pieces`."""
        at, self.calls = self.calls, self.calls + 1
        head = {"index": at, "id": f"call_{at}", "type": "function"}
        yield self.chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
        for piece in pieces:
            yield self.chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Note the usage, which comes after the end."""
        self.used = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        yield from ()

    def end(self, reason: str) -> Iterator[Event]:
        """Yield the end of the answer."""
        yield self.chunk({}, reason)
        if self.used:
            yield {**self.chunk({}), "choices": [], "usage": self.used}
        yield "[DONE]"


class Azure(Chat):
    """Azure's chat completions: what the filter found stands beside all that is sent."""

    path = "/openai/deployments/mine/chat/completions"
    extra: ClassVar[dict[str, Any]] = {"content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}

    def first(self) -> Iterator[Event]:
        found = [{"prompt_index": 0, "content_filter_results": self.extra["content_filter_results"]}]
        yield {**self.chunk({}), "choices": [], "prompt_filter_results": found}
        yield from super().first()

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        inner = {"innererror": {"code": kind, "content_filter_result": {}}} if kind else {}
        return {"error": {"code": code or str(status), "message": message, **inner}}


class OpenRouter(Chat):
    """OpenRouter's chat completions, which pass on what other vendors say."""

    ping = b": OPENROUTER PROCESSING\n\n"
    extra: ClassVar[dict[str, Any]] = {"native_finish_reason": None}

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        detail = {"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0}
        yield self.chunk({"content": "", "reasoning": text, "reasoning_details": [detail]})
        if signature:
            last = {**detail, "text": "", "signature": signature}
            yield self.chunk({"content": "", "reasoning": None, "reasoning_details": [last]})

    def error(self, body: Any) -> Iterator[Event]:
        yield {**self.chunk({"content": ""}, "error"), **body}

    @staticmethod
    def failure(status: int, message: str, kind: str | None = None, code: Any = None) -> Any:
        """Return the body of an error; `kind` is who served the model and failed, whose words are `message`."""
        if kind:
            return {
                "error": {
                    "message": "Provider returned error",
                    "code": status,
                    "metadata": {"raw": message, "provider_name": kind},
                },
                "user_id": "user_1",
            }
        return {"error": {"message": message, "code": code or status}}


class Responses(Protocol):
    """OpenAI's Responses API: items, each with a beginning, deltas and an end, and the whole answer at last."""

    path = "/v1/responses"

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.used: dict[str, Any] | None = None
        self.number = -1

    def encode(self, event: Event) -> bytes:
        assert isinstance(event, Mapping)
        self.number += 1
        return sse({**event, "sequence_number": self.number})

    def response(self, status: str, **more: Any) -> dict[str, Any]:
        """Return the answer so far."""
        head = {"id": "resp_1", "object": "response", "created_at": 1795688310, "status": status, "error": None}
        output = [item for item in self.items if item["status"] == "completed"]
        last = {"incomplete_details": None, "model": "m", "output": output, "store": False}
        return {"type": f"response.{status}", "response": {**head, **last, "usage": self.used, **more}}

    def first(self) -> Iterator[Event]:
        yield {**self.response("in_progress"), "type": "response.created"}
        yield self.response("in_progress")

    def item(self, kind: str, **fields: Any) -> Iterator[Event]:
        """Yield the end of the item that is open, unless more of it comes, and the beginning of the next."""
        if self.items and self.items[-1]["status"] != "completed":
            if self.items[-1]["type"] == kind == "message":
                return
            yield from self.done()
        identity = f"{kind}_{len(self.items)}"
        self.items.append({"id": identity, "type": kind, "status": "in_progress", **fields})
        yield {"type": "response.output_item.added", "output_index": len(self.items) - 1, "item": {**self.items[-1]}}

    def done(self, **fields: Any) -> Iterator[Event]:
        """Yield the end of the open item, whose last fields are `fields`."""
        if self.items and self.items[-1]["status"] != "completed":
            self.items[-1] = {**self.items[-1], "status": "completed", **fields}
            yield {"type": "response.output_item.done", "output_index": len(self.items) - 1, "item": self.items[-1]}

    def delta(self, kind: str, delta: str, **fields: Any) -> Event:
        """Return a piece of the open item."""
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, **fields}
        return {"type": f"response.{kind}.delta", **place, "delta": delta}

    def text(self, text: str) -> Iterator[Event]:
        yield from self._content("output_text", "text", text)

    def refusal(self, text: str) -> Iterator[Event]:
        """Yield a piece of a refusal."""
        yield from self._content("refusal", "refusal", text)

    def _content(self, kind: str, field: str, text: str) -> Iterator[Event]:
        yield from self.item("message", role="assistant", content=[])
        content = self.items[-1]["content"]
        if not content:
            content.append({"type": kind, field: "", **({"annotations": []} if kind == "output_text" else {})})
            place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, "content_index": 0}
            yield {"type": "response.content_part.added", **place, "part": {**content[0]}}
        content[0][field] += text
        yield self.delta(kind, text, content_index=0)

    def reasoning(self, text: str, signature: str = "") -> Iterator[Event]:
        """Yield a summary of reasoning, and the encrypted whole of it."""
        yield from self.item("reasoning", summary=[])
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, "summary_index": 0}
        summary = {"type": "summary_text", "text": text}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": {**summary, "text": ""}}
        yield self.delta("reasoning_summary_text", text, summary_index=0)
        yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": summary}
        yield from self.done(summary=[summary], encrypted_content=signature)

    def call(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call, whose arguments come in `pieces`."""
        yield from self.item("function_call", call_id=f"call_{len(self.items)}", name=name, arguments="")
        yield from (self.delta("function_call_arguments", piece) for piece in pieces)
        whole = "".join(pieces)
        place = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": whole}
        yield from self.done(arguments=whole)

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Note the usage, which comes with the end."""
        read = {"input_tokens": prompt, "input_tokens_details": {"cached_tokens": cached}}
        made = {"output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}}
        self.used = {**read, **made, "total_tokens": prompt + output}
        yield from ()

    def end(self, reason: str) -> Iterator[Event]:
        """Yield the end: `completed`, or the reason for an incomplete answer."""
        yield from self.done()
        if reason == "completed":
            yield self.response("completed")
        else:
            yield self.response("incomplete", incomplete_details={"reason": reason})

    def error(self, body: Any) -> Iterator[Event]:
        said = body["error"]
        yield self.response("failed", error={"code": said["code"] or said["type"], "message": said["message"]})


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
