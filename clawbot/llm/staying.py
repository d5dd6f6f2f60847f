"""The worker that stays: a one-shot command leaves its worker to the next one, which saves it the loading of litellm.

Here is the side of the clients: how they find, start and leave it. It listens on a socket of the state folder
(`llm.host`) and serves who comes from the same surroundings. Keys reach it as they reach any worker: by the environment
that it inherits, and with each call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, find_home
from clawbot.deadline import deadline
from clawbot.llm.frames import Report, report_decoder
from clawbot.worker_pipe import FrameSplitter, encode_frame, module_command

STAY = "--stay"
"""The argument of the worker that its stdin is a connection, which may outlive the process at its other end."""
WELCOME_SECONDS = 1.0
"""How long a worker that stays may take to answer; one that is busier or stopped is not waited for."""
SOCKET, LOCK = "worker.sock", "worker.lock"
_PEER = struct.Struct("3i")  # pid, uid, gid
# What differs between terminals, and nothing that calls models reads.
_OF_TERMINALS = """
    PWD OLDPWD SHLVL _ TERM COLORTERM COLORFGBG COLUMNS LINES DISPLAY WAYLAND_DISPLAY WINDOWID TMUX TMUX_PANE STY
    WINDOW GPG_TTY LS_COLORS VTE_VERSION TIKTOKEN_CACHE_DIR SSH_CLIENT SSH_CONNECTION SSH_TTY SSH_AUTH_SOCK
    XDG_SESSION_ID INVOCATION_ID JOURNAL_STREAM TERM_PROGRAM TERM_PROGRAM_VERSION TERM_SESSION_ID ITERM_SESSION_ID
    ITERM_PROFILE
"""


class Hello(Struct, frozen=True, tag="hello"):
    """The first frame of a client: the `mark` of its surroundings, and how many seconds the worker is to stay after its
    last one (0: as it was told before)."""

    mark: bytes
    stay: float


class Welcome(Struct, frozen=True, tag="welcome"):
    """The first frame of the worker. It waits for this client from here on."""

    pid: int


_welcome_decoder = msgspec.msgpack.Decoder(Welcome)
_AWAY = Hello(b"", 0.0)


def mark() -> bytes:
    """Stands for all that a worker has from where it was started: code, environment with its keys, current folder,
    priority, namespaces (of the network, say). Blocks. Raises OSError."""
    found = hashlib.sha256()
    litellm = find_spec("litellm")
    code = [
        *sorted(Path(__file__).parent.glob("*.py")),
        *([Path(litellm.origin)] if litellm and litellm.origin else []),
    ]
    for file in code:
        status = file.stat()
        found.update(f"{file} {status.st_size} {status.st_mtime_ns}\n".encode(errors="surrogateescape"))
    passed_over = _OF_TERMINALS.split()
    for name, value in sorted(os.environ.items()):
        if name not in passed_over:
            found.update(os.fsencode(f"{len(name)} {len(value)} {name}={value}\n"))
    spaces = [
        str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "mnt", "pid") if sys.platform == "linux"
    ]
    found.update(ascii((sys.executable, str(Path.cwd()), os.nice(0), spaces)).encode())
    return found.digest()


class Connection(asyncio.Protocol):
    """The client's side of a connection, used as a `WorkerProcess` is. `take` is called on the loop with each report.

    `pid` is the worker's process, None until it is known; `greeted`: it has let this client in.
    """

    def __init__(self, take: Callable[[Report], None], pid: int | None = None) -> None:
        self._take = take
        self._splitter = FrameSplitter()
        self._transport: asyncio.WriteTransport | None = None
        self.pid = pid
        self.greeted = False
        self.answered = asyncio.Event()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Take reports, after the welcome."""
        try:
            for body in self._splitter.feed(data):
                if self.greeted:
                    self._take(report_decoder.decode(body))
                else:
                    self.pid = _welcome_decoder.decode(body).pid
                    self.greeted = True
                    self.answered.set()
        except ValueError:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The worker has ended, or does not want this client."""
        self.answered.set()
        if not self.ended.done():
            self.ended.set_result(0)

    def send(self, frame: Struct) -> bool:
        """Write `frame`; False if the worker is gone. Raises what `encode_frame` raises."""
        data = encode_frame(frame)
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(data)
        return True

    def abort(self) -> None:
        """Leave at once."""
        if self._transport is not None:
            self._transport.abort()

    def kill(self) -> None:
        """Kill the worker, which does not do what it is told."""
        if self.pid is not None and not self.ended.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self.abort()

    async def close(self) -> None:
        """Leave the worker to the next one."""
        if self._transport is not None and not self.ended.done():
            self._transport.close()
            await asyncio.wait([self.ended], timeout=WELCOME_SECONDS)


async def join(take: Callable[[Report], None], stay: float) -> Connection | None:
    """Connect to the worker that stays here; None where there is none, or none for these surroundings."""
    try:
        path = await asyncio.to_thread(trusted_place)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: Connection(take), str(path))
        connection.send(Hello(await asyncio.to_thread(mark), stay))
    # NotImplementedError: an event loop without sockets of this kind.
    except (OSError, NotImplementedError):
        return None
    try:
        async with deadline(WELCOME_SECONDS):
            await connection.answered.wait()
    except TimeoutError:
        connection.abort()
    return connection if connection.greeted else None


async def launch(take: Callable[[Report], None], stay: float) -> Connection:
    """Start a worker that stays for `stay` seconds after its last client. Raises OSError, NotImplementedError."""
    found = await asyncio.to_thread(mark)
    ours, theirs = socket.socketpair()
    try:
        pid = await asyncio.to_thread(_spawn, theirs)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: Connection(take, pid), sock=ours)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    connection.send(Hello(found, stay))
    return connection


def _spawn(stdin: socket.socket) -> int:
    """Start the process, which nobody waits for: it outlives this one."""
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin.fileno(), 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawn(sys.executable, module_command("clawbot.llm.worker", STAY), os.environ, file_actions=actions)


def staying() -> int | None:
    """The process of the worker that stays here, 0 where the system does not say it; None without one. Blocks."""
    with contextlib.suppress(OSError), _connected() as connection:
        return peer_of(connection)[0]
    return None


def dismiss() -> int | None:
    """Tell the worker that stays here to end when its calls are over; its process as in `staying`. Blocks."""
    with contextlib.suppress(OSError), _connected() as connection:
        pid = peer_of(connection)[0]
        connection.sendall(encode_frame(_AWAY))
        with contextlib.suppress(OSError):
            connection.recv(1)
        return pid
    return None


@contextlib.contextmanager
def _connected() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WELCOME_SECONDS)
        connection.connect(str(trusted_place()))
        yield connection


def trusted_place() -> Path:
    """The address of the socket, in a folder that only this user can write in. Blocks. Raises OSError."""
    folder = Paths(find_home()).run
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder / SOCKET


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end; 0 and this user where the system does not say it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0, os.geteuid()
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(found)
    return pid, uid
