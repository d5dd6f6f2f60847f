"""Jobs of other programs as settings of the schedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from clawbot.cli.main import root
from clawbot.config.load import load_settings
from clawbot.config.paths import Paths, find_home
from clawbot.scheduling.jobs import change_jobs, jobs_from

SAMPLES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "samples.yaml").read_text("utf-8"))
NOW = datetime(2026, 11, 26, tzinfo=UTC)


def test_each_form_of_a_job_is_read() -> None:
    found = jobs_from({"version": 1, "jobs": [sample["entry"] for sample in SAMPLES]}, NOW)
    assert len(found) == len(SAMPLES)
    for job, sample in zip(found, SAMPLES, strict=True):
        assert (job.name, job.settings) == (sample["name"], sample["settings"])
        assert (job.enabled, job.agent) == (sample.get("enabled", True), sample.get("agent", ""))
        assert list(job.left_out) == sample.get("left_out", [])
        assert job.problem.startswith("its time is past" if sample.get("past") else sample.get("problem", ""))
        assert bool(job.problem) == bool(sample.get("problem") or sample.get("past"))


@pytest.mark.parametrize("data", [None, [], {}, {"jobs": None}, {"jobs": ["x", 5]}, "x", {"jobs": {}}])
def test_what_holds_no_jobs_has_none(data: Any) -> None:
    assert jobs_from(data) == []


def test_jobs_may_be_a_bare_list_or_named_by_their_ids() -> None:
    entry = SAMPLES[1]["entry"]
    assert [job.name for job in jobs_from([entry])] == [job.name for job in jobs_from({"jobs": {"x": entry}})]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["schedule", *arguments])


def written(*entries: dict[str, Any]) -> Path:
    file = Path("jobs.json")
    file.write_text(json.dumps({"version": 1, "jobs": entries}))
    return file


def test_imported_jobs_are_off_below_the_settings_and_once_only() -> None:
    paths = Paths(find_home())
    paths.ensure_home()
    file = written(SAMPLES[1]["entry"], SAMPLES[3]["entry"], SAMPLES[9]["entry"])
    result = run("import", str(file))
    assert result.exit_code == 0, result.output
    assert result.stdout == "munger-mental-models  off\nreport  off\nno-words  it has no prompt\n"
    jobs = load_settings(paths).settings.schedule.jobs
    assert {name: (job.enabled, job.tz, job.agent) for name, job in jobs.items()} == {
        "munger-mental-models": (False, "America/New_York", "main"),
        "report": (False, None, "main"),
    }
    paths.config_file.write_text("schedule: {report: {enabled: true}}\nagents: {qa: {}}\n")
    assert load_settings(paths).settings.schedule.jobs["report"].enabled
    again = json.loads(run("import", str(file), "--json").stdout)
    assert [row["problem"] for row in again] == ["there is a job of this name"] * 2 + ["it has no prompt"]
    change_jobs(paths.jobs_file, {}, removed=["munger-mental-models"])
    assert list(load_settings(paths).settings.schedule.jobs) == ["report"]


def test_those_that_were_on_can_be_on_and_know_their_agent() -> None:
    paths = Paths(find_home())
    paths.ensure_home()
    paths.config_file.write_text("agents: {qa: {}}\n")
    run("import", "--on", str(written(SAMPLES[3]["entry"], SAMPLES[1]["entry"] | {"enabled": False})))
    jobs = load_settings(paths).settings.schedule.jobs
    assert {name: (job.enabled, job.agent) for name, job in jobs.items()} == {
        "report": (True, "qa"),
        "munger-mental-models": (False, "main"),
    }


@pytest.mark.parametrize("text", ["", "{", "jobs: 5", "\x00"])
def test_a_file_that_is_none_is_one_line(text: str) -> None:
    Path("jobs.json").write_text(text)
    result = run("import", "jobs.json")
    assert result.exit_code == 1
    assert "is no JSON" in result.stderr
