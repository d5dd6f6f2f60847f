"""Stands between a client and a real server, and writes the script that replays what was said, without its secrets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import aiohttp
import yaml
from aiohttp import web

from clawbot.files import PRIVATE_FILE, write_atomic
from clawbot.llm.local import served_model
from clawbot.llm.scripted.engine import asks_for_title, view_of
from clawbot.llm.scripted.server import LOOPBACK, MAX_BODY
from clawbot.llm.scripted.types import DEFAULT_MODEL, FinishReason
from clawbot.text.secrets import MARK, Redactor, remember_secret

WIDTH = 110
EXPECTED_CHARS = 60
"""Of the user's words: enough to tell one message from another."""
_USUAL_ENDS = ("stop", "tool_calls")
# The time before a message, and dates in it: a replay has others.
_TIME_MARK = re.compile(r"^\s*\[[^\]\n]*\d\d:\d\d[^\]\n]*\]\s*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d")
# Those of one connection only, and those that our own client and server write anew.
_HOP = frozenset(
    ["connection", "content-encoding", "content-length", "host", "keep-alive", "transfer-encoding", "accept-encoding"]
)


class Recorder:
    """The script so far. A turn has its place when its request comes, and is written when its answer has ended."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._turns: list[dict[str, Any] | None] = []
        self._redactor = Redactor()
        self._head: dict[str, Any] = {}
        self._writing = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many turns are written."""
        return sum(turn is not None for turn in self._turns)

    @property
    def secrets(self) -> int:
        """How many secrets were left out."""
        return self._redactor.count

    @property
    def is_new(self) -> bool:
        """Whether nothing was asked yet."""
        return not self._turns

    def describe(self, model: object, window: int | None) -> None:
        """Say what the script goes by."""
        self._head = {"model": str(model or DEFAULT_MODEL), **({"window": window} if window else {})}

    def begin(self) -> int:
        """The place of the next turn."""
        self._turns.append(None)
        return len(self._turns) - 1

    async def end(self, place: int, request: Mapping[str, Any], reply: dict[str, Any]) -> None:
        """Write the turn that answered `request`. Raises OSError."""
        words = _expected(self._redactor.text("\n".join(view_of(request)["user"])))
        turn = {"expect": {"user": words}} if words else {}
        async with self._writing:
            self._turns[place] = {**turn, "reply": self._redactor.tree(reply)}
            await asyncio.to_thread(self._write)

    def _write(self) -> None:
        script = {**self._head, "turns": [turn for turn in self._turns if turn is not None]}
        text = yaml.safe_dump(script, allow_unicode=True, sort_keys=False, width=WIDTH)
        write_atomic(self.file, text.encode(), mode=PRIVATE_FILE, below=self.file.parent)


def _expected(text: str) -> str:
    """The first words of the user's message that a replay has again; empty when there are none."""
    first = next((line for line in _TIME_MARK.sub("", text).splitlines() if line.strip()), "")
    piece = _DATE.split(first.partition(MARK)[0], maxsplit=1)[0]
    return piece[:EXPECTED_CHARS].strip()


