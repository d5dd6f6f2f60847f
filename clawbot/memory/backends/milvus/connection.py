"""The connection of one agent's memory to Milvus: opened on first use, and anew after a failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import threading
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from clawbot.errors import ClawbotError
from clawbot.memory.backend import BackendContext
from clawbot.memory.backends.milvus.collections import Collections, MilvusError, connect
from clawbot.memory.backends.milvus.lite import LiteUser
from clawbot.memory.documents.library import Library
from clawbot.memory.embeddings.embedder_handle import EmbedderHandle
from clawbot.memory.sync.round import wanted_identity

if TYPE_CHECKING:
    from clawbot.memory.store.records import Identity

log = logging.getLogger(__name__)

T = TypeVar("T")

CLOSE_SECONDS = 0.5
"""How long closing waits for the connection to end."""

_REMOTE = ("http://", "https://", "tcp://", "unix:")


async def on_thread(work: Callable[[], T]) -> T:
    """The result of `work` on a thread that may be left behind: Milvus may let a caller wait."""
    return await _on_own_thread(work)


def _on_own_thread(work: Callable[[], T]) -> asyncio.Future[T]:
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
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
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
        self.owner = self.settings.owner or own_name(context.paths.home)
        self.database = None if is_server(self.settings.uri) else database_of(self.settings.uri, context.paths.home)
        self._search = context.agent.memory_search
        self._library = library
        self._handle = handle
        self._lite = LiteUser(self.database) if self.database is not None else None
        self._collections: Collections | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Collections:
        """The collections, connected. Raises ClawbotError."""
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
        """Record a failure: the next call connects anew."""
        self.problem = str(error)
        collections, self._collections = self._collections, None
        if collections is not None:
            _on_own_thread(collections.close)

    async def close(self) -> None:
        """End it, and let the server of Milvus Lite go."""
        collections, self._collections = self._collections, None

        def let_go() -> None:
            if collections is not None:
                collections.close()
            if self._lite is not None:
                self._lite.close()

        await asyncio.wait([_on_own_thread(let_go)], timeout=CLOSE_SECONDS)

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


def is_server(uri: str) -> bool:
    """Whether `uri` is the address of a server rather than a path for Milvus Lite."""
    return uri.startswith(_REMOTE)


def database_of(uri: str, home: Path) -> Path:
    """The folder of Milvus Lite; a relative one lies below the state folder `home`."""
    return home / Path(uri).expanduser()


def own_name(home: Path) -> str:
    """The name of this machine in Milvus: that of the host, and of the state folder there."""
    return f"{platform.node() or 'host'}-{blake2b(str(home.resolve()).encode(), digest_size=4).hexdigest()}"
