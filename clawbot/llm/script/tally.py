"""What a scripted call costs: its tokens, counted over the request as OpenAI documents it for chat completions.

It shares the vocabulary with the accounting of the context, and nothing else: it is what that is checked against.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from clawbot.llm.tokens import count_now

PER_MESSAGE = 3
PER_NAME = 1
PRIMING = 3
"""Each answer begins with the marks of an assistant's message."""
PER_IMAGE = 1105
"""A picture of 2048 x 1024 in high detail: 85, and 170 for each of its six tiles."""


def prompt_tokens(request: Mapping[str, Any]) -> int:
    """The tokens of an OpenAI chat request, which may be of any shape. Blocks."""
    messages = [message for message in request.get("messages") or () if isinstance(message, Mapping)]
    tools = request.get("tools")
    schemas = _count(_compact(tools)) if tools else 0
    return sum(map(_of_message, messages)) + schemas + PRIMING


def completion_tokens(deltas: Iterable[Mapping[str, Any]]) -> int:
    """The tokens of an answer by the deltas of its stream. Blocks."""
    texts = {"reasoning_content": "", "content": ""}
    calls: dict[int, str] = {}
    for delta in deltas:
        for key in texts:
            texts[key] += delta.get(key) or ""
        for part in delta.get("tool_calls") or ():
            function = part["function"]
            calls[part["index"]] = calls.get(part["index"], "") + function.get("name", "") + function["arguments"]
    return sum(count_now(text) for text in (*texts.values(), *calls.values()))


def _of_message(message: Mapping[str, Any]) -> int:
    name = message.get("name")
    named = PER_NAME + _count(str(name)) if name else 0
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, Mapping)]
    role = _count(str(message.get("role", "")))
    return PER_MESSAGE + role + named + _of_content(message.get("content")) + sum(map(_of_call, calls))


def _of_call(call: Mapping[str, Any]) -> int:
    """A call is a message of its own to the model, addressed to the function; its id is not shown to the model."""
    function = call.get("function")
    if not isinstance(function, Mapping):
        return 0
    return PER_MESSAGE + _count(str(function.get("name", ""))) + _count(str(function.get("arguments", "")))


def _of_content(content: object) -> int:
    if isinstance(content, str):
        return _count(content)
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
    pictures = [part for part in parts if part.get("type") == "image_url"]
    return len(pictures) * PER_IMAGE + sum(_count(str(part["text"])) for part in parts if "text" in part)


def _compact(tools: object) -> str:
    return json.dumps(tools, ensure_ascii=False, separators=(",", ":"), default=str)


@lru_cache(maxsize=2048)
def _count(text: str) -> int:
    """A conversation is sent again with every request."""
    return count_now(text)
