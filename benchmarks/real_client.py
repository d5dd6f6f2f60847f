"""What lies between Enter and the request at a server on loopback, with litellm as the client: turns, a long talk,
`chat -p`, an answer that streams to a terminal, memory, and a long transcript that is resumed.

Run: .venv/bin/python benchmarks/real_client.py [turns|talk|oneshot|stream|memory|resume ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path

from processes import cpu_of, environment, memory_of, tree_of
from tables import Table, show

from clawbot.clock import SystemClock
from clawbot.llm.worker_reuse import end_reusable_worker, reusable_worker
from clawbot.messages import AssistantMessage, Message, TextBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.entries import CompactionEntry, MessageEntry, encode_entry
from clawbot.sessions.transcript import Transcript

SIZES = (10, 200, 1_500)
IDLE_SECONDS = 310.0  # the worker ends after 300
MARKS = (100, 500, 1_000, 1_500, 2_000)  # turns of the long talk that have a row
LONG = 190_000  # messages
CYCLE, KEPT = 700, 100  # messages between two compactions, and those that each keeps
WORDS = "the quick brown fox jumps over the lazy dog and looks for its bone in the garden behind the house "
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parents end become children of this one
_HEAD = {"id": "1", "object": "chat.completion.chunk"}
_CHUNKS: tuple[dict[str, object], ...] = (
    {**_HEAD, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "All is well."}}]},
    {**_HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**_HEAD, "choices": [], "usage": {"prompt_tokens": 9_000, "completion_tokens": 5, "total_tokens": 9_005}},
)
_ANSWER = b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in _CHUNKS)


STREAM = b"stream, please"
STREAMED, PIECE, PAUSE = 20_000, 20, 0.005  # characters of an answer and of a piece, seconds between two
MARKDOWN = (
    "## Part\n\n"
    + "A sentence with **bold**, *slanted* and `code` in it, and a [link](https://example.org). " * 3
    + "\n\n- one\n- two\n  - three\n\n```python\ndef f(x):\n    return x + 1  # comment\n```\n\n"
    + "| a | b |\n|---|--:|\n| x | 1 |\n\n"
)


async def stream_to(writer: asyncio.StreamWriter) -> None:
    """Answer in small pieces."""
    text = (MARKDOWN * (STREAMED // len(MARKDOWN) + 1))[:STREAMED]
    pieces = [
        {**_HEAD, "choices": [{"index": 0, "delta": {"content": text[at : at + PIECE]}}]}
        for at in range(0, STREAMED, PIECE)
    ]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for chunk in (*pieces, *_CHUNKS[1:]):
        writer.write(b"data: %s\n\n" % json.dumps(chunk).encode())
        await writer.drain()
        await asyncio.sleep(PAUSE)
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()


def serve() -> None:
    """A server that answers at once. It prints its port, then when each request had come in whole (monotonic)."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                said = await reader.readexactly(int(length[1]) if length else 0)
                if head.startswith(b"POST"):
                    print(time.monotonic(), flush=True)
                if STREAM in said:
                    await stream_to(writer)
                    continue
                body = _ANSWER + b"data: [DONE]\n\n" if head.startswith(b"POST") else b'{"data": []}'
                kind = b"text/event-stream" if head.startswith(b"POST") else b"application/json"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body)))
                writer.write(body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**26)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(run())


