"""The machine's zone: the offset of each moment, not that of now."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from clawbot.clock import MachineZone, SystemClock, epoch_ms
from clawbot.sessions.reset import boundary_after
from tests.tables import load_table

ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"]
AROUND = [datetime(2026, month, day, tzinfo=UTC) for month, day in [(3, 28), (4, 4), (7, 1), (10, 3), (10, 24)]]
MOMENTS = [day + timedelta(minutes=15 * quarter) for day in AROUND for quarter in range(4 * 36)]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ZoneInfo]:
    """The zone that the machine is set to during the test."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield ZoneInfo(request.param)
    time.tzset()


def test_the_machines_zone_shows_what_the_zone_of_that_name_shows(zone: ZoneInfo) -> None:
    machine = MachineZone()
    for moment in MOMENTS:
        here, there = moment.astimezone(machine), moment.astimezone(zone)
        assert (here.replace(tzinfo=None), here.fold) == (there.replace(tzinfo=None), there.fold)
        assert (here.utcoffset(), here.tzname()) == (there.utcoffset(), there.tzname())
        assert here.astimezone(UTC) == moment


def test_boundaries_are_the_same_in_both(zone: ZoneInfo) -> None:
    for moment in MOMENTS[::7]:
        for text in ("00:00", "02:15", "02:30", "04:00"):
            at = datetime.strptime(text, "%H:%M").replace(tzinfo=UTC).time()
            assert boundary_after(moment.astimezone(MachineZone()), at) == boundary_after(moment.astimezone(zone), at)


# The days in 2026 on which the clocks change: what they show, the instants when they show it (`fold` 0 and 1), and the
# first instant when they have reached it. Europe/Berlin goes by an hour, Australia/Lord_Howe by half of one.
CHANGES = load_table(__file__, "CHANGES")


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(("zone", "shown", "first", "second", "reached"), CHANGES, indirect=["zone"])
def test_the_instants_of_the_days_on_which_the_clocks_change(
    zone: ZoneInfo, shown: str, first: str, second: str, reached: str
) -> None:
    local = datetime.fromisoformat(shown)
    zones: list[tzinfo] = [MachineZone(), zone]
    for each in zones:
        folds = [local.replace(tzinfo=each, fold=fold, microsecond=999_999) for fold in (0, 1)]
        assert [moment.astimezone(UTC).replace(microsecond=0) for moment in folds] == [instant(first), instant(second)]
        assert boundary_after(local.replace(tzinfo=each, hour=0), local.time()) == instant(reached)
        assert [moment.tzname() for moment in folds] == [moment.replace(tzinfo=zone).tzname() for moment in folds]


def test_the_clock_without_a_zone_has_the_machines() -> None:
    now = SystemClock().now()
    assert isinstance(now.tzinfo, MachineZone)
    assert now.utcoffset() == datetime.now(UTC).astimezone().utcoffset()


def test_milliseconds_are_exact() -> None:
    start = datetime(1978, 8, 4, 4, 20, 6, tzinfo=UTC)
    whole = epoch_ms(start)
    assert [epoch_ms(start + timedelta(milliseconds=n)) - whole for n in range(1000)] == list(range(1000))
    assert epoch_ms(start + timedelta(microseconds=999)) == whole
