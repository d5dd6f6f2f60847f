"""The connection of one agent's memory to Milvus or Milvus Lite: opened on first use, and again after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import socket
import sys
import threading
import time
from asyncio.subprocess import DEVNULL
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from clawbot.errors import ClawbotError
from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.locks import try_lock
from clawbot.memory.backend import BackendContext
from clawbot.memory.documents.library import Library
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.sync.round import wanted_identity
from clawbot.plugins.milvus.collections import Collections, MilvusError, connect
from clawbot.plugins.milvus.lite_server import ADDRESS, OWNER, USERS, side_file
from clawbot.worker_pipe import module_command

if TYPE_CHECKING:
    from clawbot.memory.store.records import Identity


START_SECONDS = 40.0
"""How long the server may take: its imports take seconds on a busy machine, and it reads again what was not flushed."""

MAX_STARTS = 2
"""How often it is started, before that counts as a failure."""

_POLL_SECONDS = 0.1
_MODULE = "clawbot.plugins.milvus.lite_server"
# Nothing of a user's secrets goes to a program that needs none.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT")
# Segments are searched by index; what still waits in memory is searched row by row, ten times as slow.
_BUDGETS = {"MILVUS_LITE_MEMTABLE_MEMORY_LIMIT_BYTES": "8000000", "MILVUS_LITE_WAL_SIZE_LIMIT_BYTES": "64000000"}


class LiteUser:
    """One use of the database: while it is open, the server runs."""

    def __init__(self, database: Path) -> None:
        """Opens nothing yet."""
        self._database = database
        self._users: int | None = None

    def address(self) -> str:
        """Return the URI of the server, started if there is none. Blocks. Raises MilvusError."""
        try:
            return self._served()
        except OSError as error:
            where = error.filename or self._database.parent
            raise MilvusError(
                f"Milvus Lite could not be started: {where}: {error.strerror or error}.",
                hint="Make room if the disk is full; see memory.milvus.uri for its folder.",
            ) from error

    def _served(self) -> str:
        """Raises OSError, MilvusError."""
        ensure_private_dir(self._database.parent)
        end = time.monotonic() + START_SECONDS
        if self._users is None:
            self._users = os.open(side_file(self._database, USERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        starts = 0
        while time.monotonic() < end:
            if self._may_use():
                if (path := self._answering()) is not None:
                    return f"unix:{path}"
                if self._has_no_server():
                    if starts == MAX_STARTS:
                        break
                    starts += 1
                    asyncio.run(self._start())
            time.sleep(_POLL_SECONDS)
        raise MilvusError(
            f"Milvus Lite could not open {self._database}.",
            hint=f"See {self._log}. The folder can be deleted: the notes are indexed again.",
        )

    def close(self) -> None:
        """Let the server go; idempotent."""
        users, self._users = self._users, None
        if users is not None:
            os.close(users)

    @property
    def _log(self) -> Path:
        return side_file(self._database, ".log")

    def _may_use(self) -> bool:
        """Return whether this process is counted among the users: not while a server is ending."""
        if self._users is None:
            return False
        with contextlib.suppress(OSError):
            return try_lock(self._users, shared=True)
        return False

    def _answering(self) -> Path | None:
        try:
            path = Path(side_file(self._database, ADDRESS).read_text("utf-8"))
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
                trial.settimeout(1.0)
                trial.connect(str(path))
        except (OSError, ValueError):
            return None
        return path

    def _has_no_server(self) -> bool:
        """Return whether no process owns the database: none has been started, or it has died."""
        owner = os.open(side_file(self._database, OWNER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
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


log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS = 0.5
"""How long closing waits for the connection to end."""

_REMOTE = ("http://", "https://", "tcp://", "unix:")


def on_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Run `work` on a thread that may be left behind: Milvus may let a caller wait."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def settle(found: T | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("T", found))

    def run() -> None:
        try:
            outcome: tuple[T | None, Exception | None] = work(), None
        except Exception as error:
            log.debug("a call to Milvus failed", exc_info=True)
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="milvus", daemon=True).start()
    return future


class Connection:
    """The collections of one agent's settings. Belongs to the event loop.

    `problem` is why the last call failed, "" if it did not. `owner` is the name of this machine.
    """

    def __init__(self, context: BackendContext, library: Library, handle: EmbedderHandle) -> None:
        """Opens nothing yet."""
        self.problem = ""
        self.settings = context.memory.milvus
        home, uri = context.paths.home, self.settings.uri
        digest = blake2b(str(home.resolve()).encode(), digest_size=4).hexdigest()
        self.owner = self.settings.owner or f"{platform.node() or 'host'}-{digest}"
        # Of Milvus Lite; a relative one is below the state folder.
        self.database = None if uri.startswith(_REMOTE) else home / Path(uri).expanduser()
        self._search = context.agent.memory_search
        self._library = library
        self._handle = handle
        self._lite = LiteUser(self.database) if self.database is not None else None
        self._collections: Collections | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Collections:
        """Return the collections, connected. Raises ClawbotError."""
        async with self._opening:
            if self._collections is None:
                try:
                    self._collections = await self._opened()
                except ClawbotError as error:
                    self.problem = str(error)
                    raise
                self.problem = ""
            return self._collections

    def failed(self, error: ClawbotError) -> None:
        """Record a failure: the next call connects again."""
        self.problem = str(error)
        collections, self._collections = self._collections, None
        if collections is not None:
            on_thread(collections.close)

    async def close(self) -> None:
        """End it, and let the server of Milvus Lite go."""
        collections, self._collections = self._collections, None

        def let_go() -> None:
            if collections is not None:
                collections.close()
            if self._lite is not None:
                self._lite.close()

        await asyncio.wait([on_thread(let_go)], timeout=CLOSE_SECONDS)

    async def _opened(self) -> Collections:
        embedder = await self._handle.open()
        if embedder is None and self._handle.problem:
            # A collection without vectors would be another one, and everything would be written twice.
            raise MilvusError(f"The vectors for Milvus can't be computed: {self._handle.problem}")
        identity = wanted_identity(self._search, self._library, embedder)
        collections = await on_thread(lambda: self._connected(identity))
        dimensions = await on_thread(collections.dimensions_there)
        if dimensions is None:
            dimensions = (await self._handle.sample()).dimensions if embedder is not None else 0
        await on_thread(lambda: collections.prepare(dimensions))
        return collections

    def _connected(self, identity: Identity) -> Collections:
        address = self._lite.address() if self._lite is not None else self.settings.uri
        token = os.environ.get(self.settings.token_env or "", "")
        return Collections(connect(address, token, self.settings.timeout), self.settings.collection, identity)
