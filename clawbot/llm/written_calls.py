"""Tool calls that a model writes into its answer as text, because its server has no parser for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clawbot.llm.call_pieces import decode_at, new_call_id, parse_arguments, safe_name, strict_json
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.text.patterns import lazy_re

MOST_HELD = 100_000
"""Maximum number of characters that are held back."""
_HEAD = 300  # characters that decide whether it can
_NAMES = ("name", "function", "tool", "tool_name", "function_name", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "params")
_BESIDE = ("id", "type", "index", "call_id", "tool_call_id")
_KEYS = "|".join((*_NAMES, *_ARGUMENTS, *_BESIDE, "tool_calls?"))
_BEGINS = lazy_re(rf"(?:```\w*\s*)?[\[\s]*\{{\s*[\"'](?:{_KEYS})[\"']")
_BEGUN = lazy_re(r"`{0,2}\Z|(?:```\w*\s*)?[\[\s]*(?:\{\s*(?:[\"']\w{0,16})?)?\Z")
_HARMONY = "<|start|>assistant"
_OPENERS = (
    *("<tool_call", "<function", "<toolcall>", "<tools>", "<tool_use>", "<invoke", "<minimax:tool_call>", "<|tool"),
    *("<｜tool", "<|python_tag|>", "<|start_action|>", "[tool_calls]", "functools[", "<|channel|>commentary to="),
    *(f"{_HARMONY} to=", f"{_HARMONY}<|channel|>commentary to="),
)
_SIGN = r"<[|｜][^<>\n]{1,40}[|｜]>"
_GLUE = lazy_re(
    rf"(?:[\s,;]|```\w*|{_SIGN}|</?(?:\w+:)?(?:tool_?calls?|tools|tool_use|function_calls|s)>|\[/?TOOL_CALLS\]|functools)*",
    re.IGNORECASE,
)
_NAMED = lazy_re(
    rf"(?:function\s*{_SIGN}\s*|(?:assistant\s*(?:{_SIGN})?\s*)?(?:commentary\s+)?to=)?([A-Za-z_][\w.-]*)(?::\d+)?"
    rf"(?:\s|{_SIGN}|```|json\b|commentary\b|\[ARGS\]|\[CALL_ID\]\w+)*(?={{)"
)
_ELEMENT = lazy_re(
    r"<(?:function|invoke)(?:=|\s+name=)[\"']?([\w.-]+)[\"']?>(.*?)(?:</(?:function|invoke)>|\Z)", re.DOTALL
)
_PARAMETER = lazy_re(
    r"<parameter(?:=|\s+name=)[\"']?([\w.-]+)[\"']?[^>]*>\n?(.*?)\n?(?:</parameter>|(?=<parameter)|\Z)", re.DOTALL
)
_RESULT = lazy_re(
    r"<(?:tool_response|function_results?)>|<\|im_(?:start|end)\|>|(?:observation|result|response|output)s?:",
    re.IGNORECASE,
)
_MARKUP = lazy_re(
    r"^[ \t]*(?:<tool_call>|<function=|<invoke name=|\[TOOL_CALLS\]|<[|｜]tool.call|<\|python_tag\|>)", re.MULTILINE
)


class WrittenCalls:
    """Holds back the text of an answer as long as all of it can still be calls of `tools`."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._held: list[str] | None = [] if tools else None
        self._size = 0

    def feed(self, text: str) -> str:
        """Take the next text and return what may be shown."""
        if self._held is None:
            return text
        self._held.append(text)
        decided, self._size = self._size > _HEAD, self._size + len(text)
        if self._size > MOST_HELD or not (decided or _may_begin("".join(self._held))):
            return self._release()
        return ""

    def end(self, *, whole: bool) -> tuple[str, list[ToolCallBlock]]:
        """Return what was held back at the end of the answer: as text, or as calls if the answer is `whole`."""
        text = self._release()
        calls = self._calls(_written(text)) if whole else []
        return ("" if calls else text, calls)

    def resembles_call(self, text: str) -> bool:
        """Whether `text`, which is not run, was meant as a call."""
        mark = _MARKUP.search(text) if self._tools else None
        if mark is not None:
            return not text[: mark.start()].count("```") % 2
        short = bool(self._tools) and len(text) <= MOST_HELD
        return short and text.lstrip()[:1] in "{[`" and bool(_written(text))

    def _release(self) -> str:
        text, self._held = "".join(self._held or ()), None
        return text

    def _calls(self, written: list[tuple[str, Any]]) -> list[ToolCallBlock]:
        """Return `written` as calls, up to one that names a tool that was not offered, or other arguments."""
        calls = []
        for name, value in written:
            tool = self._tools.get(safe_name(name))
            given, _malformed = parse_arguments(value) if isinstance(value, str) else (value, None)
            known = tool.parameters.get("properties", {}) if tool else {}
            if tool is None or not isinstance(given, dict) or (value and not given.keys() & known.keys()):
                break
            calls.append(ToolCallBlock(new_call_id(), tool.name, given))
        return calls


def _may_begin(text: str) -> bool:
    head = text[:_HEAD].lstrip().lower()
    begins = any(one.startswith(head[: len(one)]) for one in _OPENERS)
    return begins or bool(_BEGINS.match(head) or _BEGUN.match(head))


def _written(text: str) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls that `text` begins with; none if words follow.

    Small models go on with the results that they expect (more JSON, or text after a sign) until they are cut off. These
    are left out.
    """
    found: list[tuple[str, Any]] = []
    at, text = 0, text.strip()
    while (glue := _GLUE.match(text, at)) and (at := glue.end()) < len(text):
        if element := _ELEMENT.match(text, at):
            at, fields = element.end(), {one[1]: one[2] for one in _PARAMETER.finditer(element[2])}
            found.append((element[1], fields or element[2].strip()))
            continue
        named = _NAMED.match(text, at)
        try:
            value, at = decode_at(text, named.end() if named else at)
        except ValueError:
            if (strict := strict_json(text[at:])) == text[at:]:
                return found if text[at] in "{[" or _RESULT.match(text, at) else []
            text, at = strict, 0
            continue
        if isinstance(value, dict) and value.keys() == {"tool_calls"}:
            value = value["tool_calls"]
        calls = [(named[1], value)] if named else map(_shaped, value if isinstance(value, list) else [value])
        for call in calls:
            if call is None:
                return found
            found.append(call)
    return found


def _shaped(item: Any) -> tuple[str, Any] | None:
    """Return the name and the arguments in the JSON of a call; None if it contains anything else."""
    if not isinstance(item, dict):
        return None
    item = next((item[key] for key in ("function", "tool_call") if isinstance(item.get(key), dict)), item)
    fields = {key: value for key, value in item.items() if key not in _BESIDE}
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), None)
    arguments = next((fields[key] for key in _ARGUMENTS if isinstance(fields.get(key), dict | str)), None)
    return (name, arguments) if name is not None and arguments is not None and len(fields) == 2 else None
