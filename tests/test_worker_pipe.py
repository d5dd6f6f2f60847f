"""The channel to a child process: whatever the child does to it, the parent learns of its end and goes on."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from clawbot.worker_pipe import MAX_LINE, FrameSplitter, WorkerProcess, encode_frame, read_frame
from tests.faults import seen_to_end
from tests.tables import load_table


class Word(Struct, frozen=True, tag="word"):
    text: Any


DECODER = msgspec.msgpack.Decoder(Word)
CHILD = """
import asyncio, os, subprocess, sys, time
import msgspec
from clawbot.worker_pipe import FrameWriter, claim_pipes, serve_frames
from tests.test_worker_pipe import DECODER, Word

def take(word):
    {take}

requests, reports = claim_pipes()
out = FrameWriter(reports)
loop = asyncio.new_event_loop()
serve_frames(requests, DECODER, loop, take)
out.send(Word("up"))
loop.run_forever()
"""
ECHO = "out.send(Word(word.text))"
PARENT = """
import asyncio, logging, sys
from clawbot.worker_pipe import WorkerProcess
from tests.test_worker_pipe import DECODER
async def main():
    child = WorkerProcess(logging.getLogger(), DECODER, lambda word: print(child.pid, flush=True))
    await child.start([sys.executable, "-c", sys.argv[1]])
    await asyncio.Event().wait()
asyncio.run(main())
"""


class Child:
    """A child that runs `take` for each frame, with what it sent."""

    def __init__(self, take: str, **limits: Any) -> None:
        self._code = CHILD.format(take=take)
        self._words: asyncio.Queue[Any] = asyncio.Queue()
        self.process = WorkerProcess(
            logging.getLogger("child"), DECODER, lambda word: self._words.put_nowait(word.text), **limits
        )

    async def word(self) -> Any:
        return await asyncio.wait_for(self._words.get(), 100)

    async def end(self) -> int:
        return await asyncio.wait_for(self.process.ended, 100)

    async def __aenter__(self) -> Child:
        await self.process.start([sys.executable, "-c", self._code])
        assert await self.word() == "up"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.process.close()


def test_half_characters_do_not_break_a_frame() -> None:
    """A server's JSON may hold halves of surrogate pairs, split between two pieces or alone."""
    frame = encode_frame(Word(["\ud83d\ude00 and \ud83d", {"x\udc00": ["\udc00", b"\xff"]}]))
    assert DECODER.decode(frame[4:]) == Word(["😀 and \ufffd", {"x\ufffd": ["\ufffd", b"\xff"]}])


def test_frames_in_pieces_cut_off_and_out_of_step() -> None:
    whole = encode_frame(Word("a")) + encode_frame(Word("b"))
    splitter = FrameSplitter()
    bodies = [body for at in range(len(whole)) for body in splitter.feed(whole[at : at + 1])]
    assert [DECODER.decode(body) for body in bodies] == [Word("a"), Word("b")]
    assert list(FrameSplitter().feed(whole[:-1])) == bodies[:1]
    with pytest.raises(ValueError, match="frame"):
        list(FrameSplitter().feed(b"\xff\xff\xff\xffprinted"))
    stream = BytesIO(whole[:-1])
    assert (read_frame(stream), read_frame(stream), read_frame(stream)) == (bodies[0], None, None)


def test_what_no_frame_can_hold_is_refused() -> None:
    with pytest.raises(OverflowError):
        encode_frame(Word(2**64))
    with pytest.raises(ValueError, match="more than can be sent"):
        encode_frame(Word("x" * 100), largest=99)


async def test_frames_go_both_ways_and_the_child_ends_with_its_pipe() -> None:
    async with Child(ECHO) as child:
        large = "多" * 1_000_000
        for text in ("你好", large):
            assert child.process.send(Word(text))
        assert [await child.word(), await child.word()] == ["你好", large]
    assert child.process.ended.done()
    assert not child.process.send(Word("too late"))


async def test_what_is_printed_does_not_reach_the_frames_and_is_logged_within_limits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    printing = """print("printed"); os.write(1, b"raw \\xff\\n"); os.system("echo child; cat")
    print("x" * 3_000_000)
    for number in range(5_000): print("line", number)
    out.send(Word("done"))"""
    async with Child(printing, lines=50) as child:
        child.process.send(Word(""))
        assert await child.word() == "done"
    texts = [record.getMessage() for record in caplog.records if record.name == "child"]
    assert {"printed", "raw \\xff", "child", "more than 50 lines were printed; the rest is not logged"} <= {*texts}
    assert len(texts) == 51
    assert max(map(len, texts)) == MAX_LINE


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("printed", "logged"),
    [
        (b"\x1b]0;owned\x07title", "title"),
        (b"\x1b[2J\x1b[31mred\x1b[0m", "red"),
        (b"\xc2\x9b2Jc1", "c1"),
        (b"one\r2026-11-25 INFO clawbot: forged", "one 2026-11-25 INFO clawbot: forged"),
        (b"a\x00\x08\x7fb", "ab"),
        ("a\u202eb\u2028c".encode(), "ab c"),
        (b"\x1bP1;2|41/AA\x1b\\end", "end"),
        ("你好".encode(), "你好"),
    ],
)
async def test_what_is_printed_steers_no_terminal_and_forges_no_line(
    printed: bytes, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with Child(f"os.write(2, {printed!r} + b'\\n'); out.send(Word('done'))") as child:
        child.process.send(Word(""))
        assert await child.word() == "done"
    assert [record.getMessage() for record in caplog.records if record.name == "child"] == [logged]


@pytest.mark.parametrize(
    ("take", "status"),
    load_table(__file__, "a_child_that_ends_or_makes_no_sense_is_told_by_its_status"),
    ids=["exits", "signal", "killed in mid frame", "out of step", "no msgpack", "too large"],
)
async def test_a_child_that_ends_or_makes_no_sense_is_told_by_its_status(take: str, status: int) -> None:
    async with Child(take, largest=1_000_000) as child:
        child.process.send(Word("now"))
        assert await child.end() == status


@pytest.mark.parametrize(("last", "status"), [("while True: pass", -9), ("os._exit(1)", 1)])
async def test_a_child_that_is_killed_or_ends_leaves_nothing_behind(tmp_path: Path, last: str, status: int) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    spinning = f"""subprocess.Popen(["sleep", "600"], stdout=open({str(fifo)!r}, "w")); out.send(Word("on"))
    {last}"""
    async with Child(spinning) as child:
        # Ends when nobody is left who could write.
        left = asyncio.create_task(asyncio.to_thread(fifo.read_text))
        child.process.send(Word("spin"))
        assert await child.word() == "on"
        if status < 0:
            child.process.kill()
        assert await child.end() == status
        assert await asyncio.wait_for(left, 100) == ""


@pytest.mark.parametrize("take", ["pass", "\n    while True: pass"], ids=["idle", "never awaits"])
async def test_a_child_does_not_outlive_a_parent_that_is_killed(take: str) -> None:
    code = CHILD.format(take=take).replace("loop.run_forever()", "take(Word('now')); loop.run_forever()")
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, code, stdout=PIPE, stderr=DEVNULL)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    async with seen_to_end(pid):
        parent.kill()
        await parent.wait()


async def test_a_command_that_is_not_there_raises() -> None:
    with pytest.raises(OSError, match="no-such"):
        await Child(ECHO).process.start(["/no-such-python"])
