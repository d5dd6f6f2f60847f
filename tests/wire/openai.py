"""The protocols of OpenAI and of those that speak like it: chat completions and Responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from tests.wire.protocol import Event, Part, Protocol


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

    def renamed(self, name: str, pieces: Sequence[str]) -> Iterator[Event]:
        """Yield a call as vLLM's parser for gpt-oss sends it."""
        for number, piece in enumerate(pieces):
            head = {"index": 0, "id": f"call_{number}", "type": "function"}
            yield self.chunk({"tool_calls": [{**head, "function": {"name": name, "arguments": piece}}]})

    def usage(self, prompt: int, cached: int, output: int) -> Iterator[Event]:
        """Note the usage, which comes after the end."""
        self.used = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        yield from ()

    def done(self, mark: str) -> Iterator[Event]:
        """Yield the mark at the end of the stream."""
        yield mark

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
        return super().encode({**event, "sequence_number": self.number})

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
