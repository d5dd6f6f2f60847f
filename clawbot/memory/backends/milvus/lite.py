"""The use of Milvus Lite's server process: finds the one of a database, or starts it. Blocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL
from pathlib import Path

from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.locks import try_lock
from clawbot.memory.backends.milvus.collections import MilvusError
from clawbot.memory.backends.milvus.lite_server import ADDRESS, OWNER, USERS, beside
from clawbot.worker_pipe import module_command

START_SECONDS = 40.0
"""How long the server may take: its imports take seconds on a busy machine, and it reads again what was not flushed."""

MOST_STARTS = 2
"""How often it is started, before that counts as a failure."""

_POLL_SECONDS = 0.1
_MODULE = "clawbot.memory.backends.milvus.lite_server"
# Nothing of a user's secrets goes to a program that needs none.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT")
# Segments are searched by index; what still waits in memory is searched row by row, ten times as slow.
_BUDGETS = {"MILVUS_LITE_MEMTABLE_MEMORY_LIMIT_BYTES": "8000000", "MILVUS_LITE_WAL_SIZE_LIMIT_BYTES": "64000000"}


class LiteUser:
    """One use of the database: while it is open, the server stays."""

    def __init__(self, database: Path) -> None:
        """Opens nothing yet."""
        self._database = database
        self._users: int | None = None

    def address(self) -> str:
        """The URI of the server, started if there is none. Blocks. Raises MilvusError."""
        try:
            return self._served()
        except OSError as error:
            where = error.filename or self._database.parent
            raise MilvusError(
                f"Milvus Lite could not be started: {where}: {error.strerror or error}.",
                hint="Make room if the disk is full; see memory.milvus.uri for the place.",
            ) from error

    def _served(self) -> str:
        """Raises OSError, MilvusError."""
        ensure_private_dir(self._database.parent)
        end = time.monotonic() + START_SECONDS
        if self._users is None:
            self._users = os.open(beside(self._database, USERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        starts = 0
        while time.monotonic() < end:
            if self._may_use():
                if (path := self._answering()) is not None:
                    return f"unix:{path}"
                if self._has_no_server():
                    if starts == MOST_STARTS:
                        break
                    starts += 1
                    asyncio.run(self._start())
            time.sleep(_POLL_SECONDS)
        raise MilvusError(
            f"Milvus Lite could not open {self._database}.",
            hint=f"{self._log} says why. The folder can be deleted: the notes are indexed anew.",
        )

    def close(self) -> None:
        """Let the server go; idempotent."""
        users, self._users = self._users, None
        if users is not None:
            os.close(users)

    @property
    def _log(self) -> Path:
        return beside(self._database, ".log")

    def _may_use(self) -> bool:
        """Whether this process is counted among the users: not while a server is ending."""
        if self._users is None:
            return False
        with contextlib.suppress(OSError):
            return try_lock(self._users, shared=True)
        return False

    def _answering(self) -> Path | None:
        """The socket of a server that accepts connections."""
        try:
            path = Path(beside(self._database, ADDRESS).read_text("utf-8"))
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
                trial.settimeout(1.0)
                trial.connect(str(path))
        except (OSError, ValueError):
            return None
        return path

    def _has_no_server(self) -> bool:
        """Whether no process owns the database: none has been started, or it has died."""
        owner = os.open(beside(self._database, OWNER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            return try_lock(owner)
        except OSError:
            return False
        finally:
            os.close(owner)

    async def _start(self) -> None:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {**_BUDGETS, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        command = module_command(_MODULE, str(self._database))
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
            # It leaves a child behind.
            await process.wait()
        finally:
            os.close(log)
