"""The offline model behind the interface of every model: it sees a request and answers with text and tool calls."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

import msgspec

from clawbot.clock import Clock, epoch_ms
from clawbot.llm.offline import recall, silent, workspace
from clawbot.llm.offline.turn import (
    Intent,
    Plan,
    PlannedCall,
    ProgramFacts,
    Step,
    Turn,
    answer_about,
    classify,
    follow,
    read_turn,
    what_was_done,
)
from clawbot.llm.protocol import ChatRequest, DetectedServer, FinalPart, ModelInfo, StreamPart, TextPart, ToolCallPart
from clawbot.llm.tokens import cut_to, weigh_tokens
from clawbot.messages import OFFLINE, AssistantMessage, Cost, Message, TextBlock, ToolCallBlock, Usage
from clawbot.text.intents import stated_in
from clawbot.text.interface import N_
from clawbot.text.language import COMMON_HAN as HAN
from clawbot.text.patterns import lazy_re
from clawbot.text.statements import marks

WINDOW = 128_000  # it has none of its own; this one lets compaction work as it does with other models
WINDOW_SOURCE = N_("set here, so that compaction works as with other models")
MAX_CHUNKS = 400  # a long text streams in longer chunks, so that reading it is cheap
MIN_WORDS = 2  # words besides stop words of what may be worth a note
MESSAGE_TOKENS = 4  # what the frame of a message costs

PLANS: dict[str, Callable[[Turn, Intent], Plan]] = {
    "remember": workspace.remember,
    "remind": workspace.remind,
    "forget": workspace.forget,
    "recall": recall.recall,
    "ask": recall.recall,
    "list": workspace.list_files,
    "notes": workspace.list_files,
    "told": recall.recall_here,
    "last": recall.last,
    "read": workspace.read_file,
    "create": workspace.create_file,
    "append": workspace.append_text,
    "run": workspace.run_command,
}
"""What takes tools. Every other kind is answered at once, by the sentence of `answers` of that name."""

_CHUNK = lazy_re(rf"\s*(?:[{HAN}]{{1,4}}|[^\s{HAN}]+|\s+)")


class OfflineModel:
    """Phrases, a search and extracts instead of a language model: deterministic, in-process, without key or network.

    It is a `ChatModel` without state: everything comes from the request and from `clock`, in the user's zone.
    """

    def __init__(
        self, clock: Clock, *, reason: str = "", found: DetectedServer | None = None, facts: ProgramFacts | None = None
    ) -> None:
        self._clock = clock
        self._facts = facts or ProgramFacts()
        self.info = ModelInfo(
            ref=OFFLINE, reason=reason, window=WINDOW, priced=True, window_source=WINDOW_SOURCE, found=found
        )

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPart, None]:
        message = await asyncio.to_thread(self._answer, request)
        for chunk in _chunks(message.text):
            yield TextPart(chunk)
            await asyncio.sleep(0)
        for call in message.tool_calls:
            yield ToolCallPart(call)
        yield FinalPart(message)

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...

    def _answer(self, request: ChatRequest) -> AssistantMessage:
        step = self._decide(request)
        text = cut_to(step, request.max_tokens) if isinstance(step, str) else ""
        wanted = [] if isinstance(step, str) else step
        calls = [_with_id(call, number, request.messages) for number, call in enumerate(wanted)]
        answer = AssistantMessage(
            content=[TextBlock(text)] if text else list(calls),
            api=OFFLINE,
            provider=OFFLINE,
            model=OFFLINE,
            stop_reason="toolUse" if calls else "stop" if text == step else "length",
            timestamp=epoch_ms(self._clock.now()),
        )
        return msgspec.structs.replace(answer, usage=_usage(request, answer))

    def _decide(self, request: ChatRequest) -> Step:
        if request.purpose == "summary":
            return silent.summarise(silent.material(request), request.max_tokens)
        if request.purpose == "slug":
            return silent.slug(silent.material(request).utterances)
        if request.purpose == "title":
            return silent.title(silent.utterances_in(request.messages[:-1]))
        if request.purpose == "rerank":
            # It knows no more than the ranking does, and no answer leaves the order as it is.
            return ""
        turn = read_turn(request, self._clock.now())
        if request.purpose == "flush" or silent.is_flush_prompt(turn.text):
            return follow(silent.flush(turn), turn)
        return _reply(turn, self._facts)


def _reply(turn: Turn, facts: ProgramFacts) -> Step:
    if "memory_search" in turn.tools and stated_in(turn.text):
        return turn.reply("intent")
    intent = classify(turn.text, turn.language)
    if intent == Intent("agreed", "yes") and workspace.was_offered(turn):
        intent = Intent("remember")
    if intent.kind in PLANS:
        return follow(PLANS[intent.kind](turn, intent), turn)
    if turn.resumed and turn.rounds:
        return what_was_done(turn)
    if intent.kind == "secret":
        return workspace.left_out(turn, intent.text)
    if intent.kind == "about":
        return answer_about(intent.text, turn.language, facts, turn.now)
    if intent.kind == "statement" and len(recall.key_stems(intent.text)) < MIN_WORDS and not marks(intent.text):
        return turn.reply("unclear")
    return turn.reply(intent.kind)


def _usage(request: ChatRequest, answer: AssistantMessage) -> Usage:
    """Estimate the tokens by weighted characters; the cost is nothing."""
    tools = sum(weigh_tokens(msgspec.json.encode(spec).decode()) for spec in request.tools)
    prompt = weigh_tokens(request.system) + tools + sum(map(_weight, request.messages))
    output = _weight(answer)
    return Usage(input=prompt, output=output, total_tokens=prompt + output, cost=Cost())


def _weight(message: Message) -> int:
    calls = message.tool_calls if isinstance(message, AssistantMessage) else []
    called = sum(weigh_tokens(call.name) + weigh_tokens(repr(call.arguments)) for call in calls)
    return MESSAGE_TOKENS + weigh_tokens(message.text) + called


def _with_id(call: PlannedCall, number: int, messages: Sequence[Message]) -> ToolCallBlock:
    """Return the call with an id that depends on the messages alone and changes after a compaction."""
    seed = json.dumps([len(messages), messages[-1].timestamp, number, call.name, call.arguments])
    return ToolCallBlock(f"call_{hashlib.sha256(seed.encode()).hexdigest()[:16]}", call.name, call.arguments)


def _chunks(text: str) -> Iterator[str]:
    least = len(text) // MAX_CHUNKS
    held = ""
    for match in _CHUNK.finditer(text):
        held += match[0]
        if len(held) > least:
            yield held
            held = ""
    if held:
        yield held
