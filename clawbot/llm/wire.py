"""Spells a `ChatRequest` as OpenAI chat messages and tools, by the rules of who answers: a vendor's own, or the
strictest ones for a server or a gateway that may have any model behind it (reference sheet 3.7)."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from clawbot.llm.collect import REDACTED, safe_name
from clawbot.llm.protocol import ChatRequest
from clawbot.llm.providers import is_vendors_own, provider_name
from clawbot.messages import (
    AssistantMessage,
    BashExecutionMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    ToolSpec,
    UserMessage,
    said_at,
)

# Gemini wants its signature of a thought back; litellm carries it behind this mark in the id of the call.
THOUGHT_MARK = "__thought__"


class WireRules(Struct, frozen=True):
    """How a conversation is spelled for one family of models.

    `id_keep` is the class of characters allowed in a tool call id and `id_length` its longest length (`id_exact`:
    its only one). `leading_user`: the first turn must be the user's. `merge_users`: no two user turns in a row, and
    its only one). `leading_user`: the first turn must be the user's. `merge_users`: no two user turns in a row, and
    `merge_answers`: no two answers. `assistant_after_tool`: no user turn right after a tool result. `single_calls`: one
    call in a turn, its result behind it. `tool_turns`: calls and results go as such, else as words. `cache_marks`: the
    caching of the prompt is asked for by marks in it. `thinking`: how earlier reasoning is sent back.
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
    thinking: Literal["none", "signed", "plain"] = "none"


_ANTHROPIC = WireRules(id_keep=r"A-Za-z0-9_-", leading_user=True, cache_marks=True, thinking="signed")
_GOOGLE = WireRules(id_keep=r"A-Za-z0-9_-", leading_user=True, keep_thoughts=True)
_MISTRAL = WireRules(id_keep=r"A-Za-z0-9", id_length=9, id_exact=True, assistant_after_tool=True)
# OpenAI refuses ids above 40 characters.
_OPENAI = WireRules(id_length=40, merge_users=False)
# Their reasoning models want the reasoning of a tool call to come back with it.
_PLAIN_THINKING = WireRules(thinking="plain")
_OTHERS = WireRules()

_BY_PROVIDER = {
    "anthropic": _ANTHROPIC,
    "gemini": _GOOGLE,
    "vertex_ai": _GOOGLE,
    "mistral": _MISTRAL,
    "openai": _OPENAI,
    "azure": _OPENAI,
    "script": _OPENAI,
    "deepseek": _PLAIN_THINKING,
    "moonshot": _PLAIN_THINKING,
    "zai": _PLAIN_THINKING,
}
_BY_MODEL_NAME = (
    (re.compile(r"claude|anthropic"), _ANTHROPIC),
    (re.compile(r"gemini"), _GOOGLE),
    (re.compile(r"mistral|mixtral|codestral|devstral|magistral|ministral|pixtral"), _MISTRAL),
)
# Their models are other makers' models, so the name decides.
_RESELLERS = {"openrouter", "bedrock", "vertex_ai", "vercel_ai_gateway", "github_copilot", "azure_ai"}


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
                return rules
    return _BY_PROVIDER.get(provider, _OTHERS)


def _strictest(rules: WireRules) -> WireRules:
    """What the template of any model accepts: Gemma's and Mistral's want turns that alternate from the user's on,
    Mistral's an answer after tools and ids of nine letters and digits, Llama's one call at a time. What belongs to the
    protocol stays as it is: the reasoning that vendors sign stands before all calls of a turn."""
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
    )


class CallIds:
    """Spells the ids of tool calls by `rules`, unique in one request, and finds the spelling that a result needs.

    Ids may repeat in a transcript: each result belongs to the oldest call with its id that has none yet.
    """

    def __init__(self, rules: WireRules) -> None:
        self._rules = rules
        self._taken: set[str] = set()
        self._open: defaultdict[str, deque[str]] = defaultdict(deque)

    def begin(self) -> None:
        """An assistant message begins: calls before it that were not answered stay so."""
        self._open.clear()

    def of_call(self, identity: str) -> str:
        """The spelling for a call."""
        spelled = self._spell(identity)
        attempt = 0
        while spelled in self._taken:
            attempt += 1
            spelled = self._spell(_digest(f"{identity}#{attempt}"))
        self._taken.add(spelled)
        self._open[identity].append(spelled)
        return spelled

    def of_result(self, identity: str) -> str | None:
        """The spelling for a result; None when no call waits for it."""
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
        # An id that has to change beyond its characters gets one that stays the same in every request.
        return kept if fits else _digest(identity)[: rules.id_length if rules.id_exact else 24]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


WireMessage = dict[str, Any]

# Empty content is refused by several providers, so these stand where a turn must be and nothing was said.
EMPTY_RESULT = "(no output)"
OPENING_TURN = "(The conversation goes on.)"
AFTER_TOOLS = "(I have the result.)"
TOOL_IMAGE = "The picture from the tool {name}:"
# For a model that can't call tools and takes over a conversation in which another one did.
CALLED = "(I called the tool {name} with {arguments})"
RETURNED = "(The tool {name} returned:)\n{text}"
_CACHE_MARK = {"type": "ephemeral"}


