"""What crosses the pipe to the process of a hook: events, as bytes and with no more changed than a hook may change, and
the frames around them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from clawbot.clock import MachineZone
from clawbot.hooks.events import AnyEvent, HookEvent
from clawbot.messages import scrub
from clawbot.text.secrets import Redactor

E = TypeVar("E", bound=HookEvent)

LARGEST_FRAME = 64 * 1024**2
"""Bytes. A longer one is a sign of a handler gone wild."""

Service = Literal["said", "overview", "ask", "keep_note", "rename_note", "run", "tell"]


class Handle(Struct, frozen=True, tag="handle"):
    """Handle an event (as JSON). Answered by `HandlingDone` or `HandlingFailed`, and when that has `later`, by `Over`
    in the end."""

    run: int
    event: bytes
    settings: dict[str, Any]


class CancelHandling(Struct, frozen=True, tag="cancel"):
    """Break off the handling `run`, its later work included."""

    run: int


class ServiceAnswer(Struct, frozen=True, tag="answer"):
    """What came of a `ServiceCall`: its value, or why there is none."""

    call: int
    value: Any = None
    error: str | None = None


class HookProcessReady(Struct, frozen=True, tag="ready"):
    """The process is up. The handler is loaded at its first event."""


class ServiceCall(Struct, frozen=True, tag="call"):
    """The handling `run` asks for a service. Answered by `ServiceAnswer`."""

    run: int
    call: int
    name: Service
    arguments: dict[str, Any]


class HandlingDone(Struct, frozen=True, tag="done"):
    """The handler has returned; `changes` is what it left in the fields of the event that it may change. `later` says
    that work of it goes on."""

    run: int
    changes: dict[str, Any]
    later: bool


class HandlingFailed(Struct, frozen=True, tag="failed"):
    """The handler raised, or there is none; `error` is one line. `later` as with `HandlingDone`."""

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


Request = Handle | CancelHandling | ServiceAnswer
Report = HookProcessReady | ServiceCall | HandlingDone | HandlingFailed | LaterFailed | Over | Log
request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: HookEvent) -> bytes:
    """`event` as JSON. Raises TypeError, ValueError or OverflowError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(scrub(msgspec.to_builtins(event)))


def without_secrets_in(event: E) -> E:
    """`event` with its texts as others may read them. What a hook may change comes back from it, and stays as it is;
    so do the places and ids that every event tells. Linear in the length of the texts: for threads."""
    kept = {*HookEvent.__struct_fields__, *event.changeable}
    told = {name: getattr(event, name) for name in event.__struct_fields__ if name not in kept}
    redactor = Redactor()
    clean = {name: redactor.tree(value) for name, value in told.items()}
    return msgspec.structs.replace(event, **clean) if clean != told else event


def decode_event(data: bytes) -> AnyEvent:
    """The event that `encode_event` wrote, its time in the user's zone. Raises ValueError."""
    event = _decoder.decode(data)
    here = event.timestamp.astimezone(MachineZone())
    if event.zone:
        try:
            # What the machine calls its zone for now ("EST") has no summer time, and the zone has.
            is_here = (here.tzname(), here.utcoffset()) == (event.zone, event.timestamp.utcoffset())
            event.timestamp = here if is_here else event.timestamp.astimezone(ZoneInfo(event.zone))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return event  # the offset is right all the same
    return event


def changes_of(event: HookEvent) -> dict[str, Any]:
    """What a handler left in the fields that it may change, as plain data. Raises TypeError or ValueError for what
    does not belong there."""
    left = {name: scrub(msgspec.to_builtins(getattr(event, name))) for name in event.changeable}
    with_changes(event, left)
    return left


def with_changes(event: E, changes: Mapping[str, Any]) -> E:
    """`event` with `changes` in the fields that a hook may change; anything else is ignored. Raises ValueError for
    values of another type."""
    fields = {field.name: field for field in msgspec.structs.fields(type(event))}
    taken = {}
    for name in event.changeable:
        if name in changes:
            try:
                taken[name] = msgspec.convert(changes[name], fields[name].type)
            except msgspec.ValidationError as error:
                raise ValueError(f"event.{name} was left with what does not belong there: {error}") from None
    return msgspec.structs.replace(event, **taken) if taken else event
