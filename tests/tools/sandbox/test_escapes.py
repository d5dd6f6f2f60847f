"""Tries to get out of the sandbox, each for real: judged from outside, by what of the user's was read or changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import PYTHON, SECRET, SECRETS, STATE, World, was_called

pytestmark = [
    pytest.mark.usefixtures("walls"),
    pytest.mark.skipif(sys.platform != "linux", reason="these tries are made for Linux"),
]

KERNEL = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness")

TRIES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("escapes.toml").read_text(encoding="utf-8"))
BITING = {
    **{f"read ~/{name}": f"cat ~/{name}" for name in SECRETS},
    **{f"read state {name}": f"cat ../{name}" for name in STATE},
    **TRIES["biting"],
}
OTHERS = TRIES["others"]


def prepared(command: str, world: World, victim: subprocess.Popen[bytes]) -> str:
    return command.format(
        home=world.home,
        outside=world.outside,
        workspace=world.workspace,
        python=f"{PYTHON} -I",
        port=world.tcp.getsockname()[1],
        abstract=world.abstract.getsockname()[1:].decode(),
        socket=world.unix.getsockname(),
        victim=victim.pid,
        trace="import ctypes; c = ctypes.CDLL(None);",
        try_all=f"while read f; do (: >> $f) 2>/dev/null && echo {SECRET}; done",
        out=f"echo {SECRET}",
    )


def kernel() -> list[str]:
    return [Path(name).read_text(encoding="utf-8") for name in KERNEL]


def harm(world: World, before: dict[str, bytes | str | None], output: str) -> list[str]:
    """What of the user's was read or changed."""
    after = world.contents()
    found = [f"changed: {path}" for path in {*before, *after} if before.get(path, "-") != after.get(path, "-")]
    found += [f"called: {name}" for name in ("tcp", "abstract", "unix") if was_called(getattr(world, name))]
    return found + (["read"] if SECRET in output else [])


@pytest.mark.few(12)
@pytest.mark.parametrize("name", [*BITING, *OTHERS])
async def test_nothing_gets_out(world: World, victim: subprocess.Popen[bytes], name: str) -> None:
    before, settings = world.contents(), kernel()
    command = prepared((BITING | OTHERS)[name], world, victim)
    outcome = await world.run(f"({command}) < /dev/null; echo; echo tried")
    assert harm(world, before, outcome.text) == []
    assert (victim.poll(), kernel(), platform.node()) == (None, settings, os.uname().nodename)
    assert "tried" in outcome.text


@pytest.mark.long
@pytest.mark.parametrize("name", BITING)
async def test_without_walls_each_of_these_tries_does_harm(
    world: World, victim: subprocess.Popen[bytes], name: str
) -> None:
    before = world.contents()
    outcome = await world.run(prepared(BITING[name], world, victim), sandbox="off")
    assert harm(world, before, outcome.text) != []


def test_there_are_enough_tries() -> None:
    assert len(BITING) + len(OTHERS) >= 60
