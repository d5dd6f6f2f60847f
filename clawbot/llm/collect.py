"""Collects a streamed answer (OpenAI chat chunks) into stream parts and the final message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clawbot.llm.calls import CallAssembler, WrittenCalls
from clawbot.llm.deltas import IN_CONTENT, UNFINISHED, RepetitionGuard, ending_of
from clawbot.llm.errors import BadResponseError, PoorAnswerError, RefusedError
from clawbot.llm.protocol import (
    FinalPart,
    ReadingPart,
    ReasoningPart,
    StreamPart,
    TextPart,
    ToolCallPart,
    WithdrawnPart,
)
from clawbot.llm.tokens import Prices, merge_usage, usage_from
from clawbot.messages import (
    AssistantBlock,
    AssistantMessage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolSpec,
)
from clawbot.text.interface import N_, _
from clawbot.text.thoughts import Segment, ThoughtSplitter

API = "openai-completions"
REPEATED = N_("Stopped: the model was repeating itself.")
WRITTEN = N_("The model wrote a tool call as text; it was not run.")
REDACTED = "redacted:"
"""Marks a `ThinkingBlock.signature` that holds Anthropic's encrypted reasoning instead of signing a text."""

Shown = TextPart | ReasoningPart | WithdrawnPart | ReadingPart


