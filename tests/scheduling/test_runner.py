"""Runs: what came of each is a value and a line in the ledger, and none stops another."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from clawbot.errors import ClawbotError
from clawbot.scheduling.jobs import Job
from clawbot.scheduling.ledger import Ledger
from clawbot.scheduling.runner import DUPLICATE, JobSkippedError, Schedule
from tests.scheduling.jobs import BERLIN, SetClock, at, job

EIGHT = at("2026-11-21T08:00")
HALF_PAST = EIGHT + timedelta(minutes=30)
BEAT = job(1800, "heartbeat", kind="heartbeat", prompt="")


def schedule(path: Path, *jobs: Job) -> Schedule:
    made = Schedule(jobs, Ledger(path / "schedule.json"), SetClock(EIGHT))
    made.due(EIGHT)
    return made


async def says_its_name(wanted: Job) -> str:
    return wanted.name


async def test_what_is_due_runs_once(tmp_path: Path) -> None:
    made = schedule(tmp_path, job(1800, "a"), job("0 9 * * *", "b"))
    (ran,) = await made.run_due(says_its_name, HALF_PAST)
    assert (ran.job.name, ran.status, ran.reply, ran.due) == ("a", "done", "a", HALF_PAST)
    assert await made.run_due(says_its_name, HALF_PAST) == []
    assert [state.next_due for state in made.states(HALF_PAST)] == [EIGHT + timedelta(hours=1)] * 2
    assert made.next_moment(HALF_PAST) == EIGHT + timedelta(hours=1)


async def test_a_failure_stops_no_other_job(tmp_path: Path) -> None:
    made = schedule(tmp_path, job(1800, "told"), job(1800, "torn"), job(1800, "fine"))

    async def run(wanted: Job) -> str:
        if wanted.name == "told":
            raise ClawbotError("没有网络.", hint="Use another.")
        if wanted.name == "torn":
            raise ValueError("api_key=sk-abcdefghijklmnop")
        return "ok"

    ran = await made.run_due(run, HALF_PAST)
    assert [(each.status, each.error) for each in ran] == [
        ("failed", "没有网络. Use another."),
        ("failed", "ValueError: api_key=[secret left out]"),
        ("done", ""),
    ]
    assert made.ledger.read()["main/told"].error == "没有网络. Use another."


async def test_what_is_skipped_is_over_and_what_is_put_off_comes_again(tmp_path: Path) -> None:
    made = schedule(tmp_path, job(1800, "empty"), job(1800, "busy"))

    async def skips(wanted: Job) -> str:
        raise JobSkippedError("not now", postponed=wanted.name == "busy")

    ran = await made.run_due(skips, HALF_PAST)
    assert [(each.status, each.error) for each in ran] == [("skipped", "not now")] * 2
    assert made.next_moment(HALF_PAST) == EIGHT + timedelta(hours=1)
    (again,) = await made.run_due(says_its_name, HALF_PAST + timedelta(minutes=1))
    assert (again.reply, again.due) == ("busy", HALF_PAST)


async def test_a_run_that_is_cancelled_is_noted_and_not_repeated(tmp_path: Path) -> None:
    made = schedule(tmp_path, job(1800, "a"))
    started = asyncio.Event()

    async def hangs(wanted: Job) -> str:
        started.set()
        return await asyncio.Future()

    task = asyncio.create_task(made.run_due(hangs, HALF_PAST))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made.ledger.read()["main/a"].status == "interrupted"
    assert await made.run_due(says_its_name, HALF_PAST) == []


async def test_a_heartbeat_that_repeats_itself_is_not_shown(tmp_path: Path) -> None:
    made = schedule(tmp_path, BEAT, job(1800, "a"))
    shown = []
    for beat in range(1, 50):
        ran = await made.run_due(says_its_name, EIGHT + beat * timedelta(minutes=30))
        shown.append([each.reply for each in ran])
        if beat == 2:
            assert (ran[0].status, ran[0].error) == ("done", DUPLICATE)
    assert shown == [["heartbeat", "a"], *[["", "a"]] * 47, ["heartbeat", "a"]]


async def test_by_hand_a_job_runs_though_it_is_off_and_takes_no_moment(tmp_path: Path) -> None:
    off = job(1800, "off", enabled=False)
    made = schedule(tmp_path, off, BEAT)
    ran = await made.run_now(off, says_its_name, EIGHT)
    assert (ran.status, ran.reply, ran.due) == ("done", "off", None)
    assert [state.next_due for state in made.states(EIGHT)] == [None, HALF_PAST]
    (beat,) = await made.run_due(says_its_name, HALF_PAST)
    assert beat.reply == "heartbeat"
    assert (await made.run_now(BEAT, says_its_name, HALF_PAST)).reply == "heartbeat"


async def test_two_processes_share_the_work(tmp_path: Path) -> None:
    jobs = [job(1800, name) for name in "abc"]
    ran = await asyncio.gather(*(schedule(tmp_path, *jobs).run_due(says_its_name, HALF_PAST) for _ in range(2)))
    assert sorted(each.reply for runs in ran for each in runs) == ["a", "b", "c"]


async def test_a_ledger_that_can_not_be_written_costs_nobody_the_reply(tmp_path: Path) -> None:
    made = schedule(tmp_path, job(1800, "a"))

    async def breaks_the_ledger(wanted: Job) -> str:
        made.ledger.path.unlink()
        made.ledger.path.mkdir()
        return "said"

    (ran,) = await made.run_due(breaks_the_ledger, HALF_PAST)
    assert (ran.status, ran.reply) == ("done", "said")
    (notice,) = made.ledger.notices
    assert "schedule.json can't be read" in notice


@pytest.mark.parametrize("fold", [0, 1])
async def test_in_the_hour_that_is_shown_twice_runs_end_as_well(tmp_path: Path, fold: int) -> None:
    made = schedule(tmp_path, job(60, "a", zone=BERLIN))
    now = at("2026-10-25T02:30", BERLIN).replace(fold=fold)
    await made.run_now(made.jobs[0], says_its_name, now)
    assert made.ledger.read()["main/a"].status == "done"
    made.ledger.begin(made.jobs[0], now)
    made.ledger.finish(made.jobs[0], now, "failed")
    assert made.ledger.read()["main/a"].status == "failed"


async def test_the_first_look_is_at_the_last_reset_too_and_at_no_other_job_of_the_past(tmp_path: Path) -> None:
    """A session may be over when the schedule is looked at for the first time; who looks decides that."""
    jobs = [job("0 4 * * *", "reset", kind="reset"), job("0 4 * * *", "news")]
    made = Schedule(jobs, Ledger(tmp_path / "schedule.json"), SetClock(EIGHT))
    moments = [state.next_due for state in made.states(EIGHT)]
    assert moments == [at("2026-11-21T04:00"), at("2026-11-22T04:00")]
    assert not made.ledger.path.exists()
    [ran] = await made.run_due(says_its_name, EIGHT)
    assert (ran.job.name, ran.due) == ("reset", at("2026-11-21T04:00"))
    assert await made.run_due(says_its_name, EIGHT + timedelta(hours=19)) == []
    assert len(await made.run_due(says_its_name, EIGHT + timedelta(hours=20))) == 2
