"""Logs the commands: one JSON object a line, in a private file of bounded size."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
from pathlib import Path

from clawbot.hooks import CommandNew, CommandReset

MAX_BYTES = 2_000_000
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


async def handle(event: CommandNew | CommandReset) -> None:
    """Write the line of `event`."""
    entry = {
        "timestamp": event.timestamp.isoformat(),
        "action": event.topic.partition(":")[2],
        "sessionKey": event.session_key,
        "senderId": "user",
        "source": "chat",
    }
    line = json.dumps(entry, ensure_ascii=False) + "\n"
    await asyncio.to_thread(append, Path(event.home) / "logs" / "commands.log", line.encode("utf-8", "replace"))


def append(path: Path, line: bytes) -> None:
    """Append `line` to `path` atomically; other processes may do so at the same time. A file that would exceed
    `MAX_BYTES` is renamed to `path` with `.1`. Blocks. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while not _appended(path, line):
        pass


def _appended(path: Path, line: bytes) -> bool:
    """Return whether `line` was written; False if `path` is another file now."""
    handle = os.open(path, _FLAGS, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        state = os.fstat(handle)
        if not _is_at(path, state):
            return False
        if state.st_size and state.st_size + len(line) > MAX_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
            return False
        os.fchmod(handle, 0o600)
        if os.write(handle, line) != len(line):
            os.ftruncate(handle, state.st_size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return True
    finally:
        os.close(handle)


def _is_at(path: Path, state: os.stat_result) -> bool:
    """Return whether the open file with `state` is still at `path`."""
    try:
        return os.path.samestat(path.stat(), state)
    except FileNotFoundError:
        return False
