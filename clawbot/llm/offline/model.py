"""The offline model behind the interface of every model: it sees a request and answers with text and tool calls."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from clawbot.clock import Clock, epoch_ms
from clawbot.llm.offline import flush, replies
from clawbot.llm.offline.material import PROVIDER, is_flush_prompt, material
from clawbot.llm.offline.slug import slug
from clawbot.llm.offline.summary import summarise
from clawbot.llm.offline.tokens import cut_to, usage
from clawbot.llm.offline.turn import Call, Step, read_turn
from clawbot.llm.protocol import ChatRequest, FinalPart, ModelInfo, StreamPart, TextPart, ToolCallPart
from clawbot.messages import AssistantMessage, Message, TextBlock, ToolCallBlock

WINDOW = 128_000
"""It has no window of its own. This one, of a common size, lets compaction work as it does with other models."""
WINDOW_SOURCE = "a common size; the offline model has none of its own"

MAX_PIECES = 400
"""A long text streams in longer pieces, so that reading it stays cheap."""

_PIECE = re.compile(r"\s*(?:[\u3400-\u9fff]{1,4}|[^\s\u3400-\u9fff]+|\s+)")


class OfflineModel:
    """Phrases, searches and extracts instead of a language model: deterministic, in-process, without key or network.

    It is a `ChatModel` and keeps no state: everything comes from the request and from `clock`, which is in the user's
    zone.
    """

    def __init__(self, clock: Clock, *, reason: str = "") -> None:
        self._clock = clock
        self.info = ModelInfo(ref="offline", reason=reason, window=WINDOW, priced=True, window_source=WINDOW_SOURCE)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        """Answer `request`: text in small pieces or tool calls, then the whole. Raises nothing."""
        message = await asyncio.to_thread(self._answer, request)
        for piece in _pieces(message.text):
            yield TextPart(piece)
            await asyncio.sleep(0)
        for call in message.tool_calls:
            yield ToolCallPart(call)
        yield FinalPart(message)

    async def warm(self) -> None:
        """There is nothing to load."""

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _answer(self, request: ChatRequest) -> AssistantMessage:
        now = self._clock.now()
        step = self._decide(request)
        text = cut_to(step, request.max_tokens) if isinstance(step, str) else ""
        calls = [] if isinstance(step, str) else _with_ids(step, request.messages)
        answer = AssistantMessage(
            content=[TextBlock(text)] if text else list(calls),
            api=PROVIDER,
            provider=PROVIDER,
            model=PROVIDER,
            stop_reason="toolUse" if calls else "stop" if text == step else "length",
            timestamp=epoch_ms(now),
        )
        return _with_usage(answer, request)

    def _decide(self, request: ChatRequest) -> Step:
        if request.purpose == "summary":
            return summarise(material(request), request.max_tokens)
        if request.purpose == "slug":
            return slug(material(request).said)
        if request.purpose == "rerank":
            # It knows no more than the ranking does, and no answer leaves the order as it is.
            return ""
        turn = read_turn(request, self._clock.now())
        if request.purpose == "flush" or is_flush_prompt(turn.text):
            return replies.follow(flush.flush(turn, flush.writer(request.tools)), turn)
        return replies.reply(turn)


def _with_usage(answer: AssistantMessage, request: ChatRequest) -> AssistantMessage:
    return msgspec.structs.replace(answer, usage=usage(request, answer))


def _with_ids(calls: Sequence[Call], messages: Sequence[Message]) -> list[ToolCallBlock]:
    """The calls with ids that depend on the conversation alone, and that no call in it has."""
    taken = {call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls}
    blocks: list[ToolCallBlock] = []
    for number, call in enumerate(calls):
        ident = next(ident for ident in _idents(call, number, messages) if ident not in taken)
        taken.add(ident)
        blocks.append(ToolCallBlock(ident, call.name, call.arguments))
    return blocks


def _idents(call: Call, number: int, messages: Sequence[Message]) -> Iterator[str]:
    """Ids to try. The time of the last message is part of them: after a compaction the calls before it are not seen
    here, but stand in the same transcript."""
    last = messages[-1].timestamp if messages else 0
    for attempt in itertools.count():
        seed = json.dumps([len(messages), last, number, attempt, call.name, call.arguments])
        yield f"call_{hashlib.sha256(seed.encode()).hexdigest()[:16]}"


def _pieces(text: str) -> Iterator[str]:
    """`text` word by word, or in longer runs of words when it is long."""
    least = len(text) // MAX_PIECES
    held = ""
    for match in _PIECE.finditer(text):
        held += match[0]
        if len(held) > least:
            yield held
            held = ""
    if held:
        yield held
