"""When a session ends by itself: once for each boundary of the user's day, and after a pause. List B 15."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawbot.clock import epoch_ms
from clawbot.config.schema import ResetSettings, SessionSettings
from clawbot.sessions.reset import Expiry, ResetPolicy, boundary_after, expiry, next_check, policy_of, type_of
from tests.tables import load_table

FOUR = time(4)
DAILY = ResetPolicy(daily_at=FOUR, idle_minutes=None)
IDLE = ResetPolicy(daily_at=None, idle_minutes=60)
BOTH = ResetPolicy(daily_at=FOUR, idle_minutes=60)
NEVER = ResetPolicy(daily_at=None, idle_minutes=None)
BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def ask(
    policy: ResetPolicy, now: datetime, started: datetime | None, last: datetime | None = None
) -> tuple[str, datetime] | None:
    found = expiry(
        policy, now, started_ms=epoch_ms(started) if started else None, last_ms=epoch_ms(last) if last else None
    )
    return (found.reason, found.at) if found else None


@pytest.mark.parametrize(
    ("mode", "minutes", "policy"),
    [
        ("none", None, NEVER),
        ("none", 5, NEVER),
        ("daily", None, DAILY),
        ("daily", 5, ResetPolicy(daily_at=FOUR, idle_minutes=5)),
        ("idle", None, IDLE),
        ("idle", 5, ResetPolicy(daily_at=None, idle_minutes=5)),
        ("daily+idle", None, BOTH),
        ("daily+idle", 5, ResetPolicy(daily_at=FOUR, idle_minutes=5)),
    ],
)
def test_what_the_settings_ask_for(
    mode: Literal["none", "daily", "idle", "daily+idle"], minutes: int | None, policy: ResetPolicy
) -> None:
    assert policy_of(ResetSettings(mode=mode, idle_minutes=minutes)) == policy


@pytest.mark.parametrize(
    ("key", "kind"),
    load_table(__file__, "the_type_of_a_session_is_told_by_its_key"),
)
def test_the_type_of_a_session_is_told_by_its_key(key: str, kind: str) -> None:
    assert type_of(key) == kind


def test_a_type_of_sessions_has_rules_of_its_own_over_those_of_all() -> None:
    settings = SessionSettings.model_validate(
        {"reset": {"mode": "daily", "at": "05:00"}, "reset_by_type": {"group": {"mode": "daily+idle"}}}
    )
    assert policy_of(settings.reset_of("direct")) == ResetPolicy(daily_at=time(5), idle_minutes=None)
    assert policy_of(settings.reset_of("group")) == ResetPolicy(daily_at=time(5), idle_minutes=60)


def test_the_time_of_the_day_is_the_one_that_was_set() -> None:
    assert policy_of(ResetSettings(at="23:45")).daily_at == time(23, 45)


@pytest.mark.parametrize(
    ("started", "now", "over"),
    [
        ("2026-07-01T03:59:59", "2026-07-01T04:00:00", "2026-07-01T04:00:00"),
        ("2026-07-01T03:59:59", "2026-07-01T03:59:59", None),
        ("2026-07-01T04:00:00", "2026-07-01T04:00:00", None),
        ("2026-07-01T04:00:00", "2026-07-02T03:59:59", None),
        ("2026-07-01T04:00:00", "2026-07-02T04:00:00", "2026-07-02T04:00:00"),
        ("2026-07-01T10:00:00", "2026-07-09T12:00:00", "2026-07-02T04:00:00"),  # a laptop that slept for a week
        ("2026-07-09T05:00:00", "2026-07-09T12:00:00", None),
    ],
)
def test_a_session_that_began_before_the_boundary_is_over(started: str, now: str, over: str | None) -> None:
    assert ask(DAILY, berlin(now), berlin(started)) == (("daily", berlin(over)) if over else None)


def test_the_boundary_is_that_of_the_users_zone() -> None:
    """At the same instant the day has begun in one zone and not in another: UTC+14 and UTC-12 are 26 hours apart."""
    started = datetime(2026, 7, 1, 12, tzinfo=UTC)
    now = datetime(2026, 7, 1, 15, tzinfo=UTC)
    assert ask(DAILY, now.astimezone(ZoneInfo("Pacific/Kiritimati")), started) == (
        "daily",
        datetime(2026, 7, 1, 14, tzinfo=UTC),
    )
    assert ask(DAILY, now.astimezone(timezone(timedelta(hours=-12))), started) is None
    assert ask(DAILY, (now + HOUR).astimezone(timezone(timedelta(hours=-12))), started) is not None


@pytest.mark.parametrize(
    ("minutes", "over"), [(59, False), (60, False), (61, True), (60 * 24 * 30, True)], ids=["59", "60", "61", "a month"]
)
def test_a_pause_that_is_longer_than_allowed(minutes: int, over: bool) -> None:
    last = berlin("2026-07-01T10:00")
    found = ask(IDLE, last + minutes * MINUTE, last - HOUR, last)
    assert found == (("idle", last + HOUR) if over else None)


def test_a_session_in_which_the_user_said_nothing_is_never_idle() -> None:
    started = berlin("2026-07-01T10:00")
    assert ask(IDLE, started + 9 * DAY, started) is None
    assert expiry(IDLE, started + 9 * DAY, started_ms=epoch_ms(started), last_ms=0) is None


def test_a_session_that_was_resumed_is_not_idle_for_what_was_said_before() -> None:
    said, resumed = berlin("2026-06-01T10:00"), berlin("2026-07-01T10:00")
    assert ask(IDLE, resumed + HOUR, resumed, said) is None
    assert ask(IDLE, resumed + HOUR + MINUTE, resumed, said) == ("idle", resumed + HOUR)


def test_of_two_reasons_the_one_that_came_first_is_told() -> None:
    started, now = berlin("2026-07-01T20:00"), berlin("2026-07-05T12:00")
    assert ask(BOTH, now, started, berlin("2026-07-02T02:59")) == ("idle", berlin("2026-07-02T03:59"))
    assert ask(BOTH, now, started, berlin("2026-07-02T03:01")) == ("daily", berlin("2026-07-02T04:00"))
    assert ask(BOTH, now, started, berlin("2026-07-02T03:00")) == ("daily", berlin("2026-07-02T04:00"))


def test_times_that_cannot_be_right_end_nothing() -> None:
    now = berlin("2026-07-01T12:00")
    assert ask(BOTH, now, now + MINUTE, now + MINUTE) is None
    assert ask(BOTH, now, now + 400 * DAY) is None
    for unknown in (None, 0, -5):
        assert expiry(BOTH, now, started_ms=unknown, last_ms=unknown) is None
    assert expiry(BOTH, now, started_ms=2**60, last_ms=2**60) is None
    # Each time counts for itself.
    assert ask(BOTH, now, now + DAY, now - 2 * HOUR) == ("idle", now - HOUR)
    assert ask(BOTH, now, now - DAY, now + DAY) == ("daily", berlin("2026-07-01T04:00"))


def test_a_clock_that_is_set_back_over_the_boundary_makes_no_second_reset() -> None:
    boundary = berlin("2026-07-01T04:00")
    started = boundary + MINUTE  # the reset that the boundary made
    for now in (boundary - HOUR, boundary - MINUTE, boundary, boundary + HOUR, boundary + DAY - MINUTE):
        assert ask(DAILY, now, started) is None
    assert ask(DAILY, boundary + DAY, started) == ("daily", boundary + DAY)


def test_nothing_ends_without_a_policy() -> None:
    now = berlin("2026-07-01T12:00")
    assert ask(NEVER, now, now - 99 * DAY, now - 99 * DAY) is None
    assert next_check(NEVER, now, started_ms=1, last_ms=1) is None


def test_when_to_look_next() -> None:
    now = berlin("2026-07-01T12:00")
    started, last = epoch_ms(now - HOUR), epoch_ms(now - 10 * MINUTE)
    boundary, idle = berlin("2026-07-02T04:00"), now + 50 * MINUTE + timedelta(milliseconds=1)
    assert next_check(DAILY, now, started_ms=started, last_ms=last) == boundary
    assert next_check(IDLE, now, started_ms=started, last_ms=last) == idle
    assert next_check(BOTH, now, started_ms=started, last_ms=last) == idle
    assert next_check(BOTH, now + HOUR, started_ms=started, last_ms=last) == boundary
    assert next_check(IDLE, now + HOUR, started_ms=started, last_ms=last) is None
    assert next_check(IDLE, now, started_ms=started, last_ms=None) is None
    assert next_check(DAILY, now, started_ms=None, last_ms=None) == boundary
    assert next_check(DAILY, boundary, started_ms=started, last_ms=None) == boundary + DAY
    forever = policy_of(ResetSettings(mode="idle", idle_minutes=10**12))
    assert next_check(forever, now, started_ms=started, last_ms=last) is not None


@pytest.mark.parametrize(
    ("zone", "at", "after", "expected"),
    load_table(__file__, "boundaries_where_clocks_are_odd"),
)
def test_boundaries_where_clocks_are_odd(zone: str, at: str, after: str, expected: list[str]) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=ZoneInfo(zone))
    for boundary in expected:
        found = boundary_after(moment, time.fromisoformat(at))
        assert (found, found.utcoffset()) == (datetime.fromisoformat(boundary), timedelta(0))
        moment = found.astimezone(ZoneInfo(zone))


# -- any zone, any time, any steps of the clock ------------------------------------------------------------------------

ODD = [
    "Africa/Cairo", "America/Godthab", "America/Havana", "America/Santiago", "America/St_Johns", "Antarctica/Troll",
    "Asia/Gaza", "Asia/Kathmandu", "Asia/Tehran", "Australia/Lord_Howe", "Etc/GMT+12", "Europe/Berlin",
    "Europe/Dublin", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kiritimati", "UTC",
]  # fmt: skip
ZONES = st.one_of(st.sampled_from(ODD), st.sampled_from(sorted(zoneinfo.available_timezones() - {"localtime"})))
# Since 1973 no offset has had seconds, so that a look at every minute sees every change.
EARLIEST = datetime(1973, 1, 1, tzinfo=UTC)
INSTANTS = st.integers(0, 65 * 365 * 86400 * 1000).map(lambda ms: EARLIEST + timedelta(milliseconds=ms))
TIMES = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 30, 45, 59]))
STEPS = st.lists(st.one_of(st.integers(-180, 180), st.integers(-3000, 6000)), max_size=8)


def reached_by_looking(zone: tzinfo, at: time, start: datetime, end: datetime) -> Iterator[datetime]:
    """The boundaries after `start` up to `end`, found by watching the clock of `zone` at every minute: the first time
    that it shows `at` of a day, or has passed it. Days that it never shows have none."""
    begin = start.replace(second=0, microsecond=0) - 3 * DAY
    minutes = [begin + n * MINUTE for n in range(int((end + 2 * DAY - begin) / MINUTE) + 1)]
    shown = [minute.astimezone(zone).replace(tzinfo=None) for minute in minutes]
    days = {local.date() for local in shown}
    furthest = shown[0]
    for minute, local in zip(minutes, shown, strict=True):
        passed = [day for day in _days(furthest.date(), local.date()) if furthest < datetime.combine(day, at) <= local]
        if days & set(passed) and start < minute <= end:
            yield minute
        furthest = max(furthest, local)


def _days(first: date, last: date) -> list[date]:
    return [first + n * DAY for n in range((last - first).days + 1)]


@settings(max_examples=60, deadline=None)
@example("Pacific/Apia", datetime(2011, 12, 29, 20, tzinfo=UTC), FOUR, [2000, 2000])
@example("Africa/Cairo", datetime(2024, 4, 25, 20, tzinfo=UTC), time(0), [60, 60, 60, -120, 60, 60, 60])
@example("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), time(2, 30), [60, 60, 60, 60, 60])
@example("Australia/Lord_Howe", datetime(2026, 4, 4, 13, tzinfo=UTC), time(1, 45), [60, 30, 30, 30, 30])
@given(ZONES, INSTANTS, TIMES, STEPS)
def test_one_reset_for_the_boundaries_that_were_passed_and_none_without(
    name: str, begin: datetime, at: time, steps: list[int]
) -> None:
    zone, policy = ZoneInfo(name), ResetPolicy(daily_at=at, idle_minutes=None)
    moments = [begin]
    for step in steps:
        moments.append(moments[-1] + step * MINUTE)
    boundaries = list(reached_by_looking(zone, at, begin, max(moments)))
    started = furthest = begin
    for now in moments:
        passed = [boundary for boundary in boundaries if furthest < boundary <= now]
        found = expiry(policy, now.astimezone(zone), started_ms=epoch_ms(started), last_ms=None)
        assert found == (Expiry("daily", passed[0]) if passed else None)
        if found is not None:
            started = now
        furthest = max(furthest, now)


@settings(max_examples=100, deadline=None)
@given(ZONES, INSTANTS, TIMES, st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 3000))
def test_the_next_look_is_when_something_changes(
    name: str, now: datetime, at: time, age: int, silence: int, idle: int
) -> None:
    """Up to it nothing new is over, and at it something is."""
    policy = ResetPolicy(daily_at=at, idle_minutes=idle)
    local = now.astimezone(ZoneInfo(name))
    started_ms, last_ms = epoch_ms(now - age * MINUTE), epoch_ms(now - min(silence, age) * MINUTE)

    def over(moment: datetime) -> Expiry | None:
        return expiry(policy, moment.astimezone(local.tzinfo), started_ms=started_ms, last_ms=last_ms)

    look = next_check(policy, local, started_ms=started_ms, last_ms=last_ms)
    assert look is not None
    assert look > now
    assert over(look) is not None
    if over(now) is None:
        assert over(look - timedelta(milliseconds=1)) is None
