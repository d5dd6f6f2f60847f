"""What the system offers, and what is to be done where it offers nothing."""

from __future__ import annotations

import pytest

from clawbot.cli.doctor_setup import judged
from clawbot.tools.process import Finished
from clawbot.tools.sandbox import bwrap as probing
from clawbot.tools.sandbox.bwrap import (
    Backend,
    Failure,
    Missing,
    failure_of,
    install_command,
    probe,
    probe_bubblewrap,
    probe_seatbelt,
    remedy,
)
from clawbot.tools.sandbox.command import was_never_started
from tests.tables import load_table


def failing(*problems: str) -> Failure:
    """Fails so, call by call."""
    left = list(problems)

    async def fail(argv: list[str]) -> str:
        return left.pop(0)

    return fail


async def test_a_bubblewrap_that_works_is_taken_as_far_as_it_goes() -> None:
    assert await probe_bubblewrap("/b", failing("")) == Backend("bubblewrap", "/b", nesting_off=True)
    old = failing("bwrap: Unknown option --disable-userns", "")
    assert await probe_bubblewrap("/b", old) == Backend("bubblewrap", "/b", nesting_off=False)


async def test_one_that_is_forbidden_is_missing_and_the_reason_is_told() -> None:
    found = await probe_bubblewrap("/b", failing("bwrap: No permissions to create new namespace"))
    assert isinstance(found, Missing)
    assert "No permissions to create new namespace" in found.reason
    assert "user namespaces" in found.remedy


async def test_none_is_missing_and_so_is_one_for_an_unknown_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "PROGRAM_FOLDERS", "/nowhere")
    found = await probe("linux")
    assert isinstance(found, Missing)
    assert "not installed" in found.reason
    assert isinstance(await probe("win32"), Missing)


async def test_seatbelt_is_tried_like_bubblewrap() -> None:
    assert await probe_seatbelt(failing("")) == Backend("seatbelt", "/usr/bin/sandbox-exec")
    assert isinstance(await probe_seatbelt(failing("sandbox_apply: Operation not permitted")), Missing)


@pytest.mark.parametrize(
    ("release", "command"),
    load_table(__file__, "the_command_that_installs_it"),
)
def test_the_command_that_installs_it(release: str, command: str) -> None:
    assert install_command(release) == command


def test_remedies() -> None:
    assert "AppArmor" in remedy("bwrap: setting up uid map: Permission denied", apparmor=True)
    assert "container" in remedy("bwrap: setting up uid map: Permission denied", apparmor=False)
    assert "sandbox: off" in remedy("bwrap: something else", apparmor=False)


async def test_why_a_command_fails_is_one_line() -> None:
    assert await failure_of(["/bin/sh", "-c", "exit 0"]) == ""
    assert await failure_of(["/bin/sh", "-c", "echo a; echo b >&2; exit 1"]) == "a b"
    assert await failure_of(["/bin/sh", "-c", "exit 3"]) == "exit 3"
    assert await failure_of(["/nowhere/at/all"]) != ""


def test_what_doctor_says() -> None:
    missing = Missing("it rains", "wait")
    assert judged(Backend("bubblewrap", "/b", nesting_off=True), required=True).state == "ok"
    assert "older" in judged(Backend("bubblewrap", "/b"), required=False).message
    assert (judged(missing, required=False).state, judged(missing, required=True).state) == ("warning", "problem")
    assert judged(missing, required=False).fix == "wait"


@pytest.mark.parametrize(
    ("code", "head", "gone"),
    load_table(__file__, "walls_around_a_place_that_went_were_never_put_up"),
)
def test_walls_around_a_place_that_went_were_never_put_up(code: int, head: str, gone: bool) -> None:
    assert was_never_started(Finished(code, head, "", 0, False)) is gone
