"""What lies between Enter and the request at a server on loopback, with litellm as the client: turns, `chat -p`,
memory, and a long transcript that is resumed.

Run: .venv/bin/python benchmarks/real_client.py [turns|oneshot|memory|resume ...]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from clawbot.clock import SystemClock
from clawbot.messages import AssistantMessage, Message, TextBlock, UserMessage
from clawbot.runtime import Runtime, RuntimeOptions
from clawbot.sessions.entries import MessageEntry, encode_entry
from clawbot.sessions.transcript import Transcript

SIZES = (10, 200, 1_500)
IDLE_SECONDS = 310.0  # the worker ends after 300
LONG = 190_000  # messages, 144 MB
WORDS = "the quick brown fox jumps over the lazy dog and looks for its bone in the garden behind the house "
_TICKS = os.sysconf("SC_CLK_TCK")
_CHUNKS = (
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "All is well."}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 9_000, "completion_tokens": 5, "total_tokens": 9_005}},
)
_ANSWER = b"".join(
    b"data: %s\n\n" % json.dumps({"id": "1", "object": "chat.completion.chunk", **c}).encode() for c in _CHUNKS
)


def serve() -> None:
    """A server that answers at once. It prints its port, then when each request had come in whole (monotonic)."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                if head.startswith(b"POST"):
                    print(time.monotonic(), flush=True)
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
def home_with_server() -> Iterator[tuple[Path, Server]]:
    """A fresh home whose settings name a fresh server."""
    server = Server()
    with tempfile.TemporaryDirectory() as folder:
        base = f"http://127.0.0.1:{server.port}/v1"
        settings = {
            "agents": {"defaults": {"model": "openai/bench", "api_base": base, "api_key": "bench-key-of-nobody"}}
        }
        Path(folder, "config.yaml").write_text(json.dumps(settings))
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


# -- one shot ----------------------------------------------------------------------------------------------------------


def oneshot(runs: int) -> None:
    """Print what `chat -p` takes until its request is out, and until it has ended; the first run fills caches."""
    out, whole, cpu = [], [], []
    with home_with_server() as (home, server):
        for number in range(runs + 1):
            began, before = time.monotonic(), os.times()
            command = [sys.executable, "-m", "clawbot", "chat", "-p", "hi"]
            subprocess.run(command, env=env_of(home), cwd=home, check=True, stdout=subprocess.DEVNULL)
            ended, after = time.monotonic(), os.times()
            arrived = server.arrival()
            if number:
                out.append(arrived - began)
                whole.append(ended - began)
                cpu.append(after.children_user + after.children_system - before.children_user - before.children_system)
    figures = " | ".join(f"{statistics.median(values):.2f}" for values in (out, whole, cpu))
    print(f"| chat -p | request out, s | whole, s | CPU, s |\n|---|---|---|---|\n| | {figures} |")


# -- the screen --------------------------------------------------------------------------------------------------------


def at_rest(home: Path, wait: float = 0.0) -> tuple[float, list[float]]:
    """CPU seconds until the screen and its worker are idle, and the MB of each process `wait` seconds later."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "clawbot", "chat"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=env_of(home), cwd=home, start_new_session=True
    )
    os.close(slave)
    reader = threading.Thread(target=_drain, args=(master,), daemon=True)
    reader.start()
    try:
        time.sleep(3.0)
        os.write(master, b"x")
        spent = settled(process.pid)
        time.sleep(wait)
        if process.poll() is not None:
            raise RuntimeError("the screen did not open")
        return spent, [memory_of(pid) for pid in tree_of(process.pid)]
    finally:
        process.kill()
        process.wait()
        reader.join()
        os.close(master)


def settled(pid: int) -> float:
    """The CPU seconds of a process and what it started, once they use no more."""
    spent, quiet = -1.0, 0
    while quiet < 8:
        time.sleep(0.5)
        now = sum(cpu_of(each) for each in tree_of(pid))
        quiet = quiet + 1 if now - spent < 0.03 else 0
        spent = now
    return spent


def _drain(master: int) -> None:
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
    print(f"when nobody called for {IDLE_SECONDS:.0f} s: {later:.0f} MB")


def resume(runs: int) -> None:
    """Print what the screen takes with an empty session, and with a transcript of 144 MB."""
    for size in (0, LONG):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            Path(home, "config.yaml").write_text(
                "agents: {defaults: {model: offline}}\nsession: {reset: {mode: none}}\n"
            )
            if size:
                written(home, size)
            found = [at_rest(home) for _ in range(runs)]
            spent = statistics.median(cpu for cpu, _ in found)
            print(
                f"{size:,} messages: {spent:.2f} s of CPU, {statistics.median(sum(m) for _, m in found):.0f} MB",
                flush=True,
            )


def written(home: Path, size: int) -> None:
    """A session of `size` messages in `home`."""
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


STAMP = "2026-01-01T00:00:00.000Z"


def long_message(number: int) -> Message:
    """One that makes a line of about 760 bytes."""
    text = f"{number}: {WORDS * 6}"
    said = AssistantMessage(content=[TextBlock(text[:560])], provider="openai", model="bench", timestamp=1)
    return said if number % 2 else UserMessage(content=text, timestamp=1)


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["turns", "oneshot", "memory", "resume"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--turns", type=int, default=20)
    chosen = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "serve": serve,
        "turns": lambda: turn_rows(chosen.turns),
        "oneshot": lambda: oneshot(chosen.runs),
        "memory": lambda: memory(chosen.runs),
        "resume": lambda: resume(chosen.runs),
    }
    for name in chosen.what:
        tables[name]()


if __name__ == "__main__":
    main()
