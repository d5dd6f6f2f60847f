"""What is due: never for the past, once for each moment, whatever the clock does and however many processes look."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from clawbot.scheduling.jobs import Hours, Job
from clawbot.scheduling.ledger import Ledger, Record
from clawbot.scheduling.runner import WRONG_CLOCK, Schedule, armed, due_moment, next_moment
from clawbot.scheduling.triggers import next_fire
from tests.scheduling.jobs import SetClock, at, job

EIGHT = at("2026-11-21T08:00")
DAILY = job("0 8 * * *")


def seen(since: datetime, wanted: Job = DAILY, **more: Any) -> Record:
    return Record(timing=wanted.timing, since=since, **more)


def test_a_job_that_is_seen_first_is_not_due_for_the_past() -> None:
    record = armed(DAILY, None, EIGHT)
    assert record == seen(EIGHT)
    assert due_moment(DAILY, record, EIGHT + timedelta(hours=23)) is None
    assert due_moment(DAILY, record, EIGHT + timedelta(days=1)) == EIGHT + timedelta(days=1)


@pytest.mark.parametrize("changed", [job("0 7 * * *"), job(3600), job("0 8 * * *", hours=Hours(0, 720))])
def test_a_job_whose_times_change_begins_anew(changed: Job) -> None:
    later = EIGHT + timedelta(hours=3)
    assert armed(changed, seen(EIGHT - timedelta(days=1)), later) == seen(later, changed)


def test_a_job_that_was_off_begins_anew_when_it_is_on_again() -> None:
    off = structs.replace(DAILY, enabled=False)
    record = armed(off, seen(EIGHT), EIGHT + timedelta(days=3))
    assert record is not None
    assert due_moment(off, record, EIGHT + timedelta(days=4)) is None
    again = armed(DAILY, record, EIGHT + timedelta(days=5, hours=2))
    assert due_moment(DAILY, again, EIGHT + timedelta(days=5, hours=3)) is None


def test_what_was_never_on_is_not_written_down() -> None:
    assert armed(structs.replace(DAILY, enabled=False), None, EIGHT) is None


def test_several_missed_moments_are_one_run_for_the_last() -> None:
    now = EIGHT + timedelta(days=9, hours=3)
    assert due_moment(DAILY, seen(EIGHT), now) == EIGHT + timedelta(days=9)


def test_what_is_to_be_skipped_may_be_a_little_late() -> None:
    skipping = job("0 8 * * *", catch_up="skip")
    record = seen(EIGHT - timedelta(days=1))
    assert due_moment(skipping, record, EIGHT + timedelta(minutes=10)) == EIGHT
    assert due_moment(skipping, record, EIGHT + timedelta(minutes=10, seconds=1)) is None
    assert due_moment(skipping, record, EIGHT + timedelta(days=1)) == EIGHT + timedelta(days=1)


def test_what_was_missed_waits_for_its_hours() -> None:
    beats = job(1800, hours=Hours(8 * 60, 22 * 60))
    record = seen(at("2026-11-20T21:00"), beats)
    assert due_moment(beats, record, at("2026-11-21T03:00")) is None
    assert due_moment(beats, record, EIGHT) == EIGHT


def test_while_the_clock_is_set_back_nothing_is_due_again() -> None:
    record = seen(EIGHT)
    for back in (timedelta(minutes=1), timedelta(hours=5), timedelta(days=1)):
        now = EIGHT - back
        assert armed(DAILY, record, now) == record
        assert due_moment(DAILY, record, now) is None
        assert next_moment(DAILY, record, now) == EIGHT + timedelta(days=1)


def test_what_a_wrong_clock_noted_blocks_no_job_for_ever() -> None:
    record = armed(DAILY, seen(at("2040-01-01T08:00")), EIGHT + timedelta(hours=1))
    assert record is not None
    assert due_moment(DAILY, record, EIGHT + timedelta(days=1)) == EIGHT + timedelta(days=1)


def test_a_job_that_is_off_has_no_next_moment() -> None:
    assert next_moment(structs.replace(DAILY, enabled=False), seen(EIGHT), EIGHT) is None


MINUTE = timedelta(minutes=1)
# Mostly the time that passes between two looks; sometimes a sleep, a jump, a clock that is set back.
STEPS = st.one_of(
    st.integers(0, 180).map(lambda seconds: timedelta(seconds=seconds)),
    st.integers(0, 3 * 24 * 60).map(lambda minutes: minutes * MINUTE),
    st.integers(-23 * 60, -1).map(lambda minutes: minutes * MINUTE),
    st.integers(-4000, 4000).map(lambda days: timedelta(days=days, hours=1)),
)
LOOKS = st.lists(st.tuples(STEPS, st.booleans(), st.integers(0, 90)), min_size=1, max_size=25)
JOBS = st.sampled_from(
    [
        job("0 8 * * *"),
        job(60),
        job("*/30 9-17 * * mon-fri"),
        job(7200, catch_up="skip"),
        job(1800, hours=Hours(480, 60)),
    ]
)


@given(JOBS, LOOKS)
@settings(max_examples=80, deadline=None)
def test_once_for_each_moment_in_two_processes_that_are_restarted(
    wanted: Job, looks: list[tuple[timedelta, bool, int]]
) -> None:
    """Two processes look at times of which the second may be late; each look may be that of a new process."""
    now, runs = EIGHT, set[datetime]()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json"
        first, second = _schedules(wanted, path)
        first.due(now)
        for step, restart, lag in looks:
            now += step
            if restart:
                first, second = _schedules(wanted, path)
            if first.ledger.read()[wanted.key].since > now - timedelta(seconds=lag) + WRONG_CLOCK:
                # What was noted is taken for a wrong clock's: all begins anew.
                runs = set()
            taken = []
            for planned, moment in itertools.product((first, second), (now, now - timedelta(seconds=lag))):
                plans = planned.due(now), second.due(moment)
                taken += [due.moment for plan in plans for due in plan if planned.ledger.claim(wanted, due.moment, now)]
            assert len(taken) == len(set(taken))
            assert runs.isdisjoint(taken)
            assert all(moment <= now for moment in taken)
            runs.update(taken)


def _schedules(wanted: Job, path: Path) -> tuple[Schedule, Schedule]:
    first, second = (Schedule([wanted], Ledger(path), SetClock(EIGHT)) for _ in range(2))
    return first, second


@given(JOBS, st.integers(1, 400))
@settings(max_examples=50, deadline=None)
def test_who_looks_each_minute_misses_nothing(wanted: Job, minutes: int) -> None:
    record, found, expected = seen(EIGHT, wanted), [], []
    for minute in range(1, minutes + 1):
        due = due_moment(wanted, record, EIGHT + minute * MINUTE)
        if due is not None:
            found.append(due)
            record = structs.replace(record, since=due)
    fire = next_fire(wanted, EIGHT)
    while fire is not None and fire <= EIGHT + minutes * MINUTE:
        expected.append(fire)
        fire = next_fire(wanted, fire)
    assert found == expected
