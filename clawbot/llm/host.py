"""What a worker that stays is to its clients: its place in the state folder, whom it lets in, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from clawbot.config.paths import Paths, find_home
from clawbot.files import PRIVATE_FILE, ensure_private_dir
from clawbot.llm.frames import Logged, Report, Request, request_decoder
from clawbot.llm.staying import LOCK, SOCKET, Hello, Welcome, peer_of, trusted_place
from clawbot.locks import try_lock
from clawbot.worker_pipe import FrameSplitter, encode_frame, end_group

_hello_decoder = msgspec.msgpack.Decoder(Hello)


class Service(Protocol):
    """What serves one client."""

    def take(self, request: Request) -> None:
        """Begin with a request."""
        ...

    def close(self) -> None:
        """End its calls."""
        ...


class Place:
    """The socket in the state folder, held by one worker at a time: the lock beside it ends with its process."""

    def __init__(self, listener: socket.socket, lock: int) -> None:
        self.listener = listener
        self._path = Path(listener.getsockname())
        self._lock = lock

    @classmethod
    def claim(cls) -> Place | None:
        """Listen; None where another worker does, or none can. Blocks."""
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
        """Let another worker have it."""
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
        """Begin with a client that is connected already."""
        loop = asyncio.get_running_loop()
        self._place = await asyncio.to_thread(Place.claim)
        if self._place is not None:
            self._server = await loop.create_unix_server(lambda: Guest(self), sock=self._place.listener)
        await loop.connect_accepted_socket(lambda: Guest(self, first=True), first)

    def admits(self, hello: Hello, *, first: bool) -> bool:
        """Whether a client is let in. One from other surroundings is not, and ends the stay: it brings its own."""
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
        """Count a client in."""
        self._guests.append(guest)
        if self._timer is not None:
            self._timer.cancel()

    def left(self, guest: Guest) -> None:
        """Count a client out, also one that was not let in."""
        if guest in self._guests:
            self._guests.remove(guest)
        if self._mark or guest.first:
            self._wait()

    def leave(self) -> None:
        """Be found no more, and end with the last client."""
        if self._server is not None:
            self._server.close()
        place, self._place = self._place, None
        if place is not None:
            place.release()
        self._wait()

    def tell(self, text: str) -> None:
        """Have a line logged by the client that came last."""
        if self._guests:
            self._guests[-1].send(Logged(text))

    def _wait(self) -> None:
        """Wait for the next client, if nobody is there."""
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
        """Somebody connected."""
        self._transport = cast("asyncio.WriteTransport", transport)
        if peer_of(transport.get_extra_info("socket"))[1] != os.geteuid():
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take requests, after the greeting."""
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
        """The client has left: its calls end."""
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
