"""What the program and the process of a hook say to each other: msgpack frames with their length before them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

import msgspec
from msgspec import Struct

_PREFIX = 4
LARGEST_FRAME = 64 * 1024**2
"""Bytes. A longer one is a sign of a stream that is out of step, or of a handler gone wild."""

Service = Literal["said", "ask", "keep_note", "rename_note", "run", "tell"]


class Handle(Struct, frozen=True, tag="handle"):
    """Handle an event (as JSON). Answered by `Done` or `Failed`, and when that has `later`, by `Over` in the end."""

    run: int
    event: bytes
    settings: dict[str, Any]


class Cancel(Struct, frozen=True, tag="cancel"):
    """Break off the handling `run`, its later work included."""

    run: int


class Answer(Struct, frozen=True, tag="answer"):
    """What came of a `Call`: its value, or why there is none."""

    call: int
    value: Any = None
    error: str | None = None


class Ready(Struct, frozen=True, tag="ready"):
    """The process is up. The handler is loaded at its first event."""


class Call(Struct, frozen=True, tag="call"):
    """The handling `run` asks for a service. Answered by `Answer`."""

    run: int
    call: int
    name: Service
    arguments: dict[str, Any]


class Done(Struct, frozen=True, tag="done"):
    """The handler has returned; `changes` is what it left in the fields of the event that it may change. `later` says
    that work of it goes on."""

    run: int
    changes: dict[str, Any]
    later: bool


class Failed(Struct, frozen=True, tag="failed"):
    """The handler raised, or there is none; `error` is one line. `later` as with `Done`."""

    run: int
    error: str
    later: bool


class LaterFailed(Struct, frozen=True, tag="later_failed"):
    """Later work of `run` raised."""

    run: int
    error: str


class Over(Struct, frozen=True, tag="over"):
    """Nothing of `run` goes on any more."""

    run: int


class Log(Struct, frozen=True, tag="log"):
    """A record for the program's log; `level` is logging's number."""

    level: int
    text: str


Request = Handle | Cancel | Answer
Report = Ready | Call | Done | Failed | LaterFailed | Over | Log

_encoder = msgspec.msgpack.Encoder()
request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def encode(frame: Request | Report) -> bytes:
    """`frame` with its length before it. Raises ValueError, TypeError or OverflowError for what a frame can't hold."""
    body = _encoder.encode(frame)
    if len(body) > LARGEST_FRAME:
        raise ValueError(f"{len(body) // 1024**2} MB are more than can be handed over")
    return len(body).to_bytes(_PREFIX, "big") + body


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, without its length; None at the end of the stream. Blocks."""
    prefix = stream.read(_PREFIX)
    length = int.from_bytes(prefix, "big")
    body = stream.read(length)
    return body if len(prefix) == _PREFIX and len(body) == length else None


class Frames:
    """Takes a stream apart that comes in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next piece, and yield the frames that are complete. Raises ValueError for a stream out of step."""
        self._rest += data
        while len(self._rest) >= _PREFIX:
            length = int.from_bytes(self._rest[:_PREFIX], "big")
            if length > LARGEST_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            end = _PREFIX + length
            if len(self._rest) < end:
                return
            body = bytes(self._rest[_PREFIX:end])
            del self._rest[:end]
            yield body
