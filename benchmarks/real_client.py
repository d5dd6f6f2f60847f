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
from pathlib import Path

from clawbot.clock import SystemClock
from clawbot.llm.worker_reuse import end_reusable_worker, reusable_worker
from clawbot.messages import AssistantMessage, Message, TextBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.entries import CompactionEntry, MessageEntry, encode_entry
from clawbot.sessions.transcript import Transcript

SIZES = (10, 200, 1_500)
IDLE_SECONDS = 310.0  # the worker ends after 300
MARKS = (100, 500, 1_000, 1_500, 2_000)  # turns of the long talk that are told of
LONG = 190_000  # messages, 160 MB
CYCLE, KEPT = 700, 100  # messages between two compactions, and those that each keeps
WORDS = "the quick brown fox jumps over the lazy dog and looks for its bone in the garden behind the house "
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parents end become children of this one
_TICKS = os.sysconf("SC_CLK_TCK")
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
    """An environment without keys for a program in `home`."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "CLAWBOT_HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm-256color"}


def cpu_of(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def tree_of(pid: int) -> list[int]:
    """A process and what it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in tree_of(int(child)))]


def memory_of(pid: int) -> float:
    """The proportional resident memory of a process, in MB."""
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


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
            used = {pid: cpu_of(pid) for pid in children if pid != server.process.pid}
            async for _ in runtime.agent.submit(f"how are you, for the time {number}?"):
                pass
            ended = time.monotonic()
            if number >= 3:
                out.append(await asyncio.to_thread(server.arrival) - began)
                whole.append(ended - began)
                cpu.append(time.process_time() - spent)
                worker.append(sum(cpu_of(pid) - before for pid, before in used.items()))
            else:
                await asyncio.to_thread(server.arrival)
    medians = [f"{statistics.median(values) * 1000:.0f}" for values in (out, whole, cpu)]
    # Its clock ticks every 10 ms, so a median would be a multiple of that.
    return [*medians, f"{statistics.mean(worker) * 1000:.0f}"]


def turn_rows(count: int) -> None:
    """Print the table of turns."""
    print("| messages | request out, ms | turn, ms | CPU program, ms | CPU worker (mean), ms |\n|---|---|---|---|---|")
    for size in SIZES:
        with home_with_server() as (home, server):
            os.environ["CLAWBOT_HOME"] = str(home)
            print(f"| {size:,} | " + " | ".join(asyncio.run(turns(size, count, server))) + " |", flush=True)


async def talk(count: int, server: Server) -> None:
    """Print what a turn costs as a talk goes on in the default window, with the compactions that come."""
    spent, used = [0.0], [0.0]
    async with talk_of(0) as runtime:
        for number in range(1, count + 1):
            async for _ in runtime.agent.submit(f"{number}: {WORDS * 6}"):
                pass
            spent.append(time.process_time())
            used.append(sum(cpu_of(pid) for pid in tree_of(os.getpid())[1:] if pid != server.process.pid))
            if number in MARKS:
                program = statistics.median(spent[at] - spent[at - 1] for at in range(number - 19, number + 1))
                worker = (used[-1] - used[-21]) / 20
                sent = len(runtime.agent.conversation.items)
                print(f"| {number:,} | {sent:,} | {program * 1000:.0f} | {worker * 1000:.0f} |", flush=True)


def talk_rows(count: int) -> None:
    """Print the table of a long talk."""
    print("| turn | messages | CPU program, ms (median of 20) | CPU worker, ms (mean of 20) |\n|---|---|---|---|")
    with home_with_server() as (home, server):
        os.environ["CLAWBOT_HOME"] = str(home)
        threading.Thread(target=_drain_arrivals, args=(server,), daemon=True).start()
        asyncio.run(talk(count, server))


def _drain_arrivals(server: Server) -> None:
    with contextlib.suppress(ValueError):
        while True:
            server.arrival()


# -- one shot ----------------------------------------------------------------------------------------------------------


