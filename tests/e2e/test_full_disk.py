"""A disk that is full at some point of a day: a few points of the benchmark, and the real screen on a small disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Machine

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
NO_RIGHT = "no right to mount"
SCRIPT = """
turns:
  - {reply: the first answer}
  - {repeat: forever, reply: the answer with room}
"""


@pytest.mark.parametrize("way", ["--by calls --every 70", "--by calls --once --every 37", "--by tmpfs --every 9"])
def test_a_full_disk_loses_nothing_and_says_what_and_where(way: str) -> None:
    argv = [sys.executable, str(ROOT / "benchmarks/full_disk.py"), *way.split(), "--points", "3"]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, cwd="/")
    if NO_RIGHT in run.stderr:
        pytest.skip(NO_RIGHT)  # only root can
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("with room: said ['m1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7']; 0 failures\n")
    assert "| days on which something was lost, doubled or half written | 0 |" in run.stdout
    assert run.stdout.count("No space left on device") > 0


@pytest.fixture
def small_disk(machine: Machine) -> Iterator[Path]:
    """The home is a file system of its own, of 4 MiB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "clawbot", str(machine.home)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip(NO_RIGHT)  # only root can
    yield machine.home
    machine.stack.close()
    subprocess.run(["umount", "-l", str(machine.home)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream:
        for size in (65_536, 4_096):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue
    return ballast


def test_the_screen_goes_on_when_there_is_room_again(
    machine: Machine, script: Callable[[str], Path], small_disk: Path
) -> None:
    machine.serve(script(SCRIPT))
    chat = machine.open(columns=120, rows=40)
    chat.wait_for("openai/scripted")
    chat.send("m1 hello", "enter")
    chat.wait_for("the first answer")
    ballast = fill(small_disk)
    chat.send("m2 ", f"\x1b[200~{'is the disk full? ' * 300}\x1b[201~")
    chat.wait_for("m2 ")
    chat.feed(0.5)
    chat.send("enter")
    chat.wait_for("No space left on device")
    chat.wait_for("free some space")
    # What was not stored is in the prompt again, and Enter sends it.
    chat.wait_for("❯ [pasted 5,403 characters]")
    ballast.unlink()
    chat.send("enter")
    chat.wait_for("the answer with room")
    chat.send("/quit", "enter")
    chat.wait_end()
    [transcript] = machine.state.glob("agents/main/sessions/*.jsonl")
    text = transcript.read_text("utf-8")
    assert [text.count(f'"content":"{mark} ') for mark in ("m1", "m2")] == [1, 1]
    assert not list(machine.state.rglob(".*.tmp")) + list(machine.state.rglob("*.unsent"))
