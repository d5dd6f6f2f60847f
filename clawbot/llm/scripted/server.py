"""The scripted model over HTTP: an OpenAI-compatible server on loopback, for chat, embeddings and the list of models.

Its vectors are hashed words: equal texts have equal vectors, texts that share words lie near.

`GET /script/status` says how far the script is. A request that does not fit the script is answered with 400, which no
client repeats, and remembered.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import re
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from msgspec import Struct

from clawbot.llm.scripted import ScriptEngine, ScriptMismatch
from clawbot.llm.scripted.replies import Chunk, ScriptedFault, error_body, whole_answer
from clawbot.llm.tokens import weigh_tokens

USUAL_DIMENSIONS = 256
# The largest vectors that embedding models make have about 4,000 numbers.
MAX_DIMENSIONS = 16384
WORD = re.compile(r"\w+")


def embed(text: str, dimensions: int) -> list[float]:
    """The vector of `text`, of length 1, the same on every machine."""
    vector = [0.0] * dimensions
    for word in WORD.findall(text.lower()) or [text]:
        digest = hashlib.sha256(word.encode()).digest()
        place = int.from_bytes(digest[:8], "big") % dimensions
        vector[place] += 1.0 if digest[8] % 2 else -1.0
    length = math.sqrt(sum(value * value for value in vector))
    if length == 0.0:
        return [1.0, *vector[1:]]
    return [value / length for value in vector]


def packed(vector: list[float]) -> str:
    """The vector as base64 of little-endian 32-bit floats, which the OpenAI SDK asks for."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


LOOPBACK = "127.0.0.1"
# A whole conversation with pictures in it fits; aiohttp's own limit of 1 MiB does not even hold a long talk.
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
    """The handlers of the server."""

    def __init__(self, engine: ScriptEngine) -> None:
        self.engine = engine

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat completion, as a stream or whole."""
        body = await _json_object(request)
        if not isinstance(body.get("messages"), list):
            return _error(400, "`messages` must be a list.")
        async with contextlib.aclosing(self.engine.reply(body)) as chunks:
            try:
                if body.get("stream"):
                    return await _stream(request, chunks)
                return web.json_response(whole_answer([chunk async for chunk in chunks]))
            except ScriptMismatch as error:
                return _error(400, error.message, "script_mismatch")
            except ScriptedFault as fault:
                if fault.kind == "drop":
                    return _drop(request)
                return web.json_response(fault.body, status=fault.status, headers=fault.headers)

    async def embeddings(self, request: web.Request) -> web.Response:
        """Answer with vectors that depend on nothing but the texts."""
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
        """List the one model, with its window in the way vLLM names it."""
        script = self.engine.script
        model: dict[str, Any] = {"id": script.model, "object": "model", "created": 0, "owned_by": "clawbot"}
        if script.window:
            model["max_model_len"] = script.window
        return web.json_response({"object": "list", "data": [model]})

    async def status(self, _: web.Request) -> web.Response:
        """Say which turns were used and what did not fit."""
        return web.json_response(self.engine.status())


async def _stream(request: web.Request, chunks: AsyncGenerator[Chunk, None]) -> web.StreamResponse:
    """Send the chunks as server-sent events. What is raised before the first one leaves the response unsent."""
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
    """Cut the TCP connection, whatever was sent so far; the response that is returned goes nowhere."""
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
