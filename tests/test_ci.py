"""What `.ci/` does beside the tests: other Pythons, known vulnerabilities, the bill of materials."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """A script of `.ci/` as a module."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


AUDIT, SBOM, WORKSPACES = script("audit"), script("sbom"), script("workspaces")


# -- the Pythons -------------------------------------------------------------------------------------------------------


def promised() -> list[str]:
    return [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: Python :: 3." in each]


def test_readme_names_the_pythons_that_are_tested() -> None:
    first, *middle, last = promised()
    assert f"Tested on Python {', '.join([first, *middle])} and {last}." in (ROOT / "README.md").read_text("utf-8")


def fake(path: Path, version: str | None) -> Path:
    """A Python of `version`; None: a shim that leads nowhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{'exit 127' if version is None else f'echo {version}'}\n")
    path.chmod(0o755)
    return path


def oldest(version: str, default: str, folder: Path) -> str:
    """What `.ci/run` takes for `version` where there are the Pythons in `folder`, and those of /usr/bin."""
    function = re.search(r"^oldest\(\) \{.*?^\}", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert function is not None
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{function[0]}\nfound=$(oldest {version} {default})\necho $found"],
        env={"PATH": f"{folder / 'bin'}:{os.defpath}", "PYENV_ROOT": str(folder / "pyenv"), "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_oldest_python_that_runs_is_taken(tmp_path: Path) -> None:
    fake(tmp_path / "bin/python3.99", None)
    assert oldest("3.99", "3.11.7", tmp_path) == ""
    fake(tmp_path / "pyenv/versions/3.99.10/bin/python", "3.99.10")
    older = fake(tmp_path / "pyenv/versions/3.99.9/bin/python", "3.99.9")
    assert oldest("3.99", "3.11.7", tmp_path) == str(older)
    oldest_of_all = fake(tmp_path / "bin/python3.99", "3.99.2")
    assert oldest("3.99", "3.11.7", tmp_path) == str(oldest_of_all)


def test_the_default_python_is_not_tested_twice(tmp_path: Path) -> None:
    fake(tmp_path / "pyenv/versions/3.99.1/bin/python", "3.99.1")
    assert oldest("3.99", "3.99.1", tmp_path) == ""
    other = fake(tmp_path / "pyenv/versions/3.99.4/bin/python", "3.99.4")
    assert oldest("3.99", "3.99.1", tmp_path) == str(other)


# -- known vulnerabilities ---------------------------------------------------------------------------------------------

CLEAN = {"name": "click", "version": "8.3.0", "vulns": []}
UNKNOWN = {"name": "wordllama", "skip_reason": "Dependency not found on PyPI"}
HOLE = {"id": "PYSEC-2026-1", "fix_versions": ["2.0.1", "1.9.9"], "aliases": [], "description": "…"}
VULNERABLE = {"name": "httpx", "version": "0.28.1", "vulns": [HOLE, {**HOLE, "id": "GHSA-x", "fix_versions": []}]}


def judged(*packages: dict[str, Any]) -> tuple[int, str]:
    verdict: tuple[int, str] = AUDIT.verdict(AUDIT.read(json.dumps({"dependencies": packages, "fixes": []})))
    return verdict


def test_a_known_vulnerability_fails_with_words() -> None:
    status, text = judged(CLEAN, VULNERABLE, UNKNOWN)
    assert status == 1
    assert "httpx 0.28.1: PYSEC-2026-1, mended in 2.0.1, 1.9.9" in text
    assert "httpx 0.28.1: GHSA-x, mended in no version yet" in text
    assert "make lock" in text


def test_what_the_database_does_not_know_is_said_and_passes() -> None:
    assert judged(CLEAN, UNKNOWN) == (
        0,
        "pip-audit: 1 locked packages were looked up\npip-audit: not in the database: wordllama",
    )


@pytest.mark.parametrize("report", ["", "not JSON", "[]", "{}", json.dumps({"dependencies": [UNKNOWN, UNKNOWN]})])
def test_without_the_database_the_audit_is_skipped_aloud(report: str) -> None:
    status, text = AUDIT.verdict(AUDIT.read(report), "why")
    assert status == 0
    assert text == f"{AUDIT.SKIPPED} (why)"


# -- the bill of materials ---------------------------------------------------------------------------------------------


def test_the_bill_of_materials_lists_every_locked_package() -> None:
    bill = json.loads((ROOT / "sbom.cdx.json").read_text(encoding="utf-8"))
    locked = {tuple(line.split(" ")[0].split("==")) for line in LOCK.splitlines() if line[:1].isalnum()}
    assert len(locked) > 50
    assert {(each["name"], each["version"]) for each in bill["components"]} == locked
    assert all(each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}" for each in bill["components"])
    required = {re.split(r"[^\w-]", line)[0] for line in PROJECT["dependencies"]}
    assert required <= {each["name"] for each in bill["components"]}
    (root,) = [each for each in bill["dependencies"] if each["ref"] == PROJECT["name"]]
    assert len(root["dependsOn"]) == len(locked)


def test_the_bill_of_materials_is_that_of_the_lock() -> None:
    """`make lock` writes both."""
    written = (ROOT / "sbom.cdx.json").read_text(encoding="utf-8")
    version = json.loads(written)["metadata"]["component"]["version"]
    assert version == importlib.import_module("clawbot").__version__
    assert SBOM.bill(LOCK, PROJECT, version) == written
    assert SBOM.bill(LOCK.replace("==", "==9"), PROJECT, version) != written


# -- files of a workspace ----------------------------------------------------------------------------------------------


def test_modules_that_work_in_a_workspace_open_nothing_by_its_path() -> None:
    assert WORKSPACES.main() == 0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("open(path)", "open"),
        ("write_atomic(path, data)", "write_atomic"),
        ("os.open(path, os.O_RDONLY)", "os.open"),
        ("os.rename(a, b)", "os.rename"),
        ("(workspace / name).read_text()", ".read_text"),
        ("os.open(name, flags, dir_fd=folder)", None),
        ("os.rename(a, b, src_dir_fd=f, dst_dir_fd=f)", None),
        ("GuardedFolder(workspace).read(name, 10)", None),
    ],
)
def test_what_opens_by_path_is_found(tmp_path: Path, call: str, name: str | None) -> None:
    (tmp_path / "module.py").write_text(call, encoding="utf-8")
    assert [found for _, found in WORKSPACES.findings(tmp_path / "module.py")] == ([name] if name else [])


@pytest.mark.few(2)
@pytest.mark.parametrize("row", range(5))
def test_all_rows_but_a_few_that_are_spread_evenly_are_long(request: pytest.FixtureRequest, row: int) -> None:
    assert (request.node.get_closest_marker("long") is None) == (row in (0, 2))
