"""Tool calls of a streamed answer: assembles their parts, parses what servers and models get slightly wrong, and reads
calls that a model writes as text because its server has no parser for them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import UNSET

from clawbot.languages.tables import pattern_in
from clawbot.messages import ToolCallBlock, ToolSpec
from clawbot.text.patterns import lazy_re

NAME_LENGTH = 64
DEEPEST = 64  # the arguments of a tool are a flat object, and seldom one with lists in it
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NOTHING = ("", "null", "None", "undefined", "[]", '""', '"null"', '"{}"')
# Namespaces that some models put before the name that they were given.
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")


class _CallDelta(NamedTuple):
    position: int | None
    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any]


class CallAssembler:
    """The calls of one answer; `offered` are the names of the tools that the model may call."""

    def __init__(self, offered: Collection[str] = ()) -> None:
        self._offered = frozenset(offered)
        self._deltas: list[_CallDelta] = []

    def feed(self, delta: Mapping[str, Any]) -> None:
        """Add an entry of `delta.tool_calls`."""
        function, position = delta.get("function"), delta.get("index")
        function = function if isinstance(function, Mapping) else {}
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        identity, name = (text if isinstance(text, str) else "" for text in (delta.get("id"), function.get("name")))
        position, extra = position if isinstance(position, int) else None, delta.get("extra") or {}
        self._deltas.append(_CallDelta(position, identity, name, arguments, extra))

    def blocks(self) -> list[ToolCallBlock]:
        """Return the calls in order, each with a unique id and a name that every provider accepts.

        Servers use indexes and ids differently: the first reading with the fewest unreadable arguments is used.
        """
        readings = (_by_position_and_id(self._deltas), _by_last(self._deltas, "id"), _by_last(self._deltas, "position"))
        return min(map(self._read, readings), key=lambda blocks: sum(block.malformed is not None for block in blocks))

    def _read(self, calls: list[list[_CallDelta]]) -> list[ToolCallBlock]:
        blocks: list[ToolCallBlock] = []
        for deltas in calls:
            name = self._name([delta.name for delta in deltas if delta.name])
            parts = [delta.arguments for delta in deltas if delta.arguments]
            if not name and not "".join(parts).strip():
                continue
            arguments, malformed = parse_arguments("".join(parts))
            if malformed is not None and all(later.startswith(part) for part, later in pairwise(parts)):
                arguments, malformed = parse_arguments(parts[-1])  # each part held all that came before it
            identity = _id(deltas)
            if not identity or any(block.id == identity for block in blocks):
                identity = new_call_id()
            extra = {name: value for delta in deltas for name, value in delta.extra.items()}
            blocks.append(ToolCallBlock(identity, safe_name(name), arguments, malformed, extra or UNSET))
        return blocks

    def _name(self, parts: list[str]) -> str:
        """Join a name that came in parts; some servers repeat it with each part of the arguments."""
        longest, complete = max(parts, key=len, default=""), "".join(parts)
        if all(longest.startswith(part) for part in parts):
            return longest
        return complete if not self._offered or safe_name(complete) in self._offered else parts[0]


def new_call_id() -> str:
    """Return an id in the form of OpenAI's."""
    return f"call_{uuid4().hex[:24]}"


def _id(deltas: list[_CallDelta]) -> str:
    return next((delta.id for delta in deltas if delta.id), "")


def _by_position_and_id(deltas: list[_CallDelta]) -> list[list[_CallDelta]]:
    calls: list[list[_CallDelta]] = []
    for delta in deltas:
        if delta.position is not None:
            call = next((call for call in reversed(calls) if call[0].position == delta.position), None)
        elif delta.id:
            call = next((call for call in calls if _id(call) == delta.id), None)
        else:
            call = None if delta.name or not calls else calls[-1]
        # Servers that send complete calls give all of them index 0: another id with a name begins another call.
        if call and delta.name and delta.id and _id(call) not in ("", delta.id):
            call = None if delta.name != call[0].name or any(one.arguments for one in call) else call
        if call is None:
            calls.append([delta])
        else:
            call.append(delta)
    return calls


def _by_last(deltas: list[_CallDelta], field: Literal["id", "position"]) -> list[list[_CallDelta]]:
    """Group `deltas` by the last `field` that came; some leave it out in all but the first one."""
    calls: dict[object, list[_CallDelta]] = {}
    key: object = None
    for delta in deltas:
        own = getattr(delta, field)
        key = key if own in (None, "") else own
        calls.setdefault(key, []).append(delta)
    return list(calls.values())


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """The arguments as an object, and None; or {} and the raw text, when it is no JSON object.

    Nothing, `null` and empty values count as no arguments; an object in a JSON string is taken out of it.
    """
    text = raw.strip("\ufeff\u200b\0 \t\r\n")
    if text in _NOTHING:
        return {}, None
    value = _decode(text)
    while isinstance(value, str):
        text, value = value, _decode(value)
    if not isinstance(value, dict):
        value = _decode_loosely(text)
    return (value, None) if isinstance(value, dict) and not _is_deep(value) else ({}, raw)


def safe_name(name: str) -> str:
    """`name` as every provider accepts it when it is sent back: 1 to 64 of `[A-Za-z0-9_-]`."""
    bare = _NAMESPACE.sub("", name.partition("<|")[0].strip())
    return _BAD_NAME.sub("_", bare)[:NAME_LENGTH] or "unnamed"


