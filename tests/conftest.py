"""What holds for every test: a home, a folder and an environment of its own, and no key of this machine."""

from __future__ import annotations

import gc
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from clawbot.text import interface, secrets
from tests import workspace_watch

# The same examples in each run, however slow the machine: a suite says what a change did. Other examples are looked for
# with --hypothesis-profile=random.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")

ID_CHARS = 80
KEPT = {"PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "COVERAGE_PROCESS_START", "SSL_CERT_FILE"}

_numbers = itertools.count()
workspace_watch.start()


def new_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder of this run. pytest finds a free number by a look at all folders of the run: a minute for all tests."""
    return factory.mktemp(f"{name}{next(_numbers):05}", numbered=False)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text of a table by its beginning: each process holds and sends every name more than once."""
    if isinstance(val, str | bytes) and len(val) > ID_CHARS:
        return f"{val[:ID_CHARS]!a} and {len(val) - ID_CHARS:,} more"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the rows of a table `few(n)` as `long`, except n of them that are spread evenly."""
    for _, rows in itertools.groupby(items, lambda item: item.nodeid.partition("[")[0]):
        table = list(rows)
        if (mark := table[0].get_closest_marker("few")) is not None:
            kept = {number * len(table) // mark.args[0] for number in range(mark.args[0])}
            for number, item in enumerate(table):
                if number not in kept:
                    item.add_marker("long")


def pytest_collection_finish() -> None:
    """Exclude the thousands of tests from each garbage collection."""
    gc.freeze()


@pytest.fixture(autouse=True)
def collected_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the program from freezing the garbage of earlier tests, which would never be collected: 1 MB per screen."""
    monkeypatch.setattr(gc, "freeze", lambda: None)


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """An empty folder, named after the test."""
    return new_folder(tmp_path_factory, re.sub(r"\W", "_", request.node.name)[:26])


@pytest.fixture(autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Move HOME, CLAWBOT_HOME and the working folder away; drop every variable that a test did not set, and forget the
    keys of other tests."""
    world = new_folder(tmp_path_factory, "world")
    for name in list(os.environ):
        if name not in KEPT and not name.startswith(("PYTEST", "TEXTUAL_SNAPSHOT")):
            monkeypatch.delenv(name)
    home = world / "home"
    home.mkdir()
    folder = world / "elsewhere"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAWBOT_HOME", str(home / ".clawbot"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(secrets, "_known_secrets", set())
    interface.set_language("en")
    return world


@pytest.fixture(autouse=True)
def one_way_into_the_workspace() -> Iterator[None]:
    """Fail a test in which the program reached below a workspace by a path, not by `GuardedFolder`."""
    workspace_watch.noted.clear()
    yield
    if noted := list(dict.fromkeys(workspace_watch.noted)):
        pytest.fail("Below a workspace, and not through clawbot/guarded.py:\n" + "\n".join(noted[:10]), pytrace=False)


@pytest.fixture
def chinese() -> None:
    """The interface speaks Chinese."""
    interface.set_language("zh")