class Server:
    """The server in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "serve"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self._out = self.process.stdout
        self.port = int(self._out.readline())

    def arrival(self) -> float:
        """When the next request came in. Blocks."""
        return float(self._out.readline())


@contextmanager
def home_with_server(keep: int = 0) -> Iterator[tuple[Path, Server]]:
    """A fresh home whose settings name a fresh server; a worker stays `keep` seconds after a one-shot."""
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        base = f"http://127.0.0.1:{server.port}/v1"
        chosen = {"model": "openai/bench", "api_base": base, "api_key": "bench-key-of-nobody", "keep_client": keep}
        Path(folder, "config.yaml").write_text(json.dumps({"agents": {"defaults": chosen}}))
        try:
            yield Path(folder), server
        finally:
            server.process.kill()
            server.process.wait()


def env_of(home: Path) -> dict[str, str]:
    """Return the environment of a program whose state is in `home`."""
    return environment(home, CLAWBOT_HOME=str(home))


def message(number: int) -> Message:
    """One of a talk."""
    text = f"{number}: {WORDS * 2}"
    said = AssistantMessage(content=[TextBlock(text)], provider="openai", model="bench", timestamp=1)
    return said if number % 2 else UserMessage(content=text, timestamp=1)


# -- turns -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def talk_of(size: int) -> AsyncIterator[Runtime]:
    """The program with `size` messages in the context."""
    runtime = await Runtime.open(RuntimeOptions().unattended())
    try:
        for number in range(size):
            said = message(number)
            talk = runtime.agent.conversation
            await (talk.add_user(said) if isinstance(said, UserMessage) else talk.add(said))
        yield runtime
    finally:
        await runtime.close()


async def turns(size: int, count: int, server: Server) -> list[str]:
    """One row: milliseconds until the request is out, of the turn, and CPU of both processes."""
    out, whole, cpu, worker = [], [], [], []
    async with talk_of(size) as runtime:
        for number in range(count + 3):
            children = tree_of(os.getpid())[1:]
            began, spent = time.monotonic(), time.process_time()
            used = {pid: cpu_of([pid]) for pid in children if pid != server.process.pid}
            async for _ in runtime.agent.submit(f"how are you, for the time {number}?"):
                pass
            ended = time.monotonic()
            if number >= 3:
                out.append(await asyncio.to_thread(server.arrival) - began)
                whole.append(ended - began)
                cpu.append(time.process_time() - spent)
                worker.append(cpu_of(used) - sum(used.values()))
            else:
                await asyncio.to_thread(server.arrival)
    medians = [f"{statistics.median(values) * 1000:.0f}" for values in (out, whole, cpu)]
    # Its clock ticks every 10 ms, so a median would be a multiple of that.
    return [*medians, f"{statistics.mean(worker) * 1000:.0f}"]


def turn_rows(count: int) -> None:
    """Print the table of turns."""
    columns = "messages before", "request out, ms", "turn, ms", "CPU program, ms", "CPU worker (mean), ms"
    with Table(*columns) as table:
        for size in SIZES:
            with home_with_server() as (home, server):
                os.environ["CLAWBOT_HOME"] = str(home)
                table.row(f"{size:,}", *asyncio.run(turns(size, count, server)))


async def talk(count: int, server: Server, table: Table) -> None:
    """Print what a turn costs as a talk goes on in the default window, with the compactions that come."""
    spent, used = [0.0], [0.0]
    async with talk_of(0) as runtime:
        for number in range(1, count + 1):
            async for _ in runtime.agent.submit(f"{number}: {WORDS * 6}"):
                pass
            spent.append(time.process_time())
            used.append(cpu_of(pid for pid in tree_of(os.getpid())[1:] if pid != server.process.pid))
            if number in MARKS or number == count:
                last = min(number, 20)
                program = statistics.median(after - before for before, after in pairwise(spent[-last - 1 :]))
                worker = (used[-1] - used[-last - 1]) / last
                sent = len(runtime.agent.conversation.items)
                table.row(f"{number:,}", f"{sent:,}", f"{program * 1000:.0f}", f"{worker * 1000:.0f}")


def talk_rows(count: int) -> None:
    """Print the table of a long talk."""
    columns = "turn", "messages", "CPU program, ms (median of 20)", "CPU worker, ms (mean of 20)"
    with Table(*columns) as table, home_with_server() as (home, server):
        os.environ["CLAWBOT_HOME"] = str(home)
        threading.Thread(target=_drain_arrivals, args=(server,), daemon=True).start()
        asyncio.run(talk(count, server, table))


def _drain_arrivals(server: Server) -> None:
    with contextlib.suppress(ValueError):
        while True:
            server.arrival()


# -- one shot ----------------------------------------------------------------------------------------------------------


def oneshot(runs: int) -> None:
    """Print what `chat -p` takes until its request is out, and until it has ended: with a worker of its own, and with
    one that stays. The first run fills caches, or leaves the worker."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    with Table("`chat -p`", "request out, s", "whole, s", "CPU, s", "of it worker, s") as table:
        for title, keep in (("first", 0), ("again within five minutes", 600)):
            with home_with_server(keep) as (home, server):
                os.environ["CLAWBOT_HOME"] = str(home)
                found = [shot(home, server, stays=keep > 0) for _ in range(runs + 1)][1:]
                end_reusable_worker()
            table.row(title, *(f"{statistics.median(values):.2f}" for values in zip(*found, strict=True)))


