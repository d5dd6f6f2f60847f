"""What other systems are told, and what can be checked of them here: docs/systems.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawbot import __main__ as entry
from clawbot.locks import try_lock, unlock, wait_for_lock

ROOT = Path(__file__).parents[1]
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".ci/systems.yml").read_text(encoding="utf-8"))["jobs"]


def test_windows_is_told_what_it_needs_before_anything_of_posix_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "clawbot.cli.main", None)
    with pytest.raises(SystemExit, match="WSL 2: `wsl --install`"):
        entry.main()


def test_what_the_job_for_other_systems_runs_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    ran = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
    targets = {target for line in ran for target in re.findall(r"^make (\S+)", line)}
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_a_lock_keeps_other_openings_away_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    with path.open() as one, path.open() as two:
        assert try_lock(one)
        assert not try_lock(two)
        assert not try_lock(two, shared=True)
        unlock(one)
        wait_for_lock(one, shared=True)
        assert try_lock(two, shared=True)
        assert not try_lock(two)
