"""`clawbot extras`: pinned packages go into the interpreter that runs, or the words say which command does it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
import tomllib
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import clawbot
from clawbot import distribution, extras
from clawbot.cli.main import root
from clawbot.extras import EXTRAS, install_command, manual_install, requirements_file
from tests.tables import load_table

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]


def pins(text: str) -> dict[str, set[str]]:
    """The versions of each package in the text of a lock file."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


def lock(name: str) -> dict[str, set[str]]:
    return pins((ROOT / name).read_text(encoding="utf-8"))


# -- what is shipped ---------------------------------------------------------------------------------------------------


def test_every_extra_of_the_project_but_those_of_developers_can_be_installed() -> None:
    files = {file.stem for file in requirements_file("web").parent.iterdir()}
    assert list(EXTRAS) == sorted(files) == sorted(set(OPTIONAL) - {"build", "dev"})


@pytest.mark.parametrize("name", EXTRAS)
def test_the_packages_of_an_extra_are_pinned_hashed_and_fit_the_project(name: str) -> None:
    lines = requirements_file(name).read_text(encoding="utf-8").splitlines()
    assert [
        line for line in lines if not re.fullmatch(r"[\w.-]+==[^\s;]+( ; [^#]+)?( --hash=sha256:\w{64})+", line)
    ] == []
    pinned, own = pins("\n".join(lines)), lock("requirements.lock")
    assert not pinned.keys() & {"clawbot", distribution.DISTRIBUTION}
    for each in map(Requirement, OPTIONAL[name]):
        (version,) = (pinned | own)[canonicalize_name(each.name)]
        assert each.specifier.contains(version)
    # pip would replace what clawbot itself runs on.
    required = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    assert pinned.keys() & required == set()
    # `make lock` writes them from the versions that the tests run on.
    tested = (
        lock("tests/real/requirements.lock") | lock("tests/milvus/requirements.lock") | lock("requirements-dev.lock")
    )
    assert {each: pinned[each] for each in pinned.keys() & tested} == {
        each: tested[each] for each in pinned.keys() & tested
    }


def test_the_list_says_what_is_there_and_what_installs_the_rest() -> None:
    shown = CliRunner().invoke(root, ["extras", "list", "--json"])
    found = {each["name"]: each for each in json.loads(shown.stdout)}
    assert found.keys() == EXTRAS.keys()
    assert all(each["command"] == install_command(name) for name, each in found.items())
    assert (found["web"]["installed"], found["milvus"]["installed"]) == (True, False)
    assert found["web"]["packages"]["textual-serve"] in requirements_file("web").read_text(encoding="utf-8")
    text = CliRunner().invoke(root, ["extras", "list"]).stdout
    assert all(name in text for name in EXTRAS)


def test_an_extra_that_is_there_is_not_installed_again_and_an_unknown_one_is_a_usage_error() -> None:
    again = CliRunner().invoke(root, ["extras", "install", "web"])
    assert (again.exit_code, again.stdout) == (0, "web is already installed.\n")
    unknown = CliRunner().invoke(root, ["extras", "install", "nothing"])
    assert unknown.exit_code == 2


