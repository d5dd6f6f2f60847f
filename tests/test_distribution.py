"""What the extras require, and the commands that install it for the interpreter that runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from clawbot import distribution
from clawbot.distribution import DISTRIBUTION, install_command, pip_install, requirements
from clawbot.local_model.keeper import EXTRA
from clawbot.memory.backends.milvus.collections import MilvusError, connect
from tests.packages import install

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
PIP = [sys.executable, "-m", "pip", "install"]


def words(command: str) -> list[str]:
    """The words of `command` as a shell passes them to a program."""
    run = subprocess.run(["sh", "-c", f'set -- {command}; printf "%s\\0" "$@"'], capture_output=True, check=True)
    return run.stdout.decode().split("\0")[:-1]


@pytest.fixture
def with_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual environment with pip, whatever runs the tests."""
    monkeypatch.setattr(distribution, "find_spec", lambda _: "pip")
    monkeypatch.setattr(sys, "prefix", "/srv/venv")


# -- the real metadata -------------------------------------------------------------------------------------------------


def test_the_extras_of_the_installation_are_those_of_the_project() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert set(importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []) == EXTRAS.keys()
    dependencies = [Requirement(line) for line in PROJECT["dependencies"]]
    assert requirements() == {str(each): each.name for each in dependencies}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_installed_by_its_requirements_and_never_by_our_name(extra: str, with_pip: None) -> None:
    command = words(install_command(extra))
    assert command[:4] == PIP
    found = [Requirement(line) for line in command[4:]]
    assert {str(each) for each in found} == {str(Requirement(line)) for line in EXTRAS[extra]}
    assert [each for each in found if each.marker or canonicalize_name(each.name) in ("clawbot", DISTRIBUTION)] == []


def test_the_program_names_no_extra_that_the_project_lacks() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "clawbot").rglob("*.py"))
    named = set(re.findall(r"""install_command\(["'](\w*)["']""", code))
    assert named == {"mcp", "milvus", "rerank", "web"}
    assert named | {EXTRA} <= EXTRAS.keys()


# -- metadata that others wrote ----------------------------------------------------------------------------------------

METADATA = f"""\
Requires-Dist: click >=8
Requires-Dist: both (<3,>=1)
Requires-Dist: backport ; python_version < "3"
Requires-Dist: both (<3,>=1) ; extra == 'plain'
Requires-Dist: Zlib.Wrap[fast,safe] (~=1.0) ; extra == 'plain'
Requires-Dist: gone; sys_platform == "win32" and extra == "plain"
Requires-Dist: here; (sys_platform != "win32" or python_version < "3") and extra == "plain"
Requires-Dist: linked @ https://example.org/linked-1.0.whl ; extra == "two-words"
Requires-Dist: {DISTRIBUTION}[plain,two_words]; extra == "all"
Requires-Dist: {DISTRIBUTION.title().replace("-", "_")}[all]; extra == "circle"
Requires-Dist: {DISTRIBUTION.replace("-", ".")}[circle]; extra == "circle"
Requires-Dist: own>0; extra == "circle"
Requires-Dist: here; extra == "circle"
"""
PLAIN = ["both<3,>=1", "zlib.wrap[fast,safe]~=1.0", "here"]
LINKED = "linked @ https://example.org/linked-1.0.whl"


@pytest.mark.parametrize(
    ("extra", "wanted"),
    [
        ("", ["click>=8", "both<3,>=1"]),
        ("plain", PLAIN),
        ("two-words", [LINKED]),
        ("Two_Words", [LINKED]),
        ("all", [*PLAIN, LINKED]),
        ("circle", ["own>0", *PLAIN, LINKED]),
        ("none", []),
    ],
)
def test_extras_of_extras_are_resolved(
    extra: str, wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "clawbot_agent", "", metadata=METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    assert sorted(map(str.lower, requirements(extra))) == sorted(wanted)


# -- the interpreter ---------------------------------------------------------------------------------------------------

WANTED = list(requirements("rerank"))


@pytest.mark.parametrize(
    ("executable", "has_pip", "has_base", "is_managed", "expected"),
    [
        ("/home/me/my projects/it's/.venv/bin/python", True, False, False, ["{}", "-m", "pip", "install"]),
        ("/opt/$HOME/`x`/bin/python", True, False, False, ["{}", "-m", "pip", "install"]),
        ("/home/me/uv/tools/x/bin/python", False, False, False, ["uv", "pip", "install", "--python", "{}"]),
        ("/usr/local/bin/python3", True, True, False, ["{}", "-m", "pip", "install"]),
        ("/usr/bin/python3", True, True, True, ["{}", "-m", "pip", "install", "--break-system-packages"]),
        ("/usr/bin/python3", False, True, True, ["uv", "pip", "install", "--python", "{}", "--break-system-packages"]),
        ("/home/me/.venv/bin/python", True, False, True, ["{}", "-m", "pip", "install"]),
    ],
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
    assert words(install_command("rerank")) == [*begin, *WANTED]


def test_pipx_remembers_what_it_injects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    tmp_path.joinpath("pipx_metadata.json").write_text("{}")
    assert words(install_command("rerank")) == ["pipx", "inject", tmp_path.name, *WANTED]


@pytest.mark.parametrize("extra", ["local", ""])
def test_a_checkout_that_is_not_installed_is_installed_from_its_folder(
    extra: str, with_pip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "DISTRIBUTION", "no-such-thing")
    of_extra = f"[{extra}]" if extra else ""
    assert words(install_command(extra)) == [*PIP, "-e", f"{ROOT}{of_extra}"]


def test_an_extra_that_came_after_the_installation_is_installed_from_the_folder(with_pip: None) -> None:
    assert words(install_command("later")) == [*PIP, "-e", f"{ROOT}[later]"]


# -- who lacks an extra ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "language", "module", "extra", "before"),
    [
        (["mcp"], "en_US", "mcp", "mcp", "The package `mcp` is not installed. Install it with: "),
        (["mcp", "list"], "zh_CN", "mcp", "mcp", "but the package `mcp` is not installed. Install it with: "),
        (["mcp", "test"], "en_US", "mcp", "mcp", "but the package `mcp` is not installed. Install it with: "),
        (["doctor", "--no-ping"], "en_US", "mcp", "mcp", "fix: "),
        (["chat", "-p", "hello"], "en_US", "mcp", "mcp", "but the package `mcp` is not installed. Install it with: "),
        (["chat", "-p", "hello"], "zh_CN", "mcp", "mcp", "已配置 MCP 服务器，但未安装软件包 `mcp`。 安装命令："),
        (["serve", "--web", "--port", "0"], "en_US", "textual_serve", "web", "). Install it with: "),
        (["model", "list"], "en_US", "xllamacpp", "local", "To run one, install what serves it: "),
    ],
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