def shot(home: Path, server: Server, *, stays: bool) -> tuple[float, float, float, float]:
    """Seconds until the request is out, of the whole command, and of CPU: of all processes, and of a worker that
    `stays` (one that ends counts with its command)."""
    worker = reusable_worker()
    used = cpu_of([worker]) if worker else 0.0
    began, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "clawbot", "chat", "-p", "hi"]
    subprocess.run(command, env=env_of(home), cwd=home, check=True, stdout=subprocess.DEVNULL)
    ended = time.monotonic()
    while not stays and (left := _children() - {server.process.pid}):
        for pid in left:
            os.waitpid(pid, 0)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    stayed = cpu_of([worker]) - used if worker else 0.0
    return server.arrival() - began, ended - began, cpu + stayed, stayed


def _children() -> set[int]:
    """The processes below this one, with those whose parents have ended."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


# -- the screen --------------------------------------------------------------------------------------------------------


@contextmanager
def screen(home: Path) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[bytes], int]]]:
    """The screen on a pty of 120 by 40 cells that is read all the time, once it is there; and what types into it."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    command = [sys.executable, "-m", "clawbot", "chat"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env_of(home), cwd=home, start_new_session=True
    )
    os.close(slave)
    reader = threading.Thread(target=drain, args=(master,), daemon=True)
    reader.start()
    try:
        time.sleep(3.0)
        yield process, lambda keys: os.write(master, keys)
        if process.poll() is not None:
            raise RuntimeError("the screen did not open")
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(master)


def at_rest(home: Path, wait: float = 0.0) -> tuple[float, list[float]]:
    """CPU seconds until the screen and its worker are idle, and the MB of each process then, or `wait` seconds after a
    turn."""
    with screen(home) as (process, types):
        types(b"x")
        spent = settled(process.pid)
        if wait:
            types(b"\r")
            settled(process.pid)
            time.sleep(wait)
        return spent, [memory_of(pid) for pid in tree_of(process.pid)]


def stream(runs: int) -> None:
    """Print the CPU that an answer of many characters takes in the program and in all processes, all warm."""
    own, both = [], []
    for _ in range(runs):
        with home_with_server() as (home, _), screen(home) as (process, types):
            types(b"hello")
            settled(process.pid)
            types(b"\r")
            before = settled(process.pid)
            main = cpu_of([process.pid])
            types(STREAM)
            types(b"\r")
            both.append(settled(process.pid) - before)
            own.append(cpu_of([process.pid]) - main)
    row = (f"{STREAMED:,}", f"{statistics.median(own):.2f}", f"{statistics.median(both):.2f}")
    show(("characters streamed to a terminal", "CPU program, s", "CPU of both, s"), [row])


def settled(pid: int) -> float:
    """The CPU seconds of a process and what it started, once they use no more."""
    spent, quiet = -1.0, 0
    while quiet < 8:
        time.sleep(0.5)
        now = cpu_of(tree_of(pid))
        quiet = quiet + 1 if now - spent < 0.03 else 0
        spent = now
    return spent


def drain(master: int) -> None:
    """Read what a screen writes until it ends."""
    while True:
        try:
            if select.select([master], [], [], 0.2)[0] and not os.read(master, 65536):
                return
        except OSError:
            return


