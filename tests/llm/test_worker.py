"""The worker process: what it gathers, what prints cannot hurt, and that it does not outlive its parent."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from clawbot.llm.failures import to_error
from clawbot.llm.frames import Deltas, Ended, Failed, OpenScript, Ready, Report, encode, read_frame, report_decoder
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.worker import Outbox

PRINTING = """
import os, sys
import clawbot.llm.worker as worker
load = worker._load_in_thread
def chatter(loaded):
    print("a library prints")
    os.write(1, b"and another writes to the descriptor")
    os.system("echo and a child process")
    load(loaded)
worker._load_in_thread = chatter
worker.main()
"""
UNLOADABLE = """
import sys
sys.modules["litellm"] = None
import clawbot.llm.worker as worker
worker.main()
"""
PARENT = """
import asyncio, os
from clawbot.llm.process import acquire_worker
async def main():
    worker = acquire_worker()
    await worker.next_id()
    print(worker.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@asynccontextmanager
async def seen_to_end(pid: int) -> AsyncIterator[None]:
    """Leave the context only when the process `pid` has ended, whoever its parent is by then."""
    ended = asyncio.Event()
    watched = os.pidfd_open(pid)
    asyncio.get_running_loop().add_reader(watched, ended.set)
    try:
        yield
        await asyncio.wait_for(ended.wait(), 30)
    finally:
        asyncio.get_running_loop().remove_reader(watched)
        os.close(watched)


class Sender:
    def __init__(self) -> None:
        self.sent: list[Report] = []
        self.refuse: Exception | None = None

    def send(self, report: Report) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.sent.append(report)


def text(content: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": content}}]}


async def test_the_first_delta_goes_at_once_and_the_rest_in_one_frame() -> None:
    sender = Sender()
    out = Outbox(sender, 7)
    out.add(text("first"))
    assert sender.sent == [Deltas(7, [text("first")])]
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}
    reasoning = {"choices": [{"delta": {"reasoning_content": "x"}}]}
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    for chunk in (text("a"), text("b"), call, call, text("c"), reasoning, end):
        out.add(chunk)
    out.flush()
    assert sender.sent[1:] == [Deltas(7, [text("ab"), call, call, text("c"), reasoning, end])]
    out.flush()
    assert len(sender.sent) == 2


async def test_a_chunk_that_no_frame_can_hold_fails_the_answer_and_nothing_after_it_is_sent() -> None:
    """Else the answer would have a hole in it, or the main process would wait for its end in vain."""
    sender = Sender()
    out = Outbox(sender, 7)
    out.add(text("first"))
    sender.refuse = OverflowError("an integer beyond 64 bits")
    out.add(text("hole"))
    with pytest.raises(OverflowError):
        out.flush()
    sender.refuse = None
    out.add(text("after it"))
    with pytest.raises(OverflowError):
        out.flush()
    assert sender.sent == [Deltas(7, [text("first")])]


def test_half_characters_do_not_break_a_frame() -> None:
    """A server's JSON may hold halves of surrogate pairs, split between two chunks or alone."""
    frame = encode(Deltas(1, [text("\ud83d\ude00 and \ud83d"), {"x\udc00": ["\udc00"]}]))
    assert report_decoder.decode(frame[4:]) == Deltas(1, [text("😀 and \ufffd"), {"x\ufffd": ["\ufffd"]}])


async def test_frames_that_are_cut_off_or_out_of_step() -> None:
    whole = encode(Ended(1))
    stream = asyncio.StreamReader()
    stream.feed_data(whole + whole[:-1])
    stream.feed_eof()
    assert report_decoder.decode(await read_frame(stream) or b"") == Ended(1)
    assert await read_frame(stream) is None
    broken = asyncio.StreamReader()
    broken.feed_data(b"\xff\xff\xff\xffprinted")
    with pytest.raises(ValueError, match="frame"):
        await read_frame(broken)


async def ask(program: str) -> tuple[list[Report], bytes]:
    """The reports of a worker that runs `program` and is asked for a script that is not there, and its stderr."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode(OpenScript(1, 1, "/no/such/script.yaml")))
    reports: list[Report] = []
    while len(reports) < 2:
        body = await read_frame(process.stdout)
        assert body is not None
        reports.append(report_decoder.decode(body))
    process.stdin.close()
    _, printed = await process.communicate()
    assert process.returncode == 0
    return reports, printed


async def test_what_is_printed_does_not_reach_the_frames() -> None:
    reports, printed = await ask(PRINTING)
    assert Ready() in reports
    assert any(isinstance(report, Failed) for report in reports)
    for line in (b"a library prints", b"and another writes", b"and a child process"):
        assert line in printed


async def test_calls_say_that_litellm_cannot_be_loaded() -> None:
    reports, _ = await ask(UNLOADABLE)
    assert Ready() in reports
    [failed] = [report for report in reports if isinstance(report, Failed)]
    error = to_error(failed.failure, ref="openai/m")
    assert "litellm could not be loaded" in str(error)
    assert "no connection" not in str(error)


async def test_it_ends_when_its_parent_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=PIPE, stderr=DEVNULL)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    async with seen_to_end(pid):
        parent.kill()
        await parent.wait()


async def test_the_last_user_ends_the_process() -> None:
    first, second = acquire_worker(), acquire_worker()
    assert first is second
    await first.next_id()
    pid = first.pid
    assert pid is not None
    async with seen_to_end(pid):
        await release_worker(first)
        assert second.pid == pid
        await release_worker(second)
    assert second.pid is None