def to_openai(
    request: ChatRequest, ref: str = "openai/", base: str | None = None, *, tools: bool = True
) -> dict[str, Any]:
    """`messages` and, when there are any, `tools` and `max_tokens` as OpenAI's chat completions spell them.

    `ref` (`provider/model`), `base` (its address) and `tools` (whether it can call any) pick the rules of `rules_for`.
    Calls of answers that broke off are not trusted: they are left out, and so are results that belong to no call.
    Nothing with empty content is ever sent.
    """
    rules = rules_for(ref, base, tools=tools)
    spelled = list(_spell(request, rules, ref))
    if rules.single_calls:
        spelled = list(_one_by_one(spelled))
    turns = _order(_join(spelled, rules), rules)
    system = _system(request, rules)
    if rules.cache_marks:
        _mark_ends(turns)
    body: dict[str, Any] = {"messages": [*system, *turns]}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    return body


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


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


def _spell(request: ChatRequest, rules: WireRules, ref: str) -> Iterator[WireMessage]:
    ids = CallIds(rules)
    pictures: list[dict[str, Any]] = []
    for message in request.messages:
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
            yield from _user(message, said_at(message, request.zone) if request.zone else "")
    if pictures:
        yield {"role": "user", "content": pictures}


def _user(message: UserMessage | BashExecutionMessage, said: str) -> Iterator[WireMessage]:
    """`said`: what tells when it was said."""
    if isinstance(message, BashExecutionMessage) or isinstance(message.content, str):
        if message.text.strip():
            yield {"role": "user", "content": said + message.text}
        return
    blocks = [
        _block(block) for block in message.content if not (isinstance(block, TextBlock) and not block.text.strip())
    ]
    if blocks and all(block["type"] == "text" for block in blocks):
        yield {"role": "user", "content": said + message.text}
    elif blocks:
        time = [{"type": "text", "text": said}] if said else []
        yield {"role": "user", "content": [*time, *blocks]}


def _block(block: TextBlock | ImageBlock) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}


def _assistant(message: AssistantMessage, ids: CallIds, rules: WireRules, ref: str) -> Iterator[WireMessage]:
    ids.begin()
    spelled: WireMessage = {"role": "assistant", "content": message.text if message.text.strip() else None}
    calls = [] if message.broken else [_call(call, ids.of_call(call.id)) for call in message.tool_calls]
    if calls and rules.tool_turns:
        spelled["tool_calls"] = calls
    elif calls:
        said = [spelled["content"], *(CALLED.format_map(call["function"]) for call in calls)]
        spelled["content"] = "\n\n".join(text for text in said if text)
    if spelled["content"] is None and "tool_calls" not in spelled:
        return
    if rules.tool_turns and not message.broken and message.provider == provider_name(ref):
        spelled.update(_thinking(message, rules))
    yield spelled


def _call(call: ToolCallBlock, identity: str) -> dict[str, Any]:
    function = {"name": safe_name(call.name), "arguments": msgspec.json.encode(call.arguments).decode()}
    return {"id": identity, "type": "function", "function": function}


def _thinking(message: AssistantMessage, rules: WireRules) -> dict[str, Any]:
    blocks = [block for block in message.content if isinstance(block, ThinkingBlock)]
    if rules.thinking == "signed":
        signed = [_signed(block.thinking, block.signature) for block in blocks if block.signature]
        return {"thinking_blocks": signed} if signed else {}
    if rules.thinking == "plain" and message.tool_calls and blocks:
        return {"reasoning_content": "".join(block.thinking for block in blocks)}
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
    """Each call in a turn of its own with its result behind it. Calls that have no result are left out."""
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
    for call in answered:
        yield {**first, "tool_calls": [call]}
        yield results[call["id"]]
        first = {"role": "assistant", "content": None}


def _join(turns: Iterable[WireMessage], rules: WireRules) -> list[WireMessage]:
    """Turns of one side in a row become one, where the rules want that."""
    joined: list[WireMessage] = []
    wanted = {"user": rules.merge_users, "assistant": rules.merge_answers}
    for turn in turns:
        last = joined[-1] if joined else None
        if last is None or last["role"] != turn["role"] or not wanted.get(turn["role"]):
            joined.append(turn)
        else:
            joined[-1] = _joined(last, turn)
    return joined


def _joined(first: WireMessage, second: WireMessage) -> WireMessage:
    """Two turns of one side as one; the first has no calls, since their results would stand between."""
    contents = [turn["content"] for turn in (first, second) if turn["content"] is not None]
    content = _concat(*contents) if len(contents) > 1 else next(iter(contents), None)
    return {**second, "content": content}


def _concat(first: Any, second: Any) -> Any:
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_blocks(first), *_as_blocks(second)]


def _as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _order(turns: list[WireMessage], rules: WireRules) -> list[WireMessage]:
    ordered: list[WireMessage] = []
    if rules.leading_user and turns and turns[0]["role"] != "user":
        ordered.append({"role": "user", "content": OPENING_TURN})
    for turn in turns:
        if rules.assistant_after_tool and ordered and ordered[-1]["role"] == "tool" and turn["role"] == "user":
            ordered.append({"role": "assistant", "content": AFTER_TOOLS})
        ordered.append(turn)
    return ordered


def _mark_ends(turns: list[WireMessage]) -> None:
    """Have the provider cache the conversation up to its end, and read it up to where the request before ended: the
    turn before the last answer. Looking back by itself it passes over no more than 20 blocks, which a round of many
    tool calls exceeds."""
    answers = [at for at, turn in enumerate(turns[:-1]) if turn["role"] == "assistant"]
    for at in {len(turns) - 1, answers[-1] - 1 if answers else -1}:
        if at >= 0:
            _mark(turns[at])


def _mark(turn: WireMessage) -> None:
    if turn["role"] == "user":
        turn["content"] = _as_blocks(turn["content"])
        turn["content"][-1] = {**turn["content"][-1], "cache_control": _CACHE_MARK}
    elif turn["role"] == "tool":
        turn["cache_control"] = _CACHE_MARK
