"""When jobs fire: what the library would get wrong, and the days on which clocks change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clawbot.scheduling.jobs import Hours, Job, Once
from clawbot.scheduling.triggers import is_active, last_fire, next_fire
from tests.scheduling.jobs import BERLIN, at, job
from tests.tables import load_table


def fires(wanted: Job, after: datetime, count: int = 3) -> list[str]:
    """The next moments, as the clock on the user's wall shows them with its offset."""
    found = []
    for _ in range(count):
        fire = next_fire(wanted, after)
        if fire is None:
            break
        after = fire
        found.append(fire.astimezone(ZoneInfo(wanted.zone or "UTC")).strftime("%a %d %H:%M%z"))
    return found


@pytest.mark.parametrize(
    ("cron", "days"),
    load_table(__file__, "days_are_crons"),
)
def test_days_are_crons(cron: str, days: list[str]) -> None:
    assert fires(job(cron), at("2026-11-01T00:00")) == [f"{day} 08:00+0000" for day in days]


@pytest.mark.parametrize(
    ("moment", "zone", "utc"),
    [
        ("2026-12-24 08:00:00", "UTC", "2026-12-24T08:00"),
        ("2026-12-24 08:00:00", "Asia/Shanghai", "2026-12-24T00:00"),
        ("2026-12-24T08:00:00+01:00", "Asia/Shanghai", "2026-12-24T07:00"),
        ("2027-03-28 02:30:00", BERLIN, "2027-03-28T01:00"),  # the end of the gap
        ("2027-10-31 02:30:00", BERLIN, "2027-10-31T00:30"),  # the first of two
    ],
)
def test_one_moment_fires_once(moment: str, zone: str, utc: str) -> None:
    once = Job(name="a", agent_id="main", kind="prompt", when=Once(moment), session_key="x", prompt="y", zone=zone)
    assert next_fire(once, at("2026-11-01T00:00")) == at(utc)
    assert next_fire(once, at(utc)) is None
    assert last_fire(once, at("2026-11-01T00:00"), at(utc)) == at(utc)
    assert last_fire(once, at(utc), at("2028-01-01T00:00")) is None
    assert once.timing == f"at {moment}"


def test_a_leap_day_is_found() -> None:
    assert next_fire(job("0 8 29 2 *"), at("2026-11-01T00:00")) == at("2028-02-29T08:00")


def test_a_time_that_is_skipped_counts_at_the_end_of_the_gap() -> None:
    skipped = fires(job("15,30 2 * * *", zone=BERLIN), at("2026-03-28T12:00", BERLIN))
    assert skipped == ["Sun 29 03:00+0200", "Mon 30 02:15+0200", "Mon 30 02:30+0200"]


def test_a_time_that_is_shown_twice_counts_once() -> None:
    twice = job("30 2 * * *", zone=BERLIN)
    assert fires(twice, at("2026-10-24T12:00", BERLIN), 2) == ["Sun 25 02:30+0200", "Mon 26 02:30+0100"]
    second_time = at("2026-10-25T02:10", BERLIN).replace(fold=1)
    assert fires(twice, second_time, 1) == ["Mon 26 02:30+0100"]


def test_hourly_jobs_follow_the_hours_that_pass() -> None:
    hourly = job("30 * * * *", zone=BERLIN)
    spring = fires(hourly, at("2026-03-29T01:00", BERLIN))
    assert spring == ["Sun 29 01:30+0100", "Sun 29 03:30+0200", "Sun 29 04:30+0200"]
    autumn = fires(hourly, at("2026-10-25T02:00", BERLIN))
    assert autumn == ["Sun 25 02:30+0200", "Sun 25 02:30+0100", "Sun 25 03:30+0100"]


def test_a_day_that_a_zone_skipped() -> None:
    apia = "Pacific/Apia"
    assert fires(job("0 8 * * *", zone=apia), at("2011-12-29T12:00", apia), 2) == [
        "Sat 31 00:00+1400",
        "Sat 31 08:00+1400",
    ]


