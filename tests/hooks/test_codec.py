"""The times of events in a process of the hook's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from clawbot.clock import MachineZone
from clawbot.hooks import CommandNew
from clawbot.hooks.codec import decode_event, encode_event
from tests.hooks_shipped.hosting import make_event

WINTER, SUMMER = datetime(2026, 11, 20, 21, 12, tzinfo=UTC), datetime(2026, 7, 20, 3, 30, tzinfo=UTC)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("new_york")
def test_the_machines_zone_has_the_offset_of_each_moment() -> None:
    """A note tells when texts were said, which may have been on the other side of a change of the clocks."""
    now = WINTER.astimezone(MachineZone())
    event = decode_event(encode_event(make_event(CommandNew, timestamp=now, zone=now.tzname())))
    assert event.timestamp == now
    assert f"{event.timestamp:%H:%M}" == "16:12"
    assert f"{datetime.fromtimestamp(SUMMER.timestamp(), event.timestamp.tzinfo):%Y-%m-%d %H:%M}" == "2026-07-19 23:30"


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Europe/Berlin", "America/New_York"])
def test_a_zone_of_the_settings_is_kept(zone: str) -> None:
    now = WINTER.astimezone(ZoneInfo(zone))
    event = decode_event(encode_event(make_event(CommandNew, timestamp=now, zone=zone)))
    assert event.timestamp == now
    assert event.timestamp.tzinfo == ZoneInfo(zone)
