"""The fake vendors of the tests: what a client gets from them, and what the test learns of the client."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.vendors import CUT, END, STREAM, Asked, Vendors, chunked, open_vendors, reply, sse

ADDRESS = "https://api.vendor.example/v1/answers?key=x"


@pytest_asyncio.fixture
async def vendors(tmp_path: Path) -> AsyncIterator[Vendors]:
    async with open_vendors(tmp_path) as vendors:
        yield vendors


async def ask(vendors: Vendors, seen: list[bytes] | None = None, **request: Any) -> tuple[int, bytes]:
    """The status and the body that a client gets, who goes by the environment; what it reads, it puts into `seen`."""
    trusted = ssl.create_default_context(cafile=vendors.environment["SSL_CERT_FILE"])
    proxy = vendors.environment["HTTPS_PROXY"]
    async with (
        aiohttp.ClientSession() as session,
        session.post(ADDRESS, proxy=proxy, ssl=trusted, **request) as response,
    ):
        parts = [] if seen is None else seen
        async for part in response.content.iter_any():
            parts.append(part)
        return response.status, b"".join(parts)


async def test_an_answer_arrives_byte_by_byte_and_the_request_is_there_to_look_at(vendors: Vendors) -> None:
    vendors.answer = lambda asked: [STREAM[:9], STREAM[9:], sse({"type": "x", "n": 1}), 0.0, sse("[DONE]"), END]
    status, body = await ask(vendors, data=b"{}" * 100_000, headers={"X-Key": "k"})
    assert (status, body) == (200, b'event: x\ndata: {"type": "x", "n": 1}\n\ndata: [DONE]\n\n')
    [asked] = vendors.asked
    assert (asked.host, asked.method, asked.path) == ("api.vendor.example", "POST", "/v1/answers?key=x")
    assert (asked.headers["x-key"], asked.body) == ("k", b"{}" * 100_000)


async def test_a_chunked_request_and_an_answer_to_it(vendors: Vendors) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b'{"a":'
        yield b" 1}"

    vendors.answer = lambda asked: [reply(429, {"error": asked.json}, Retry_After="2")]
    assert await ask(vendors, data=parts()) == (429, b'{"error": {"a": 1}}')


@pytest.mark.parametrize("end", [[CUT], []])
async def test_an_answer_that_is_cut_off(vendors: Vendors, end: list[Any]) -> None:
    vendors.answer = lambda asked: [STREAM, chunked(b"half"), *end]
    seen: list[bytes] = []
    with pytest.raises(aiohttp.ClientError):
        await ask(vendors, seen)
    assert seen == [b"half"]


async def test_a_client_that_leaves_in_the_middle(vendors: Vendors) -> None:
    begun = asyncio.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    vendors.answer = lambda asked: [STREAM, forever]
    client = asyncio.create_task(ask(vendors))
    await begun.wait()
    client.cancel()
    await vendors.gone.wait()
    with pytest.raises(asyncio.CancelledError):
        await client
    assert len(vendors.asked) == 1


async def test_a_connection_is_refused(vendors: Vendors) -> None:
    with pytest.raises(aiohttp.ClientHttpProxyError):
        await ask(vendors)
    assert (vendors.hosts, vendors.asked) == (["api.vendor.example"], [])


async def test_a_mistake_in_the_answer_fails_the_test(tmp_path: Path) -> None:
    def mistaken(asked: Asked) -> list[bytes]:
        raise LookupError(asked.path)

    async def a_test() -> None:
        async with open_vendors(tmp_path) as vendors:
            vendors.answer = mistaken
            with pytest.raises(aiohttp.ClientError):
                await ask(vendors)

    with pytest.raises(LookupError, match="/v1/answers"):
        await a_test()
