"""Fake vendors at the vendors' own addresses: a proxy on loopback that answers for any host, with TLS.

At a loopback `api_base` litellm takes other roads than at the address of a vendor, so a test of these roads lets the
worker, as it is, go to `https://api.openai.com` through `HTTPS_PROXY`, and trust the certificates of the test through
`SSL_CERT_FILE`:

    async with open_vendors(folder) as vendors, worker_in(vendors.environment):
        vendors.answer = lambda asked: [STREAM, sse({"type": "response.created"}), vendors.gone.wait, CUT]
        ...  # call a model without `api_base`
    assert vendors.asked[0].host == "api.openai.com"

A server on this machine, such as Ollama, is asked at `vendors.address`, without TLS.

An answer is a list of steps: bytes are sent as they are, from the status line on; a number waits so many seconds, a
function until what it returns is done; CUT drops the connection. At the end of the list, or when the client closes the
connection, it is closed. Each connection serves one request.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import pytest
import trustme

from clawbot.llm.process import WorkerClient, acquire_worker, release_worker
from tests.conftest import KEPT

Step = bytes | float | Callable[[], Awaitable[Any]] | Literal["cut"]

CUT: Final = "cut"
STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
    b"Connection: close\r\n\r\n"
)
"""The head of a streamed answer, whose chunks follow (`sse`, `chunked`); without END it counts as cut off."""
END: Final = b"0\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """Return `data` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def sse(event: Mapping[str, Any] | str, *, ascii_only: bool = True) -> bytes:
    """Return an event of a stream as one chunk, named as its `type`. A text is sent as it is: `[DONE]`."""
    if isinstance(event, str):
        return chunked(f"data: {event}\n\n".encode())
    name = f"event: {event['type']}\n" if "type" in event else ""
    return chunked(f"{name}data: {json.dumps(event, ensure_ascii=ascii_only)}\n\n".encode())


def reply(status: int, body: Mapping[str, Any] | bytes, **headers: str) -> bytes:
    """Return a complete answer, of JSON unless `body` is bytes. `Retry_After="2"` is the header Retry-After."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(data)), "Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + data


@dataclass(frozen=True)
class Asked:
    """A request that came: the names of `headers` are in lower case."""

    host: str
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)


class Vendors:
    """What runs while a test asks vendors. `answer` returns the steps for a request; None: connections are refused.

    `hosts` are those that a connection was asked for, `asked` the requests that came; `gone` is set when a client
    closed its connection in the middle of an answer.
    """

    def __init__(self, folder: Path) -> None:
        self.answer: Callable[[Asked], Iterable[Step]] | None = None
        self.hosts: list[str] = []
        self.asked: list[Asked] = []
        self.gone = asyncio.Event()
        self.address = ""
        self.environment: dict[str, str] = {}
        self._authority = trustme.CA()
        self._file = folder / "authority.pem"
        self._tasks: list[asyncio.Task[None]] = []
        self._tls = cache(self._new_tls)

    async def start(self) -> asyncio.Server:
        """Listen, and set `address` and `environment`, the variables of those who are to come here."""
        self._authority.cert_pem.write_to_path(self._file)
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.environment = {"HTTPS_PROXY": self.address, "SSL_CERT_FILE": str(self._file)}
        return server

    async def stop(self) -> None:
        """Drop the connections. Raises what a function of the test raised."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def _new_tls(self, host: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(host).configure_cert(context)
        return context

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            host = ""
            if head.startswith(b"CONNECT "):
                host = head.split()[1].decode().rpartition(":")[0]
                self.hosts.append(host)
                if self.answer is None:
                    writer.write(reply(502, b"refused"))
                    return
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await writer.start_tls(self._tls(host))
                head = await reader.readuntil(b"\r\n\r\n")
            asked = await _read(host, head, reader)
            self.asked.append(asked)
            await self._play(self.answer(asked) if self.answer else [CUT], reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone, which the test sees at the client
        finally:
            writer.close()

    async def _play(self, steps: Iterable[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = asyncio.ensure_future(reader.read(1))
        try:
            for step in steps:
                if step == CUT:
                    writer.transport.abort()
                    return
                if isinstance(step, bytes):
                    writer.write(step)
                    await writer.drain()
                    continue
                pause = asyncio.ensure_future(asyncio.sleep(step) if isinstance(step, int | float) else _await(step))
                await asyncio.wait({pause, left}, return_when=asyncio.FIRST_COMPLETED)
                if not pause.done():
                    pause.cancel()
                    self.gone.set()
                    return
        finally:
            left.cancel()


async def _await(step: Callable[[], Awaitable[Any]]) -> None:
    await step()


async def _read(host: str, head: bytes, reader: asyncio.StreamReader) -> Asked:
    first, *lines = head.decode("latin-1").splitlines()
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(host, method, path, headers, body)


@asynccontextmanager
async def open_vendors(folder: Path) -> AsyncIterator[Vendors]:
    """Run fake vendors, whose authority is written into `folder`."""
    vendors = Vendors(folder)
    async with await vendors.start():
        try:
            yield vendors
        finally:
            await vendors.stop()


@asynccontextmanager
async def worker_in(environment: Mapping[str, str]) -> AsyncIterator[WorkerClient]:
    """Start the worker of this event loop with these variables and none that the tests drop; all models that are made
    in the context use it."""
    worker = acquire_worker()
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - KEPT - {"HOME"}:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        await worker.next_id()
    try:
        yield worker
    finally:
        await release_worker(worker)
