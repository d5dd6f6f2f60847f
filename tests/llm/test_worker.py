"""The worker process: what it gathers, what prints cannot hurt, and when it ends."""

from __future__ import annotations

import sys
import threading
import tomllib
from subprocess import PIPE, Popen
from typing import Any

import pytest
from tiktoken import registry

from clawbot.llm import process
from clawbot.llm.failures import to_error
from clawbot.llm.frames import CallFailed, Complete, Deltas, Report, WorkerReady, report_decoder
from clawbot.llm.process import acquire_worker, release_worker
from clawbot.llm.tokens import count_tokens
from clawbot.llm.worker import CallReports
from clawbot.worker_pipe import encode_frame, read_frame
from tests.faults import seen_to_end
from tests.test_ci import ROOT, script

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
NOBODY = {"model": "nobody/m", "messages": [{"role": "user", "content": "hello"}]}
UNLOADABLE = """
import sys
import threading
sys.modules["litellm"] = None
import clawbot.llm.worker as worker
worker.main()
"""


LONG_TALK = """
import asyncio, sys
import clawbot.llm.worker as worker
async def load():
    worker._prepare_environment()
    await worker._loading()
asyncio.run(load())
from clawbot.llm.engine import litellm
tokenizing = "tiktoken_ext.openai_public"
loaded = [tokenizing in sys.modules]
walked = []
sys.setprofile(lambda frame, event, _: walked.append(1) if "_transform.py" in frame.f_code.co_filename else None)
talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}] * 100
target = {"model": "openai/m", "api_base": "http://127.0.0.1:9/v1", "api_key": "none", "max_retries": 0}
try:
    asyncio.run(litellm.acompletion(messages=talk, stream=True, **target))
except Exception as error:
    sys.setprofile(None)
    print(type(error).__name__, len(walked) < 100)
modules = len(sys.modules)
for provider in ("openai", "hosted_vllm"):
    target["model"] = f"{provider}/m"
    asyncio.run(litellm.acompletion(messages=talk[:1], stream=True, mock_response="x", **target))
    loaded.append(tokenizing in sys.modules)
print(any(loaded), litellm.main.encoding.encode("hello"), tokenizing in sys.modules)
from openai.resources import Models
print(modules, len(sys.modules) > modules + 200, Models.__name__)
"""


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
    out = CallReports(sender.send, 7)
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
    out = CallReports(sender.send, 7)
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


HANGS = 100.0
"""Seconds after which a worker is taken as hanging, below the limit of a test."""


def ask(program: str) -> tuple[list[Report], bytes]:
    """The reports of a worker that runs `program` and is to call a model that nobody has, and its stderr. One that
    hangs says where."""
    watched = f"import faulthandler\nfaulthandler.dump_traceback_later({HANGS / 2})\n{program}"
    with Popen([sys.executable, "-c", watched], stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ends = threading.Timer(HANGS, process.kill)
        ends.start()
        process.stdin.write(encode_frame(Complete(1, NOBODY, 100)))
        process.stdin.flush()
        reports: list[Report] = []
        # In either order: a call may fail before the worker says that it is ready for others.
        while {WorkerReady, CallFailed} - {type(report) for report in reports}:
            body = read_frame(process.stdout)
            assert body is not None, process.communicate()[1].decode()
            reports.append(report_decoder.decode(body))
        ends.cancel()
        _, printed = process.communicate()
    return reports, printed


def test_what_is_printed_does_not_reach_the_frames() -> None:
    reports, printed = ask(PRINTING)
    assert WorkerReady() in reports
    assert any(isinstance(report, CallFailed) for report in reports)
    for line in (b"a library prints", b"and another writes", b"and a child process"):
        assert line in printed


def test_calls_say_that_litellm_cannot_be_loaded() -> None:
    reports, _ = ask(UNLOADABLE)
    assert WorkerReady() in reports
    [failed] = [report for report in reports if isinstance(report, CallFailed)]
    error = to_error(failed.failure, ref="openai/m")
    assert "litellm could not be loaded" in str(error)
    assert "no connection" not in str(error)


@pytest.mark.long
def test_a_call_neither_looks_through_each_message_of_a_long_talk_nor_loads_what_it_does_without() -> None:
    """OpenAI's SDK and litellm would, for a tenth of a millisecond each, for the 40 MB of a vocabulary, and for 430
    modules; an update of them must not bring that back unseen."""
    with Popen([sys.executable, "-c", LONG_TALK], stdout=PIPE, stderr=PIPE) as process:
        printed, errors = process.communicate()
    *seen, counted = printed.decode().splitlines()
    assert seen == ["InternalServerError True", "False [15339] True"], errors
    modules, *deferred = counted.split()
    house = script("house")
    found = house.House({"worker_modules": {"": int(modules)}})
    assert list(house.too_much(found, tomllib.loads((ROOT / ".ci/house.toml").read_text(encoding="utf-8")))) == []
    assert deferred == ["True", "Models"]


async def test_a_worker_that_nobody_calls_is_ended_and_the_next_call_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes more than twice the memory of everything else, and the vocabulary more than half of that."""
    monkeypatch.setattr(process, "IDLE_SECONDS", 0.0)
    await count_tokens("hello")
    worker = acquire_worker()
    await worker.next_id()
    first = worker.pid
    assert first is not None
    async with seen_to_end(first):
        await worker.warm()
    reports = [report async for report in worker.reports(Complete(await worker.next_id(), NOBODY, 100))]
    assert isinstance(reports[-1], CallFailed)
    assert worker.pid != first
    await release_worker(worker)
    assert not registry.ENCODINGS


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
