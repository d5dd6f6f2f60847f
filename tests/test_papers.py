"""The files that others read before the code: their claims fit the tree."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from clawbot import __version__

ROOT = Path(__file__).parents[1]
CODE = {".py", ".pyc", ".typed", ".tcss", ".po", ".mo"}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_notice_names_all_data_of_the_package() -> None:
    named = re.findall(r"clawbot/[\w/.*]*[\w*]", read("NOTICE"))
    data = [file.relative_to(ROOT).as_posix() for file in (ROOT / "clawbot").rglob("*") if file.is_file()]
    others = [name for name in data if Path(name).suffix not in CODE]
    assert "clawbot/languages/thesaurus.txt" in others
    assert [name for name in others if not any(fnmatch(name, pattern) for pattern in named)] == []
    assert [pattern for pattern in named if not list(ROOT.glob(pattern)) and "shipped" not in pattern] == []


def test_the_changelog_begins_with_the_version() -> None:
    assert re.findall(r"^## \[(\d[\d.]*)\] - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.MULTILINE)[0] == __version__


def test_the_workflow_tests_each_python_that_is_promised() -> None:
    (job,) = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == re.findall(
        r'"Programming Language :: Python :: (3\.\d+)"', read("pyproject.toml")
    )
    assert "make test PYTHON=python" in [step.get("run") for step in job["steps"]]


def test_the_commit_hook_runs_a_target_of_the_makefile() -> None:
    (repository,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    (hook,) = repository["hooks"]
    assert (repository["repo"], hook["language"], hook["entry"].split()[0]) == ("local", "system", "make")
    assert re.search(rf"^{hook['entry'].split()[-1]}:", read("Makefile"), re.MULTILINE)


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_forms_for_issues_have_what_their_host_requires(name: str) -> None:
    form: dict[str, Any] = yaml.safe_load(read(f".github/ISSUE_TEMPLATE/{name}"))
    assert {"name", "description", "body"} <= form.keys()
    assert all({"label", "description"} <= each["attributes"].keys() for each in form["body"])