def memory(runs: int, idle: float) -> None:
    """Print the memory at rest with a model of a server."""
    with home_with_server() as (home, _):
        found = [at_rest(home)[1] for _ in range(runs)]
        later = sum(at_rest(home, idle)[1])
    shown = " + ".join(f"{statistics.median(part):.0f}" for part in zip(*found, strict=False))
    rows = (
        ("after the first key: program + worker", f"{shown} = {statistics.median(map(sum, found)):.0f} MB"),
        (f"{idle:.0f} s after a turn", f"{later:.0f} MB"),
    )
    show(("the screen with a model of a server", "memory"), rows)


def resume(runs: int, messages: int) -> None:
    """Print what the screen and its first key take: an empty session, and transcripts with and without compactions. The
    first opening, at which memory indexes the talk, is not counted."""
    kinds = (("none", 0, 0), (f"{messages:,} messages, compacted", messages, CYCLE), (f"{messages:,}", messages, 0))
    with Table("transcript that is resumed", "on disk, MB", "CPU, s", "memory, MB") as table:
        for name, size, every in kinds:
            with tempfile.TemporaryDirectory() as folder:
                home, disk = Path(folder), 0
                Path(home, "config.yaml").write_text(
                    "agents: {defaults: {model: offline}}\nsession: {reset: {mode: none}}\n"
                )
                if size:
                    disk = written(home, size, every)
                    at_rest(home)
                found = [at_rest(home) for _ in range(runs)]
            spent = statistics.median(cpu for cpu, _ in found)
            memory = statistics.median(sum(each) for _, each in found)
            table.row(name, f"{disk / 1e6:.0f}", f"{spent:.2f}", f"{memory:.0f}")


def written(home: Path, size: int, every: int = 0) -> int:
    """Write a session of `size` messages, with a compaction after each `every` of them (0: none); returns its bytes."""
    subprocess.run(
        [sys.executable, "-m", "clawbot", "chat", "-p", "hi"], env=env_of(home), check=True, stdout=subprocess.DEVNULL
    )
    path = next(home.glob("agents/main/sessions/*.jsonl"))
    with Transcript.open(path, clock=SystemClock(), writable=False) as opened:
        parent = opened.leaf_id
    with path.open("ab") as file:
        for number in range(size):
            entry = MessageEntry(message=long_message(number), id=f"f{number:07x}", parent_id=parent, timestamp=STAMP)
            file.write(encode_entry(entry)[1])
            parent = entry.id
            if every and number % every == every - 1:
                kept = f"f{number - KEPT:07x}"
                cut = CompactionEntry(
                    summary=WORDS * 20, first_kept_entry_id=kept, id=f"c{number:07x}", parent_id=parent, timestamp=STAMP
                )
                file.write(encode_entry(cut)[1])
                parent = cut.id
        return file.tell()


STAMP = "2026-01-01T00:00:00.000Z"


def long_message(number: int) -> Message:
    """One that makes a line of about 760 bytes."""
    text = f"{number}: {WORDS * 6}"
    said = AssistantMessage(content=[TextBlock(text[:560])], provider="openai", model="bench", timestamp=1)
    return said if number % 2 else UserMessage(content=text, timestamp=1)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["turns", "talk", "oneshot", "stream", "memory", "resume"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--turns", type=int, help=f"of `turns`: 20, of `talk`: {MARKS[-1]}")
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds of `memory` after a turn")
    parser.add_argument("--messages", type=int, default=LONG, help="of `resume`")
    chosen = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "serve": serve,
        "turns": lambda: turn_rows(chosen.turns or 20),
        "talk": lambda: talk_rows(chosen.turns or MARKS[-1]),
        "oneshot": lambda: oneshot(chosen.runs),
        "stream": lambda: stream(chosen.runs),
        "memory": lambda: memory(chosen.runs, chosen.idle),
        "resume": lambda: resume(chosen.runs, chosen.messages),
    }
    for name in chosen.what:
        tables[name]()


if __name__ == "__main__":
    main()
