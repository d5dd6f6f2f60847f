"""The scripted model over HTTP: an OpenAI-compatible server on loopback, for chat, embeddings and the list of models;
and the proxy that records a real server (`recording`).

Its vectors are hashed words: equal texts have equal vectors, texts that share words are near.

`GET /script/status` returns the progress. A request that does not fit the script is answered with 400, which no
client repeats, and remembered.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import math
import re
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from msgspec import Struct

from clawbot.llm.scripted import ScriptEngine, ScriptMismatch
from clawbot.llm.scripted.file import DEFAULT_MODEL
from clawbot.llm.scripted.record import RecordedTurn, Recorder, answer_at, user_text
from clawbot.llm.scripted.replies import Chunk, ScriptedFault, error_body, joined_answer
from clawbot.llm.servers import served_model
from clawbot.llm.tokens import weigh_tokens
from clawbot.text.naming import TITLE_QUESTION
from clawbot.text.secrets import remember_secret

USUAL_DIMENSIONS = 256
# The largest vectors that embedding models make have about 4,000 numbers.
MAX_DIMENSIONS = 16384
WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int) -> list[float]:
    """The vector of `text`, of length 1, the same on every machine."""
    vector = [0.0] * dimensions
    for word in WORD.findall(text.lower()) or [text]:
        digest = hashlib.sha256(word.encode()).digest()
        index = int.from_bytes(digest[:8], "big") % dimensions
        vector[index] += 1.0 if digest[8] % 2 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:
        return [1.0, *vector[1:]]
    return [value / length for value in vector]


def packed(vector: list[float]) -> str:
    """The vector as base64 of little-endian 32-bit floats, which the OpenAI SDK asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


LOOPBACK = "127.0.0.1"
# A full conversation with pictures in it fits; aiohttp's own limit of 1 MiB does not even hold a long session.
MAX_BODY = 256 * 1024 * 1024
# Endless and stalled replies are cut off when the server stops; nobody waits for their end.
STOP_SECONDS = 0.1


class ServedScript(Struct, frozen=True):
    """A running server: `url` is what goes into `api_base` (it ends with /v1)."""

    url: str
    engine: ScriptEngine


@asynccontextmanager
async def serve_script(engine: ScriptEngine, *, port: int = 0) -> AsyncIterator[ServedScript]:
    """Serve `engine` on loopback until the context ends; `port` 0 takes a free one. Raises OSError for a taken port."""
    runner = web.AppRunner(
        _app(engine), handler_cancellation=True, shutdown_timeout=STOP_SECONDS, access_log=None, handle_signals=False
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        yield ServedScript(f"http://{LOOPBACK}:{runner.addresses[0][1]}/v1", engine)
    finally:
        await runner.cleanup()


def _app(engine: ScriptEngine) -> web.Application:
    door = _Door(engine)
    app = web.Application(client_max_size=MAX_BODY)
    app.add_routes(
        [
            web.post("/v1/chat/completions", door.chat),
            web.post("/v1/embeddings", door.embeddings),
            web.get("/v1/models", door.models),
            web.get("/script/status", door.status),
        ]
    )
    return app


class _Door:
    def __init__(self, engine: ScriptEngine) -> None:
        self.engine = engine

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await _json_object(request)
        if not isinstance(body.get("messages"), list):
            return _error(400, "`messages` must be a list.")
        async with contextlib.aclosing(self.engine.reply(body)) as chunks:
            try:
                if body.get("stream"):
                    return await _stream(request, chunks)
                return web.json_response(joined_answer([chunk async for chunk in chunks]))
            except ScriptMismatch as error:
                return _error(400, error.message, "script_mismatch")
            except ScriptedFault as fault:
                if fault.kind == "drop":
                    return _drop(request)
                return web.json_response(fault.body, status=fault.status, headers=fault.headers)

    async def embeddings(self, request: web.Request) -> web.Response:
        body = await _json_object(request)
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts:
            return _error(400, "`input` must be a text or a list of texts.")
        dimensions = body.get("dimensions") or USUAL_DIMENSIONS
        if not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS:
            return _error(400, f"`dimensions` must be a whole number from 1 to {MAX_DIMENSIONS}.")
        vectors = [embed(text if isinstance(text, str) else json.dumps(text), dimensions) for text in texts]
        as_base64 = body.get("encoding_format") == "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": packed(vector) if as_base64 else vector}
            for index, vector in enumerate(vectors)
        ]
        tokens = sum(weigh_tokens(str(text)) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "data": data, "model": body.get("model"), "usage": usage})

    async def models(self, _: web.Request) -> web.Response:
        """List the one model, with its window as vLLM names it."""
        script = self.engine.script
        model: dict[str, Any] = {"id": script.model, "object": "model", "created": 0, "owned_by": "clawbot"}
        if script.window:
            model["max_model_len"] = script.window
        return web.json_response({"object": "list", "data": [model]})

    async def status(self, _: web.Request) -> web.Response:
        return web.json_response(self.engine.status())


