"""The ledger's file: private, locked, and never a reason to stop or to run something twice."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path

import pytest

from clawbot.scheduling.ledger import Ledger, ScheduleError
from clawbot.scheduling.runner import armed
from tests.scheduling.jobs import at, job

EIGHT = at("2026-11-21T08:00")
DAILY = job("0 8 * * *")
NEXT = EIGHT + timedelta(days=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "schedule.json"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    ledger = Ledger(path)
    ledger.arm([DAILY], EIGHT, armed)
    return ledger


def claim_in_a_process(path: str) -> bool:
    return Ledger(Path(path)).claim(DAILY, NEXT, NEXT)


def test_reading_makes_nothing(path: Path) -> None:
    assert Ledger(path).read() == {}
    assert not path.parent.exists()


def test_the_file_is_private_and_readable(ledger: Ledger, path: Path) -> None:
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert json.loads(path.read_bytes()) == {"main/notes": {"timing": "0 8 * * *", "since": "2026-11-21T08:00:00Z"}}


def test_nothing_is_written_when_nothing_changes(ledger: Ledger, path: Path) -> None:
    before = path.stat().st_ino
    assert ledger.arm([DAILY], NEXT, armed)[DAILY.key].since == EIGHT
    assert path.stat().st_ino == before


def test_a_moment_is_taken_once_and_none_before_it(ledger: Ledger, path: Path) -> None:
    assert ledger.claim(DAILY, NEXT, NEXT)
    assert not ledger.claim(DAILY, NEXT, NEXT)
    assert not Ledger(path).claim(DAILY, NEXT - timedelta(hours=1), NEXT)
    assert Ledger(path).claim(DAILY, NEXT + timedelta(hours=1), NEXT + timedelta(hours=1))


def test_one_of_several_processes_takes_it(ledger: Ledger, path: Path) -> None:
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool:
        taken = list(pool.map(claim_in_a_process, [str(path)] * 6))
    assert sorted(taken) == [False] * 5 + [True]


def test_a_job_that_was_never_armed_can_not_be_taken(ledger: Ledger) -> None:
    assert not ledger.claim(job(name="other"), NEXT, NEXT)


def test_how_a_run_ended(ledger: Ledger, path: Path) -> None:
    ledger.claim(DAILY, NEXT, NEXT)
    assert ledger.read()[DAILY.key].status == "running"
    ledger.finish(DAILY, NEXT, "done", duration_ms=1200, digest="abc")
    record = Ledger(path).read()[DAILY.key]
    assert (record.status, record.due, record.duration_ms) == ("done", NEXT, 1200)
    assert (record.reply_digest, record.replied) == ("abc", NEXT)
    later = NEXT + timedelta(days=1)
    ledger.claim(DAILY, later, later)
    ledger.finish(DAILY, later, "failed", error="沒有網絡")
    record = ledger.read()[DAILY.key]
    assert (record.error, record.reply_digest, record.replied) == ("沒有網絡", "abc", NEXT)


def test_a_run_that_was_overtaken_does_not_end_the_other(ledger: Ledger) -> None:
    ledger.claim(DAILY, NEXT, NEXT)
    ledger.begin(DAILY, NEXT + timedelta(minutes=1))
    ledger.finish(DAILY, NEXT, "failed", error="x")
    assert ledger.read()[DAILY.key].status == "running"


def test_what_is_given_back_is_due_again(ledger: Ledger) -> None:
    ledger.claim(DAILY, NEXT, NEXT)
    ledger.release(DAILY, NEXT, EIGHT, "a turn is running")
    record = ledger.read()[DAILY.key]
    assert (record.status, record.error) == ("skipped", "a turn is running")
    assert ledger.claim(DAILY, NEXT, NEXT + timedelta(minutes=1))


def test_a_run_by_hand_takes_no_moment(ledger: Ledger) -> None:
    ledger.begin(DAILY, NEXT + timedelta(hours=1))
    assert ledger.claim(DAILY, NEXT, NEXT + timedelta(hours=2))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{torn",
        b"[]",
        b'{"main/notes": 5}',
        b'{"main/notes": {"timing": "x", "since": "yesterday"}}',
        b'{"main/notes": {"timing": "x", "since": "2026-11-21T08:00:00"}}',
        b'{"main/notes": {"timing": "x", "since": "0001-01-01T00:00:00+14:00"}}',
        b'{"main/notes": {"timing": "x", "since": "2026-11-21T08:00:00Z", "started": "9999-12-31T23:00:00-14:00"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_file_that_can_not_be_read_is_put_aside(ledger: Ledger, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert ledger.read() == {}
    assert path.read_bytes() == data
    assert ledger.arm([DAILY], NEXT, armed)[DAILY.key].since == NEXT
    assert path.with_name("schedule.json.bad").read_bytes() == data
    (notice,) = ledger.notices
    assert "schedule.json.bad" in notice
    path.write_bytes(b"again")
    ledger.arm([DAILY], NEXT, armed)
    assert path.with_name("schedule.json.bad-2").read_bytes() == b"again"


def test_fields_of_a_later_version_do_no_harm(ledger: Ledger, path: Path) -> None:
    raw = json.loads(path.read_bytes())
    raw["main/notes"]["mood"] = "good"
    path.write_text(json.dumps(raw))
    assert ledger.read()[DAILY.key].since == EIGHT


def test_a_folder_in_its_place_is_told(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ScheduleError, match=r"schedule\.json can't be read"):
        Ledger(path).read()
