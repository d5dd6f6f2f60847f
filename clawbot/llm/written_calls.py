"""Tool calls that a model writes into its answer as text, because its server has no parser for them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from clawbot.languages.tables import pattern_in
from clawbot.llm.call_pieces import decode_at, new_call_id, parse_arguments, safe_name, strict_json
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.text.patterns import lazy_re

MOST_HELD = 100_000
"""Maximum number of characters that are held back."""
_HEAD = 300  # characters that decide whether it can
_NAMES = ("name", "function", "tool", "tool_name", "function_name", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "params", "tool_args", "tool_input")
_WRAPPERS = ("function", "tool_call", "function_call")
_BESIDE = ("id", "type", "index", "call_id", "tool_call_id")
_KEYS = "|".join((*_NAMES, *_ARGUMENTS, *_BESIDE, *_WRAPPERS, "role", "tool_calls"))
_BEGINS = lazy_re(rf"(?:```\w*\s*)?[\[\s]*\{{\s*[\"'](?:{_KEYS})[\"']")
_BEGUN = lazy_re(r"`{0,2}\Z|(?:```\w*\s*)?[\[\s]*(?:\{\s*(?:[\"']\w{0,16})?)?\Z")
_HARMONY = "<|start|>assistant"
_OPENERS = (
    *("<tool_call", "<function", "<toolcall>", "<tools>", "<tool_use>", "<invoke", "<minimax:tool_call>", "<|tool"),
    *("<｜tool", "<|python_tag|>", "<|start_action|>", "[tool_calls]", "functools[", "<|channel|>commentary to="),
    *(f"{_HARMONY} to=", f"{_HARMONY}<|channel|>commentary to=", "<|channel|>analysis to=", "[tool_request]"),
    *("<|dsml", "<｜dsml", "<seed:tool_call", "<steptml:", "<longcat_tool_call", "<start_function_call"),
)
_SIGN = r"(?:<[|｜](?!DSML)[^<>\n]{1,40}>|<\w{1,20}\|>|<(?:start|end)_function_call>)"
_GLUE = lazy_re(
    rf"(?:[\s,;}}\ufeff]|```\w*|{_SIGN}|</?(?:\w+:)?(?:tool_?calls?|tools|tool_use|function_calls|s)>|functools"
    r"|\[/?(?:END_)?TOOL_(?:CALLS|REQUEST)\])*",
    re.IGNORECASE,
)
_NAMED = lazy_re(
    rf"(?:function\s*{_SIGN}\s*|(?:assistant\s*{_SIGN}?\s*)?(?:(?:commentary|analysis)\s+)?to=|call:)?"
    rf"([A-Za-z_][\w.-]*)(?::\d+)?(?:\s|{_SIGN}|```|json\b|code\b|commentary\b|\[ARGS\]|\[CALL_ID\]\w+)*(?={{)"
)
_ELEMENT = lazy_re(
    r"<(?:function|invoke|tool_call)(?:=|\s+name=)[\"']?([\w.-]+)[\"']?>(.*?)(?:</(?:function|invoke|tool_call)>|\Z)",
    re.DOTALL,
)
_PARAMETER = lazy_re(
    r"<parameter(?:=|\s+name=)[\"']?([\w.-]+)[\"']?[^>]*>\n?(.*?)\n?(?:</parameter>|(?=<parameter)|\Z)", re.DOTALL
)
_SPACE = lazy_re(r"(</?)(?:[|｜]DSML[|｜]|\w+:|longcat_)(?=tool|function|invoke|parameter|arg_)")
_PAIR = lazy_re(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_BARE = lazy_re(r"<tool_call>\s*([\w.-]+)\s*(?:<tool_sep>\s*)?(?=<parameter=|</)")
_QUOTED = lazy_re(r"""(<\|"\|>|<escape>)(.*?)\1""", re.DOTALL)
_RESULT = lazy_re(
    r"<(?:tool|function)_(?:response|result)s?>|<\|im_(?:start|end)\|>|(?:" + pattern_in("tool_result") + r")[:：]"
    r"|(?:tool )?(?:observation|result|response|output)s?\s*:",
    re.IGNORECASE,
)
_MARKUP = lazy_re(
    r"^[ \t]*(?:<tool_call>|<function=|<invoke name=|\[TOOL_(?:CALLS|REQUEST)\]|<[|｜](?:tool.call|DSML|python_tag)"
    r"|<\|(?:start\|>assistant|channel\|>\w+ to=))",
    re.MULTILINE,
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
        if self._size > MOST_HELD or not (decided or _may_begin("".join(self._held), self._tools)):
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


def _may_begin(text: str, names: Collection[str]) -> bool:
    head = text[:_HEAD].lstrip("\ufeff \t\r\n").lower()
    name, brace, _rest = head.partition("{")
    if name.strip() in names or (not brace and any(one.lower().startswith(head) for one in names)):
        return True
    head = head if _BEGUN.match(head) or _BEGINS.match(head) else re.sub(r"\A```\w*\s+", "", head)
    begins = any(one.startswith(head[: len(one)]) for one in _OPENERS)
    return begins or bool(_BEGINS.match(head) or _BEGUN.match(head))


def _written(text: str) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls that `text` begins with; none if words follow.

    Small models go on with the results that they expect (more JSON, or text after a sign) until they are cut off. These
    are left out.
    """
    found: list[tuple[str, Any]] = []
    at, text = 0, _spelled(text.strip())
    while (glue := _GLUE.match(text, at)) and (at := glue.end()) < len(text):
        if element := _ELEMENT.match(text, at):
            at, fields = element.end(), {one[1]: one[2] for one in _PARAMETER.finditer(element[2])}
            found.append((element[1], fields or element[2].strip()))
            continue
        named = _NAMED.match(text, at)
        try:
            value, at = decode_at(text, named.end() if named else at)
        except ValueError:
            if _RESULT.match(text, at):
                return found
            if (strict := strict_json(text[at:])) == text[at:]:
                return found if text[at] in "{[" else []
            text, at = strict, 0
            continue
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        calls = [(named[1], value)] if named else map(_shaped, value if isinstance(value, list) else [value])
        for call in calls:
            if call is None:
                return found
            found.append(call)
    return found


def _spelled(text: str) -> str:
    """Return `text`, if it begins with a tag, with GLM's and Gemma's spellings, and namespaces, as others have them."""
    if text[:1] != "<":
        return text
    text = _PAIR.sub(r"<parameter=\1>\2</parameter>", _SPACE.sub(r"\1", text))
    return _QUOTED.sub(lambda found: json.dumps(found[2]), _BARE.sub(r"<function=\1>", text))


def _shaped(item: Any) -> tuple[str, Any] | None:
    """Return the name and the arguments in the JSON of a call; None if it contains anything else."""
    if not isinstance(item, dict):
        return None
    item = next((item[key] for key in _WRAPPERS if isinstance(item.get(key), dict)), item)
    fields = {key: value for key, value in item.items() if key not in _BESIDE}
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), None)
    arguments = next((fields[key] for key in _ARGUMENTS if isinstance(fields.get(key), dict | str)), None)
    return (name, arguments) if name is not None and arguments is not None and len(fields) == 2 else None
