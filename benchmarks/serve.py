"""What the server holds: requests a second of /health, searches of the memory, chats at once, and its memory meanwhile.

Run: .venv/bin/python benchmarks/serve.py [--files N] [--seconds S] [--rate R] [--chats N]

The notes are made up (`daily_notes.py`). The server is a process of its own, the client another one on the same two
cores: CPU time is that of the server alone, wall times are of both together. Searches come at a fixed rate whether or
not the ones before are answered, each with another question; chats are answered by the offline model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from daily_notes import NoteWriter
from processes import cpu_of, environment, status_of
from tables import Table

CONNECTIONS = 16


class Home:
    """A home with a workspace of `files` notes."""

    def __init__(self, folder: Path, files: int) -> None:
        self.folder = folder
        state = folder / ".clawbot"
        self.writer = NoteWriter()
        state.mkdir(parents=True)
        self.writer.write(state / "workspace", files)
        self.run("memory", "index")
        settings = {"serve": {"rate": 0, "sessions": 256, "idle": "1h"}}
        (state / "config.yaml").write_text(json.dumps(settings))
        self.token = self.run("serve", "token").strip()

    @property
    def pieces(self) -> int:
        """What the index holds."""
        return int(json.loads(self.run("memory", "status", "--json"))[0]["status"]["chunks"])

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "clawbot", *arguments]
        return subprocess.run(
            command, env=environment(self.folder), cwd=self.folder, stdout=subprocess.PIPE, text=True, check=True
        ).stdout


class Server:
    """A server that runs; `port` is where."""

    def __init__(self, home: Home) -> None:
        command = [sys.executable, "-m", "clawbot", "serve", "--port", "0", "--model", "offline"]
        self.process = subprocess.Popen(
            command, env=environment(home.folder), cwd=home.folder, stdout=subprocess.PIPE, text=True
        )
        if self.process.stdout is None:
            raise SystemExit("no output")
        self.port = int(self.process.stdout.readline().strip().rpartition(":")[2])
        self.token = home.token

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        return cpu_of([self.process.pid])

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        return status_of(self.process.pid, "VmRSS") / 1024

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        """A request as it goes over the wire."""
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.token}\r\n"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data

    def stop(self) -> float:
        """End it as a service manager does; returns how many seconds that took."""
        began = time.monotonic()
        self.process.terminate()
        self.process.wait()
        return time.monotonic() - began


class Line:
    """A connection on which one request follows another. As thin as can be: the client's CPU is the server's loss."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer, which must be a good one."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split()[0])
        body = await self._reader.readexactly(size)
        if b" 200 " not in head[:16]:
            raise SystemExit(f"{head!r} {body!r}")
        return body

    def close(self) -> None:
        """End it."""
        self._writer.close()


