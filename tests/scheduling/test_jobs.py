"""Jobs as they come from the settings."""

from __future__ import annotations

from typing import Any

import pytest

from clawbot.config.errors import ConfigError
from clawbot.config.schema import Settings
from clawbot.scheduling.jobs import CronTime, Every, Hours, Job, jobs_of


def jobs(**settings: Any) -> dict[str, Job]:
    return {job.key: job for job in jobs_of(Settings.model_validate(settings))}


def test_the_shipped_jobs() -> None:
    reset, dream, beat = jobs_of(Settings())
    assert (reset.name, reset.kind, reset.when, reset.session_key, reset.enabled) == (
        "reset", "reset", CronTime("0 4 * * *"), "agent:main:main", True
    )  # fmt: skip
    assert (dream.name, dream.kind, dream.when, dream.command, dream.idle, dream.enabled) == (
        "memory.dream", "command", CronTime("30 4 * * *"), "dream", 600.0, True
    )  # fmt: skip
    assert (beat.kind, beat.when, beat.session_key, beat.enabled, beat.catch_up) == (
        "heartbeat", Every(1800), "agent:main:cron:heartbeat", False, "skip"
    )  # fmt: skip


def test_jobs_of_ones_own() -> None:
    found = jobs(
        agents={"defaults": {"timezone": "Asia/Shanghai"}, "work": {"timezone": "Europe/Berlin"}},
        schedule={
            "morning": {"cron": "0 8 * * 1-5", "prompt": "早上好", "agent": "work", "active_hours": "7:00-24:00"},
            "plants": {"every": "2d", "event": "water", "session": "garden"},
        },
    )
    morning, plants = found["work/morning"], found["main/plants"]
    assert (morning.session_key, morning.zone, morning.hours) == (
        "agent:work:cron:morning",
        "Europe/Berlin",
        Hours(420, 1440),
    )
    assert morning.timing == "0 8 * * 1-5, 07:00-24:00"
    assert (plants.kind, plants.event, plants.session_key, plants.zone) == (
        "event",
        "water",
        "agent:main:garden",
        "Asia/Shanghai",
    )
    assert plants.timing == "every 2d"


def test_each_agent_has_its_reset() -> None:
    found = jobs(agents={"work": {"timezone": "Europe/Berlin"}}, session={"reset": {"at": "23:05"}})
    assert [key for key in found if key.endswith("/reset")] == ["main/reset", "work/reset"]
    assert (found["work/reset"].when, found["work/reset"].zone) == (CronTime("5 23 * * *"), "Europe/Berlin")


@pytest.mark.parametrize(
    ("reset", "timing"),
    [
        ({"mode": "daily"}, "0 4 * * *"),
        ({"mode": "daily", "idle_minutes": 90}, "0 4 * * *, after 90m of silence"),
        ({"mode": "daily+idle", "at": "05:30"}, "30 5 * * *, after 1h of silence"),
        ({"mode": "idle"}, "after 1h of silence"),
    ],
)
def test_when_sessions_end_is_when_the_reset_is(reset: dict[str, Any], timing: str) -> None:
    found = jobs(session={"reset": reset})["main/reset"]
    assert (found.timing, found.enabled) == (timing, True)


@pytest.mark.parametrize(("mode", "enabled"), [("off", False), ("propose", True), ("auto", True)])
def test_dreams_are_off_where_their_mode_is(mode: str, enabled: bool) -> None:
    assert jobs(memory={"dream": {"mode": mode}})["main/memory.dream"].enabled is enabled


def test_where_sessions_never_end_the_reset_is_off() -> None:
    assert jobs(session={"reset": {"mode": "none", "idle_minutes": 5}})["main/reset"].enabled is False


def test_a_cron_expression_takes_the_place_of_the_heartbeats_interval() -> None:
    assert jobs(schedule={"heartbeat": {"cron": "0 9 * * *"}})["main/heartbeat"].when == CronTime("0 9 * * *")


def test_an_agent_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="no agent 'nobody'"):
        jobs(schedule={"heartbeat": {"agent": "nobody"}})
