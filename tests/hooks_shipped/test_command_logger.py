"""The hook that logs commands."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from clawbot.hooks import CommandNew, CommandReset
from tests.hooks_shipped.hosting import FakeServices, ShippedHook, make_event

HOOK = ShippedHook("command-logger")
handler = HOOK.module("")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the log is, once something is in it."""
    return tmp_path / "home" / "logs" / "commands.log"


def entries(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_each_command_is_a_line_of_json_in_a_private_file(tmp_path: Path, log: Path) -> None:
    await HOOK.handle(make_event(CommandNew, tmp_path, text="my secret 秘密"), FakeServices())
    await HOOK.handle(make_event(CommandReset, tmp_path, session_key="agent:main:工作"), FakeServices())
    first, second = entries(log)
    assert first == {
        "timestamp": "2026-11-20T16:12:05+01:00",
        "action": "new",
        "sessionKey": "agent:main:main",
        "senderId": "user",
        "source": "chat",
    }
    assert (second["action"], second["sessionKey"]) == ("reset", "agent:main:工作")
    assert [oct(mode(path)) for path in (log, log.parent)] == ["0o600", "0o700"]


def test_a_full_file_is_kept_beside_a_new_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_BYTES", 10)
    for line in (b"1111\n", b"2222\n", b"3333\n", b"4444\n", b"5555\n"):
        handler.append(log, line)
    assert log.read_bytes() == b"5555\n"
    assert log.with_name("commands.log.1").read_bytes() == b"3333\n4444\n"
    assert sorted(path.name for path in log.parent.iterdir()) == ["commands.log", "commands.log.1"]


def test_a_line_that_is_longer_than_a_file_is_kept(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "MAX_BYTES", 3)
    handler.append(log, b"12345\n")
    assert log.read_bytes() == b"12345\n"


def test_a_link_in_the_place_of_the_log_is_not_followed(tmp_path: Path, log: Path) -> None:
    log.parent.mkdir(parents=True)
    target = tmp_path / "target"
    target.write_text("mine")
    log.symlink_to(target)
    with pytest.raises(OSError, match=r"symbolic|links"):
        handler.append(log, b"x\n")
    assert target.read_text() == "mine"


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_part(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler.append(log, b"whole\n")
    write = handler.os.write
    monkeypatch.setattr(handler.os, "write", lambda handle, data: write(handle, data[:3]))
    with pytest.raises(OSError, match="space"):
        handler.append(log, b"second\n")
    assert log.read_bytes() == b"whole\n"


def test_lines_of_several_processes_stay_whole_and_none_is_lost(log: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(log, number)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    files = [log.with_name("commands.log.1"), log]
    lines = b"".join(file.read_bytes() for file in files).split(b"\n")[:-1]
    # 60 lines of 100 bytes, files of 4,000: the first 40 are in the old one, the rest in the new.
    assert sorted(lines) == sorted(b"%d %d ".ljust(100, b".") % (who, at) for who in range(3) for at in range(20))


def _write(log: Path, number: int) -> None:
    vars(handler)["MAX_BYTES"] = 4_100
    for at in range(20):
        handler.append(log, b"%d %d ".ljust(100, b".") % (number, at) + b"\n")
