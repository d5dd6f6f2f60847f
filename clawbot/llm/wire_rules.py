"""What each maker of models wants of the messages it is sent: a table (reference sheet 3.7), and the ids made by it."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict, deque
from typing import Literal

from msgspec import Struct

# Gemini wants its signature of a thought back; litellm carries it behind this mark in the id of the call.
THOUGHT_MARK = "__thought__"


class WireRules(Struct, frozen=True):
    """How a conversation is spelled for one family of models.

    `id_keep` is the class of characters allowed in a tool call id and `id_length` its longest length (`id_exact`:
    its only one). `leading_user`: the first turn must be the user's. `merge_users`: no two user turns in a row.
    `assistant_after_tool`: no user turn right after a tool result. `cache_marks`: the caching of the prompt is asked
    for by marks in it. `thinking`: how earlier reasoning is sent back.
    """

    id_keep: str = r"\x21-\x7e"
    id_length: int = 64
    id_exact: bool = False
    keep_thoughts: bool = False
    leading_user: bool = False
    merge_users: bool = True
    assistant_after_tool: bool = False
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


def rules_for(ref: str) -> WireRules:
    """The rules for a model by its name: `provider/model`."""
    provider, _, name = ref.partition("/")
    if provider in _RESELLERS:
        for pattern, rules in _BY_MODEL_NAME:
            if pattern.search(name.lower()):
                return rules
    return _BY_PROVIDER.get(provider, _OTHERS)


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
