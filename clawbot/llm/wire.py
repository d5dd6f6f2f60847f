"""Writes a `ChatRequest` as OpenAI chat messages and tools, by the rules of who answers: a vendor's own, or the
strictest ones for a server or a gateway that may have any model behind it."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clawbot.llm.calls import parse_arguments, safe_name
from clawbot.llm.collect import REDACTED
from clawbot.llm.deltas import IN_FUNCTION, sent_again, with_field
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.providers import is_vendors_own, provider_name
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    sent_at,
)

# Gemini wants its signature of a thought back; litellm carries it behind this mark in the id of the call.
THOUGHT_MARK = "__thought__"


class WireRules(Struct, frozen=True):
    """How a conversation is spelled for one family of models.

    `id_keep` is the class of characters allowed in a tool call id and `id_length` its longest length (`id_exact`:
    its only one). `leading_user`: the first turn must be the user's. `merge_users`: no two user turns in a row, and
    `merge_answers`: no two answers. `assistant_after_tool`: no user turn right after a tool result. `single_calls`: one
    call in a turn, its result behind it. `tool_turns`: calls and results go as such, else as words. `cache_marks`: the
    caching of the prompt is asked for by marks in it. `thinking`: how earlier reasoning is sent back, to the model that
    made it (`fields`: with calls, in those in which it came; `items`: those of the Responses API).
    """

    id_keep: str = r"\x21-\x7e"
    id_length: int = 64
    id_exact: bool = False
    keep_thoughts: bool = False
    leading_user: bool = False
    merge_users: bool = True
    merge_answers: bool = False
    assistant_after_tool: bool = False
    single_calls: bool = False
    tool_turns: bool = True
    cache_marks: bool = False
    thinking: Literal["none", "signed", "fields", "items"] = "fields"


_ANTHROPIC = WireRules(id_keep=r"A-Za-z0-9_-", leading_user=True, cache_marks=True, thinking="signed")
_GOOGLE = WireRules(id_keep=r"A-Za-z0-9_-", leading_user=True, keep_thoughts=True, thinking="none")
_MISTRAL = WireRules(id_keep=r"A-Za-z0-9", id_length=9, id_exact=True, assistant_after_tool=True, thinking="none")
# OpenAI refuses ids above 40 characters.
_OPENAI = WireRules(id_length=40, merge_users=False, thinking="items")
# In a protocol of their own.
_NATIVE = WireRules(thinking="none")
_OTHERS = WireRules()

_BY_PROVIDER = {
    "anthropic": _ANTHROPIC,
    "gemini": _GOOGLE,
    "vertex_ai": _GOOGLE,
    "mistral": _MISTRAL,
    "openai": _OPENAI,
    "azure": _OPENAI,
    "script": _OPENAI,
    "bedrock": _NATIVE,
    "cohere": _NATIVE,
    "cohere_chat": _NATIVE,
}
_BY_MODEL_NAME = (
    (re.compile(r"claude|anthropic"), _ANTHROPIC),
    (re.compile(r"gemini"), _GOOGLE),
    (re.compile(r"mistral|mixtral|codestral|devstral|magistral|ministral|pixtral"), _MISTRAL),
)
# Their models are other makers' models, so the name decides.
_RESELLERS = {"openrouter", "bedrock", "vertex_ai", "vercel_ai_gateway", "github_copilot", "azure_ai"}
_CHAT_RESELLERS = {"openrouter", "vercel_ai_gateway", "github_copilot"}  # in OpenAI's protocol


def rules_for(ref: str, base: str | None = None, *, tools: bool = True) -> WireRules:
    """The rules for the model `ref` (`provider/model`) at the address `base` (None: the vendor's own). `tools`: whether
    it can call any."""
    rules = _vendor_rules(ref)
    if not is_vendors_own(ref, base):
        rules = _strictest(rules)
    return rules if tools else replace(rules, tool_turns=False)


def _vendor_rules(ref: str) -> WireRules:
    provider, _, name = ref.partition("/")
    if provider in _RESELLERS:
        for pattern, rules in _BY_MODEL_NAME:
            if pattern.search(name.lower()):
                return replace(rules, thinking="fields") if provider in _CHAT_RESELLERS else rules
    return _BY_PROVIDER.get(provider, _OTHERS)


def _strictest(rules: WireRules) -> WireRules:
    """Return rules that every template accepts: Gemma's and Mistral's want alternating turns from the user's on,
    Mistral's an answer after tools and ids of nine letters and digits, Llama's one call at a time. Protocol rules hold:
    signed reasoning precedes all calls of a turn."""
    return replace(
        rules,
        id_keep=_MISTRAL.id_keep,
        id_length=_MISTRAL.id_length,
        id_exact=True,
        leading_user=True,
        merge_users=True,
        merge_answers=True,
        assistant_after_tool=True,
        single_calls=rules.thinking != "signed" and not rules.keep_thoughts,
        thinking="fields" if rules.thinking == "items" else rules.thinking,
    )


class CallIds:
    """Writes the ids of tool calls by `rules`, unique in one request. Ids may repeat in a transcript: each result
    belongs to the first call with its id that has none yet."""

    def __init__(self, rules: WireRules) -> None:
        self._rules = rules
        self._taken: set[str] = set()
        self._open: defaultdict[str, deque[str]] = defaultdict(deque)

    def copy(self) -> CallIds:
        """Return a copy without open calls."""
        copied = CallIds(self._rules)
        copied._taken = self._taken.copy()
        return copied

    def begin(self) -> None:
        """Begin an assistant message: unanswered calls before it remain unanswered."""
        self._open.clear()

    def of_call(self, identity: str) -> str:
        spelled = self._spell(identity)
        attempt = 0
        while spelled in self._taken:
            attempt += 1
            spelled = self._spell(_digest(f"{identity}#{attempt}"))
        self._taken.add(spelled)
        self._open[identity].append(spelled)
        return spelled

    def of_result(self, identity: str) -> str | None:
        waiting = self._open.get(identity)
        return waiting.popleft() if waiting else None

    def _spell(self, identity: str) -> str:
        rules = self._rules
        if THOUGHT_MARK in identity:
            if rules.keep_thoughts:
                return identity
            identity = identity.split(THOUGHT_MARK, 1)[0]
        kept = re.sub(f"[^{rules.id_keep}]", "" if rules.id_exact else "_", identity)
        fits = len(kept) == rules.id_length if rules.id_exact else 0 < len(kept) <= rules.id_length
        # An id that has to change beyond its characters gets one that is the same in every request.
        return kept if fits else _digest(identity)[: rules.id_length if rules.id_exact else 24]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


WireMessage = dict[str, Any]

# Several providers refuse empty content: these fill a turn that must be there.
EMPTY_RESULT = "(no output)"
OPENING_TURN = "(The conversation goes on.)"
AFTER_TOOLS = "(I have the result.)"
TOOL_IMAGE = "The picture from the tool {name}:"
# For a model that can't call tools, of calls that another one made.
CALLED = "(I called the tool {name} with {arguments})"
RETURNED = "(The tool {name} returned:)\n{text}"
_CACHE_MARK = {"type": "ephemeral"}


class Speller:
    """Writes requests that mostly continue the last one: only new messages are converted. `thoughts`: with earlier
    reasoning, where the vendor wants it; `required`: fields that the server missed."""

    def __init__(self) -> None:
        self._known: _Spelled | None = None
        self.thoughts = True
        self.required: tuple[str, ...] = ()

    def body(self, request: ChatRequest, ref: str, base: str | None = None, *, tools: bool = True) -> dict[str, Any]:
        """Return `messages` and, if there are any, `tools` and `max_tokens` of an OpenAI chat completion. Calls of
        truncated answers are left out, and so are results without a call. Content is never empty."""
        rules = rules_for(ref, base, tools=tools)
        rules = rules if self.thoughts else replace(rules, thinking="none")
        turns = self._turns(request, rules, ref)
        for field in self.required:
            turns = [with_field(turn, field) if turn["role"] == "assistant" else turn for turn in turns]
        if rules.cache_marks:
            _mark_ends(turns)
        body: dict[str, Any] = {"messages": [*_system(request, rules), *turns]}
        if request.tools:
            fields = ("name", "description", "parameters")
            functions = ({name: getattr(spec, name) for name in fields} for spec in request.tools)
            body["tools"] = [{"type": "function", "function": function} for function in functions]
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        return body

    def _turns(self, request: ChatRequest, rules: WireRules, ref: str) -> list[WireMessage]:
        known = self._known
        if known is None or not known.begins(request, rules, ref):
            known = self._known = _Spelled(request.zone, rules, ref)
        # What follows an answer does not change how anything before it is spelled.
        messages, done = request.messages, len(known.messages)
        answers = (at for at in range(len(messages) - 1, done, -1) if isinstance(messages[at], AssistantMessage))
        known.add(messages[done : next(answers, done)])
        rest = known.copy()
        rest.add(messages[len(known.messages) :])
        return rest.turns


class _Spelled:
    """The `turns` that `messages` become by `rules` for the model `ref`, with times in `zone`."""

    def __init__(self, zone: tzinfo | None, rules: WireRules, ref: str) -> None:
        self.messages: tuple[Message, ...] = ()
        self.turns: list[WireMessage] = []
        self._ids = CallIds(rules)
        self._zone, self._rules, self._ref = zone, rules, ref

    def begins(self, request: ChatRequest, rules: WireRules, ref: str) -> bool:
        """Whether `request` continues these messages with an answer, by the same rules."""
        size, messages = len(self.messages), request.messages
        # A result that came late would belong to a call that is spelled without.
        goes_on = not size or (len(messages) > size and isinstance(messages[size], AssistantMessage))
        same = (self._zone, self._rules, self._ref) == (request.zone, rules, ref)
        return same and goes_on and messages[:size] == self.messages

    def copy(self) -> _Spelled:
        copied = _Spelled(self._zone, self._rules, self._ref)
        copied.messages, copied.turns, copied._ids = self.messages, self.turns.copy(), self._ids.copy()
        return copied

    def add(self, messages: Sequence[Message]) -> None:
        """Add the next messages: an answer first, unless nothing was added yet."""
        spelled: Iterable[WireMessage] = _spell(messages, self._ids, self._rules, self._ref, self._zone)
        if self._rules.single_calls:
            spelled = _one_by_one(list(spelled))
        for turn in spelled:
            _append(self.turns, turn, self._rules)
        self.messages = (*self.messages, *messages)


def _system(request: ChatRequest, rules: WireRules) -> list[WireMessage]:
    if not request.system.strip():
        return []
    if not rules.cache_marks:
        return [{"role": "system", "content": request.system}]
    cut = request.stable_prefix
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": request.system[:cut], "cache_control": _CACHE_MARK},
        {"type": "text", "text": request.system[cut:]},
    ]
    return [{"role": "system", "content": [block for block in blocks if block["text"].strip()]}]


def _spell(
    messages: Iterable[Message], ids: CallIds, rules: WireRules, ref: str, zone: tzinfo | None
) -> Iterator[WireMessage]:
    pictures: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            yield from _result(message, ids, rules, pictures)
            continue
        # Results must follow their call without a gap, so the pictures of all of them come after the last.
        if pictures:
            yield {"role": "user", "content": pictures}
            pictures = []
        if isinstance(message, AssistantMessage):
            yield from _assistant(message, ids, rules, ref)
        else:
            yield from _user(message, sent_at(message, zone) if zone else "")
    if pictures:
        yield {"role": "user", "content": pictures}


PLANNING = (
    "\n\n[Plan mode: nothing can be changed now. Look at what you need, then answer with a plan under the heading "
    "`## Plan`, or ask.]"
)


def _user(message: UserMessage | BashExecutionMessage, time: str) -> Iterator[WireMessage]:
    planning = PLANNING if isinstance(message, UserMessage) and message.planning is True else ""
    if isinstance(message, BashExecutionMessage) or isinstance(message.content, str):
        if message.text.strip():
            yield {"role": "user", "content": time + message.text + planning}
        return
    blocks = [
        _block(block) for block in message.content if not (isinstance(block, TextBlock) and not block.text.strip())
    ]
    if blocks and all(block["type"] == "text" for block in blocks):
        yield {"role": "user", "content": time + message.sent + planning}
    elif blocks:
        before, behind = ([{"type": "text", "text": text}] if text else [] for text in (time, planning))
        yield {"role": "user", "content": [*before, *blocks, *behind]}


def _block(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _assistant(message: AssistantMessage, ids: CallIds, rules: WireRules, ref: str) -> Iterator[WireMessage]:
    ids.begin()
    spelled: WireMessage = {"role": "assistant", "content": message.text if message.text.strip() else None}
    own = f"{message.provider}/{message.model}" == ref
    extra = own and rules.thinking == "fields"
    calls = [] if message.broken else [_call(call, ids.of_call(call.id), extra) for call in message.tool_calls]
    if calls and rules.tool_turns:
        spelled["tool_calls"] = calls
    elif calls:
        texts = [spelled["content"], *(CALLED.format_map(call["function"]) for call in calls)]
        spelled["content"] = "\n\n".join(text for text in texts if text)
    if spelled["content"] is None and "tool_calls" not in spelled:
        return
    if rules.tool_turns and not message.broken and message.provider == provider_name(ref):
        spelled.update(_thinking(message, rules, own))
    yield spelled


def _call(call: ToolCallBlock, identity: str, extra: bool) -> dict[str, Any]:
    fields = dict(call.extra or {}) if extra else {}
    function = {"name": safe_name(call.name), "arguments": msgspec.json.encode(call.arguments).decode()}
    function = {**fields.pop(IN_FUNCTION, {}), **function}
    return {**fields, "id": identity, "type": "function", "function": function}


def _thinking(message: AssistantMessage, rules: WireRules, own: bool) -> dict[str, Any]:
    blocks = [block for block in message.content if isinstance(block, ThinkingBlock)]
    if rules.thinking == "signed" or (rules.thinking == "fields" and own and message.tool_calls):
        signed = [_signed(block.thinking, block.signature) for block in blocks if block.signature]
        fields = {} if rules.thinking == "signed" else sent_again(blocks)
        return {**fields, "thinking_blocks": signed} if signed else fields
    if rules.thinking == "items" and own:
        items = [parse_arguments(block.signature)[0] for block in blocks if block.signature]
        return {"reasoning_items": [item for item in items if item]} if any(items) else {}
    return {}


def _signed(thinking: str, signature: str) -> dict[str, str]:
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def _result(
    message: ToolResultMessage, ids: CallIds, rules: WireRules, pictures: list[dict[str, Any]]
) -> Iterator[WireMessage]:
    identity = ids.of_result(message.tool_call_id)
    if identity is None:
        return
    text = message.text if message.text.strip() else EMPTY_RESULT
    if rules.tool_turns:
        yield {"role": "tool", "tool_call_id": identity, "content": text}
    else:
        yield {"role": "user", "content": RETURNED.format(name=message.tool_name, text=text)}
    images = [block for block in message.content if isinstance(block, ImageBlock)]
    if images:
        pictures.append({"type": "text", "text": TOOL_IMAGE.format(name=message.tool_name)})
        pictures.extend(_block(image) for image in images)


def _one_by_one(turns: list[WireMessage]) -> Iterator[WireMessage]:
    """Put each call into a turn of its own with its result behind it, unless other fields go back too. Calls without a
    result are left out."""
    results = {turn["tool_call_id"]: turn for turn in turns if turn["role"] == "tool"}
    for turn in turns:
        if "tool_calls" in turn:
            yield from _parted(turn, results)
        elif turn["role"] != "tool":
            yield turn


def _parted(turn: WireMessage, results: dict[str, WireMessage]) -> Iterator[WireMessage]:
    first = {name: value for name, value in turn.items() if name != "tool_calls"}
    answered = [call for call in turn["tool_calls"] if call["id"] in results]
    if not answered and first["content"] is not None:
        yield first
    extra = first.keys() - {"role", "content"} or any(call.keys() - {"id", "type", "function"} for call in answered)
    for calls in [answered] if extra and answered else [[call] for call in answered]:
        yield {**first, "tool_calls": calls}
        yield from (results[call["id"]] for call in calls)
        first = {"role": "assistant", "content": None}


def _append(turns: list[WireMessage], turn: WireMessage, rules: WireRules) -> None:
    """Add `turn`, merged with the last one or behind a filler turn where the rules require it."""
    last = turns[-1]["role"] if turns else None
    merge = {"user": rules.merge_users, "assistant": rules.merge_answers}
    if last == turn["role"] and merge.get(last):
        turns[-1] = _joined(turns[-1], turn)
        return
    if last is None and rules.leading_user and turn["role"] != "user":
        turns.append({"role": "user", "content": OPENING_TURN})
    if last == "tool" and rules.assistant_after_tool and turn["role"] == "user":
        turns.append({"role": "assistant", "content": AFTER_TOOLS})
    turns.append(turn)


def _joined(first: WireMessage, second: WireMessage) -> WireMessage:
    """Merge two turns of one role; the first has no calls."""
    contents = [turn["content"] for turn in (first, second) if turn["content"] is not None]
    if all(isinstance(content, str) for content in contents):
        return {**second, "content": "\n\n".join(contents) or None}
    return {**second, "content": [block for content in contents for block in _as_blocks(content)]}


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _mark_ends(turns: list[WireMessage]) -> None:
    """Mark the end of the prompt, and of the previous request, for caching: by itself the provider searches only the
    last 20 blocks, which many tool calls exceed."""
    answer = next((at for at in range(len(turns) - 2, -1, -1) if turns[at]["role"] == "assistant"), 0)
    for at in {len(turns) - 1, answer - 1}:
        if at >= 0:
            turns[at] = _marked(turns[at])


def _marked(turn: WireMessage) -> WireMessage:
    if turn["role"] == "user":
        *before, last = _as_blocks(turn["content"])
        return {**turn, "content": [*before, {**last, "cache_control": _CACHE_MARK}]}
    return {**turn, "cache_control": _CACHE_MARK} if turn["role"] == "tool" else turn
