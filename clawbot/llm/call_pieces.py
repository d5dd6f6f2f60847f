"""Assembles the tool calls of a streamed answer, and parses what servers and models get slightly wrong. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import UNSET

from clawbot.messages import ToolCallBlock
from clawbot.text.patterns import lazy_re

NAME_LENGTH = 64
DEEPEST = 64  # the arguments of a tool are a flat object, and seldom one with lists in it
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_NOTHING = ("", "null", "None", "undefined", "[]", '""', '"null"', '"{}"')
# Namespaces that some models put before the name that they were given.
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")


class _Piece(NamedTuple):
    place: int | None
    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any]


class CallPieces:
    """The calls of one answer; `offered` are the names of the tools that the model may call."""

    def __init__(self, offered: Collection[str] = ()) -> None:
        self._offered = frozenset(offered)
        self._pieces: list[_Piece] = []

    def feed(self, piece: Mapping[str, Any]) -> None:
        """Take one piece: an entry of `delta.tool_calls`."""
        function, place = piece.get("function"), piece.get("index")
        function = function if isinstance(function, Mapping) else {}
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        identity, name = (text if isinstance(text, str) else "" for text in (piece.get("id"), function.get("name")))
        place, extra = place if isinstance(place, int) else None, piece.get("extra") or {}
        self._pieces.append(_Piece(place, identity, name, arguments, extra))

    def blocks(self) -> list[ToolCallBlock]:
        """Return the calls in order, each with a unique id and a name that every provider accepts.

        Servers use indexes and ids differently: the first reading with the fewest unreadable arguments is used.
        """
        readings = (_by_place_and_id(self._pieces), _by_last(self._pieces, "id"), _by_last(self._pieces, "place"))
        return min(map(self._read, readings), key=lambda blocks: sum(block.malformed is not None for block in blocks))

    def _read(self, calls: list[list[_Piece]]) -> list[ToolCallBlock]:
        blocks: list[ToolCallBlock] = []
        for pieces in calls:
            name = self._name([piece.name for piece in pieces if piece.name])
            parts = [piece.arguments for piece in pieces if piece.arguments]
            if not name and not "".join(parts).strip():
                continue
            arguments, malformed = parse_arguments("".join(parts))
            if malformed is not None and all(later.startswith(part) for part, later in pairwise(parts)):
                arguments, malformed = parse_arguments(parts[-1])  # each piece held all that came before it
            identity = _id(pieces)
            if not identity or any(block.id == identity for block in blocks):
                identity = new_call_id()
            extra = {name: value for piece in pieces for name, value in piece.extra.items()}
            blocks.append(ToolCallBlock(identity, safe_name(name), arguments, malformed, extra or UNSET))
        return blocks

    def _name(self, parts: list[str]) -> str:
        """Join a name that came in pieces; some servers repeat it with each piece of the arguments."""
        longest, whole = max(parts, key=len, default=""), "".join(parts)
        if all(longest.startswith(part) for part in parts):
            return longest
        return whole if not self._offered or safe_name(whole) in self._offered else parts[0]


def new_call_id() -> str:
    """Return an id in the form of OpenAI's."""
    return f"call_{uuid4().hex[:24]}"


def _id(pieces: list[_Piece]) -> str:
    return next((piece.id for piece in pieces if piece.id), "")


def _by_place_and_id(pieces: list[_Piece]) -> list[list[_Piece]]:
    calls: list[list[_Piece]] = []
    for piece in pieces:
        if piece.place is not None:
            call = next((call for call in reversed(calls) if call[0].place == piece.place), None)
        elif piece.id:
            call = next((call for call in calls if _id(call) == piece.id), None)
        else:
            call = None if piece.name or not calls else calls[-1]
        # Servers that send whole calls give all of them index 0: another id with a name begins another call.
        if call and piece.name and piece.id and _id(call) not in ("", piece.id):
            call = None if piece.name != call[0].name or any(one.arguments for one in call) else call
        if call is None:
            calls.append([piece])
        else:
            call.append(piece)
    return calls


def _by_last(pieces: list[_Piece], field: Literal["id", "place"]) -> list[list[_Piece]]:
    """Group `pieces` by the last `field` that came; some leave it out in all but the first one."""
    calls: dict[object, list[_Piece]] = {}
    key: object = None
    for piece in pieces:
        own = getattr(piece, field)
        key = key if own in (None, "") else own
        calls.setdefault(key, []).append(piece)
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
    """Whether lists and objects are nested deeper than anything that shows, stores or sends them again can follow."""
    inner = [each for each in (value.values() if isinstance(value, dict) else value) if isinstance(each, dict | list)]
    return any(levels == 0 or _is_deep(each, levels - 1) for each in inner)


def _decode(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


_CLOSERS = lazy_re(r"(?:\s*(?:```|~~~|</[\w:.-]+>|<[|｜][^<>\n]*>|\[/\w+\]))+\s*\Z")
_MOST_CLOSING = 640  # characters
_MOST_LOOSE = 400_000  # characters
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
    closers = _CLOSERS.search(text, max(0, len(text) - _MOST_CLOSING))
    text = text[: closers.start() if closers else None].strip()
    if not text.startswith("{") or len(text) > _MOST_LOOSE:
        return None
    text = strict_json(text)
    try:
        value, end = decode_at(text)
        rest = text[end:].replace(text[:end], "").strip()
        return value if not rest.strip(" \t\r\n}]);") or rest == "{}" or decode_at(rest) == (value, len(rest)) else None
    except ValueError:
        return None
