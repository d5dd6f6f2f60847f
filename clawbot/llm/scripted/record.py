"""Stands between a client and a real server, and writes the script that replays the session, without its secrets."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml
from aiohttp import web
from msgspec import Struct

from clawbot.config.source import resolvers
from clawbot.guarded import OPEN_APPEND, reached
from clawbot.llm.scripted.answers import Answer, answer_at, user_text
from clawbot.llm.scripted.file import BEGINS, ENDS
from clawbot.llm.scripted.server import LOOPBACK, MAX_BODY
from clawbot.llm.scripted.types import DEFAULT_MODEL
from clawbot.llm.servers import served_model
from clawbot.messages import newest_words, scrub
from clawbot.text.naming import TITLE_QUESTION
from clawbot.text.secrets import MARK, Redactor, remember_secret

WIDTH = 110
EXPECTED_CHARS = 60
"""Of the user's words: enough to tell one message from another."""
HEAD = "# Recorded by `clawbot script record`. A last turn without its end was cut off, and is not played."
MESSAGE_CHARS = 500
"""Of an error that is no JSON: a page of HTML, say."""
# The time before a message; and what a replay has otherwise: dates, times, secrets.
_TIME_MARK = re.compile(r"^\s*\[[^\]\n]*\d\d:\d\d[^\]\n]*\]\s*")
_CHANGING = re.compile(rf"\d{{4}}-\d\d-\d\d|\d\d:\d\d|{re.escape(MARK)}|\n")
_TELLING = re.compile(r"[^\s!-/:-@\[-`{-~]")
# Those of one connection only, and those that our own client and server write anew.
_HOP = frozenset(
    ["connection", "content-encoding", "content-length", "host", "keep-alive", "transfer-encoding", "accept-encoding"]
)


class _Dumper(yaml.SafeDumper):
    """Quotes what the reader of scripts would take for another value."""

    yaml_implicit_resolvers = resolvers()


class Recorder:
    """Appends a turn to the script `file` when its answer has ended. `count` is how many are in it, `error` why there
    are no more: `on_error` is called then. `head` is what the script goes by."""

    def __init__(self, file: Path, on_error: Callable[[], object] = lambda: None) -> None:
        self.file = file
        self.count = 0
        self.error: OSError | None = None
        self._on_error = on_error
        self._redactor = Redactor()
        self.head: dict[str, Any] = {}
        self._begun = 0
        self._text = self._words = ""
        self._writing = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def secrets(self) -> int:
        """How many secrets were left out."""
        return self._redactor.count

    def begin(self, text: str, answer: Answer) -> _Turn:
        """Begin the next turn: `answer` is to gather what answers a request with `text` as the user's last one."""
        if text != self._text:
            # A message that failed is sent again before the next one, as one text.
            before, self._text = self._text, text
            self._words = newest_words(text.removeprefix(f"{before}\n\n") if before else text)
        self._begun += 1
        return _Turn(self._begun, self._words, answer)

    async def end(self, turn: _Turn | None, *, cut: bool = False, left: bool = False) -> None:
        """Write `turn` with its reply (`Answer.reply`), unless it has one; returns when it is on disk."""
        if turn is None or turn.ended:
            return
        turn.ended = True
        task = asyncio.create_task(self._write(turn, turn.answer.reply(cut=cut, left=left)))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        await asyncio.shield(task)

    async def flush(self) -> None:
        """Wait until the turns that ended so far are written."""
        if self._writes:
            await asyncio.wait(self._writes)

    async def _write(self, turn: _Turn, reply: dict[str, Any]) -> None:
        async with self._writing:
            if self.error is not None:
                return
            try:
                await asyncio.to_thread(self._append, turn, reply)
            except OSError as error:
                error.filename = error.filename or str(self.file)
                self.error = error
                self._on_error()
            else:
                self.count += 1

    def _append(self, turn: _Turn, reply: dict[str, Any]) -> None:
        words = _expected(self._redactor.text(scrub(turn.words)))
        spelled: dict[str, Any] = {"expect": {"user": words}} if words else {}
        spelled["reply"] = self._redactor.tree(scrub(reply))
        if turn.number != self.count + 1:
            spelled["order"] = turn.number
        data = f"{BEGINS.format(turn.number)}\n{_yaml([spelled])}{ENDS.format(turn.number)}\n"
        folder, name = reached(self.file, None)
        if not self.count:
            head = _yaml(self.head or {"model": DEFAULT_MODEL})
            if not folder.create(name, f"{HEAD}\n{head}turns:\n{data}".encode()):
                raise FileExistsError(errno.EEXIST, "was made by another program", str(self.file))
            return
        with os.fdopen(folder.open(name, OPEN_APPEND & ~os.O_CREAT), "ab") as stream:
            stream.write(data.encode())
            stream.flush()
            os.fsync(stream.fileno())


class _Turn(Struct):
    """A turn that has begun: its number, the words of the user that it answers, and the answer so far."""

    number: int
    words: str
    answer: Answer
    ended: bool = False


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=WIDTH)


def _expected(text: str) -> str:
    """The first words of the user's message that a replay has again; empty when there are none."""
    parts = (part.strip() for part in _CHANGING.split(_TIME_MARK.sub("", text)))
    return next((part[:EXPECTED_CHARS].strip() for part in parts if _TELLING.search(part)), "")


class _Proxy:
    """Hands every request on, and every answer back as it comes."""

    def __init__(self, base: str, recorder: Recorder, session: aiohttp.ClientSession) -> None:
        self._base = base.rstrip("/")
        self._origin = self._base.removesuffix(urlsplit(self._base).path)
        self._recorder = recorder
        self._session = session
        self._describing = asyncio.Lock()

    async def hand_on(self, request: web.Request) -> web.StreamResponse:
        """Answer as the server does; what a model is asked is recorded."""
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
        self, request: web.Request, upstream: aiohttp.ClientResponse, turn: _Turn | None
    ) -> web.StreamResponse:
        """Return what comes. The end of an answer is held until its turn is on disk."""
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
            said = body.get("error") or body or held.decode(errors="replace")[:MESSAGE_CHARS]
            answer.refuse(said, upstream.status, upstream.headers)
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
