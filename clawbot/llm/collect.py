"""Collects the pieces of a streamed answer (OpenAI chat chunks) into stream parts and the final message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from clawbot.llm.calls import CallPieces
from clawbot.llm.errors import BadResponseError, RefusedError
from clawbot.llm.protocol import FinalPart, ReasoningPart, StreamPart, TextPart, ToolCallPart
from clawbot.llm.providers import title_of
from clawbot.llm.usage import Prices, merge_usage, usage_from
from clawbot.messages import AssistantBlock, AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCallBlock

API = "openai-completions"
REDACTED = "redacted:"
"""Marks a `ThinkingBlock.signature` that holds Anthropic's encrypted reasoning instead of signing a text."""

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}
_REFUSALS = {"content_filter", "refusal", "safety", "recitation"}


class DeltaCollector:
    """Takes the chunks of one answer with `feed` and gives the whole answer with `finish`.

    `provider` and `model` are noted in the message, `prices` (None: unknown) put a cost on its usage and `timestamp`
    is in milliseconds since the epoch.
    """

    def __init__(self, *, provider: str, model: str, prices: Prices | None = None, timestamp: int = 0) -> None:
        self.provider = provider
        self.model = model
        self.finish_reason: str | None = None
        self._prices = prices
        self._timestamp = timestamp
        self._text: list[str] = []
        self._thinking = _Thinking()
        self._calls = CallPieces()
        self._usage: dict[str, Any] = {}

    def feed(self, chunk: Mapping[str, Any]) -> list[TextPart | ReasoningPart]:
        """Take the next chunk; what can be shown of it at once comes back. Tool calls wait for `finish`."""
        parts: list[TextPart | ReasoningPart] = []
        for choice in _mappings(chunk.get("choices")):
            self._feed_delta(choice.get("delta"), parts)
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            merge_usage(self._usage, usage)
        return parts

    def _feed_delta(self, delta: object, parts: list[TextPart | ReasoningPart]) -> None:
        if not isinstance(delta, Mapping):
            return
        reasoning = self._thinking.feed(delta)
        if reasoning:
            parts.append(ReasoningPart(reasoning))
        text = delta.get("content")
        if isinstance(text, str) and text:
            self._text.append(text)
            parts.append(TextPart(text))
        for piece in _mappings(delta.get("tool_calls")):
            self._calls.feed(piece)

    def finish(self) -> list[StreamPart]:
        """The tool calls and the whole message.

        Raises BadResponseError when the stream ended without a finish reason (the connection broke), RefusedError
        when the provider's filter stopped the answer.
        """
        if self.finish_reason is None:
            raise BadResponseError(
                "the answer broke off: the connection ended before the model was done.",
                provider=title_of(self.provider),
                hint="Send the message again.",
            )
        if self.finish_reason.lower() in _REFUSALS:
            raise RefusedError(
                f"the provider stopped the answer ({self.finish_reason}).",
                provider=title_of(self.provider),
                hint="Say it in other words, or choose another model with /model.",
            )
        calls = self._calls.blocks()
        return [*(ToolCallPart(call) for call in calls), FinalPart(self._message(calls))]

    def _message(self, calls: list[ToolCallBlock]) -> AssistantMessage:
        content: list[AssistantBlock] = [*self._thinking.blocks()]
        text = "".join(self._text)
        if text:
            content.append(TextBlock(text))
        content.extend(calls)
        return AssistantMessage(
            content=content,
            api=API,
            provider=self.provider,
            model=self.model,
            usage=usage_from(self._usage, self._prices),
            stop_reason=self._stop_reason(bool(calls)),
            timestamp=self._timestamp,
        )

    def _stop_reason(self, has_calls: bool) -> StopReason:
        reason = _STOP_REASONS.get((self.finish_reason or "").lower(), "stop")
        if reason == "length":
            return reason
        # Some servers say "stop" after a tool call, and some say "tool_calls" after none.
        return "toolUse" if has_calls else "stop"


class _Thinking:
    """The reasoning of an answer, with the signatures that a provider wants to see again."""

    def __init__(self) -> None:
        self._done: list[ThinkingBlock] = []
        self._open: list[str] = []

    def feed(self, delta: Mapping[str, Any]) -> str:
        """Take what a delta holds of reasoning and return its text."""
        text = delta.get("reasoning_content") or delta.get("reasoning") or ""
        blocks = _mappings(delta.get("thinking_blocks"))
        if not isinstance(text, str) or not text:
            text = "".join(str(block.get("thinking") or "") for block in blocks)
        if text:
            self._open.append(text)
        for block in blocks:
            self._close(block)
        return text

    def _close(self, block: Mapping[str, Any]) -> None:
        if block.get("type") == "redacted_thinking" and block.get("data"):
            self._flush(None)
            self._done.append(ThinkingBlock("", REDACTED + str(block["data"])))
        elif block.get("signature"):
            self._flush(str(block["signature"]))

    def _flush(self, signature: str | None) -> None:
        if self._open or signature:
            self._done.append(ThinkingBlock("".join(self._open), signature))
        self._open = []

    def blocks(self) -> list[ThinkingBlock]:
        """All blocks, in the order they came."""
        self._flush(None)
        return self._done


def _mappings(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return []
    return [item for item in value if isinstance(item, Mapping)]
