"""Events on their way to a hook and back: as bytes, and with no more changed than a hook may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from clawbot.hooks.events import AnyEvent, HookEvent
from clawbot.messages import scrub

E = TypeVar("E", bound=HookEvent)

_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def encode_event(event: HookEvent) -> bytes:
    """`event` as JSON. Raises TypeError, ValueError or OverflowError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(event)
    except UnicodeEncodeError:
        return msgspec.json.encode(scrub(msgspec.to_builtins(event)))


def decode_event(data: bytes) -> AnyEvent:
    """The event that `encode_event` wrote, its time in the user's zone. Raises ValueError."""
    event = _decoder.decode(data)
    if event.zone:
        try:
            event.timestamp = event.timestamp.astimezone(ZoneInfo(event.zone))
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
