"""The settings of the schedule: what is understood, and what each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_core import PydanticCustomError

from clawbot.config.errors import ConfigError
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths
from clawbot.config.schema import Settings
from clawbot.config.schema_schedule import parse_cron


def load(folder: Path, text: str) -> Settings:
    file = folder / "c.yaml"
    file.write_text(text, encoding="utf-8")
    return load_settings(Paths(folder), config_file=file).settings


def test_jobs_stand_beside_the_heartbeat_in_both_spellings(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        "schedule:\n  morning: {cron: '0  8 * * mon-fri', prompt: 早上好, activeHours: 8:00-24:00, catchUp: skip}\n"
        "  water: {every: 2d, event: plants, session: Garten}\n  heartbeat: {enabled: on}\n",
    )
    morning, water = settings.schedule.jobs["morning"], settings.schedule.jobs["water"]
    assert (morning.cron, morning.active_hours, morning.catch_up) == ("0 8 * * mon-fri", "08:00-24:00", "skip")
    assert (water.every, water.event, water.session, water.agent) == (172_800.0, "plants", "garten", "main")
    assert (settings.schedule.heartbeat.enabled, settings.schedule.heartbeat.every) == (True, 1800.0)


def test_the_heartbeat_is_shipped_and_off() -> None:
    assert [*Settings().schedule.all_jobs] == ["heartbeat"]
    assert not Settings().schedule.heartbeat.enabled


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ("a: {prompt: x}", "2: schedule.a: expected one of cron, every and at in a job"),
        ("a: {every: 5m, cron: '0 8 * * *', prompt: x}", "2: schedule.a: expected one of cron, every and at in a job"),
        ("a: {every: 5m}", "2: schedule.a: expected either prompt or event in a job"),
        ("a: {every: 5m, prompt: x, event: y}", "2: schedule.a: expected either prompt or event in a job"),
        ("a: {every: 30s, prompt: x}", "2: schedule.a.every: expected a duration of full seconds, 1m at least, found"),
        ("a: {every: 90.5s, prompt: x}", "expected a duration of full seconds"),
        ("a: {cron: '0 8 * *', prompt: x}", "2: schedule.a.cron: expected five fields"),
        ("a: {cron: '@reboot', prompt: x}", "2: schedule.a.cron: expected one of @hourly, @daily"),
        ("a: {cron: '@every 5m', prompt: x}", "expected one of @hourly"),
        ("a: {at: tomorrow, prompt: x}", '2: schedule.a.at: expected a moment such as "2027-03-01 08:00"'),
        ("a: {at: 2027-03-01, prompt: x}", "expected a moment such as"),
        ("a: {at: '2027-02-30 08:00', prompt: x}", "expected a moment such as"),
        ("a: {at: '0001-01-01 08:00', prompt: x}", "expected a moment such as"),
        ("a: {at: '2027-03-01 08:00', every: 5m, prompt: x}", "expected one of cron, every and at"),
        ("a: {every: 5m, tz: Europe/Berln, prompt: x}", "did you mean Europe/Berlin?"),
        ("a: {cron: '60 8 * * *', prompt: x}", "expected 0 to 59 as the minute of a cron expression"),
        ("a: {cron: '0 8 * * mo', prompt: x}", "expected 0 to 7 or sun to sat as the weekday"),
        ("a: {cron: '0 8 31 2,4 *', prompt: x}", "expected a day that one of its months has"),
        ("a: {every: 5m, prompt: ''}", "2: schedule.a.prompt: expected text that is not empty"),
        ("a: {every: 5m, event: 'A B'}", "2: schedule.a.event: expected the name of an event"),
        ("a: {every: 5m, prompt: x, session: ../x}", "2: schedule.a.session: expected the name of a session"),
        ("a: {every: 5m, prompt: x, active_hours: 8-22}", 'expected hours such as "08:00-22:00"'),
        ("a: {every: 5m, prompt: x, active_hours: '24:00-08:00'}", "expected hours from 00:00 to 24:00"),
        ("a: {every: 5m, prompt: x, active_hours: '08:00-24:30'}", "expected hours from 00:00 to 24:00"),
        ("a: {every: 5m, prompt: x, active_hours: '08:75-09:00'}", "expected hours from 00:00 to 24:00"),
        ("a: {every: 5m, prompt: x, agent: mian}", "2: schedule.a.agent: expected one of the agents main, found the"),
        ("heartbeat: {agent: work}", "2: schedule.heartbeat.agent: expected one of the agents main"),
        ("a: {evry: 5m, prompt: x}", "2: schedule.a.evry: unknown key; did you mean every?"),
        ("reset: {every: 5m, prompt: x}", "2: schedule.reset: expected another name: `reset` is the daily reset"),
        ("A b: {every: 5m, prompt: x}", "2: schedule.A b: expected the name of a job"),
        ("a: {every: 5m, prompt: x, catch_up: never}", "expected 'once' or 'skip'"),
    ],
)
def test_a_mistake_is_named_with_line_key_and_what_was_expected(tmp_path: Path, job: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, f"schedule:\n  {job}\n")
    assert said in "\n".join(str(problem) for problem in raised.value.problems)


@pytest.mark.parametrize(
    ("field", "weekdays"),
    [
        ("0", (0,)),
        ("7", (0,)),
        ("SUN", (0,)),
        ("1-5", (1, 2, 3, 4, 5)),
        ("mon-fri", (1, 2, 3, 4, 5)),
        ("fri-sun", (0, 5, 6)),
        ("5-7", (0, 5, 6)),
        ("*", (0, 1, 2, 3, 4, 5, 6)),
        ("*/2", (0, 2, 4, 6)),
        ("tue,6", (2, 6)),
    ],
)
def test_weekdays_have_crons_numbers(field: str, weekdays: tuple[int, ...]) -> None:
    assert parse_cron(f"0 8 * * {field}").weekdays == weekdays


@pytest.mark.parametrize(
    ("word", "same"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight", "0 0 * * *"),
        (" @weekly ", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_words_of_cron_are_written_out(tmp_path: Path, word: str, same: str) -> None:
    settings = load(tmp_path, f"schedule: {{a: {{cron: '{word}', prompt: x}}}}")
    assert settings.schedule.jobs["a"].cron == same


def test_steps_lists_and_names() -> None:
    cron = parse_cron("*/20,7 5/9 1-9/4 jan,Dec *")
    assert cron[:4] == ((0, 7, 20, 40), (5, 14, 23), (1, 5, 9), (1, 12))


@pytest.mark.parametrize(
    "text", ["* * * * * *", "*/0 * * * *", "9-3 * * * *", "1,,2 * * * *", "-5 * * * *", "１ * * * *"]
)
def test_what_is_no_cron_expression(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_cron(text)
