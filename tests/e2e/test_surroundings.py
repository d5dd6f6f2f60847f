"""Where the program is started from: streams that are closed, full or of another encoding; folders it can't use."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import CLAWBOT, Machine
from tests.hostile import make_deep, removed

pytestmark = pytest.mark.e2e
FULL = Path("/dev/full")


def _shell(machine: Machine, line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run `line` in a shell, in which "$@" is clawbot."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *CLAWBOT],
        env={**machine.env, **env},
        cwd=machine.folder,
        capture_output=True,
        timeout=100,
        check=False,
    )


def test_text_that_the_encoding_of_stdout_lacks_is_escaped(machine: Machine) -> None:
    done = _shell(machine, '"$@" -p "记住我喜欢茶"', PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "\\u6211\\u559c\\u6b22\\u8336" in done.stdout.decode("ascii")


def test_streams_that_are_closed_at_the_start_do_no_harm(machine: Machine) -> None:
    for closed in (">&-", "2>&-"):
        done = _shell(machine, f'"$@" -p hello {closed}')
        assert (done.returncode, done.stderr) == (0, b""), closed
    empty = _shell(machine, '"$@" -p - <&-')
    assert empty.returncode == 2
    assert b"Traceback" not in empty.stderr


def test_a_reader_that_leaves_is_no_error_to_speak_of(machine: Machine) -> None:
    done = _shell(machine, '{ "$@" -p hello; echo "code $?" >&2; } | true')
    assert done.stderr == b"code 1\n"


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", ["-p hello", "-p hello --json", "--version", "sessions list", "config path"])
def test_a_full_disk_behind_stdout_is_one_line(machine: Machine, arguments: str) -> None:
    done = _shell(machine, f'"$@" {arguments} >{FULL}')
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["clawbot: The output can't be written: No space left on device."]


def test_a_mark_of_the_encoding_is_no_part_of_the_message(machine: Machine) -> None:
    assert machine.run("-p", "-", stdin="\ufeffhello").stdout == machine.run("-p", "hello").stdout


@pytest.mark.parametrize("home", ["a-file", "a-file/below", "/proc/none"])
def test_a_state_folder_that_cannot_be_used_is_called_by_its_variable(machine: Machine, home: str) -> None:
    (machine.folder / "a-file").touch()
    for arguments in (["-p", "hello"], ["workspace", "init"], ["config", "show"]):
        done = machine.run(*arguments, CLAWBOT_HOME=home)
        if arguments[0] == "config" and home == "/proc/none":
            assert done.returncode == 0
            continue
        assert (done.returncode, done.stdout) == (1, ""), arguments
        assert "CLAWBOT_HOME" in done.stderr
        assert "--workspace" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_relative_state_folder_in_a_folder_that_is_gone(machine: Machine) -> None:
    done = _shell(machine, 'mkdir gone && cd gone && rmdir ../gone && "$@" config path', CLAWBOT_HOME="state")
    assert done.returncode == 1
    assert b"CLAWBOT_HOME: state is relative" in done.stderr


@pytest.mark.parametrize("kilobytes", [120_000, 200_000, 300_000, 400_000])
def test_too_little_memory_is_one_line_that_says_what_to_do(machine: Machine, kilobytes: int) -> None:
    done = _shell(machine, f'ulimit -v {kilobytes} && "$@" -p hello')
    assert (done.returncode, done.stdout) == (1, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith(f"clawbot: This process may use {kilobytes // 1024} MiB of memory (ulimit -v)")
    assert line.endswith("Raise the limit, for example with `ulimit -v unlimited`.")


def test_memory_that_is_limited_and_enough(machine: Machine) -> None:
    done = _shell(machine, 'ulimit -v 1000000 && "$@" -p hello')
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_screen_starts_over_folders_that_are_too_deep(machine: Machine) -> None:
    workspace = machine.state / "workspace"
    with removed(workspace):
        for folder in ("memory", "hooks", "notes"):
            make_deep(workspace / folder, 1500)
        for _ in range(2):
            chat = machine.open()
            chat.send("hello", "enter")
            chat.wait_for("I run offline")
            chat.send("/quit", "enter")
            assert chat.wait_end() == 0
            assert b"Traceback" not in chat.raw
