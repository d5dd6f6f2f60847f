"""The ways to a server, with bounds that the `mcp` library does not have: its process, or its address.

A program's output is read line by line, and no line may be longer than allowed; what it prints on stderr goes to the
log. What it starts is adopted by this process when it gets away, so that all of it ends with this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

from clawbot.deadline import deadline
from clawbot.descendants import adopt_descendants, die_with_parent, kill_descendants, reap_adopted
from clawbot.mcp.answers import Streams, reducing
from clawbot.mcp.frames import Start
from clawbot.messages import scrub
from clawbot.signals import on_signals

IsOrderly = Callable[[], bool]

log = logging.getLogger("clawbot.mcp")

CLOSE_SECONDS = 1.0
"""How long a program may take to end after its input was closed, and again after SIGTERM."""
MAX_JUNK = 100
"""Lines on stdout that are no messages: some programs greet there."""
MAX_UNASKED = 10_000
"""Messages between two of ours."""
CONNECT_SECONDS = 10.0
CHUNK = 65_536
_STREAMED = 64  # times the longest message: what one response of events may have altogether

OnLost = Callable[[str], None]
"""Called once with the reason why there is no server any more, the end of a sentence that begins with its name."""


class FloodError(httpx2.StreamError):
    """A server sent more than is taken. Of this kind so that the library makes it the answer to the request."""


def transport_of(start: Start, on_lost: OnLost, is_orderly: IsOrderly) -> AbstractAsyncContextManager[Streams]:
    """The way to the server of `start`. Entering it raises OSError when its program can't be started. At the end the
    program is asked to end where `is_orderly`, else killed."""
    return reducing(_stdio(start, on_lost, is_orderly) if start.command is not None else _http(start))


@asynccontextmanager
async def _stdio(start: Start, on_lost: OnLost, is_orderly: IsOrderly) -> AsyncGenerator[Streams, None]:
    adopt_descendants()
    process = await asyncio.create_subprocess_exec(
        start.command or "",
        *start.args,
        stdin=PIPE,
        stdout=PIPE,
        env=dict(start.env),
        cwd=start.cwd,
        limit=start.max_message,
        preexec_fn=die_with_parent,
    )
    on_signals([signal.SIGCHLD], lambda _: reap_adopted(process.pid))
    exchange = _Exchange(process, start.max_message, on_lost)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(exchange.read)
            tasks.start_soon(exchange.write)
            try:
                yield exchange.incoming, exchange.to_server
            finally:
                exchange.closing = True
                tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, orderly=is_orderly())
            await asyncio.to_thread(kill_descendants, os.getpid())
            for stream in (exchange.incoming, exchange.to_session, exchange.to_server, exchange.outgoing):
                await stream.aclose()


class _Exchange:
    """The two directions of a program's messages."""

    def __init__(self, process: Process, max_message: int, on_lost: OnLost) -> None:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the program was started without a pipe")
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._limit = max_message
        self._on_lost = on_lost
        self._unasked = 0
        self._junk = 0
        self.closing = False
        self.to_session, self.incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.to_server, self.outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def read(self) -> None:
        """Hand on each line that is a message, until the output ends or is too much."""
        try:
            while True:
                await self._take(await self._output.readuntil(b"\n"))
        except asyncio.LimitOverrunError:
            self._lose(f"sent a message of more than {self._limit // 1024:,} KB (mcp.max_message)")
        except FloodError as error:
            self._lose(str(error))
        except asyncio.IncompleteReadError:
            await self._report_end()
        except ConnectionError:
            self._lose("broke off")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            # The library does not listen any more, and logs the reason.
            return

    async def _take(self, line: bytes) -> None:
        try:
            message = _message_of(line)
        except (ValueError, TypeError, RecursionError):
            self._junk += 1
            log.info("not a message: %s", line[:200].decode(errors="backslashreplace").rstrip())
            if self._junk > MAX_JUNK:
                raise FloodError("prints on stdout what are no messages of the protocol") from None
            return
        self._unasked += 1
        if self._unasked > MAX_UNASKED:
            raise FloodError(f"sent {MAX_UNASKED:,} messages that nobody asked for")
        await self.to_session.send(SessionMessage(message))

    async def write(self) -> None:
        """Write each of our messages as one line."""
        async for sent in self.outgoing:
            self._unasked = 0
            line = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
            self._input.write(line.encode("utf-8", "replace") + b"\n")
            # When it has ended, `read` reports it.
            with contextlib.suppress(ConnectionError):
                await self._input.drain()

    async def _report_end(self) -> None:
        code: int | None = None
        with contextlib.suppress(TimeoutError):
            async with deadline(CLOSE_SECONDS):
                code = await self._process.wait()
        if code is None:
            self._lose("closed its output")
        else:
            self._lose(f"ended with status {code}" if code >= 0 else f"was ended by signal {-code}")

    def _lose(self, reason: str) -> None:
        if not self.closing:
            self._on_lost(reason)


def _message_of(line: bytes) -> JSONRPCMessage:
    """Parse a message, if need be without `jsonrpc` and with bytes and surrogates that UTF-8 does not know. Raises
    ValueError, TypeError and RecursionError."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        found = scrub(json.loads(line.decode(errors="replace")))
        return jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0"} | found, by_name=False)


async def _end(process: Process, *, orderly: bool) -> None:
    """Close the program's input, ask it to end if that is `orderly`, then make it."""
    if process.stdin is not None:
        process.stdin.close()
    if not orderly and process.returncode is None:
        process.kill()
    # asyncio waits for the end of the output too, and the program may wait until somebody reads it.
    draining = asyncio.create_task(_drain(process))
    try:
        for stop in (process.terminate, process.kill):
            with contextlib.suppress(TimeoutError):
                async with deadline(CLOSE_SECONDS):
                    await process.wait()
                return
            with contextlib.suppress(ProcessLookupError):
                stop()
    finally:
        draining.cancel()


async def _drain(process: Process) -> None:
    while process.stdout is not None and await process.stdout.read(CHUNK):
        pass


@asynccontextmanager
async def _http(start: Start) -> AsyncGenerator[Streams, None]:
    async def limit(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise FloodError("compresses its answers, though it was asked not to")
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        most = start.max_message * (_STREAMED if streams else 1)
        response.stream = _Limited(response.stream, most)

    async with (
        httpx2.AsyncClient(
            headers={**start.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
            event_hooks={"response": [limit]},
        ) as client,
        streamable_http_client(start.url or "", http_client=client, max_sse_event_size=start.max_message) as streams,
    ):
        yield streams


class _Limited(httpx2.AsyncByteStream):
    """A response's body that ends in an error after `most` bytes."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream = stream
        self._left = most
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            self._left -= len(part)
            if self._left < 0:
                raise FloodError(f"sent an answer of more than {self._most // 1024:,} KB (mcp.max_message)")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
