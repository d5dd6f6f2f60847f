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
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, find_home
from clawbot.deadline import deadline
from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.llm.frames import Logged, Report, Request, report_decoder, request_decoder
from clawbot.locks import try_lock
from clawbot.worker_pipe import FrameSplitter, encode_frame, end_group, module_command

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
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
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
        if self._transport is not None:
            self._transport.abort()

    def kill(self) -> None:
        if self.pid is not None and not self.ended.done():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGKILL)
        self.abort()

    async def close(self) -> None:
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
    """Start the process, which outlives this one."""
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


_hello_decoder = msgspec.msgpack.Decoder(Hello)


class Service(Protocol):
    """What serves one client."""

    def take(self, request: Request) -> None: ...

    def close(self) -> None: ...


class Place:
    """The socket in the state folder, held by one worker at a time: the lock beside it ends with its process."""

    def __init__(self, listener: socket.socket, lock: int) -> None:
        self.listener = listener
        self._path = Path(listener.getsockname())
        self._lock = lock

    @classmethod
    def claim(cls) -> Place | None:
        """Listen; None if another worker does, or it fails. Blocks."""
        try:
            folder = Paths(find_home()).run
            path = trusted_place() if folder.exists() else ensure_private_dir(folder) / SOCKET
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


class House:
    """A worker with its clients. `serve` makes what serves one of them, given where its reports go.

    The first client comes with it and decides whom else it is for. Without clients it ends after a while; at once, when
    it has no place where it could be found.
    """

    def __init__(self, serve: Callable[[Callable[[Report], None]], Service]) -> None:
        self.serve = serve
        self._guests: list[Guest] = []
        self._mark = b""
        self._stay = 0.0
        self._place: Place | None = None
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def open(self, first: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self._place = await asyncio.to_thread(Place.claim)
        if self._place is not None:
            self._server = await loop.create_unix_server(lambda: Guest(self), sock=self._place.listener)
        await loop.connect_accepted_socket(lambda: Guest(self, first=True), first)

    def admits(self, hello: Hello, *, first: bool) -> bool:
        """Whether to accept a client. One from another environment is refused and ends the reuse: it starts its own."""
        if first:
            self._mark = hello.mark
        elif not self._mark:
            return False
        elif not hmac.compare_digest(hello.mark, self._mark):
            self.leave()
            return False
        self._stay = hello.stay or self._stay
        return True

    def entered(self, guest: Guest) -> None:
        self._guests.append(guest)
        if self._timer is not None:
            self._timer.cancel()

    def left(self, guest: Guest) -> None:
        if guest in self._guests:
            self._guests.remove(guest)
        if self._mark or guest.first:
            self._wait()

    def leave(self) -> None:
        if self._server is not None:
            self._server.close()
        place, self._place = self._place, None
        if place is not None:
            place.release()
        self._wait()

    def tell(self, text: str) -> None:
        """Send a log line to the newest client."""
        if self._guests:
            self._guests[-1].send(Logged(text))

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._guests:
            seconds = self._stay if self._place is not None else 0.0
            self._timer = asyncio.get_running_loop().call_later(seconds, self._end)

    def _end(self) -> None:
        self.leave()
        end_group()


class Guest(asyncio.Protocol):
    """The worker's side of a connection."""

    def __init__(self, house: House, *, first: bool = False) -> None:
        self._house = house
        self.first = first
        self._splitter = FrameSplitter()
        self._transport: asyncio.WriteTransport | None = None
        self._service: Service | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        if peer_of(transport.get_extra_info("socket"))[1] != os.geteuid():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._splitter.feed(data):
                if self._service is not None:
                    self._service.take(request_decoder.decode(body))
                elif not self._enters(_hello_decoder.decode(body)):
                    return
        except ValueError:
            self._abort()

    def _enters(self, hello: Hello) -> bool:
        if not self._house.admits(hello, first=self.first):
            self._abort()
            return False
        self.send(Welcome(os.getpid()))
        self._house.entered(self)
        self._service = self._house.serve(self.send)
        return True

    def send(self, frame: Struct) -> None:
        """Write a frame, unless the client has left. Raises what `encode_frame` raises."""
        data = encode_frame(frame)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._service is not None:
            self._service.close()
        self._house.left(self)


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
