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
from tests.tables import load_table


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
    load_table(__file__, "a_mistake_is_named_with_line_key_and_what_was_expected"),
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
    load_table(__file__, "words_of_cron_are_written_out"),
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