class DeltaCollector:
    """Collects the chunks of one answer with `feed`; `finish` returns the answer. `provider` and `model` are noted in
    the message, `answerer` is named by errors, `prices` (None: unknown) put a cost on its usage and `timestamp` is in
    milliseconds since the epoch. `tools` were offered to the model; `must_answer`: an answer without text and calls is
    a failure."""

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        answerer: str = "",
        prices: Prices | None = None,
        timestamp: int = 0,
        tools: Sequence[ToolSpec] = (),
        must_answer: bool = False,
    ) -> None:
        self.provider = provider
        self.model = model
        self.finish_reason: str | None = None
        self._answerer = answerer
        self._prices = prices
        self._timestamp = timestamp
        self._must_answer = must_answer
        self._text: list[str] = []
        self._guards = {"text": RepetitionGuard(), "thinking": RepetitionGuard()}
        self._splitter = ThoughtSplitter()
        self._thinking = _Thinking()
        self._extra: dict[str, Any] = {}
        self._calls = CallAssembler([tool.name for tool in tools])
        self._tools = tools
        self._written = WrittenCalls(tools)
        self._usage: dict[str, Any] = {}

    @property
    def looping(self) -> bool:
        return any(guard.looping for guard in self._guards.values())

    def feed(self, chunk: Mapping[str, Any]) -> list[Shown]:
        """Add a chunk and return what can be shown at once; tool calls wait for `finish`."""
        parts: list[Shown] = []
        for choice in _mappings(chunk.get("choices")):
            self._feed_delta(choice.get("delta"), parts)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason.lower() not in UNFINISHED:
                self.finish_reason = reason
        read = chunk.get("prompt_progress")
        if isinstance(read, Mapping) and read.get("total"):
            parts.append(ReadingPart(100 * read.get("processed", 0) // read["total"]))
        usage = chunk.get("usage")
        if isinstance(usage, Mapping):
            merge_usage(self._usage, usage)
        return parts

    def _feed_delta(self, delta: object, parts: list[Shown]) -> None:
        if not isinstance(delta, Mapping):
            return
        self._extra.update(delta.get("extra") or {})
        reasoning = self._thinking.feed(delta)
        if reasoning:
            self._think(reasoning, parts)
        for text in (delta.get("content"), delta.get("refusal")):
            if isinstance(text, str) and text:
                self._split(self._splitter.feed(text), parts)
        for entry in _mappings(delta.get("tool_calls")):
            self._calls.feed(entry)
        if isinstance(function := delta.get("function_call"), Mapping):
            self._calls.feed({"index": 0, "function": function})

    def _think(self, text: str, parts: list[Shown]) -> None:
        self._guards["thinking"].feed(text)
        parts.append(ReasoningPart(text))

    def _split(self, segments: Iterable[Segment], parts: list[Shown]) -> None:
        for kind, text in segments:
            if kind == "thought":
                self._thinking.add(text, IN_CONTENT)
                self._think(text, parts)
            elif kind == "text":
                self._guards["text"].feed(text)
                self._show(self._written.feed(text), parts)
            else:
                self._withdraw(parts)

    def _show(self, text: str, parts: list[Shown]) -> None:
        if text:
            self._text.append(text)
            parts.append(TextPart(text))

    def _withdraw(self, parts: list[Shown]) -> None:
        """Turn all text so far into reasoning, whose opening tag was not sent."""
        held, _calls = self._written.end(complete=False)
        self._thinking.add("".join(self._text) + held, IN_CONTENT)
        if self._text:
            parts.append(WithdrawnPart())
        if held:
            parts.append(ReasoningPart(held))
        self._text, self._written = [], WrittenCalls(self._tools)
        self._guards["text"] = RepetitionGuard()

    def finish(self) -> list[StreamPart]:
        """Return the held text, the tool calls and the message. Raises BadResponseError without a finish reason, or
        with one that is not the end of an answer, PoorAnswerError for an empty answer, RefusedError for a filtered
        one."""
        parts: list[Shown] = []
        if self.looping:
            self.finish_reason = "length"
        else:
            self._split(self._splitter.end(), parts)
        ending = ending_of(self.finish_reason or "")
        rest, written = self._written.end(complete=ending in ("complete", "cut"))
        if self.looping and not written:
            self._text = ["".join([*self._text, rest])[: self._guards["text"].kept]]
            return [FinalPart(self._message([]))]
        self._show(rest, parts)
        calls = self._calls.blocks() or written
        has_text = any(char.isprintable() and char != " " for text in self._text for char in text)
        self._check(has_answer=has_text or bool(calls))
        notice = ""
        if ending == "complete" and not calls and self._written.resembles_call("".join(self._text)):
            notice = _(WRITTEN)
        elif ending == "refused":
            notice = _("The model declined to go on ({finish_reason}).").format(finish_reason=self.finish_reason)
        return [*parts, *(ToolCallPart(call) for call in calls), FinalPart(self._message(calls), notice)]

    def _check(self, *, has_answer: bool) -> None:
        """Raise the error for an ending that is not the end of an answer."""
        reason, ending = self.finish_reason, ending_of(self.finish_reason or "")
        again = _("Send the message again.")
        if reason is None:
            text = _("the answer broke off: the connection ended before the model was done.")
            raise BadResponseError(text, provider=self._answerer, hint=again)
        if ending == "refused" and not (has_answer and reason.lower() == "refusal"):
            raise RefusedError(
                _("the provider stopped the answer ({finish_reason}).").format(finish_reason=reason),
                provider=self._answerer,
                hint=_("Say it in other words, or choose another model with /model."),
            )
        if ending == "garbled":
            text = _("the model wrote a tool call that its provider could not read ({finish_reason}).")
            raise PoorAnswerError(text.format(finish_reason=reason), provider=self._answerer, hint=again)
        if ending == "broken":
            text = _("the answer broke off: the server ended it ({finish_reason}).").format(finish_reason=reason)
            raise BadResponseError(text, provider=self._answerer, hint=again)
        if self._must_answer and not has_answer:
            hint = _("Send the message again, or choose another model with /model.")
            if ending == "cut":
                hint = _("It reached its limit before it answered: raise agents.defaults.max_output_tokens.")
            raise PoorAnswerError(_("The model returned an empty answer."), provider=self._answerer, hint=hint)

    def _message(self, calls: list[ToolCallBlock]) -> AssistantMessage:
        content: list[AssistantBlock] = [*self._thinking.blocks(self._extra.pop("", ""))]
        content.extend(ThinkingBlock("", field=name, data=value) for name, value in self._extra.items() if calls)
        text = "".join(self._text)
        if text:
            content.append(TextBlock(text))
        content.extend(calls)
        cut: StopReason | None = "length" if ending_of(self.finish_reason or "") == "cut" else None
        return AssistantMessage(
            content=content,
            api=API,
            provider=self.provider,
            model=self.model,
            usage=usage_from(self._usage, self._prices),
            # Some servers send "stop" after a tool call, and some "tool_calls" after none.
            stop_reason=cut or ("toolUse" if calls else "stop"),
            error_message=_(REPEATED) if self.looping else None,
            timestamp=self._timestamp,
        )


class _Thinking:
    """The reasoning of an answer, with the signatures that a provider wants to see again."""

    def __init__(self) -> None:
        self._done: list[ThinkingBlock] = []
        self._open: list[str] = []
        self._field = ""

    def feed(self, delta: Mapping[str, Any]) -> str:
        text = delta.get("reasoning_content") or delta.get("reasoning") or ""
        blocks = _mappings(delta.get("thinking_blocks"))
        if not isinstance(text, str) or not text:
            text = "".join(str(block.get("thinking") or "") for block in blocks)
        if text:
            self.add(text)
        for block in blocks:
            self._close(block)
        return text

    def add(self, text: str, field: str = "") -> None:
        if field != self._field:
            self._flush(None)
            self._field = field
        self._open.append(text)

    def _close(self, block: Mapping[str, Any]) -> None:
        if block.get("type") == "redacted_thinking" and block.get("data"):
            self._flush(None)
            self._done.append(ThinkingBlock("", REDACTED + str(block["data"])))
        elif block.get("signature"):
            self._flush(str(block["signature"]))

    def _flush(self, signature: str | None) -> None:
        if self._open or signature:
            self._done.append(ThinkingBlock("".join(self._open), signature, self._field))
        self._open = []

    def blocks(self, name: str) -> list[ThinkingBlock]:
        """Return all blocks in order; `name` is that of the field for reasoning."""
        self._flush(None)
        return [ThinkingBlock(block.thinking, block.signature, block.field or name) for block in self._done]


def _mappings(value: object) -> list[Mapping[str, Any]]:
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return []
    return [item for item in value if isinstance(item, Mapping)]
