"""Reduces the answers of a server to what the program uses of them, so that the rest may have any form.

The `mcp` library checks an answer as one: a single tool, block or optional field of a wrong type costs all others.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

import mcp_types as types
from anyio.abc import ObjectReceiveStream

from clawbot.text.sanitize import without_controls
from clawbot.text.visible import only_seen

T = TypeVar("T")
SENT = "clawbot/sent"
"""The key in `_meta` of a page of tools with the page as the server sent it."""
NO_TEXT = "[data that is no text, not shown]"
_COMPLETE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

Streams = tuple[Any, Any]
"""What the library reads from and writes to."""


@asynccontextmanager
async def reducing(transport: AbstractAsyncContextManager[Streams]) -> AsyncGenerator[Streams, None]:
    """Pass on the streams of `transport`, with each answer reduced."""
    async with transport as (incoming, outgoing):
        yield _Reduced(incoming), outgoing


class _Reduced(ObjectReceiveStream[Any]):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def receive(self) -> Any:
        item = await self._stream.receive()
        if isinstance(answer := getattr(item, "message", None), types.JSONRPCResponse):
            answer.result = reduced(answer.result)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()


def reduced(result: dict[str, Any]) -> dict[str, Any]:
    """Return an answer without what the program does not use. One that lacks the essential part is unchanged: the
    library reports what is wrong."""
    match result:
        case {"content": _} | {"structuredContent": _} if result.get("resultType") != "input_required":
            text = _text_of(result.get("content"), result.get("structuredContent"))
            shown = {"content": [{"type": "text", "text": text}], "isError": result.get("isError") in (True, "true")}
            return result if text is None else {**shown, **_COMPLETE}
        case {"protocolVersion": version}:
            about = {"name": part(result.get("serverInfo"), "name", str) or "", "version": ""}
            return {"protocolVersion": version, "capabilities": {}, "serverInfo": about}
        case {"supportedVersions": list(versions)}:
            known = [each for each in versions if isinstance(each, str)]
            return {"supportedVersions": known, "capabilities": {}, "_meta": part(result, "_meta", dict), **_COMPLETE}
        case {"tools": list()} | {"nextCursor": str()}:
            tools = [
                _callable(tool) for tool in part(result, "tools", list) or () if part(tool, "name", str) is not None
            ]
            cursor = part(result, "nextCursor", str)
            return {"tools": tools, "nextCursor": cursor, "_meta": {SENT: result}, **_COMPLETE}
        case _:
            return result


def part(value: Any, key: str, kind: type[T]) -> T | None:
    """Return `value[key]` if there is one of the type `kind`."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None


def _callable(tool: Any) -> dict[str, Any]:
    """Return what the library needs to call a tool: its name, and which parameters go into headers."""
    properties = part(tool.get("inputSchema"), "properties", dict) or {}
    schemas = {key: schema for key, schema in properties.items() if isinstance(schema, dict)}
    return {"name": tool["name"], "inputSchema": {"type": "object", "properties": schemas}}


def _text_of(content: Any, structured: Any) -> str | None:
    """Return an answer as text, in which what is no text is named, with its size. None if nothing of it can be read."""
    if not content and structured is not None:
        return only_seen(json.dumps(structured, ensure_ascii=False))
    texts = [_block_text(block) for block in (content if isinstance(content, list) else [content])]
    shown = "\n".join(NO_TEXT if text is None else text for text in texts)
    return None if set(texts) == {None} else only_seen(without_controls(shown))


def _block_text(block: Any) -> str | None:
    match block:
        case str(text) | {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource_link", "uri": str(uri)}:
            return f"[a link: {uri}]"
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return f"[{part(block, 'mimeType', str) or kind}, {len(data) * 3 // 4:,} bytes, not shown]"
        case {"type": "resource", "resource": {"blob": str()}}:
            return NO_TEXT
        case _:
            return None