def oneshot(runs: int) -> None:
    """Print what `chat -p` takes until its request is out, and until it has ended: with a worker of its own, and with
    one that stays. The first run fills caches, or leaves the worker."""
    print("| chat -p | request out, s | whole, s | CPU, s | of it worker, s |\n|---|---|---|---|---|")
    ctypes.CDLL(None).prctl(_SUBREAPER, 1)
    for title, keep in (("first", 0), ("next", 600)):
        with home_with_server(keep) as (home, server):
            os.environ["CLAWBOT_HOME"] = str(home)
            found = [shot(home, server, stays=keep > 0) for _ in range(runs + 1)][1:]
            end_reusable_worker()
        figures = " | ".join(f"{statistics.median(values):.2f}" for values in zip(*found, strict=True))
        print(f"| {title} | {figures} |", flush=True)


def shot(home: Path, server: Server, *, stays: bool) -> tuple[float, float, float, float]:
    """Seconds until the request is out, of the whole command, and of CPU: of all processes, and of a worker that
    `stays` (one that ends counts with its command)."""
    worker = reusable_worker()
    used = cpu_of(worker) if worker else 0.0
    began, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "clawbot", "chat", "-p", "hi"]
    subprocess.run(command, env=env_of(home), cwd=home, check=True, stdout=subprocess.DEVNULL)
    ended = time.monotonic()
    while not stays and (left := _children() - {server.process.pid}):
        for pid in left:
            os.waitpid(pid, 0)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    stayed = cpu_of(worker) - used if worker else 0.0
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
    print("| characters | CPU program, s | CPU of both, s |\n|---|---|---|")
    own, both = [], []
    for _ in range(runs):
        with home_with_server() as (home, _), screen(home) as (process, types):
            types(b"hello")
            settled(process.pid)
            types(b"\r")
            before = settled(process.pid)
            main = cpu_of(process.pid)
            types(STREAM)
            types(b"\r")
            both.append(settled(process.pid) - before)
            own.append(cpu_of(process.pid) - main)
    print(f"| {STREAMED:,} | {statistics.median(own):.2f} | {statistics.median(both):.2f} |")


def settled(pid: int) -> float:
    """The CPU seconds of a process and what it started, once they use no more."""
    spent, quiet = -1.0, 0
    while quiet < 8:
        time.sleep(0.5)
        now = sum(cpu_of(each) for each in tree_of(pid))
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


def memory(runs: int) -> None:
    """Print the memory at rest with a model of a server."""
    with home_with_server() as (home, _):
        found = [at_rest(home)[1] for _ in range(runs)]
        later = sum(at_rest(home, IDLE_SECONDS)[1])
    shown = " + ".join(f"{statistics.median(part):.0f}" for part in zip(*found, strict=False))
    print(f"program + worker after the first key: {shown} = {statistics.median(map(sum, found)):.0f} MB")
    print(f"when nobody called for {IDLE_SECONDS:.0f} s after a turn: {later:.0f} MB")


def resume(runs: int) -> None:
    """Print what the screen and its first key take: an empty session, and transcripts of 160 MB with and without
    compactions. The first opening, at which memory indexes the talk, is not counted."""
    print("| transcript | CPU, s | MB |\n|---|---|---|")
    for name, size, every in (("empty", 0, 0), ("with compactions", LONG, CYCLE), ("without", LONG, 0)):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            Path(home, "config.yaml").write_text(
                "agents: {defaults: {model: offline}}\nsession: {reset: {mode: none}}\n"
            )
            if size:
                written(home, size, every)
                at_rest(home)
            found = [at_rest(home) for _ in range(runs)]
            spent = statistics.median(cpu for cpu, _ in found)
            print(f"| {name} | {spent:.2f} | {statistics.median(sum(m) for _, m in found):.0f} |", flush=True)


def written(home: Path, size: int, every: int = 0) -> None:
    """A session of `size` messages in `home`, with a compaction after each `every` of them (0: none)."""
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
    parser.add_argument("--turns", type=int, default=20)
    chosen = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "serve": serve,
        "turns": lambda: turn_rows(chosen.turns),
        "talk": lambda: talk_rows(MARKS[-1]),
        "oneshot": lambda: oneshot(chosen.runs),
        "stream": lambda: stream(chosen.runs),
        "memory": lambda: memory(chosen.runs),
        "resume": lambda: resume(chosen.runs),
    }
    for name in chosen.what:
        tables[name]()


if __name__ == "__main__":
    main()
