"""What is built has all that it needs: the wheel in an empty environment works like the checkout does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from clawbot import __version__
from clawbot.extras import EXTRAS
from tests.e2e.conftest import PIP_ENVIRONMENT, Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

CHECKOUT = Path(__file__).parents[2]
RELEASE = f"clawbot_agent-{__version__}"


def pip(python: Path | str, *arguments: str) -> None:
    """Run pip quietly, with the index that this machine is set up for."""
    done = subprocess.run(
        [str(python), "-m", "pip", "-qq", "--disable-pip-version-check", *arguments],
        env={**PIP_ENVIRONMENT, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(folder)]
    subprocess.run(build, cwd=CHECKOUT, capture_output=True, check=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(sdist))
    (built,) = folder.iterdir()
    return built


def test_licence_and_types_go_with_what_is_built(sdist: Path, wheel: Path) -> None:
    papers = {name: (CHECKOUT / name).read_bytes() for name in ("LICENSE", "NOTICE")}
    assert all(b"Copyright (c) 2026 the clawbot authors" in paper for paper in papers.values())
    assert (sdist.name, wheel.name) == (f"{RELEASE}.tar.gz", f"{RELEASE}-py3-none-any.whl")
    with tarfile.open(sdist) as source, zipfile.ZipFile(wheel) as built:
        for name, paper in papers.items():
            text = source.extractfile(f"{RELEASE}/{name}")
            assert text is not None
            assert text.read() == built.read(f"{RELEASE}.dist-info/licenses/{name}") == paper
        names = ("clawbot/py.typed", "CHANGELOG.md", "SECURITY.md")
        assert {f"{RELEASE}/{name}" for name in names} <= set(source.getnames())
        assert "clawbot/py.typed" in built.namelist()
        metadata = Parser().parsestr(built.read(f"{RELEASE}.dist-info/METADATA").decode())
    described = [metadata[name] for name in ("Name", "Version", "License-Expression", "Author")]
    assert described == ["clawbot-agent", __version__, "MIT", "the clawbot authors"]
    assert metadata.get_all("License-File") == [*papers]


def test_the_examples_of_plug_ins_are_typed_by_the_wheel(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(site)
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    pages = [CHECKOUT / f"docs/writing-{kind}.md" for kind in ("tools", "models", "memory-backends")]
    names = [f"acme_{number}.py" for number in range(len(pages))]
    for name, page in zip(names, pages, strict=True):
        examples = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        (tmp_path / name).write_text("\n".join(examples))
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(tmp_path / "venv/bin/python")]
    done = subprocess.run(
        [*mypy, "--config-file", "", "--cache-dir", str(tmp_path / "cache"), *names],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 3 source files\n")


def test_the_wheel_carries_what_it_needs_and_runs_anywhere(wheel: Path, machine: Machine, tmp_path: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for shipped in (
        "config.yaml",
        "hooks/session-memory/HOOK.md",
        "hooks/session-memory/naming.py",
        "workspace_template/AGENTS.md",
        *(f"requirements/{name}.txt" for name in EXTRAS),
    ):
        assert f"clawbot/shipped/{shipped}" in names
    assert "clawbot/tools/shell_reading.toml" in names
    assert "clawbot/locale/zh/LC_MESSAGES/clawbot.mo" in names
    # PEP 770 says where the bill of materials lies.
    (bill,) = [name for name in names if name.endswith(".dist-info/sboms/sbom.cdx.json")]
    assert zipfile.ZipFile(wheel).read(bill) == (CHECKOUT / "sbom.cdx.json").read_bytes()

    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    pip(python, "install", "--require-hashes", "-r", str(CHECKOUT / "requirements.lock"))
    pip(python, "install", "--no-deps", str(wheel))
    clawbot = tmp_path / "venv/bin/clawbot"
    env = {name: value for name, value in machine.env.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(clawbot), *arguments], env=env, cwd=machine.folder, capture_output=True, text=True, check=False
        )

    assert "Noted" in run("chat", "-p", "remember that I prefer tabs").stdout
    assert "I prefer tabs" in run("chat", "-p", "what do I prefer?").stdout
    assert (machine.workspace / "AGENTS.md").exists()
    assert run("config", "check").returncode == 0
    where = subprocess.run(
        [str(python), "-c", "import clawbot; print(clawbot.__file__)"],
        env=env, cwd=machine.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path) in where.stdout
