"""Servers whose answers are wrong in one part: what is right beside it is used, and what is left out has a name."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from clawbot.mcp.frames import Answered, Call, CallFailed, Lost, Report, Start, Started, Stop
from tests.mcp.test_worker import Talk

RAW = str(Path(__file__).with_name("raw_server.py"))
OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
GOOD = {"name": "good", "description": "Works.", "inputSchema": OBJECT}
MODERN = {"supportedVersions": ["2026-07-28"], "capabilities": {}}


@asynccontextmanager
async def server(seconds: float = 20.0, **answers: Any) -> AsyncIterator[tuple[Talk, Report]]:
    """A worker for a server with `answers`, whose methods are spelled with `_` for the first `/`."""
    talk = Talk()
    running = asyncio.create_task(talk.worker.run())
    given = json.dumps({method.replace("_", "/", 1): answer for method, answer in answers.items()})
    start = Start({}, seconds, max_message=65_536, max_tools=64, command=sys.executable, args=(RAW, given))
    try:
        yield talk, await talk.ask(start)
        talk.worker.take(Stop())
        await running
    finally:
        running.cancel()


def named(**fields: Any) -> dict[str, Any]:
    return {"name": "bad", "description": "Odd.", "inputSchema": OBJECT} | fields


# The tool beside the good one, and what the line about it names; "" for one that can be called all the same.
TOOLS: dict[str, tuple[Any, str]] = {
    "no inputSchema": ({"name": "bad"}, "bad"),
    "inputSchema null": (named(inputSchema=None), "bad"),
    "inputSchema a text": (named(inputSchema="object"), "bad"),
    "inputSchema a list": (named(inputSchema=[]), "bad"),
    "type is array": (named(inputSchema={"type": "array"}), "bad"),
    "properties a list": (named(inputSchema={"type": "object", "properties": []}), "bad"),
    "required a text": (named(inputSchema=OBJECT | {"required": "text"}), "bad"),
    "no name": ({"inputSchema": OBJECT}, "None"),
    "name a number": (named(name=7), "7"),
    "name a list": (named(name=["bad"]), "['bad']"),
    "a text": ("bad", "'bad'"),
    "null": (None, "None"),
    "a list": ([named()], "[{"),
    "no type, oneOf": (named(inputSchema={"oneOf": [OBJECT]}), "bad"),
    "numbers beyond 64 bits": (named(inputSchema=OBJECT | {"maxProperties": 1, "maximum": 10**30}), "bad"),
    "not a number": (named(inputSchema=OBJECT | {"minimum": float("nan")}), "bad"),
    "no type": (named(inputSchema={"properties": OBJECT["properties"]}), ""),
    "anyOf beside properties": (named(inputSchema=OBJECT | {"anyOf": [{"required": ["text"]}]}), ""),
    "$schema a number": (named(inputSchema=OBJECT | {"$schema": 7}), ""),
    "outputSchema a list": (named(outputSchema=[]), ""),
    "outputSchema of an array": (named(outputSchema={"type": "array", "items": {}}), ""),
    "description null": (named(description=None), ""),
    "description an object": (named(description={"en": "Odd."}), ""),
    "annotations a text": (named(annotations="readOnly"), ""),
    "hint a text": (named(annotations={"readOnlyHint": "maybe"}), ""),
    "title a number": (named(title=7), ""),
    "icons a text": (named(icons="x.png"), ""),
    "icon without src": (named(icons=[{"mimeType": "image/png"}]), ""),
    "_meta a list": (named(_meta=[]), ""),
    "execution a text": (named(execution="now"), ""),
    "extra fields": (named(strict=True, input_schema=7), ""),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("discover", [None, MODERN], ids=["handshake", "discover"])
@pytest.mark.parametrize("form", TOOLS)
async def test_a_tool_of_a_wrong_form_costs_no_other(form: str, discover: Any) -> None:
    bad, name = TOOLS[form]
    more = {"server_discover": discover} if discover else {}
    async with server(tools_list={"tools": [bad, GOOD]}, **more) as (_, started):
        assert isinstance(started, Started), started
        assert [tool.name for tool in started.listing.tools] == (["good"] if name else ["bad", "good"])
        assert [name in line for line in started.listing.warnings] == ([True] if name else [])


def page(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [GOOD | {"name": name} for name in names], **more}


ERROR = '"error":{"code":-32603,"message":"index out of range"}}'
# The answers by cursor, the tools that are offered, and what the only line about the rest holds.
PAGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "all good": ({"": page("a", nextCursor="2"), "2": page("b", nextCursor=None)}, "ab", ""),
    "an empty cursor ends": ({"": page("a", nextCursor="")}, "a", ""),
    "an error": ({"": page("a", nextCursor="2"), "2": ERROR}, "a", "page 2 on: it answered with an error: index"),
    "tools null": ({"": page("a", nextCursor="2"), "2": {"tools": None}}, "a", "page 2 on: it gave an answer that is"),
    "first one null": ({"": {"tools": None, "nextCursor": "2"}, "2": page("b")}, "b", "page 1 of its tools"),
    "middle one a text": (
        {"": page("a", nextCursor="2"), "2": {"tools": "b", "nextCursor": "3"}, "3": page("c")},
        "ac",
        "page 2 of its tools",
    ),
    "a tool in the middle": (
        {"": page("a", nextCursor="2"), "2": {"tools": [7], "nextCursor": "3"}, "3": page("c")},
        "ac",
        "a tool named 7",
    ),
    "cursor a number": ({"": page("a", nextCursor=2)}, "a", "its tools after page 1"),
    "cursor again": ({"": page("a", nextCursor="2"), "2": page("b", nextCursor="2")}, "ab", "its tools after page 2"),
    "a page that never comes": (
        {"": page("a", nextCursor="2"), "2": "\n"},
        "a",
        "page 2 on: it did not list its tools",
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("form", PAGES)
async def test_a_page_of_a_wrong_form_costs_no_other(form: str) -> None:
    pages, offered, line = PAGES[form]
    async with server(2.0 if form == "a page that never comes" else 20.0, tools_list=pages) as (_, started):
        assert isinstance(started, Started), started
        assert "".join(tool.name for tool in started.listing.tools) == offered
        assert [line in each for each in started.listing.warnings] == ([True] if line else [])


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (ERROR, "answered with an error: index out of range"),
        ({"tools": None}, "gave an answer that is not valid at tools"),
    ],
)
async def test_a_server_without_a_single_page_has_a_reason(first: Any, reason: str) -> None:
    async with server(tools_list={"": first}) as (_, report):
        assert isinstance(report, Lost)
        assert report.reason.startswith(reason)


VERSION = {"protocolVersion": "2025-06-18"}
INITIALIZE: dict[str, Any] = {
    "nothing else": VERSION,
    "capabilities a list": VERSION | {"capabilities": [], "serverInfo": {"name": "raw", "version": "1"}},
    "capabilities null": VERSION | {"capabilities": None},
    "tools true": VERSION | {"capabilities": {"tools": True}},
    "serverInfo a text": VERSION | {"serverInfo": "raw 1.0"},
    "version a number": VERSION | {"serverInfo": {"name": "raw", "version": 1.0}},
    "name null": VERSION | {"serverInfo": {"name": None, "version": "1"}},
    "icons a text": VERSION | {"serverInfo": {"name": "raw", "version": "1", "icons": "x.png"}},
    "instructions a list": VERSION | {"instructions": ["Be kind."]},
    "_meta a list": VERSION | {"_meta": []},
    "without jsonrpc": '{"id":%d,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}',
    "Latin-1": '{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":"2025-06-18","instructions":"caf\udce9"}}',
}


@pytest.mark.few(4)
@pytest.mark.parametrize("form", INITIALIZE)
async def test_a_greeting_of_a_wrong_form_costs_no_tools(form: str) -> None:
    async with server(initialize=INITIALIZE[form], tools_list={"tools": [GOOD]}) as (_, started):
        assert isinstance(started, Started), started
        assert [tool.name for tool in started.listing.tools] == ["good"]


TEXT = {"type": "text", "text": "12 °C"}
# What a call answers, and what the model reads; None: the call failed.
CALLS: dict[str, tuple[Any, str | None]] = {
    "an unknown type": ({"content": [TEXT, {"type": "video", "data": "AA=="}]}, "12 °C\n[data that is no text"),
    "no type": (
        {"content": [{"text": "?"}, TEXT]},
        "[data that is no text, not shown]\n12 °C",
    ),
    "text a number": ({"content": [TEXT, {"type": "text", "text": 12}]}, "12 °C\n[data that is no text"),
    "no object": ({"content": [7, TEXT]}, "[data that is no text"),
    "null": ({"content": [None, TEXT]}, "[data that is no text"),
    "picture without data": ({"content": [TEXT, {"type": "image"}]}, "12 °C\n[data that is no text"),
    "picture without type": ({"content": [TEXT, {"type": "image", "data": "AAAA"}]}, "12 °C\n[image, 3 bytes"),
    "annotations a text": ({"content": [TEXT | {"annotations": "x"}]}, "12 °C"),
    "content a text": ({"content": "12 °C"}, "12 °C"),
    "content a block": ({"content": TEXT}, "12 °C"),
    "hidden text": ({"content": "1\U000e0152\ufe0e\U000e00412\x1b[2J °C\r\n❤\ufe0f"}, "12 °C\n❤\ufe0f"),
    "hidden in data": ({"structuredContent": {"t": "1\U000e01412"}}, '{"t": "12"}'),
    "no content": ({"structuredContent": {"t": 12}}, '{"t": 12}'),
    "content null": ({"content": None, "structuredContent": {"t": 12}}, '{"t": 12}'),
    "structured a list": ({"content": [], "structuredContent": [12]}, "[12]"),
    "structured wrong": ({"content": [TEXT], "structuredContent": "12"}, "12 °C"),
    "isError a text": ({"content": [TEXT], "isError": "false"}, "12 °C"),
    "_meta a text": ({"content": [TEXT], "_meta": "x"}, "12 °C"),
    "nothing": ({"content": []}, ""),
    "without jsonrpc": ('{"id":%d,"result":{"content":[{"type":"text","text":"12 °C"}]}}', "12 °C"),
    "half a character": ('"result":{"content":[{"type":"text","text":"12 °C\\ud83d"}]}}', "12 °C\ufffd"),
    "all unknown": ({"content": [{"type": "video"}]}, None),
    "an empty object": ({}, None),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("form", CALLS)
async def test_a_part_of_an_answer_of_a_wrong_form_costs_no_other(form: str) -> None:
    answer, shown = CALLS[form]
    tools = {"tools": [GOOD | {"outputSchema": {"type": "object", "required": ["t"]}}]}
    async with server(tools_list=tools, tools_call=answer) as (talk, _):
        report = await talk.ask(Call(1, "good", {}, 20))
        if shown is None:
            assert isinstance(report, CallFailed), report
            assert report.timed_out is False
        else:
            assert isinstance(report, Answered), report
            assert report.text.startswith(shown)
            assert report.is_error is False


async def test_over_http_it_is_the_same() -> None:
    results = {
        "initialize": VERSION | {"capabilities": [], "serverInfo": "raw"},
        "tools/list": {"tools": [bad for bad, _ in TOOLS.values() if isinstance(bad, dict)] + [GOOD]},
        "tools/call": {"content": [TEXT, {"type": "video"}], "isError": "false"},
    }

    async def answer(request: web.Request) -> web.Response:
        if request.method != "POST":
            return web.Response(status=405)
        asked = await request.json()
        if asked["method"] not in results:
            return web.Response(status=202 if "id" not in asked else 404)
        return web.json_response({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]})

    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    async with TestServer(app) as served:
        talk = Talk()
        running = asyncio.create_task(talk.worker.run())
        started = await talk.ask(Start({}, 20, 65_536, 64, url=str(served.make_url("/mcp"))))
        assert isinstance(started, Started), started
        assert [tool.name for tool in started.listing.tools] == ["bad", "good"]
        called = await talk.ask(Call(1, "good", {}, 20))
        assert called == Answered(1, "12 °C\n[data that is no text, not shown]", is_error=False)
        talk.worker.take(Stop())
        await running


async def test_a_tool_with_headers_of_a_wrong_form_is_named() -> None:
    headed = {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": 7}}}
    tools = {"tools": [named(inputSchema=headed), GOOD]}
    async with server(server_discover=MODERN, tools_list=tools) as (_, started):
        assert isinstance(started, Started), started
        assert [tool.name for tool in started.listing.tools] == ["good"]
        assert ["bad" in line for line in started.listing.warnings] == [True]


async def test_a_server_that_ends_at_its_second_page_is_lost() -> None:
    pages = {"": page("a", nextCursor="2"), "2": page("b")}
    async with server(tools_list=pages, exit="2") as (_, report):
        assert report == Lost("ended with status 3")
