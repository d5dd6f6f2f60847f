"""Comparing a request with what a turn expects of it, and saying both sides when they differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from clawbot.llm.errors import RefusedError
from clawbot.llm.script.types import Check, CheckKey, Script, Turn

# Both sides must fit into one line of an error; the requests themselves can be looked at whole.
SHOWN_CHARS = 200
SYSTEM_ROLES = frozenset({"system", "developer"})


class ScriptMismatch(RefusedError):
    """A request that the script did not expect, with both sides: never to be repeated.

    `turn` and `line` say where in the script, None when the request came after the last turn; `request` counts the
    requests from 1.
    """

    def __init__(self, message: str, *, request: int, turn: int | None = None, line: int | None = None) -> None:
        super().__init__(message, provider="script")
        self.request = request
        self.turn = turn
        self.line = line


class RequestView(Struct, frozen=True):
    """The texts of a request that a script may look at, each under the key of `expect`."""

    texts: Mapping[CheckKey, tuple[str, ...]]

    def last(self, key: CheckKey) -> str:
        """The last text of `key`, empty when there is none."""
        texts = self.texts[key]
        return texts[-1] if texts else ""


def view_of(request: Mapping[str, Any]) -> RequestView:
    """Look at an OpenAI chat request. It may be of any shape: what is missing is seen as no text."""
    messages = [message for message in request.get("messages") or () if isinstance(message, Mapping)]
    user = [_text(message) for message in messages if message.get("role") == "user"]
    system = [_text(message) for message in messages if message.get("role") in SYSTEM_ROLES]
    context = [_text(message) for message in messages if message.get("role") not in SYSTEM_ROLES]
    return RequestView(
        {
            "user": tuple(user[-1:]),
            "system": ("\n".join(system),) if system else (),
            "tool_result": tuple(_fresh_results(messages)),
            "tool": tuple(_tool_names(request.get("tools") or ())),
            "model": (str(request.get("model", "")),),
            "context": tuple(context),
        }
    )


def unmet(checks: Iterable[Check], view: RequestView) -> list[Check]:
    """The conditions that do not hold."""
    return [check for check in checks if not _holds(check, view.texts[check.key])]


def mismatch(script: Script, turn: Turn, request: int, failed: list[Check], view: RequestView) -> ScriptMismatch:
    """The error that `view` is not what `turn` expects."""
    lines = [f"{script.path}:{turn.line}: {turn} does not fit request {request}."]
    for check in failed:
        lines.append(f"  expected (line {check.line}): {check}")
        lines.append(f"  came: {shown(check.key, view)}")
    return ScriptMismatch("\n".join(lines), request=request, turn=turn.number, line=failed[0].line)


def beyond_last(script: Script, request: int, view: RequestView) -> ScriptMismatch:
    """The error that `view` came when no turn was left."""
    count = len(script.turns)
    turns = "its only turn was" if count == 1 else f"all {count} turns were"
    lines = [f"{script.path}: request {request} came after {turns} used.", "  expected: no more requests"]
    lines += [f"  came: {shown(key, view)}" for key in ("user", "tool_result") if view.texts[key]]
    return ScriptMismatch("\n".join(lines), request=request)


def shown(key: CheckKey, view: RequestView) -> str:
    """What the request holds for `key`, cut to a length that can be read."""
    texts = view.texts[key]
    return f"{key}: {', '.join(_cut(text) for text in texts)}" if texts else f"no {key}"


def _holds(check: Check, texts: tuple[str, ...]) -> bool:
    return any(_fits(check, text) for text in texts) is not check.negated


def _fits(check: Check, text: str) -> bool:
    if check.kind == "contains":
        return check.value in text
    if check.kind == "equals":
        return check.value == text
    return re.search(check.value, text) is not None


def _cut(text: str) -> str:
    if len(text) <= SHOWN_CHARS:
        return repr(text)
    half = SHOWN_CHARS // 2
    return f"{text[:half]!r} … {text[-half:]!r} ({len(text)} characters)"


def _fresh_results(messages: list[Mapping[str, Any]]) -> list[str]:
    """The tool results that answer the last calls: those after the last message of the model."""
    results: list[str] = []
    for message in messages:
        if message.get("role") == "assistant":
            results = []
        elif message.get("role") == "tool":
            results.append(_text(message))
    return results


def _tool_names(tools: Iterable[Any]) -> list[str]:
    functions = [tool.get("function") for tool in tools if isinstance(tool, Mapping)]
    return [str(function.get("name", "")) for function in functions if isinstance(function, Mapping)]


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(str(part["text"]) for part in content if isinstance(part, Mapping) and "text" in part)