# -- where it can't install --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "has_pip", "reason", "command"),
    load_table(__file__, "where_it_can_not_install_it_says_the_command_that_can"),
)
def test_where_it_can_not_install_it_says_the_command_that_can(
    marks: list[str], has_pip: bool, reason: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in marks:
        tmp_path.joinpath(name).touch(mode=0o755)
    base = sys.base_prefix if {"EXTERNALLY-MANAGED", "base"} & set(marks) else str(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path) if "pipx_metadata.json" in marks else base)
    monkeypatch.setattr(distribution, "find_spec", lambda name: name if has_pip else None)
    monkeypatch.setattr(extras, "find_spec", lambda name: name if has_pip else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "gone" if "read-only" in marks else tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = manual_install("web")
    assert (found is None) == (not reason)
    if found is not None:
        said, line = found
        assert reason in said
        assert line.startswith(command.format(venv=tmp_path.name, python=shlex.quote(sys.executable)))
        assert line.endswith((f"--require-hashes -r {requirements_file('web')}", install_command("web")))


# -- pip, in an environment of its own ---------------------------------------------------------------------------------


def wheel(folder: Path, name: str, *needs: str, broken: bool = False) -> Path:
    """A wheel with one package; `broken`: pip finds that out while it writes the files."""
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + "".join(
        f"Requires-Dist: {each}\n" for each in needs
    )
    files = {
        f"{name}/__init__.py": b"",
        f"{name}/large.py": b"# " + b"x" * 100,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    hashed = {
        path: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for path, data in files.items()
    }
    record = "".join(f"{path},sha256={hashed[path]},{len(data)}\n" for path, data in files.items())
    made = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, data in [*files.items(), (f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode())]:
            archive.writestr(path, data)
    if broken:
        made.write_bytes(made.read_bytes().replace(b"x" * 100, b"x" * 99 + b"y"))
    return made


class Index:
    """Wheels on loopback; the first answer of `held` begins and waits for `release`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = ""
        self.asked, self.release = threading.Event(), threading.Event()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.strip("/")
        links = "".join(f'<a href="{each.name}">{each.name}</a>' for each in self.folder.iterdir())
        data = (
            (self.folder / name).read_bytes() if name else f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        )
        handler.send_response(200)
        handler.send_header("Content-Type", "application/octet-stream" if name else "text/html")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:10])
        if self.held and name.startswith(self.held):
            self.held = ""
            self.asked.set()
            self.release.wait(60)
        handler.wfile.write(data[10:])


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Index, str]]:
    folder = tmp_path / "wheels"
    folder.mkdir()
    found = Index(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):  # pip was killed
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield found, f"http://127.0.0.1:{server.server_port}/"
        found.release.set()
        server.shutdown()
        thread.join()


class Environment:
    """A virtual environment that finds pip and this clawbot, whose extra `web` is other packages."""

    def __init__(self, folder: Path, links: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        self.python = folder / "venv/bin/python"
        package = folder / "path/clawbot"
        package.parent.mkdir()
        package.symlink_to(Path(clawbot.__file__).parent)
        self.requirements = package.parent / "requirements/web.txt"
        self.requirements.parent.mkdir()
        libraries = sysconfig.get_path("purelib")
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": links, "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": os.devnull}
        self.env = {**os.environ, **pip, "PYTHONPATH": f"{package.parent}{os.pathsep}{libraries}"}
        (self.site,) = folder.glob("venv/lib/python*/site-packages")

    def require(self, *wheels: Path) -> None:
        lines = [
            f"{each.name.partition('-')[0]}==1.0 --hash=sha256:{hashlib.sha256(each.read_bytes()).hexdigest()}"
            for each in wheels
        ]
        self.requirements.write_text("\n".join(lines) + "\n")

    def start(self) -> subprocess.Popen[str]:
        command = [str(self.python), "-m", "clawbot", "extras", "install", "web"]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def entries(self) -> set[str]:
        return {each.name for each in self.site.iterdir()}


def test_it_can_be_stopped_at_a_download_and_done_again(index: tuple[Index, str], tmp_path: Path) -> None:
    served, links = index
    there = Environment(tmp_path, links)
    there.require(wheel(served.folder, "zebra"), wheel(served.folder, "yak", "zebra"))
    before = there.entries()
    served.held = "yak"
    with there.start() as stopped:
        assert served.asked.wait(60)
        stopped.send_signal(signal.SIGINT)
        _, errors = stopped.communicate(timeout=60)
    assert (stopped.returncode, errors.splitlines()[-1]) == (
        1, "clawbot: The installation was stopped. Run the command again to install it.",
    )  # fmt: skip
    assert there.entries() == before
    served.release.set()
    with there.start() as again:
        said, errors = again.communicate(timeout=60)
    assert (again.returncode, said) == (0, "web is installed. A chat that is open uses it after a restart.\n")
    assert "Collecting yak==1.0" in errors
    assert {"yak", "zebra"} <= there.entries()
    with there.start() as third:
        assert third.communicate(timeout=60)[0] == "web is already installed.\n"


def test_what_fails_in_the_middle_leaves_no_part_of_a_package(index: tuple[Index, str], tmp_path: Path) -> None:
    served, links = index
    there = Environment(tmp_path, links)
    there.require(wheel(served.folder, "zebra"), wheel(served.folder, "yak", "zebra", broken=True))
    before = there.entries()
    with there.start() as failed:
        _, errors = failed.communicate(timeout=60)
    assert failed.returncode == 1
    assert "pip could not install web: " in errors.splitlines()[-1]
    assert there.entries() - before <= {"zebra", "zebra-1.0.dist-info"}


def test_a_package_with_another_hash_is_refused(index: tuple[Index, str], tmp_path: Path) -> None:
    served, links = index
    there = Environment(tmp_path, links)
    there.require(wheel(served.folder, "zebra"))
    wheel(served.folder, "zebra", "more")
    before = there.entries()
    with there.start() as failed:
        _, errors = failed.communicate(timeout=60)
    assert failed.returncode == 1
    assert "HASH" in errors.splitlines()[-1].upper()
    assert there.entries() == before
