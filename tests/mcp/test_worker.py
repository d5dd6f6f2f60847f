"""The process that talks to a server: what reaches the program of one that hangs, floods, lies or dies. It runs in the
test's own process here; tests/mcp/test_client.py has it in its own."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from clawbot.mcp import worker
from clawbot.mcp.frames import Answered, Call, CallFailed, Listed, Lost, Report, Request, Start, Started, Stop
from clawbot.mcp.worker import Worker
from clawbot.worker_pipe import FrameWriter

STAND_IN = Path(__file__).with_name("stand_in.py")


class Reports(FrameWriter):
    """Keeps the frames instead of writing them."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.queue: asyncio.Queue[Report] = asyncio.Queue()

    def send(self, frame: msgspec.Struct) -> None:
        assert isinstance(frame, Report)
        self.queue.put_nowait(frame)


class Talk:
    """A worker and its reports."""

    def __init__(self) -> None:
        self.out = Reports()
        self.worker = Worker(self.out)

    async def ask(self, request: Request) -> Report:
        self.worker.take(request)
        return await self.out.queue.get()


@asynccontextmanager
async def talk_to(fault: str = "", *, seconds: float = 20.0) -> AsyncIterator[tuple[Talk, Report]]:
    talk = Talk()
    running = asyncio.create_task(talk.worker.run())
    args = (str(STAND_IN), fault)
    start = Start({}, seconds, max_message=65_536, max_tools=64, command=sys.executable, args=args)
    try:
        yield talk, await talk.ask(start)
        talk.worker.take(Stop())
        await running
    finally:
        running.cancel()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("die", "ended with status 3"),
        ("flood", "sent a message of more than 64 KB (mcp.max_message)"),
        ("chatter", "sent 10,000 messages that nobody asked for"),
    ],
)
async def test_a_server_that_is_lost_in_a_call_is_told_once(tool: str, reason: str) -> None:
    async with talk_to() as (talk, started):
        assert isinstance(started, Started)
        assert (started.server, len(started.listing.tools)) == ("stand-in", 11)
        assert await talk.ask(Call(1, tool, {}, 20)) == Lost(reason)
    assert talk.out.queue.empty()


async def test_a_server_goes_on_after_a_lie_a_failure_and_a_call_in_vain() -> None:
    async with talk_to() as (talk, _):
        lie = await talk.ask(Call(1, "lie", {}, 20))
        assert isinstance(lie, CallFailed)
        assert lie.reason.startswith("gave an answer that is not valid at content.0")
        assert await talk.ask(Call(2, "fail", {}, 20)) == Answered(2, "no such page", is_error=True)
        assert await talk.ask(Call(3, "echo", {"text": "世界"}, 20)) == Answered(3, "你好 世界", is_error=False)
        assert await talk.ask(Call(4, "hang", {}, 0.1)) == CallFailed(4, "did not answer within 0.1 s", timed_out=True)


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [("identity", "sent an answer of more than 64 KB"), ("gzip", "compresses its answers, though it was asked not to")],
)
async def test_an_answer_over_http_has_an_end(encoding: str, reason: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        headers = {"Content-Encoding": encoding}
        return web.Response(body=b"x" * 200_000, content_type="application/json", headers=headers)

    app = web.Application()
    app.router.add_post("/mcp", answer)
    async with TestServer(app) as server:
        talk = Talk()
        running = asyncio.create_task(talk.worker.run())
        report = await talk.ask(Start({}, 20, 65_536, 64, url=str(server.make_url("/mcp"))))
        assert isinstance(report, Lost)
        assert reason in report.reason
        await running


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("exit", "ended with status 1"),
        ("mute", "did not list its tools within 0.3 s"),
        ("junk", "prints on stdout what are no messages of the protocol"),
    ],
)
async def test_a_server_that_does_not_start_has_a_reason(fault: str, reason: str) -> None:
    async with talk_to(fault, seconds=0.3 if fault == "mute" else 20.0) as (_, report):
        assert report == Lost(reason)


async def test_a_server_that_changes_its_tools_all_the_time_is_listed_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "RELIST_SECONDS", 0)
    async with talk_to() as (talk, _):
        seen: list[Report] = []
        for number in range(worker.MAX_RELISTS * 2):
            talk.worker.take(Call(number, "grow", {}, 20))
            while not isinstance(report := await talk.out.queue.get(), Answered):
                seen.append(report)
        while len(seen) < worker.MAX_RELISTS:
            seen.append(await talk.out.queue.get())
        assert {type(report) for report in seen} == {Listed}
        assert (await talk.ask(Call(99, "echo", {"text": "a"}, 20))) == Answered(99, "你好 a", is_error=False)
    assert talk.out.queue.empty()
