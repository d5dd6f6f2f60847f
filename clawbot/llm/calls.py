"""Tool calls that arrive in pieces: put together by index, and repaired where a server is sloppy about them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec

from clawbot.messages import ToolCallBlock

NAME_LENGTH = 64
_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")
# Namespaces that some models put before the name that they were given.
_NAMESPACE = re.compile(r"^(?:functions?|tools?|default_api)[.:/]")


class CallPieces:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def feed(self, piece: Mapping[str, Any]) -> None:
        """Take one piece: an entry of `delta.tool_calls`."""
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = self._call_of(piece, bool(function.get("name")))
        call.id = call.id or _text(piece.get("id"))
        call.name = call.name or _text(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif arguments is not None:
            call.arguments.append(json.dumps(arguments, ensure_ascii=False))

    def _call_of(self, piece: Mapping[str, Any], named: bool) -> _Call:
        index, identity = piece.get("index"), _text(piece.get("id"))
        known = self._by_index.get(index) if isinstance(index, int) else self._without_index(identity, named)
        # Servers that send whole calls give all of them index 0: another id with a name begins another call.
        other = known is not None and named and bool(identity and known.id) and identity != known.id
        if known is None or other:
            known = _Call()
            self._calls.append(known)
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _without_index(self, identity: str, named: bool) -> _Call | None:
        if identity:
            return next((call for call in self._calls if call.id == identity), None)
        return None if named or not self._calls else self._calls[-1]

    def blocks(self) -> list[ToolCallBlock]:
        """The calls, each with an id of its own and a name that every provider accepts."""
        taken: set[str] = set()
        blocks = []
        for call in self._calls:
            if not call.name and not "".join(call.arguments).strip():
                continue
            identity = call.id if call.id and call.id not in taken else f"call_{uuid4().hex[:24]}"
            taken.add(identity)
            arguments, malformed = parse_arguments("".join(call.arguments))
            blocks.append(ToolCallBlock(identity, safe_name(call.name), arguments, malformed))
        return blocks


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """The arguments as an object, and None; or {} and the raw text, when it is no JSON object.

    Nothing and `null` count as no arguments; an object in a JSON string is taken out of it.
    """
    if not raw.strip():
        return {}, None
    value = _decode(raw)
    if isinstance(value, str):
        value = _decode(value)
    if value is None and raw.strip() == "null":
        return {}, None
    return (value, None) if isinstance(value, dict) else ({}, raw)


def safe_name(name: str) -> str:
    """`name` as every provider accepts it when it is sent back: 1 to 64 of `[A-Za-z0-9_-]` (reference sheet 3.6)."""
    bare = _NAMESPACE.sub("", name.strip())
    return _BAD_NAME.sub("_", bare)[:NAME_LENGTH] or "unnamed"


def _decode(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
