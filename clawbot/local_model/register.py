"""Which servers of ours run here: `local.json`, by which every clawbot finds them, with the key that they ask for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from clawbot.files import PRIVATE_FILE, ensure_private_dir, locked, write_atomic
from clawbot.locks import try_lock

POLL_SECONDS = 0.2
"""Interval of the checks whether another process has loaded its model."""
ANSWER_SECONDS = 2.0
"""A server that reads a long prompt answers other requests all the same."""


class Running(Struct, frozen=True):
    """A server: the model's `name` and `file`, its address (`base`, ends with /v1) and key, its `window` in tokens.

    `pid` is its process, `owner` the one that keeps it running; `chat`: that one is a chat, which ends by itself.
    """

    name: str
    file: str
    base: str
    key: str
    window: int
    pid: int
    owner: int = field(name="keeper")
    chat: bool


def read_running(path: Path) -> list[Running]:
    """Return the servers in `local.json` whose process is there; none when it can't be read. Blocks."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=list[Running])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [running for running in found if is_there(running.pid)]


def add_running(path: Path, running: Running) -> None:
    """Record a server, in place of an earlier one of the same owner and file. Blocks. Raises OSError."""
    key = (running.owner, running.file)
    _change(path, lambda found: [*(each for each in found if (each.owner, each.file) != key), running])


def remove_running(path: Path, pid: int) -> None:
    """Forget the server with the process `pid`. Blocks. Raises OSError."""
    _change(path, lambda found: [each for each in found if each.pid != pid])


def answers(running: Running) -> bool:
    """Whether it is that server which answers at its address: it knows the key. Blocks for two seconds at most."""
    parts = urlsplit(running.base)
    try:
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", f"{parts.path}/models", headers={"Authorization": f"Bearer {running.key}"})
            return connection.getresponse().status == 200
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError):
        return False


@asynccontextmanager
async def alone(path: Path) -> AsyncIterator[None]:
    """Hold the lock file `path`, once nobody else does: for as long as a model is loaded. Raises OSError.

    Uses flock directly: importing filelock takes longer than the commands that only list the models.
    """
    handle = await asyncio.to_thread(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        while True:
            if try_lock(handle):
                break
            await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _change(path: Path, change: Callable[[list[Running]], list[Running]]) -> None:
    ensure_private_dir(path.parent)
    with locked(path.parent):
        left = change(read_running(path))
        if left:
            write_atomic(path, msgspec.json.encode(left), mode=PRIVATE_FILE, lasting=False)
        else:
            path.unlink(missing_ok=True)


def is_there(pid: int) -> bool:
    """Return whether there is a process with that number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
