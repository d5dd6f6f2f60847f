"""Reuse of a worker: a one-shot command leaves its worker to the next one, which then need not load litellm.

The worker listens on a socket of the state folder and accepts clients from the same environment. Keys reach it as they
reach any worker: by the environment that it inherits, and with each call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import signal
import socket
import stat
import struct
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, find_home
from clawbot.deadline import deadline
from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.llm.frames import Logged, Report, Request, report_decoder, request_decoder
from clawbot.locks import try_lock
from clawbot.worker_pipe import FrameSplitter, encode_frame, end_group, module_command

Take = Callable[[Report], object]
"""Receives a report."""

REUSABLE = "--reusable"
"""The argument of a worker whose stdin is a socket, so that it may outlive the process at the other end."""
WELCOME_SECONDS = 1.0
"""How long a running worker may take to answer; a busy or stopped one is not used."""
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
    """The first frame of a client: the digest of its environment, and for how many seconds the worker is to wait for
    others after its last client (0: as before)."""

    digest: bytes
    linger: float


class Welcome(Struct, frozen=True, tag="welcome"):
    """The first frame of the worker, which has accepted the client."""

    pid: int


_welcome_decoder = msgspec.msgpack.Decoder(Welcome)
_END = Hello(b"", 0.0)


def environment_digest() -> bytes:
    """Return a digest of all that a worker inherits: code, environment with its keys, current folder, priority,
    namespaces (of the network, for example). Blocks. Raises OSError."""
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


class _FrameConnection(asyncio.Protocol):
    """One end of a socket that carries frames. An invalid frame (ValueError) closes it."""

    def __init__(self) -> None:
        self._splitter = FrameSplitter()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._splitter.feed(data):
                self._receive(body)
        except ValueError:
            self.abort()

    @abstractmethod
    def _receive(self, body: bytes) -> None:
        """Handle the body of one frame."""

    def send(self, frame: Struct) -> bool:
        """Write `frame`; False if the other end is gone. Raises what `encode_frame` raises."""
        data = encode_frame(frame)
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(data)
        return True

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Connection(_FrameConnection):
    """The client's end, used as a `WorkerProcess` is. `take` is called on the loop with each report.

    `pid` is the worker's process, None until it is known; `greeted`: the worker has accepted this client.
    """

    def __init__(self, take: Take, pid: int | None = None) -> None:
        super().__init__()
        self._take = take
        self.pid = pid
        self.greeted = False
        self.answered = asyncio.Event()
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def _receive(self, body: bytes) -> None:
        if self.greeted:
            self._take(report_decoder.decode(body))
        else:
            self.pid = _welcome_decoder.decode(body).pid
            self.greeted = True
            self.answered.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.answered.set()
        if not self.ended.done():
            self.ended.set_result(0)

    def kill(self) -> None:
        if self.pid is not None and not self.ended.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self.abort()

    async def close(self) -> None:
        if self._transport is not None and not self.ended.done():
            self._transport.close()
            await asyncio.wait([self.ended], timeout=WELCOME_SECONDS)


async def join(take: Take, linger: float) -> Connection | None:
    """Connect to the running worker; None without one for this environment."""
    try:
        path = await asyncio.to_thread(trusted_address)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: Connection(take), str(path))
        connection.send(Hello(await asyncio.to_thread(environment_digest), linger))
    # NotImplementedError: an event loop without sockets of this kind.
    except (OSError, NotImplementedError):
        return None
    try:
        async with deadline(WELCOME_SECONDS):
            await connection.answered.wait()
    except TimeoutError:
        connection.abort()
    return connection if connection.greeted else None


class _Begun(NamedTuple):
    """A worker that waits for its first client at the other end of `socket`; `digest` is of what it inherited."""

    digest: bytes
    pid: int
    socket: socket.socket


begun: list[_Begun] = []
"""The one that nobody has taken yet."""


def begin() -> None:
    """Start the worker that the first `launch` takes, while the program loads. It ends with this process if nobody
    does. Nothing is started without a state folder, and where one may be running. Blocks: milliseconds."""
    paths = Paths(find_home())
    with contextlib.suppress(OSError, NotImplementedError):
        if paths.home.is_dir() and not (paths.run / SOCKET).exists():
            begun.append(_start(environment_digest()))


async def launch(take: Take, linger: float) -> Connection:
    """Start a worker that ends `linger` seconds after its last client, or take the one that was begun with the same
    environment. Raises OSError, NotImplementedError."""
    found = await asyncio.to_thread(environment_digest)
    worker = begun.pop() if begun else None
    if worker is None or worker.digest != found:
        if worker is not None:
            worker.socket.close()
        worker = await asyncio.to_thread(_start, found)
    try:
        loop, pid = asyncio.get_running_loop(), worker.pid
        _, connection = await loop.create_unix_connection(lambda: Connection(take, pid), sock=worker.socket)
    except BaseException:
        worker.socket.close()
        raise
    connection.send(Hello(found, linger))
    return connection


def _start(found: bytes) -> _Begun:
    ours, theirs = socket.socketpair()
    try:
        return _Begun(found, _spawn(theirs), ours)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()


def _spawn(stdin: socket.socket) -> int:
    """Start the process, which outlives this one."""
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin.fileno(), 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    command = module_command("clawbot.llm.worker", REUSABLE)
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)


def reusable_worker() -> int | None:
    """Return the process id of the running worker, 0 where the system does not report it; None without one. Blocks."""
    with contextlib.suppress(OSError), _connected() as connection:
        return peer_of(connection)[0]
    return None


def end_reusable_worker() -> int | None:
    """Make the running worker end after its calls; return its process id as above. Blocks."""
    with contextlib.suppress(OSError), _connected() as connection:
        pid = peer_of(connection)[0]
        connection.sendall(encode_frame(_END))
        with contextlib.suppress(OSError):
            connection.recv(1)
        return pid
    return None


@contextlib.contextmanager
def _connected() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WELCOME_SECONDS)
        connection.connect(str(trusted_address()))
        yield connection


def trusted_address() -> Path:
    """Return the path of the socket, in a folder that only this user can write. Blocks. Raises OSError."""
    folder = Paths(find_home()).run
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PermissionError(f"{folder} is not this user's alone")
    return folder / SOCKET


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return process id and user id of the other end; 0 and this user where the system does not report them."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0, os.geteuid()
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, uid, _ = _PEER.unpack(found)
    return pid, uid


_hello_decoder = msgspec.msgpack.Decoder(Hello)


class Service(Protocol):
    """Serves one client."""

    def take(self, request: Request) -> None: ...

    def close(self) -> None: ...


class _WorkerSocket:
    """The socket in the state folder, owned by one worker at a time: its lock file is released with the process."""

    def __init__(self, listener: socket.socket, lock: int) -> None:
        self.listener = listener
        self._path = Path(listener.getsockname())
        self._lock = lock

    @classmethod
    def claim(cls) -> _WorkerSocket | None:
        """Listen; None if another worker does, or it fails. Blocks."""
        try:
            folder = Paths(find_home()).run
            path = trusted_address() if folder.exists() else ensure_private_dir(folder) / SOCKET
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError:
            return None
        listener = socket.socket(socket.AF_UNIX)
        try:
            if not try_lock(lock):
                raise BlockingIOError
            path.unlink(missing_ok=True)
            listener.bind(str(path))
            path.chmod(PRIVATE_FILE)
        except OSError:
            listener.close()
            os.close(lock)
            return None
        return cls(listener, lock)

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._lock)


class WorkerHost:
    """A worker with its clients. `serve` returns the service of a client, given the function that sends its reports.

    The first client comes with the worker; others are accepted from the same environment. Without clients it ends after
    a while, at once if it has no socket.
    """

    def __init__(self, serve: Callable[[Take], Service]) -> None:
        self.serve = serve
        self._clients: list[_ClientConnection] = []
        self._digest = b""
        self._linger = 0.0
        self._socket: _WorkerSocket | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, first: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._socket = await asyncio.to_thread(_WorkerSocket.claim)
        if self._socket is not None:
            self._server = await loop.create_unix_server(lambda: _ClientConnection(self), sock=self._socket.listener)
        await loop.connect_accepted_socket(lambda: _ClientConnection(self, first=True), first)

    def accept(self, hello: Hello, client: _ClientConnection) -> bool:
        """Add `client`, unless it comes from another environment; such a one ends the reuse, as it starts its own."""
        if client.first:
            self._digest = hello.digest
        elif not self._digest:
            return False
        elif not hmac.compare_digest(hello.digest, self._digest):
            self.close()
            return False
        self._linger = hello.linger or self._linger
        self._clients.append(client)
        if self._timer is not None:
            self._timer.cancel()
        return True

    def remove(self, client: _ClientConnection) -> None:
        if client in self._clients:
            self._clients.remove(client)
        if self._digest or client.first:
            self._schedule_end()

    def close(self) -> None:
        """Accept no more clients, and end with the last one."""
        if self._server is not None:
            self._server.close()
        claimed, self._socket = self._socket, None
        if claimed is not None:
            claimed.release()
        self._schedule_end()

    def log(self, text: str) -> None:
        """Send a log line to the newest client."""
        if self._clients:
            self._clients[-1].send(Logged(text))

    def _schedule_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._clients:
            seconds = self._linger if self._socket is not None else 0.0
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self.close()
        end_group()


class _ClientConnection(_FrameConnection):
    """The worker's end; `first`: of the client that started it."""

    def __init__(self, host: WorkerHost, *, first: bool = False) -> None:
        super().__init__()
        self._host = host
        self.first = first
        self._service: Service | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if peer_of(transport.get_extra_info("socket"))[1] != os.geteuid():
            self.abort()

    def _receive(self, body: bytes) -> None:
        if self._service is not None:
            self._service.take(request_decoder.decode(body))
        elif self._host.accept(_hello_decoder.decode(body), self):
            self.send(Welcome(os.getpid()))
            self._service = self._host.serve(self.send)
        else:
            raise ValueError("not accepted")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._service is not None:
            self._service.close()
        self._host.remove(self)


def first_client() -> socket.socket:
    """In a worker that was launched: its first client, taken from stdin, which is empty then. Closes what the launching
    program inherited from its own parent, such as a lock."""
    os.setsid()
    for number in {int(file.name) for file in Path("/dev/fd").iterdir()} - {0, 1, 2}:
        with contextlib.suppress(OSError):
            os.close(number)
    first = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return first