def test_a_gap_of_half_an_hour() -> None:
    lord_howe = "Australia/Lord_Howe"
    assert fires(job("15 2 * * *", zone=lord_howe), at("2026-10-04T00:00", lord_howe), 1) == ["Sun 04 02:30+1100"]


@pytest.fixture
def machine_in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", BERLIN)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_in_berlin")
def test_without_a_zone_the_machines_counts_with_its_changes() -> None:
    machine = job("30 2 * * *")
    assert next_fire(machine, at("2026-03-29T00:00")) == at("2026-03-29T03:00", BERLIN)
    assert next_fire(machine, at("2026-07-01T00:00")) == at("2026-07-01T02:30", BERLIN)


def test_intervals_are_counted_from_the_epoch() -> None:
    for start in ("2026-11-21T08:00:00", "2026-11-21T08:00:00.000001", "2026-11-21T08:29:59.999999"):
        assert next_fire(job(1800), at(start)) == at("2026-11-21T08:30")


def test_hours_leave_out_what_is_not_in_them() -> None:
    beats = job(1800, hours=Hours(8 * 60, 22 * 60), zone=BERLIN)
    assert fires(beats, at("2026-11-21T21:29", BERLIN)) == [
        "Sat 21 21:30+0100",
        "Sun 22 08:00+0100",
        "Sun 22 08:30+0100",
    ]
    night = job(3600, hours=Hours(23 * 60, 60))
    assert fires(night, at("2026-11-21T12:00")) == ["Sat 21 23:00+0000", "Sun 22 00:00+0000", "Sun 22 23:00+0000"]


@pytest.mark.parametrize("hours", [Hours(8 * 60, 8 * 60), Hours(8 * 60, 22 * 60)])
def test_a_job_that_never_fits_its_hours_is_never_due(hours: Hours) -> None:
    assert next_fire(job("0 7 * * *", hours=hours), at("2026-11-21T12:00")) is None


@pytest.mark.parametrize(
    ("hours", "clock", "active"),
    [
        (Hours(480, 1320), "08:00", True),
        (Hours(480, 1320), "22:00", False),
        (Hours(1320, 360), "23:59", True),
        (Hours(1320, 360), "05:59", True),
        (Hours(1320, 360), "06:00", False),
        (Hours(1320, 1440), "23:59", True),
        (Hours(480, 480), "08:00", False),
    ],
)
def test_the_start_counts_and_the_end_does_not(hours: Hours, clock: str, active: bool) -> None:
    assert is_active(job(hours=hours, zone=BERLIN), at(f"2026-11-21T{clock}", BERLIN)) is active


def test_years_of_minutes_are_looked_through_at_once() -> None:
    january = job("* * * 1 *")
    assert last_fire(january, at("2006-01-01T00:00"), at("2026-07-01T00:00")) == at("2026-01-31T23:59")


MOMENTS = st.integers(0, 365 * 86_400).map(lambda seconds: at("2026-01-01T00:00") + timedelta(seconds=seconds))
CRONS = st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 3 * * sun", "15 1-3 25 10 *", "0 0 1 * 2", "59 23 * * *"])
WHENS = st.one_of(CRONS, st.integers(1, 3000).map(lambda minutes: minutes * 60))
HOURS = st.none() | st.builds(Hours, st.integers(0, 1439), st.integers(0, 1440))


@given(MOMENTS, WHENS, HOURS, st.sampled_from([BERLIN, "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe"]))
@settings(max_examples=40, deadline=None)
def test_the_last_moment_is_the_last_of_all(start: datetime, when: str | int, hours: Hours | None, zone: str) -> None:
    wanted = job(when, hours=hours, zone=zone)
    moments = [start]
    while len(moments) < 20 and (fire := next_fire(wanted, moments[-1])) is not None:
        moments.append(fire)
    for early, late in pairwise(moments):
        assert early < late
        assert is_active(wanted, late)
        assert last_fire(wanted, start, late) == late
        assert last_fire(wanted, early, late - timedelta(microseconds=1)) is None