@asynccontextmanager
async def lines(server: Server, count: int) -> AsyncIterator[list[Line]]:
    """So many connections."""
    opened = [Line(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(count)]
    try:
        yield opened
    finally:
        for line in opened:
            line.close()


class Row(NamedTuple):
    """One line of the table. Seconds."""

    what: str
    count: int
    wall: float
    cpu: float
    took: list[float]

    def cells(self, server: Server) -> tuple[str, ...]:
        """Return the cells of the table; the last one is the memory of the server now."""
        took = sorted(self.took) or [0.0]
        at = [1000 * took[min(len(took) - 1, int(len(took) * share))] for share in (0.5, 0.95, 0.99)]
        rate, cost = self.count / self.wall, 1000 * self.cpu / max(1, self.count)
        times = (f"{each:.1f} ms" for each in at)
        return self.what, f"{self.count:,}", f"{rate:,.0f}", *times, f"{cost:.2f} ms", f"{server.megabytes:.0f} MB"


async def timed(ask: Callable[[], Awaitable[object]], took: list[float]) -> None:
    """Note how long `ask` takes."""
    began = time.perf_counter()
    await ask()
    took.append(time.perf_counter() - began)


async def flat_out(server: Server, what: str, seconds: float, make: Callable[[], bytes]) -> Row:
    """As many requests as it answers, on some connections."""
    took: list[float] = []
    async with lines(server, CONNECTIONS) as opened:
        began, cpu = time.perf_counter(), server.cpu

        async def keep_asking(line: Line) -> None:
            while time.perf_counter() - began < seconds:
                await timed(lambda: line.ask(make()), took)

        await asyncio.gather(*map(keep_asking, opened))
        return Row(what, len(took), time.perf_counter() - began, server.cpu - cpu, took)


async def at_rate(server: Server, what: str, seconds: float, rate: int, make: Callable[[], bytes]) -> Row:
    """`rate` requests a second, whether or not the ones before are answered. The time of one counts from the moment
    when it was due."""
    took: list[float] = []
    async with lines(server, CONNECTIONS * 4) as opened:
        free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
        for line in opened:
            free.put_nowait(line)
        began, cpu = time.perf_counter(), server.cpu

        async def one(due: float) -> None:
            line = await free.get()
            await line.ask(make())
            took.append(time.perf_counter() - due)
            free.put_nowait(line)

        running = []
        for number in range(int(seconds * rate)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            running.append(asyncio.create_task(one(due)))
        await asyncio.gather(*running)
        return Row(what, len(took), time.perf_counter() - began, server.cpu - cpu, took)


async def chats(server: Server, count: int) -> Row:
    """So many chats at once, of two messages each."""
    took: list[float] = []
    async with lines(server, count) as opened:
        began, cpu = time.perf_counter(), server.cpu

        async def chat(number: int, line: Line) -> None:
            talk: list[dict[str, str]] = []
            for text in (f"remember that chat {number} is number {number}", f"what is chat {number}?"):
                talk.append({"role": "user", "content": text})
                request = server.request("POST", "/v1/chat/completions", {"messages": talk})
                await timed(lambda request=request: answered(line, request, talk, number), took)

        await asyncio.gather(*(chat(number, line) for number, line in enumerate(opened)))
        return Row(f"{count} chats at once", len(took), time.perf_counter() - began, server.cpu - cpu, took)


async def answered(line: Line, request: bytes, talk: list[dict[str, str]], number: int) -> None:
    """Take the reply into the talk; it must be about this chat."""
    reply = json.loads(await line.ask(request))["choices"][0]["message"]
    if f"number {number}" not in reply["content"]:
        raise SystemExit(f"chat {number} was told: {reply['content']}")
    talk.append(reply)


async def measure(home: Home, options: argparse.Namespace) -> None:
    """Print the table."""
    server = Server(home)
    dice = random.Random(7)

    def search() -> bytes:
        query = " ".join(home.writer.words(dice.randint(2, 4)))
        return server.request("POST", "/tools/invoke", {"tool": "memory_search", "args": {"query": query}})

    health = server.request("GET", "/health")
    try:
        async with lines(server, 1) as (line,):
            for _ in range(3):
                await line.ask(search())
        name = f"server, {home.pieces:,} chunks"
        with Table(name, "requests", "a second", "median", "p95", "p99", "server CPU for each", "its memory") as table:
            for row in (
                flat_out(server, "`/health`", options.seconds, lambda: health),
                at_rate(server, f"`memory_search`, {options.rate} a second", options.seconds, options.rate, search),
                flat_out(server, f"`memory_search`, {CONNECTIONS} at once", options.seconds, search),
                chats(server, options.chats),
            ):
                table.row(*(await row).cells(server))
            table.row("its end after SIGTERM", 1, "–", f"{server.stop() * 1000:.1f} ms", *["–"] * 4)
    finally:
        server.process.kill()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=105, help="about 96 pieces each")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--chats", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Home(Path(folder), options.files), options))


if __name__ == "__main__":
    main()