async def _stream(request: web.Request, chunks: AsyncGenerator[Chunk, None]) -> web.StreamResponse:
    """Send the chunks as server-sent events. An error before the first one leaves the response unsent."""
    response: web.StreamResponse | None = None
    finished = False
    async for chunk in chunks:
        if response is None:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
            await response.prepare(request)
        await response.write(b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n")
        finished = finished or any(choice["finish_reason"] for choice in chunk["choices"])
    if response is None:
        raise RuntimeError("a reply without a single chunk")
    if finished:
        await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _drop(request: web.Request) -> web.Response:
    """Cut the TCP connection; the returned response goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _json_object(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except ValueError as error:
        raise _bad_request(f"The body is no JSON: {error}.") from error
    if not isinstance(body, dict):
        raise _bad_request("The body must be a JSON object.")
    return body


def _bad_request(message: str) -> web.HTTPBadRequest:
    text = json.dumps(error_body(message, "invalid_request_error"))
    return web.HTTPBadRequest(text=text, content_type="application/json")


def _error(status: int, message: str, code: str | None = None) -> web.Response:
    return web.json_response(error_body(message, "invalid_request_error", code), status=status)


MESSAGE_CHARS = 500
"""Of an error that is no JSON: for example a page of HTML."""
# Those of one connection only, and those that our own client and server write again.
_HOP = frozenset(
    ["connection", "content-encoding", "content-length", "host", "keep-alive", "transfer-encoding", "accept-encoding"]
)


class _Proxy:
    """Forwards requests and answers, and records them."""

    def __init__(self, base: str, recorder: Recorder, session: aiohttp.ClientSession) -> None:
        self._base = base.rstrip("/")
        self._origin = self._base.removesuffix(urlsplit(self._base).path)
        self._recorder = recorder
        self._session = session
        self._describing = asyncio.Lock()

    async def hand_on(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        for name in ("Authorization", "api-key", "x-api-key"):
            remember_secret(request.headers.get(name, "").removeprefix("Bearer "))
        answer = answer_at(request.path) if request.method == "POST" else None
        body = _json(data) if answer else {}
        text = user_text(body)
        # A replay is asked for titles when it likes, and has no turn for that.
        turn = self._recorder.begin(text, answer) if answer and TITLE_QUESTION not in text else None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        try:
            if turn is not None:
                await self._describe(body, request)
            async with self._session.request(
                request.method, self._origin + request.path_qs, data=data, headers=headers, allow_redirects=False
            ) as upstream:
                return await self._hand_back(request, upstream, turn)
        except aiohttp.ClientConnectorError as error:
            message = f"{self._base} can't be reached: {error.strerror or error}."
            if turn is not None:
                turn.answer.refuse(message, 502)
            await self._recorder.end(turn)
            return web.json_response({"error": {"message": message}}, status=502)
        except aiohttp.ClientError:
            await self._recorder.end(turn, cut=True)
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)
        finally:
            # For a client that has left: what it received is a turn of the session.
            await self._recorder.end(turn, left=True)

    async def _describe(self, body: Mapping[str, Any], request: web.Request) -> None:
        async with self._describing:
            if self._recorder.head:
                return
            key = request.headers.get("Authorization", "").removeprefix("Bearer ") or None
            name = str(body.get("model") or "")
            served = await asyncio.to_thread(served_model, self._base, name, key)
            window = {"window": served.window} if served and served.window else {}
            self._recorder.head = {"model": name or DEFAULT_MODEL, **window}

    async def _hand_back(
        self, request: web.Request, upstream: aiohttp.ClientResponse, turn: RecordedTurn | None
    ) -> web.StreamResponse:
        """Forward the answer. Its end is held until its turn is on disk."""
        headers = {name: value for name, value in upstream.headers.items() if name.lower() not in _HOP}
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        answer, held = turn.answer if turn else None, bytearray()
        streamed = upstream.ok and upstream.content_type != "application/json"
        async for data in upstream.content.iter_any():
            if answer and streamed:
                answer.feed(data)
            if answer and (answer.ending or not streamed):
                held += data
            else:
                await response.write(data)
            if answer and answer.complete:
                break
        if answer and not upstream.ok:
            body = _json(held)
            refusal = body.get("error") or body or held.decode(errors="replace")[:MESSAGE_CHARS]
            answer.refuse(refusal, upstream.status, upstream.headers)
        elif answer:
            answer.close() if streamed else answer.take(held)
        await self._recorder.end(turn)
        await response.write(held)
        await response.write_eof()
        return response


def _json(data: bytes | bytearray) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@asynccontextmanager
async def recording(recorder: Recorder, base: str, *, port: int = 0) -> AsyncIterator[str]:
    """Record what is asked of the server at `base` until the context ends; gives the address to ask instead. `port` 0
    takes a free one. Raises OSError for a taken port."""
    # The client decides how long it waits. A connection that is used again may have been closed by then.
    timeout, connector = aiohttp.ClientTimeout(total=None), aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", _Proxy(base, recorder, session).hand_on)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
            yield f"http://{LOOPBACK}:{runner.addresses[0][1]}{urlsplit(base.rstrip('/')).path}"
        finally:
            for site in runner.sites:
                await site.stop()
            # While the disk is slow, clients still wait for the end of their answers.
            await recorder.flush()
            await runner.cleanup()
            await recorder.flush()