def _is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and objects are nested too deep to be shown, stored or sent again."""
    inner = [each for each in (value.values() if isinstance(value, dict) else value) if isinstance(each, dict | list)]
    return any(levels == 0 or _is_deep(each, levels - 1) for each in inner)


def _decode(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


_CLOSERS = lazy_re(r"(?:\s*(?:```|~~~|</[\w:.-]+>|<[|｜][^<>\n]*>|\[/\w+\]))+\s*\Z")
_MAX_CLOSING = 640  # characters
_MAX_LOOSE = 400_000  # characters
_COMMENT = r"(?://|(?<=\s)#)[^\n]*|/\*.*?(?:\*/|\Z)"
# A string that is not closed goes on to the end, so that nothing is read twice.
_LOOSE = lazy_re(
    r""""(?:[^"\\]|\\.?)*(?:"|\Z)|'(?:[^'\\]|\\.?)*(?:'|\Z)|“[^“”]*”|\b(?:True|False|None)\b"""
    rf"""|{_COMMENT}|,(?=(?:\s|{_COMMENT})*[}}\],])|(?<=[{{,])\s*[A-Za-z_]\w*(?=\s*:)|[，：]""",
    re.DOTALL,
)
_IN_STRING = lazy_re(r'\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}|\\.|"', re.DOTALL)
_STRICT = {"True": "true", "False": "false", "None": "null", ",": "", "，": ",", "：": ":", "\\'": "'", '"': '\\"'}
_loose_decoder = json.JSONDecoder(strict=False, parse_constant=int)  # raises ValueError for NaN


def strict_json(text: str) -> str:
    """Return `text`, with the quotes, words, escapes, commas and comments of other languages, as JSON."""

    def strict(found: re.Match[str]) -> str:
        token = found[0]
        if len(token) == 1 or token[0] not in "\"'“":
            if token[:1] == "\\":  # an escape that is none is of a path or a pattern
                return _STRICT.get(token, token if token[1] in '"\\/bfnrt' or len(token) > 2 else f"\\{token}")
            name = token.strip()
            return _STRICT.get(token, "" if name[0] in "/#" else f'"{name}"')
        inside = token[1:-1]
        if "\\" in inside or (token[0] != '"' and '"' in inside):
            inside = _IN_STRING.sub(strict, inside)
        return f'"{inside}"'

    return _LOOSE.sub(strict, text)


def decode_at(text: str, at: int = 0) -> tuple[Any, int]:
    """Return the JSON value at `at`, whose strings may hold raw control characters, and its end. Raises ValueError."""
    try:
        value, end = _loose_decoder.raw_decode(text, at)
        return msgspec.json.decode(msgspec.json.encode(value)), end
    except (RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _decode_loosely(raw: str) -> Any:
    """Return the value in `raw`: in a fence or tags, repeated, or spelled as `strict_json` reads it; None if none."""
    text = re.sub(r"\A(?:```\w*|~~~\w*|<[\w:]+>|json\b|\{\s*\}|null|\"\"|\s)+(?=\{)", "", raw)
    closers = _CLOSERS.search(text, max(0, len(text) - _MAX_CLOSING))
    text = text[: closers.start() if closers else None].strip()
    if not text.startswith("{") or len(text) > _MAX_LOOSE:
        return None
    text = strict_json(text)
    try:
        value, end = decode_at(text)
        rest = text[end:].replace(text[:end], "").strip()
        return value if not rest.strip(" \t\r\n}]);") or rest == "{}" or decode_at(rest) == (value, len(rest)) else None
    except ValueError:
        return None


MAX_HELD = 100_000
"""Maximum number of characters that are held back."""
_HEAD = 300  # characters that decide whether it can
_NAMES = ("name", "function", "tool", "tool_name", "function_name", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input", "params", "tool_args", "tool_input")
_WRAPPERS = ("function", "tool_call", "function_call")
_LABELS = ("id", "type", "index", "call_id", "tool_call_id")
_KEYS = "|".join((*_NAMES, *_ARGUMENTS, *_LABELS, *_WRAPPERS, "role", "tool_calls"))
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
        """Add text and return what may be shown."""
        if self._held is None:
            return text
        self._held.append(text)
        decided, self._size = self._size > _HEAD, self._size + len(text)
        if self._size > MAX_HELD or not (decided or _may_begin("".join(self._held), self._tools)):
            return self._release()
        return ""

    def end(self, *, complete: bool) -> tuple[str, list[ToolCallBlock]]:
        """Return what was held back at the end of the answer: as text, or as calls if the answer is `complete`."""
        text = self._release()
        calls = self._calls(_written(text)) if complete else []
        return ("" if calls else text, calls)

    def resembles_call(self, text: str) -> bool:
        """Whether `text`, which is not run, was meant as a call."""
        mark = _MARKUP.search(text) if self._tools else None
        if mark is not None:
            return not text[: mark.start()].count("```") % 2
        short = bool(self._tools) and len(text) <= MAX_HELD
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
    fields = {key: value for key, value in item.items() if key not in _LABELS}
    name = next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), None)
    arguments = next((fields[key] for key in _ARGUMENTS if isinstance(fields.get(key), dict | str)), None)
    return (name, arguments) if name is not None and arguments is not None and len(fields) == 2 else None
