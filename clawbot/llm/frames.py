"""What the main process and the worker say to each other: msgpack frames with their length before them, over pipes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

from clawbot.llm.failures import Failure
from clawbot.messages import scrub

_PREFIX = 4
LARGEST_FRAME = 256 * 1024**2
"""Bytes. A longer one is a sign of a stream that is out of step, not of a long conversation."""


class Call(Struct, frozen=True, tag="call"):
    """Call a model: `arguments` are litellm's. The worker closes a stream after `max_chars` characters of answer.

    `script` is the id of a script opened before, for a call that it answers.
    """

    id: int
    arguments: dict[str, Any]
    max_chars: int
    script: int | None = None


class Embed(Struct, frozen=True, tag="embed"):
    """Turn texts into vectors: `arguments` are those of litellm's `aembedding`, with the texts in `input`."""

    id: int
    arguments: dict[str, Any]


class Cancel(Struct, frozen=True, tag="cancel"):
    """Close the stream of call `id` and its connection; answered by its `Ended` or `Failed`, whatever comes first."""

    id: int


class OpenScript(Struct, frozen=True, tag="open_script"):
    """Load the script `path` under the number `script`. Answered by `Ended` or `Failed`."""

    id: int
    script: int
    path: str


class CloseScript(Struct, frozen=True, tag="close_script"):
    """Let go of a script. Answered by `Ended`, or `Failed` when turns are left."""

    id: int
    script: int


class Deltas(Struct, frozen=True, tag="deltas"):
    """What has come in since the last frame of this call, as OpenAI chat chunks."""

    id: int
    chunks: list[dict[str, Any]]


class Embedded(Struct, frozen=True, tag="embedded"):
    """The next rows of an `Embed`: `dimensions` little-endian float32 each."""

    id: int
    dimensions: int
    data: bytes


class Ended(Struct, frozen=True, tag="ended"):
    """The call is over and its connection closed."""

    id: int


class Failed(Struct, frozen=True, tag="failed"):
    """The call is over because of `failure`."""

    id: int
    failure: Failure


class Ready(Struct, frozen=True, tag="ready"):
    """litellm is loaded, or cannot be: then every call says so."""


Request = Call | Embed | Cancel | OpenScript | CloseScript
Report = Deltas | Embedded | Ended | Failed | Ready

_encoder = msgspec.msgpack.Encoder()
request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def encode(frame: Request | Report) -> bytes:
    """`frame` with its length before it. Halves of surrogate pairs, which a server's JSON may hold, become U+FFFD.

    Raises OverflowError for an integer beyond 64 bits.
    """
    try:
        body = _encoder.encode(frame)
    except UnicodeEncodeError:
        body = _encoder.encode(scrub(msgspec.to_builtins(frame)))
    return len(body).to_bytes(_PREFIX, "big") + body


async def read_frame(stream: asyncio.StreamReader) -> bytes | None:
    """The next frame, without its length; None at the end of the stream, also when that is in a frame.

    Raises ValueError when the stream is out of step.
    """
    try:
        length = int.from_bytes(await stream.readexactly(_PREFIX), "big")
        if length > LARGEST_FRAME:
            raise ValueError(f"a frame of {length} bytes")
        return await stream.readexactly(length)
    except asyncio.IncompleteReadError:
        return None
