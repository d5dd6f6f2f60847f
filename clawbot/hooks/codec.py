"""The messages between the program and a hook's process: events as JSON, and the requests and reports around them. Only
the changeable fields of an event are read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Struct

from clawbot.clock import MachineZone
from clawbot.hooks.api import Said
from clawbot.hooks.events import AnyEvent, HookEvent
from clawbot.messages import scrub
from clawbot.text.secrets import Redactor

E = TypeVar("E", bound=HookEvent)

LARGEST_FRAME = 64 * 1024**2
"""Bytes. A longer frame means that a handler is out of control."""

Service = Literal["said", "overview", "ask", "keep_note", "rename_note", "run", "tell"]


class RequestedServices(ABC):
    """`hooks.api.Services` whose methods are requests by name, which `_call` answers."""

    @abstractmethod
    async def _call(self, name: Service, arguments: dict[str, Any]) -> Any:
        """Answer the request `name`."""

    async def said(self, limit: int, role: str) -> list[Said]:
        return msgspec.convert(await self._call("said", {"limit": limit, "role": role}), list[Said])

    async def overview(self) -> list[Said]:
        return msgspec.convert(await self._call("overview", {}), list[Said])

    async def ask(self, prompt: str, *, system: str, seconds: float, model: str) -> str:
        return str(await self._call("ask", {"prompt": prompt, "system": system, "seconds": seconds, "model": model}))

    async def keep_note(self, text: str, slug: str, holds: Sequence[str] = ()) -> str:
        return str(await self._call("keep_note", {"text": text, "slug": slug, "holds": list(holds)}))

    async def rename_note(self, path: str, slug: str) -> str:
        return str(await self._call("rename_note", {"path": path, "slug": slug}))

    async def run(self, prompt: str, *, session: str) -> str:
        return str(await self._call("run", {"prompt": prompt, "session": session}))

    async def tell(self, text: str, *, level: str, path: str) -> None:
        await self._call("tell", {"text": text, "level": level, "path": path})


class Handle(Struct, frozen=True, tag="handle"):
    """Handle an event (as JSON; empty: only load the handler). Answered by `HandlingDone` or `HandlingFailed`; with
    `later` set, `Over` follows."""

    run: int
    event: bytes
    settings: dict[str, Any]


class CancelHandling(Struct, frozen=True, tag="cancel"):
    """Cancel the handling `run`, including its later work."""

    run: int


class ServiceAnswer(Struct, frozen=True, tag="answer"):
    """The result of a `ServiceCall`: its value, or the error."""

    call: int
    value: Any = None
    error: str | None = None


class HookProcessReady(Struct, frozen=True, tag="ready"):
    """The process is running. It loads the handler at the first event."""


class ServiceCall(Struct, frozen=True, tag="call"):
    """The handling `run` requests a service. Answered by `ServiceAnswer`."""

    run: int
    call: int
    name: Service
    arguments: dict[str, Any]


class HandlingDone(Struct, frozen=True, tag="done"):
    """The handler has returned; `changes` are the values of the event's changeable fields. `later`: its later work
    continues."""

    run: int
    changes: dict[str, Any]
    later: bool


class HandlingFailed(Struct, frozen=True, tag="failed"):
    """The handler is missing or raised an error; `error` is one line. `later` as in `HandlingDone`."""

    run: int
    error: str
    later: bool


class LaterFailed(Struct, frozen=True, tag="later_failed"):
    """Later work of `run` raised an error."""

    run: int
    error: str


class Over(Struct, frozen=True, tag="over"):
    """All work of `run` has ended."""

    run: int


class Log(Struct, frozen=True, tag="log"):
    """A record for the program's log; `level` is a logging level."""

    level: int
    text: str


Request = Handle | CancelHandling | ServiceAnswer
Report = HookProcessReady | ServiceCall | HandlingDone | HandlingFailed | LaterFailed | Over | Log
request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: HookEvent) -> bytes:
    """Return `event` as JSON. Raises TypeError, ValueError or OverflowError for what JSON cannot represent."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(scrub(msgspec.to_builtins(event)))


def without_secrets_in(event: E) -> E:
    """`event` with secrets redacted, except in changeable fields, which come back from the hook, and in the paths and
    ids common to all events. Linear in the length of the texts: call it in a thread."""
    kept = {*HookEvent.__struct_fields__, *event.changeable}
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in kept}
    redactor = Redactor()
    clean = {name: redactor.tree(value) for name, value in fields.items()}
    return msgspec.structs.replace(event, **clean) if clean != fields else event


def decode_event(data: bytes) -> AnyEvent:
    """Parse `encode_event`'s output, with the time in the user's zone. Raises ValueError."""
    event = _decoder.decode(data)
    here = event.timestamp.astimezone(MachineZone())
    if event.zone:
        try:
            # An abbreviation of the machine's zone ("EST") has no summer time; the zone itself has.
            is_here = (here.tzname(), here.utcoffset()) == (event.zone, event.timestamp.utcoffset())
            event.timestamp = here if is_here else event.timestamp.astimezone(ZoneInfo(event.zone))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return event  # the offset is still correct
    return event


def changes_of(event: HookEvent) -> dict[str, Any]:
    """Return the values of the changeable fields, as plain data. Raises TypeError or ValueError for invalid ones."""
    left = {name: scrub(msgspec.to_builtins(getattr(event, name))) for name in event.changeable}
    with_changes(event, left)
    return left


def with_changes(event: E, changes: Mapping[str, Any]) -> E:
    """`event` with `changes` to its changeable fields; others are ignored. Raises ValueError for invalid values."""
    fields = {field.name: field for field in msgspec.structs.fields(type(event))}
    taken = {}
    for name in event.changeable:
        if name in changes:
            try:
                taken[name] = msgspec.convert(changes[name], fields[name].type)
            except msgspec.ValidationError as error:
                raise ValueError(f"event.{name} was set to an invalid value: {error}") from None
    return msgspec.structs.replace(event, **taken) if taken else event
