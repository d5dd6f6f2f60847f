"""Collects the pieces of a streamed answer (OpenAI chat chunks) into stream parts and the final message; tool calls are
put together by index, and repaired where a server is sloppy about them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

import msgspec

from clawbot.llm.errors import BadResponseError, RefusedError
from clawbot.llm.protocol import FinalPart, ReasoningPart, StreamPart, TextPart, ToolCallPart
from clawbot.llm.repetition import RepetitionGuard
from clawbot.llm.tokens import Prices, merge_usage, usage_from
from clawbot.messages import AssistantBlock, AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCallBlock
from clawbot.text.interface import _

API = "openai-completions"
REPEATED = _("The model said the same over and over and was stopped. What it repeated is kept once.")
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

    `provider` and `model` are noted in the message, `answerer` is named by errors, `prices` (None: unknown) put a cost
    on its usage and `timestamp` is in milliseconds since the epoch.
    """

    def __init__(
        self, *, provider: str, model: str, answerer: str = "", prices: Prices | None = None, timestamp: int = 0
    ) -> None:
        self.provider = provider
        self.model = model
        self.finish_reason: str | None = None
        self._answerer = answerer
        self._prices = prices
        self._timestamp = timestamp
        self._text: list[str] = []
        self._guards = {"text": RepetitionGuard(), "thinking": RepetitionGuard()}
        self._thinking = _Thinking()
        self._calls = CallPieces()
        self._usage: dict[str, Any] = {}

    @property
    def looping(self) -> bool:
        """Whether the model repeats itself without end: then nothing more of it is worth waiting for."""
        return any(guard.looping for guard in self._guards.values())

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
            self._guards["thinking"].feed(reasoning)
            parts.append(ReasoningPart(reasoning))
        text = delta.get("content")
        if isinstance(text, str) and text:
            self._text.append(text)
            self._guards["text"].feed(text)
            parts.append(TextPart(text))
        for piece in _mappings(delta.get("tool_calls")):
            self._calls.feed(piece)

    def finish(self) -> list[StreamPart]:
        """The tool calls and the whole message. Of a model that repeated itself the text once, as one that was cut off.

        Raises BadResponseError when the stream ended without a finish reason (the connection broke), RefusedError
        when the provider's filter stopped the answer.
        """
        if self.looping:
            self.finish_reason = "length"
            self._text = ["".join(self._text)[: self._guards["text"].kept]]
            return [FinalPart(self._message([]), notice=REPEATED)]
        if self.finish_reason is None:
            raise BadResponseError(
                _("the answer broke off: the connection ended before the model was done."),
                provider=self._answerer,
                hint=_("Send the message again."),
            )
        if self.finish_reason.lower() in _REFUSALS:
            raise RefusedError(
                _("the provider stopped the answer ({finish_reason}).").format(finish_reason=self.finish_reason),
                provider=self._answerer,
                hint=_("Say it in other words, or choose another model with /model."),
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


NAME_LENGTH = 64
DEEPEST = 64  # the arguments of a tool are a flat object, and seldom one with lists in it
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# Namespaces that some models put before the name that they were given.
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")


class CallPieces:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def feed(self, piece: Mapping[str, Any]) -> None:
        """Take one piece: an entry of `delta.tool_calls`."""
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = self._call_of(piece, bool(function.get("name")))
        call.id = call.id or _text(piece.get("id"))
        call.name = call.name or _text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.arguments.append(json.dumps(arguments, ensure_ascii=False))

    def _call_of(self, piece: Mapping[str, Any], named: bool) -> _Draft:
        index, identity = piece.get("index"), _text(piece.get("id"))
        known = self._by_index.get(index) if isinstance(index, int) else self._without_index(identity, named)
        # Servers that send whole calls give all of them index 0: another id with a name begins another call.
        other = known is not None and named and bool(identity and known.id) and identity != known.id
        if known is None or other:
            known = _Draft()
            self._calls.append(known)
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _without_index(self, identity: str, named: bool) -> _Draft | None:
        if identity:
            return next((call for call in self._calls if call.id == identity), None)
        return None if named or not self._calls else self._calls[-1]

    def blocks(self) -> list[ToolCallBlock]:
        """The calls, each with an id of its own and a name that every provider accepts."""
        taken: set[str] = set()
        blocks = []
        for call in self._calls:
            if not call.name and not "".join(call.arguments).strip():
                continue
            identity = call.id if call.id and call.id not in taken else f"call_{uuid4().hex[:24]}"
            taken.add(identity)
            arguments, malformed = parse_arguments("".join(call.arguments))
            blocks.append(ToolCallBlock(identity, safe_name(call.name), arguments, malformed))
        return blocks


class _Draft:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """The arguments as an object, and None; or {} and the raw text, when it is no JSON object.

    Nothing and `null` count as no arguments; an object in a JSON string is taken out of it.
    """
    if not raw.strip():
        return {}, None
    value = _decode(raw)
    if isinstance(value, str):
        value = _decode(value)
    if value is None and raw.strip() == "null":
        return {}, None
    return (value, None) if isinstance(value, dict) and not _is_deep(value, raw) else ({}, raw)


def safe_name(name: str) -> str:
    """`name` as every provider accepts it when it is sent back: 1 to 64 of `[A-Za-z0-9_-]`."""
    bare = _NAMESPACE.sub("", name.strip())
    return _BAD_NAME.sub("_", bare)[:NAME_LENGTH] or "unnamed"


def _is_deep(value: dict[str, Any], raw: str) -> bool:
    """Whether lists and objects are nested deeper than anything that shows, stores or sends them again can follow."""
    level: list[Any] = [value]
    if raw.count("{") + raw.count("[") <= DEEPEST:
        return False
    for _level in range(DEEPEST):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in level if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _decode(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
