"""The messages between the main process (`client.py`, `process.py`) and the worker (`worker.py`): both sides change
with a field here. `clawbot.worker_pipe` carries them as frames."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from clawbot.llm.failures import Failure


class Complete(Struct, frozen=True, tag="complete"):
    """Call a model: `arguments` are litellm's. The worker closes a stream after `max_chars` characters of answer."""

    id: int
    arguments: dict[str, Any]
    max_chars: int


class Embed(Struct, frozen=True, tag="embed"):
    """Turn texts into vectors: `arguments` are those of litellm's `aembedding`, with the texts in `input`."""

    id: int
    arguments: dict[str, Any]


class CancelCall(Struct, frozen=True, tag="cancel"):
    """Close the stream of call `id` and its connection; answered by its `Ended` or `CallFailed`, whatever comes
    first."""

    id: int


class Alive(Struct, frozen=True, tag="alive"):
    """The call goes on. Servers keep a connection open for minutes while they read a long prompt, and the worker knows
    when nothing at all came for too long."""

    id: int


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


class CallFailed(Struct, frozen=True, tag="failed"):
    """The call is over because of `failure`."""

    id: int
    failure: Failure


class WorkerReady(Struct, frozen=True, tag="ready"):
    """litellm is loaded, or cannot be: then every call fails."""


class Logged(Struct, frozen=True, tag="logged"):
    """Lines for the log, from a worker that has no stderr of its parent's."""

    text: str


Request = Complete | Embed | CancelCall
Report = Alive | Deltas | Embedded | Ended | CallFailed | WorkerReady | Logged

request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