class Heard:
    """Gathers one answer, as it comes in pieces or whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._texts = {"reasoning": "", "text": ""}
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: dict[str, Any] = {}
        self._end: str | None = None
        self._pieces = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of a stream of events."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                self.take(line[5:])

    def take(self, data: bytes) -> None:
        """Take an event, or a whole answer."""
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
            body = json.loads(data)
            self._usage = body.get("usage") or self._usage
            for choice in body.get("choices") or ():
                self._add(choice.get("delta") or choice.get("message") or {})
                self._end = choice.get("finish_reason") or self._end

    def _add(self, delta: Mapping[str, Any]) -> None:
        for key, value in (
            ("reasoning", delta.get("reasoning_content") or delta.get("reasoning")),
            ("text", delta.get("content")),
        ):
            if value:
                self._texts[key] += value
                self._pieces += 1
        for place, part in enumerate(delta.get("tool_calls") or ()):
            call = self._calls.setdefault(part.get("index", place), {"name": "", "arguments": ""})
            said = part.get("function") or {}
            call["name"] += said.get("name") or ""
            call["arguments"] += said.get("arguments") or ""

    def reply(self, *, cut: bool = False) -> dict[str, Any]:
        """The reply that says the same. `cut`: the server broke off."""
        reply: dict[str, Any] = {key: _escaped(text) for key, text in self._texts.items() if text}
        if self._calls:
            calls = (self._calls[index] for index in sorted(self._calls))
            reply["tool_calls"] = [{"name": call["name"], "arguments": _arguments(call)} for call in calls]
        if not reply and not cut:
            reply["text"] = ""
        if cut:
            return {**reply, "fault": {"drop": min(self._pieces, len(reply))}}
        if self._usage:
            reply["usage"] = _figures(self._usage)
        if self._end in get_args(FinishReason) and self._end not in _USUAL_ENDS:
            reply["finish_reason"] = self._end
        return reply


def _arguments(call: Mapping[str, str]) -> dict[str, Any] | str:
    """The arguments as a mapping, or as they were said when they are none."""
    try:
        found = json.loads(call["arguments"])
    except ValueError:
        found = None
    arguments: dict[str, Any] | str = _escaped(found if isinstance(found, dict) else call["arguments"])
    return arguments


def _escaped(value: Any) -> Any:
    """`value` with what would be a template in a script marked as none."""
    if isinstance(value, str):
        return value.replace("{{", "\\{{")
    if isinstance(value, dict):
        return {key: _escaped(each) for key, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, list) else value


def _figures(usage: Mapping[str, Any]) -> dict[str, int]:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    found = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens"), "cached": cached}
    return {key: value for key, value in found.items() if isinstance(value, int) and value}


def _fault(status: int, headers: Mapping[str, str], data: bytes) -> dict[str, Any]:
    """The fault that says what a server said in place of an answer."""
    try:
        body = json.loads(data)
        error = body.get("error", body)
        message = str(error.get("message", "") if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        message = data.decode(errors="replace")[:500]
    wait = headers.get("Retry-After", "")
    after = {"retry_after": float(wait)} if wait.replace(".", "", 1).isdigit() else {}
    return {"fault": {"status": status, "message": _escaped(message), **after}}


class _Proxy:
    """Hands every request on, and every answer back as it comes."""

    def __init__(self, base: str, recorder: Recorder, session: aiohttp.ClientSession) -> None:
        self._base = base.rstrip("/")
        self._recorder = recorder
        self._session = session

    async def hand_on(self, request: web.Request) -> web.StreamResponse:
        """Answer as the server does; chat is recorded."""
        data = await request.read()
        _learn_key(request)
        recording = request.method == "POST" and request.path.endswith("/chat/completions")
        body = _json(data) if recording else {}
        # A replay is asked for titles when it likes, and has no turn for that.
        recording = recording and not asks_for_title(body)
        if recording and self._recorder.is_new:
            place = self._recorder.begin()
            await self._describe(body, request)
        else:
            place = self._recorder.begin() if recording else -1
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        try:
            async with self._session.request(
                request.method, self._address(request), data=data, headers=headers, allow_redirects=False
            ) as answer:
                return await self._hand_back(request, answer, body, place)
        except aiohttp.ClientConnectorError as error:
            message = {"error": {"message": f"{self._base} can't be reached: {error.os_error.strerror or error}."}}
            return web.json_response(message, status=502)

    def _address(self, request: web.Request) -> str:
        path = request.path_qs
        if path.startswith("/v1/") or path == "/v1":
            return self._base + path.removeprefix("/v1")
        return self._base.removesuffix("/v1") + path

    async def _describe(self, body: Mapping[str, Any], request: web.Request) -> None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ") or None
        name = str(body.get("model", ""))
        served = await asyncio.to_thread(served_model, self._base, name, key)
        self._recorder.describe(name, served.window if served else None)

    async def _hand_back(
        self, request: web.Request, answer: aiohttp.ClientResponse, body: Mapping[str, Any], place: int
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        response = web.StreamResponse(status=answer.status, headers=headers)
        heard, whole, cut = Heard(), bytearray(), False
        streamed = answer.content_type == "text/event-stream"
        try:
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                heard.feed(piece) if streamed else whole.extend(piece)
                await response.write(piece)
        except aiohttp.ClientPayloadError:
            cut = True
        finally:
            # Also for a client that has left: what it heard is a turn of the talk.
            if place >= 0:
                await self._keep(answer, body, place, heard, whole, cut=cut)
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    async def _keep(
        self,
        answer: aiohttp.ClientResponse,
        body: Mapping[str, Any],
        place: int,
        heard: Heard,
        whole: bytearray,
        *,
        cut: bool,
    ) -> None:
        if answer.status != 200:
            reply = _fault(answer.status, answer.headers, bytes(whole))
        else:
            if whole:
                heard.take(bytes(whole))
            reply = heard.reply(cut=cut)
        await asyncio.shield(self._recorder.end(place, body, reply))


def _learn_key(request: web.Request) -> None:
    """Have the key of a request count as a secret."""
    for name in ("Authorization", "api-key", "x-api-key"):
        remember_secret(request.headers.get(name, "").removeprefix("Bearer "))


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@asynccontextmanager
async def recording(recorder: Recorder, base: str, *, port: int = 0) -> AsyncIterator[str]:
    """Record what is asked of the server at `base` until the context ends; gives the address to ask instead. `port` 0
    takes a free one. Raises OSError for a taken port."""
    # The client decides how long it waits.
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, auto_decompress=True) as session:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", _Proxy(base, recorder, session).hand_on)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
            yield f"http://{LOOPBACK}:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()
