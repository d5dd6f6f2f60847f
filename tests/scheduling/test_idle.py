"""Whether a job that waits for quiet may run, and whether the machine is on battery."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.scheduling.idle import Supply, is_on_battery, read_supplies, runs_on_battery, wait_reason
from tests.tables import load_table


@pytest.mark.parametrize(("busy", "quiet", "battery", "reason"), load_table(__file__, "a_job_waits"))
def test_a_job_waits(busy: bool, quiet: float, battery: bool, reason: str) -> None:
    assert wait_reason(600.0, busy=busy, quiet=quiet, battery=battery) == reason


@pytest.mark.parametrize(("machine", "supplies", "expected"), load_table(__file__, "linux"))
def test_power_supplies_of_linux(machine: str, supplies: list[Supply], expected: bool) -> None:
    assert is_on_battery(supplies) is expected, machine


@pytest.mark.parametrize(("report", "expected"), load_table(__file__, "macos"))
def test_the_report_of_macos(report: str, expected: bool) -> None:
    assert runs_on_battery(report) is expected


def test_what_is_missing_in_the_folder_of_power_supplies_is_left_out(tmp_path: Path) -> None:
    assert read_supplies(tmp_path / "nowhere") == []
    (tmp_path / "BAT0").mkdir()
    (tmp_path / "BAT0" / "type").write_text("Battery\n")
    (tmp_path / "BAT0" / "status").mkdir()
    assert read_supplies(tmp_path) == [{"type": "battery"}]
