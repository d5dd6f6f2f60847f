"""The server process of Milvus Lite: one for each database, for all processes of this machine that use it.

Milvus Lite is safe for one process and one writer. This process owns the database, answers on a Unix socket that only
its user may open, lets one change in at a time, and ends when nobody holds the lock file of the users any more.

Run: python -m clawbot.plugins.milvus.lite_server DATABASE
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from clawbot.files import PRIVATE_FILE, ensure_private_dir, write_atomic
from clawbot.locks import try_lock, unlock

T = TypeVar("T")

USERS, OWNER, ADDRESS = ".users", ".owner", ".address"
"""Suffixes of side files: locked by each user (shared), locked by the server, and where the server answers."""

THREADS = 4
CHECK_SECONDS = 1.0
IDLE_CHECKS = 10
"""The server ends when it has found nobody so many times in a row, `CHECK_SECONDS` apart."""

_MESSAGE_BYTES = 256 * 1024 * 1024
_READS = ("Search", "HybridSearch", "Query", "Get", "Describe", "Show", "Has", "Connect", "Alloc", "Check", "List")


def side_file(database: Path, suffix: str) -> Path:
    """Return the path of a file next to the database, which is a folder."""
    return database.with_name(database.name + suffix)


def main(database: Path) -> int:
    """Become the server of `database`, in a process that nobody waits for. Returns at once; another one may serve it
    already."""
    ensure_private_dir(database.parent)
    os.umask(0o077)
    owner = os.open(side_file(database, OWNER), os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    if not try_lock(owner):
        return 0
    # The lock goes on to the child, so nobody finds the database without a server.
    if os.fork():
        return 0
    _serve(database)
    return 0


def _serve(database: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="clawbot-milvus-") as folder:
        socket = Path(folder) / "s"
        with _answering(database, f"unix:{socket}") as stop:
            write_atomic(side_file(database, ADDRESS), str(socket).encode(), mode=PRIVATE_FILE)
            # Held until this process is gone: who comes now waits for that, and starts another one.
            _wait_until_unused(database, stop)


@contextlib.contextmanager
def _answering(database: Path, address: str) -> Iterator[threading.Event]:
    # Deferred: these take seconds, and most of the program runs without them.
    import grpc
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    opened = MilvusLite(str(database))
    options = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(one_writer(MilvusServicer(opened)), server)
    server.add_insecure_port(address)
    server.start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        server.stop(grace=2).wait()
        opened.close()


def one_writer(servicer: T) -> T:
    """Return `servicer`, which lets one change in at a time: whatever is not known to read. Readers don't wait."""
    writing = threading.Lock()

    def serialised(answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def in_turn(request: Any, context: Any) -> Any:
            with writing:
                return answer(request, context)

        return in_turn

    for name in dir(servicer):
        if name[:1].isupper() and not name.startswith(_READS):
            setattr(servicer, name, serialised(getattr(servicer, name)))
    return servicer


def _wait_until_unused(database: Path, stop: threading.Event) -> None:
    """Wait until nobody has used the database for a while. The process keeps the lock that keeps users away."""
    users = os.open(side_file(database, USERS), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    quiet = 0
    while not stop.wait(CHECK_SECONDS):
        if not try_lock(users):
            quiet = 0
            continue
        quiet += 1
        if quiet >= IDLE_CHECKS:
            break
        unlock(users)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
