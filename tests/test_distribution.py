"""What clawbot requires, and the commands for the interpreter that runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from clawbot import distribution
from clawbot.distribution import DISTRIBUTION, pip_install, program, requirements
from clawbot.extras import EXTRAS as INSTALLED
from clawbot.extras import install_command
from clawbot.local_model.process import EXTRA
from clawbot.plugins.milvus.collections import MilvusError, connect
from tests.packages import install
from tests.tables import load_table

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def words(command: str) -> list[str]:
    """The words of `command` as a shell passes them to a program."""
    run = subprocess.run(["sh", "-c", f'set -- {command}; printf "%s\\0" "$@"'], capture_output=True, check=True)
    return run.stdout.decode().split("\0")[:-1]


# -- the real metadata -------------------------------------------------------------------------------------------------


def test_the_extras_of_the_installation_are_those_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert set(importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []) == EXTRAS.keys()
    dependencies = [Requirement(line) for line in PROJECT["dependencies"]]
    assert requirements() == {str(each): each.name for each in dependencies}


def test_the_program_names_no_extra_that_the_project_lacks() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "clawbot").rglob("*.py"))
    named = set(re.findall(r"""install_command\(["'](\w*)["']""", code))
    assert named == {"mcp", "milvus", "rerank", "web", "NAME"}
    assert (named | {EXTRA}) - {"NAME"} == INSTALLED.keys()


# -- metadata that others wrote ----------------------------------------------------------------------------------------

METADATA = """\
Requires-Dist: click >=8
Requires-Dist: both (<3,>=1)
Requires-Dist: backport ; python_version < "3"
Requires-Dist: Zlib.Wrap[fast,safe] (~=1.0) ; python_version > "3"
Requires-Dist: optional ; extra == 'plain'
Requires-Dist: here; (sys_platform != "win32" or python_version < "3") and extra == "plain"
Requires-Dist: linked @ https://example.org/linked-1.0.whl
"""


def test_requirements_are_those_of_this_interpreter_without_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "clawbot_agent", "", metadata=METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    linked = "linked @ https://example.org/linked-1.0.whl"
    assert [*requirements()] == ["click>=8", "both<3,>=1", "Zlib.Wrap[fast,safe]~=1.0", linked]


# -- the interpreter ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("executable", "has_pip", "has_base", "is_managed", "expected"),
    load_table(__file__, "the_command_fits_the_interpreter"),
)
def test_the_command_fits_the_interpreter(
    executable: str, has_pip: bool, has_base: bool, is_managed: bool, expected: list[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix if has_base else str(tmp_path))
    monkeypatch.setattr(distribution, "find_spec", lambda name: name if has_pip else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    if is_managed:
        (tmp_path / "stdlib").mkdir()
        (tmp_path / "stdlib/EXTERNALLY-MANAGED").write_text("[externally-managed]\nError=Use apt.\n")
    begin = [word.format(executable) for word in expected]
    assert words(pip_install("--no-deps", "a b")) == [*begin, "--no-deps", "a b"]


@pytest.mark.parametrize(
    ("in_folder", "in_path", "expected"),
    [
        (True, "link", ["clawbot"]),
        (True, "other", ["{}/my bin/clawbot"]),
        (True, "", ["{}/my bin/clawbot"]),
        (False, "other", ["{}/my bin/python", "-m", "clawbot"]),
    ],
)
def test_the_program_is_called_so_that_this_one_runs(
    in_folder: bool, in_path: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = tmp_path / "my bin", tmp_path / "path"
    folder.mkdir()
    path.mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", f"{path}{os.pathsep}{os.environ['PATH']}" if in_path else str(path))
    if in_folder:
        (folder / "clawbot").touch(mode=0o755)
    if in_path == "link":
        (path / "clawbot").symlink_to(folder / "clawbot")
    elif in_path:
        (path / "clawbot").touch(mode=0o755)
    call = program("extras", "install", "a b")
    assert shlex.split(call) == [*(word.format(tmp_path) for word in expected), "extras", "install", "a b"]


# -- who lacks an extra ------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "language", "module", "extra", "before"),
    load_table(__file__, "a_command_that_lacks_an_extra_prints_what_installs_it"),
)
def test_a_command_that_lacks_an_extra_prints_what_installs_it(
    arguments: list[str], language: str, module: str, extra: str, before: str, tmp_path: Path
) -> None:
    home = Path(os.environ["CLAWBOT_HOME"])
    home.mkdir(mode=0o700)
    home.joinpath("config.yaml").write_text("mcp: {servers: {there: {command: sh}}}\n")
    # Python finds the modules of this folder in front of all others: an extra that is not there raises ImportError.
    tmp_path.joinpath("sitecustomize.py").write_text(
        "import importlib.util, sys\n"
        f"found, sys.modules[{module!r}] = importlib.util.find_spec, None\n"
        f"importlib.util.find_spec = lambda name, *more: None if name == {module!r} else found(name, *more)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "clawbot", *arguments],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "LC_ALL": f"{language}.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert before + install_command(extra) in done.stdout + done.stderr


def test_the_backend_milvus_that_lacks_its_extra_gives_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(MilvusError) as failed:
        connect("http://127.0.0.1:9", "", 1.0)
    assert failed.value.hint == f"Install them with: {install_command('milvus')}"
