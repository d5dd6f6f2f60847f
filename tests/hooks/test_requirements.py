"""What a hook lacks is said in words that a user can act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawbot.hooks.manifest import Manifest, Requires
from clawbot.hooks.requirements import missing


def lacks(requires: Requires, given: dict[str, str] | None = None, *, always: bool = False) -> tuple[str, ...]:
    return missing(Manifest(name="a", requires=requires, always=always), given or {}, system="linux")


def test_each_kind() -> None:
    wanted = Requires(
        bins=("no-such-bin",),
        any_bins=("no-such", "nor-this"),
        env=("NO_SUCH_TOKEN",),
        os=("darwin", "win32"),
        python=("no_such_package",),
    )
    assert lacks(wanted) == (
        "os: darwin or win32",
        "bin: no-such-bin",
        "any bin: no-such, nor-this",
        "env: NO_SUCH_TOKEN",
        "python: no_such_package",
    )
    assert lacks(wanted, always=True) == ()


def test_what_is_there_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("gh").write_text("#!/bin/sh\n")
    tmp_path.joinpath("gh").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TOKEN", "x")
    wanted = Requires(
        bins=("gh",), any_bins=("no-such", "gh"), env=("TOKEN",), os=("linux",), python=("yaml", "PyYAML")
    )
    assert lacks(wanted) == ()


def test_the_entry_may_give_variables() -> None:
    assert lacks(Requires(env=("A", "B")), {"A": "1", "B": ""}) == ("env: B",)


@pytest.mark.parametrize(("system", "name"), [("win32", "windows"), ("darwin", "macos"), ("darwin", "Darwin")])
def test_systems_have_several_names(system: str, name: str) -> None:
    assert missing(Manifest(name="a", requires=Requires(os=(name,))), {}, system=system) == ()
